// SPDX-License-Identifier: GPL-2.0-or-later
/* A process that listens to libvirt for the recorder, and reports events of domains. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "host_agent/discover/libvirt_private.h"
#include "host_agent/transport/vm_mirror.h"
#include "host_agent/util/array.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "host_agent/util/helper.h"
#include "host_agent/util/text.h"

#define RETRY_MS		1000	/* interval between attempts to reconnect to libvirt */
#define KEEPALIVE_S		5	/* a remote libvirt that is silent for three times this is
					   gone */
#define KEEPALIVE_COUNT		3
#define MOST_EVENTS		5

/* The watching process's own. */
struct watch {
	int fd;			/* messages go there; its end is ours */
	const char *uri;
	const char *const *names;	/* NULL: all domains */
	size_t nr;
	virConnectPtr conn;	/* NULL: gone */
	int ids[MOST_EVENTS];	/* of its messages */
	size_t nr_ids;
	int timer;		/* retries the connection; -1: not running */
	bool ended;
};

static bool libvirt_watch_wanted(const struct watch *w, virDomainPtr dom)
{
	char uuid[VIR_UUID_STRING_BUFLEN] = "";
	size_t k;

	virDomainGetUUIDString(dom, uuid);
	for (k = 0; w->names && k < w->nr; k++)
		if (!strcmp(w->names[k], virDomainGetName(dom)) || !strcmp(w->names[k], uuid))
			return true;
	return !w->names;
}

/* A recorder that is slow is waited for; one that has gone ends the watch. */
static void send_change(struct watch *w, u32 kind, const char *name, const char *path,
			const char *detail)
{
	struct braid_domain_change change = { .kind = kind };

	snprintf(change.name, sizeof(change.name), "%s", name);
	snprintf(change.path, sizeof(change.path), "%s", path);
	snprintf(change.detail, sizeof(change.detail), "%s", detail);
	braid_text_clean(change.name);
	braid_text_clean(change.detail);
	if (!w->ended && send(w->fd, &change, sizeof(change), MSG_NOSIGNAL) < 0)
		w->ended = true;
}

/* State of a domain whose QEMU is known if it can be: its region, or why it has none. */
static void send_state(struct watch *w, const struct braid_domain *domain)
{
	const char *name = domain->name;
	char detail[300], path[32];

	if (domain->attached) {
		send_change(w, BRAID_DOMAIN_REGION, domain->name, domain->path, "");
		return;
	}
	if (domain->qemu_pid) {
		snprintf(path, sizeof(path), BRAID_VM_SCHEME "%d", (int)domain->qemu_pid);
		if (*domain->blank)
			snprintf(detail, sizeof(detail), "its memory is read (%s); or use 'tracebraid attach', or -r %.150s if that is its region",
				 path, domain->blank);
		else
			snprintf(detail, sizeof(detail), "no device: its memory is read (%s); "
				 "'tracebraid attach %s' adds one", path, name);
		send_change(w, BRAID_DOMAIN_MEMORY, name, path, detail);
		return;
	}
	if (!w->names)
		return;		/* this one was not requested */
	if (domain->active && *domain->blank)
		snprintf(detail, sizeof(detail), "it has no region; run 'tracebraid attach', or use -r %.150s if that is its region",
			 domain->blank);
	else if (domain->active)
		snprintf(detail, sizeof(detail), "it has no region; 'tracebraid attach %s' adds one",
			 domain->name);
	else
		snprintf(detail, sizeof(detail), "it is %s; waiting for its start", domain->state);
	send_change(w, BRAID_DOMAIN_BARE, name, "", detail);
}

static void send_domain(struct watch *w, virDomainPtr dom)
{
	struct braid_domain domain;

	if (braid_libvirt_describe(dom, &domain))
		return;		/* it went */
	braid_qemus_of_domains(&domain, 1);
	send_state(w, &domain);
}

/* Events -------------------------------------------------------------------------------- */

#define ANY_DETAIL	(-1)

/* What messages say. */
static const struct {
	int event, detail;
	const char *words;
} lifecycle[] = {
	{ VIR_DOMAIN_EVENT_STARTED, VIR_DOMAIN_EVENT_STARTED_MIGRATED, "arrived by migration" },
	{ VIR_DOMAIN_EVENT_STARTED, VIR_DOMAIN_EVENT_STARTED_RESTORED, "was restored from a file" },
	{ VIR_DOMAIN_EVENT_STARTED, VIR_DOMAIN_EVENT_STARTED_FROM_SNAPSHOT, "was started from a snapshot" },
	{ VIR_DOMAIN_EVENT_STARTED, ANY_DETAIL, "started" },
	{ VIR_DOMAIN_EVENT_SUSPENDED, VIR_DOMAIN_EVENT_SUSPENDED_PAUSED, "was paused by a user" },
	{ VIR_DOMAIN_EVENT_SUSPENDED, VIR_DOMAIN_EVENT_SUSPENDED_MIGRATED, "was paused for migration" },
	{ VIR_DOMAIN_EVENT_SUSPENDED, VIR_DOMAIN_EVENT_SUSPENDED_IOERROR, "was paused by an I/O error" },
	{ VIR_DOMAIN_EVENT_SUSPENDED, VIR_DOMAIN_EVENT_SUSPENDED_WATCHDOG, "was paused by its watchdog" },
	{ VIR_DOMAIN_EVENT_SUSPENDED, VIR_DOMAIN_EVENT_SUSPENDED_FROM_SNAPSHOT, "was paused by a snapshot" },
	{ VIR_DOMAIN_EVENT_SUSPENDED, ANY_DETAIL, "was paused" },
	{ VIR_DOMAIN_EVENT_RESUMED, ANY_DETAIL, "was resumed" },
	{ VIR_DOMAIN_EVENT_STOPPED, VIR_DOMAIN_EVENT_STOPPED_SHUTDOWN, "shut down" },
	{ VIR_DOMAIN_EVENT_STOPPED, VIR_DOMAIN_EVENT_STOPPED_DESTROYED, "was destroyed by a user" },
	{ VIR_DOMAIN_EVENT_STOPPED, VIR_DOMAIN_EVENT_STOPPED_CRASHED, "crashed" },
	{ VIR_DOMAIN_EVENT_STOPPED, VIR_DOMAIN_EVENT_STOPPED_MIGRATED, "migrated away" },
	{ VIR_DOMAIN_EVENT_STOPPED, VIR_DOMAIN_EVENT_STOPPED_SAVED, "was saved to a file, and stopped" },
	{ VIR_DOMAIN_EVENT_STOPPED, VIR_DOMAIN_EVENT_STOPPED_FAILED, "stopped: its QEMU failed" },
	{ VIR_DOMAIN_EVENT_STOPPED, ANY_DETAIL, "stopped" },
	{ VIR_DOMAIN_EVENT_SHUTDOWN, ANY_DETAIL, "has shut down" },
	{ VIR_DOMAIN_EVENT_PMSUSPENDED, ANY_DETAIL, "was suspended by its guest" },
	{ VIR_DOMAIN_EVENT_CRASHED, ANY_DETAIL, "crashed: its guest panicked" },
};

/* NULL: not worth a line. */
static const char *words(int event, int detail)
{
	size_t k;

	for (k = 0; k < sizeof(lifecycle) / sizeof(*lifecycle); k++)
		if (lifecycle[k].event == event &&
		    (lifecycle[k].detail == detail || lifecycle[k].detail == ANY_DETAIL))
			return lifecycle[k].words;
	return NULL;
}

static int on_lifecycle(virConnectPtr conn, virDomainPtr dom, int event, int detail, void *arg)
{
	const char *what = words(event, detail);
	struct watch *w = arg;

	(void)conn;
	if (!libvirt_watch_wanted(w, dom) || !what)
		return 0;
	send_change(w, BRAID_DOMAIN_EVENT, virDomainGetName(dom), "", what);
	if (event == VIR_DOMAIN_EVENT_STARTED)
		send_domain(w, dom);
	return 0;
}

static void on_reboot(virConnectPtr conn, virDomainPtr dom, void *arg)
{
	struct watch *w = arg;

	(void)conn;
	if (libvirt_watch_wanted(w, dom))
		send_change(w, BRAID_DOMAIN_EVENT, virDomainGetName(dom), "", "reboots");
}

static void on_device_added(virConnectPtr conn, virDomainPtr dom, const char *alias, void *arg)
{
	struct braid_domain domain;
	struct watch *w = arg;

	(void)conn;
	(void)alias;
	if (libvirt_watch_wanted(w, dom) && !braid_libvirt_describe(dom,
								    &domain) && domain.attached)
		send_change(w, BRAID_DOMAIN_REGION, domain.name, domain.path, "");
}

static void on_device_removed(virConnectPtr conn, virDomainPtr dom, const char *alias, void *arg)
{
	struct braid_domain domain;
	struct watch *w = arg;

	(void)conn;
	if (libvirt_watch_wanted(w, dom) && strstr(alias, "shmem") && !braid_libvirt_describe(dom, &domain) &&
	    !domain.attached)
		send_change(w, BRAID_DOMAIN_EVENT, domain.name, "", "released its memory");
}

static void on_agent(virConnectPtr conn, virDomainPtr dom, int state, int reason, void *arg)
{
	struct watch *w = arg;

	(void)conn;
	(void)reason;
	if (libvirt_watch_wanted(w, dom) &&
	    state == VIR_CONNECT_DOMAIN_EVENT_AGENT_LIFECYCLE_STATE_CONNECTED)
		send_change(w, BRAID_DOMAIN_AGENT, virDomainGetName(dom), "", "");
}

static void on_timer(int timer, void *arg);

static void on_close(virConnectPtr conn, int reason, void *arg)
{
	struct watch *w = arg;

	(void)conn;
	(void)reason;
	/* Closed later: not while the library is about to. */
	virEventUpdateTimeout(w->timer, RETRY_MS);
	send_change(w, BRAID_DOMAIN_LOST, "", "", "the connection to libvirt has ended");
}

static void on_recorder(int handle, int fd, int events, void *arg)
{
	struct watch *w = arg;

	(void)handle;
	(void)fd;
	(void)events;
	w->ended = true;	/* it never writes: it closed its end */
}

static int listen_to(struct watch *w, int id, virConnectDomainEventGenericCallback fn)
{
	int ret = virConnectDomainEventRegisterAny(w->conn, NULL, id, fn, w, NULL);

	if (ret >= 0)
		w->ids[w->nr_ids++] = ret;
	return ret;
}

/* Each callback holds the connection: one that keeps them is never freed. */
static void hang_up(struct watch *w)
{
	if (!w->conn)
		return;
	while (w->nr_ids)
		virConnectDomainEventDeregisterAny(w->conn, w->ids[--w->nr_ids]);
	virConnectUnregisterCloseCallback(w->conn, on_close);
	virConnectClose(w->conn);
	w->conn = NULL;
}

/* Connects, and subscribes to the relevant events. 0 or -errno with braid_fail(). */
static int connect_and_listen(struct watch *w)
{
	int err = braid_libvirt_open(&w->conn, w->uri, false);

	if (err)
		return err;
	if (listen_to(w, VIR_DOMAIN_EVENT_ID_LIFECYCLE,
		      VIR_DOMAIN_EVENT_CALLBACK(on_lifecycle)) < 0 ||
	    listen_to(w, VIR_DOMAIN_EVENT_ID_REBOOT, VIR_DOMAIN_EVENT_CALLBACK(on_reboot)) < 0 ||
	    virConnectRegisterCloseCallback(w->conn, on_close, w, NULL) < 0) {
		err = braid_libvirt_fail(-EIO, "libvirt reports no events");
		hang_up(w);
		return err;
	}
	/* Drivers other than QEMU's may lack these; a local connection needs no keepalive. */
	listen_to(w, VIR_DOMAIN_EVENT_ID_DEVICE_ADDED,
		  VIR_DOMAIN_EVENT_CALLBACK(on_device_added));
	listen_to(w, VIR_DOMAIN_EVENT_ID_DEVICE_REMOVED,
		  VIR_DOMAIN_EVENT_CALLBACK(on_device_removed));
	listen_to(w, VIR_DOMAIN_EVENT_ID_AGENT_LIFECYCLE, VIR_DOMAIN_EVENT_CALLBACK(on_agent));
	virConnectSetKeepAlive(w->conn, KEEPALIVE_S, KEEPALIVE_COUNT);
	return 0;
}

/* Without names: the running ones; with names: all of those. */
static void send_all(struct watch *w)
{
	braid_auto_free struct braid_domain *domains = NULL;
	size_t nr = 0, capacity = 0, i;
	struct braid_domain domain;
	virDomainPtr *doms = NULL;
	int k, n;

	n = virConnectListAllDomains(w->conn, &doms,
				     w->names ? 0 : VIR_CONNECT_LIST_DOMAINS_ACTIVE);
	for (k = 0; k < n; k++) {
		if (libvirt_watch_wanted(w, doms[k]) && !braid_libvirt_describe(doms[k], &domain) &&
		    braid_array_push(domains, nr, capacity, domain))
			w->ended = true;	/* without memory */
		virDomainFree(doms[k]);
	}
	free(doms);
	braid_qemus_of_domains(domains, nr);
	for (i = 0; i < nr; i++)
		send_state(w, &domains[i]);
}

static void on_timer(int timer, void *arg)
{
	struct watch *w = arg;

	hang_up(w);
	if (connect_and_listen(w))
		return;
	virEventUpdateTimeout(timer, -1);
	send_change(w, BRAID_DOMAIN_FOUND, "", "", "");
	send_all(w);
}

/* Every named domain must exist. */
static int check_names(struct watch *w)
{
	virDomainPtr dom;
	size_t k;
	int err;

	for (k = 0; w->names && k < w->nr; k++) {
		err = braid_libvirt_domain(w->conn, w->names[k], &dom);
		if (err)
			return err;
		virDomainFree(dom);
	}
	return 0;
}

static void libvirt_watch_run(struct watch *w)
{
	int err = 0;

	if (virEventRegisterDefaultImpl() < 0)
		err = braid_libvirt_fail(-EIO, "no event loop");
	if (!err)
		err = connect_and_listen(w);
	if (!err)
		err = check_names(w);
	if (err) {
		send_change(w, BRAID_DOMAIN_FAILED, "", "", braid_failure());
		return;
	}
	w->timer = virEventAddTimeout(-1, on_timer, w, NULL);
	if (w->timer < 0 || virEventAddHandle(w->fd, VIR_EVENT_HANDLE_HANGUP | VIR_EVENT_HANDLE_ERROR |
					      VIR_EVENT_HANDLE_READABLE, on_recorder, w, NULL) < 0)
		return;
	send_all(w);
	send_change(w, BRAID_DOMAIN_LISTED, "", "", "");
	while (!w->ended && virEventRunDefaultImpl() >= 0)
		;
}

static void become_watch(void *arg, int fd)
{
	struct watch *w = arg;

	w->fd = fd;
	libvirt_watch_run(w);
}

/* Door ---------------------------------------------------------------------------------- */

int braid_domain_watch_start(struct braid_domain_watch *watch, const char *uri,
			     const char *const *names, size_t nr)
{
	struct watch w = { .uri = uri, .names = names, .nr = nr, .timer = -1 };

	return braid_helper_start(&watch->fd, &watch->pid, become_watch, &w);
}

int braid_domain_watch_next(struct braid_domain_watch *watch, struct braid_domain_change *change)
{
	ssize_t n = recv(watch->fd, change, sizeof(*change), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n != (ssize_t)sizeof(*change))
		return braid_fail(-EPIPE, "libvirt is no longer watched");
	change->name[sizeof(change->name) - 1] = 0;
	change->path[sizeof(change->path) - 1] = 0;
	change->detail[sizeof(change->detail) - 1] = 0;
	return 1;
}

void braid_domain_watch_stop(struct braid_domain_watch *watch)
{
	braid_helper_stop(&watch->fd, &watch->pid);
}
