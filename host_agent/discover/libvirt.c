// SPDX-License-Identifier: GPL-2.0-or-later
/* Connects to libvirt and describes its domains. */
#include <errno.h>
#include <libxml/uri.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host_agent/discover/libvirt_private.h"
#include "host_agent/util/array.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "host_agent/util/helper.h"
#include "host_agent/util/text.h"

#define SILENCE_MS	5000	/* timeout for a libvirt that does not answer */

/* Else the library prints. */
static void say_nothing(void *arg, virErrorPtr error)
{
	(void)arg;
	(void)error;
}

int braid_libvirt_fail(int err, const char *format, ...)
{
	char line[512];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	return braid_fail(err, "%s: %s", line, virGetLastErrorMessage());
}

bool braid_uri_is_local(const char *uri)
{
	xmlURI *parts = uri ? xmlParseURI(uri) : NULL;
	bool local = parts && (!parts->server || !*parts->server ||
			       !strcmp(parts->server, "localhost"));

	if (parts)
		xmlFreeURI(parts);
	return local;
}

int braid_libvirt_open(virConnectPtr *conn, const char *uri, bool writable)
{
	braid_auto_free char *actual = NULL;

	if (!uri || !*uri)
		uri = getenv("LIBVIRT_DEFAULT_URI");
	if (!uri || !*uri)
		uri = "qemu:///system";
	virSetErrorFunc(NULL, say_nothing);
	*conn = writable ? virConnectOpen(uri) : virConnectOpenReadOnly(uri);
	if (!*conn)
		return braid_libvirt_fail(-ENOTCONN, "cannot connect to libvirt at %s", uri);
	/* An alias has been resolved now. */
	actual = virConnectGetURI(*conn);
	if (braid_uri_is_local(actual))
		return 0;
	virConnectClose(*conn);
	*conn = NULL;
	return braid_fail(-EREMOTE, "%s is libvirt on another host; run tracebraid there",
			  uri);
}

int braid_libvirt_domain(virConnectPtr conn, const char *word, virDomainPtr *dom)
{
	*dom = virDomainLookupByName(conn, word);
	if (!*dom)
		*dom = virDomainLookupByUUIDString(conn, word);
	return *dom ? 0 : braid_fail(-ENOENT, "libvirt has no domain '%s'; 'tracebraid list' shows all",
				     word);
}

void braid_libvirt_name(virDomainPtr dom, char *name)
{
	snprintf(name, BRAID_GUEST_NAME_BYTES, "%s", virDomainGetName(dom));
	braid_text_clean(name);
}

static const char *state_name(int state)
{
	static const char *const names[] = {
		[VIR_DOMAIN_NOSTATE] = "no state",
		[VIR_DOMAIN_RUNNING] = "running",
		[VIR_DOMAIN_BLOCKED] = "idle",
		[VIR_DOMAIN_PAUSED] = "paused",
		[VIR_DOMAIN_SHUTDOWN] = "in shutdown",
		[VIR_DOMAIN_SHUTOFF] = "shut off",
		[VIR_DOMAIN_CRASHED] = "crashed",
		[VIR_DOMAIN_PMSUSPENDED] = "pmsuspended",
	};

	return state >= 0 && state < (int)(sizeof(names) / sizeof(names[0])) ? names[state] : names[0];
}

/* A domain's devices, by its live or its inactive XML; set in *has. */
static int find_region(virDomainPtr dom, struct braid_domain *domain, const char *usual,
		       unsigned int flags, bool *has)
{
	braid_auto_free char *xml = virDomainGetXMLDesc(dom, flags);
	struct braid_shmem shmem;
	gid_t gid;
	int err;

	if (!xml)
		return braid_libvirt_fail(-EIO, "%s", domain->name);
	/* A libvirt of a user's own says no owner. */
	if (!(flags & VIR_DOMAIN_XML_INACTIVE) && braid_dac_owner(xml, &domain->uid, &gid))
		domain->uid = geteuid();
	err = braid_shmem_find(xml, usual, &shmem);
	if (err)
		return err;
	*has = *shmem.name;
	if (*has && !*domain->path) {
		snprintf(domain->path, sizeof(domain->path), BRAID_SHM_DIR "%s", shmem.name);
		domain->bytes = shmem.bytes;
	}
	if (!*has && *shmem.blank)
		snprintf(domain->blank, sizeof(domain->blank), BRAID_SHM_DIR "%s", shmem.blank);
	free(shmem.xml);
	return 0;
}

int braid_libvirt_describe(virDomainPtr dom, struct braid_domain *domain)
{
	char usual[200];
	int state = VIR_DOMAIN_NOSTATE, err = 0;

	memset(domain, 0, sizeof(*domain));
	braid_libvirt_name(dom, domain->name);
	virDomainGetUUIDString(dom, domain->uuid);
	braid_shmem_name(virDomainGetName(dom), domain->uuid, usual, sizeof(usual));
	domain->active = virDomainIsActive(dom) == 1;
	virDomainGetState(dom, &state, NULL, 0);
	domain->state = state_name(state);
	if (domain->active)
		err = find_region(dom, domain, usual, 0, &domain->attached);
	if (!err && virDomainIsPersistent(dom) == 1)
		err = find_region(dom, domain, usual, VIR_DOMAIN_XML_INACTIVE, &domain->configured);
	return err;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct braid_domain *)a)->name, ((const struct braid_domain *)b)->name);
}

/* A domain, as sent by the helper; the last message has err and the reason. */
struct answer {
	struct braid_domain domain;	/* state points into what both processes have */
	int err;
	bool end;
	char why[256];
};

static void send_end(int fd, int err)
{
	struct answer answer = { .err = err, .end = true };

	snprintf(answer.why, sizeof(answer.why), "%s", err ? braid_failure() : "");
	send(fd, &answer, sizeof(answer), MSG_NOSIGNAL);
}

/* In a separate process: it may hang as long as libvirtd does. */
static void send_domains(void *arg, int fd)
{
	struct answer answer = { .end = false };
	virDomainPtr *doms = NULL;
	virConnectPtr conn;
	int k, n, err = braid_libvirt_open(&conn, arg, false);

	if (err) {
		send_end(fd, err);
		return;
	}
	n = virConnectListAllDomains(conn, &doms, 0);
	if (n < 0)
		err = braid_libvirt_fail(-EIO, "cannot list libvirt's domains");
	for (k = 0; k < n; k++) {
		/* Skip one that is gone meanwhile. */
		if (!braid_libvirt_describe(doms[k], &answer.domain))
			send(fd, &answer, sizeof(answer), MSG_NOSIGNAL);
		virDomainFree(doms[k]);
	}
	free(doms);
	virConnectClose(conn);
	send_end(fd, err);
}

/* The next message: 0, or -errno with braid_fail(). */
static int next_answer(int fd, struct answer *answer)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	if (poll(&p, 1, SILENCE_MS) == 0)
		return braid_fail(-ETIMEDOUT, "libvirt has not answered for %d s; check libvirtd",
				  SILENCE_MS / 1000);
	if (recv(fd, answer, sizeof(*answer), MSG_DONTWAIT) != (ssize_t)sizeof(*answer))
		return braid_fail(-EPIPE, "libvirt's domains are unknown: the process that queries libvirt has ended");
	return answer->end && answer->err ? braid_fail(answer->err, "%s", answer->why) : 0;
}

int braid_domains_list(const char *uri, struct braid_domain **domains, size_t *nr)
{
	struct braid_domain *all = NULL;
	size_t found = 0, capacity = 0;
	struct answer answer;
	pid_t pid;
	int fd, err;

	err = braid_helper_start(&fd, &pid, send_domains, (void *)uri);
	if (err)
		return err;
	do {
		err = next_answer(fd, &answer);
		if (!err && !answer.end && braid_array_push(all, found, capacity, answer.domain))
			err = braid_out_of_memory();
	} while (!err && !answer.end);
	braid_helper_stop(&fd, &pid);
	if (err) {
		free(all);
		return err;
	}
	braid_qemus_of_domains(all, found);
	if (found)
		qsort(all, found, sizeof(*all), by_name);
	*domains = all;
	*nr = found;
	return 0;
}
