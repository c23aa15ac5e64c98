// SPDX-License-Identifier: GPL-2.0-or-later
/* A process that has events enabled and disabled in guests, by QEMU's guest agent. */
#include <ctype.h>
#include <errno.h>
#include <libvirt/libvirt-qemu.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host_agent/discover/guest_agent.h"
#include "host_agent/discover/libvirt_private.h"
#include "host_agent/util/array.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "host_agent/util/helper.h"
#include "host_agent/util/text.h"

#define AGENT_COMMAND_TIMEOUT	112	/* VIR_ERR_AGENT_COMMAND_TIMEOUT of libvirt 11.2 */
#define COMMAND_S	5	/* timeout of an agent's answer */
#define ALONE_S		60	/* timeout for the rest, when the recorder has died */
#define FOLDER		"/sys/kernel/debug/tracebraid"	/* the driver's */

struct request {
	struct braid_guest_agent_file file;
	u32 on;
};

struct answer {
	s32 err;
	u32 maybe;		/* the file may have been written */
	char why[512];
};

/* The process' own. */
struct asker {
	const char *uri;
	const char *const *names;
	size_t nr;
	virConnectPtr conn;	/* NULL: none yet */
	struct braid_guest_agent_file *on;	/* what it has enabled */
	size_t nr_on, capacity;
};

/* Paths ------------------------------------------------------------------------------------- */

static bool is_plain(const char name[BRAID_GUEST_AGENT_NAME_BYTES])
{
	size_t bytes = strnlen(name, BRAID_GUEST_AGENT_NAME_BYTES), k;

	for (k = 0; k < bytes; k++)
		if (!isascii(name[k]) || (!isalnum(name[k]) && !strchr("_-.", name[k])))
			return false;
	return bytes < BRAID_GUEST_AGENT_NAME_BYTES && *name != '.';
}

bool braid_guest_agent_same(const struct braid_guest_agent_file *a,
			    const struct braid_guest_agent_file *b)
{
	return !memcmp(a->boot_id, b->boot_id, sizeof(a->boot_id)) &&
	       !strcmp(a->domain, b->domain) && !strcmp(a->buffer, b->buffer) &&
	       !strcmp(a->system, b->system) && !strcmp(a->event, b->event);
}

int braid_guest_agent_path(const struct braid_guest_agent_file *file,
			   char path[BRAID_GUEST_AGENT_PATH_BYTES])
{
	if (!is_plain(file->buffer) || !is_plain(file->system) || !is_plain(file->event) ||
	    !*file->buffer || !*file->system)
		return braid_fail(-EINVAL, "an event's name is not one of the kernel's, so its guest agent is not asked for it");
	snprintf(path, BRAID_GUEST_AGENT_PATH_BYTES, FOLDER "/%s/events/%s/%s%senable",
		 file->buffer, file->system, file->event, *file->event ? "/" : "");
	return 0;
}

/* Commands ---------------------------------------------------------------------------------- */

/* libvirt has no codes for what an agent answers, only its text: just the advice depends on it. */
static int explain(const char *name)
{
	const char *why = virGetLastErrorMessage();

	switch (virGetLastErrorCode()) {
	case VIR_ERR_ARGUMENT_UNSUPPORTED:
		return braid_fail(-ENOTSUP, "its domain has no guest agent: add <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel> to its configuration, and run qemu-guest-agent in the guest");
	case VIR_ERR_AGENT_UNRESPONSIVE:
	case VIR_ERR_AGENT_UNSYNCED:
	case AGENT_COMMAND_TIMEOUT:
		return braid_fail(-ETIMEDOUT, "its guest agent does not answer (%s): is qemu-guest-agent running in the guest?",
				  why);
	case VIR_ERR_OPERATION_INVALID:
		return braid_fail(-ESHUTDOWN, "its guest agent cannot be asked: %s", why);
	default:
		break;
	}
	if (strstr(why, "has been disabled") || strstr(why, "has not been found"))
		return braid_fail(-EPERM, "its guest agent refuses %s, as RHEL's does by default: allow guest-file-open, guest-file-write and guest-file-close in the guest's /etc/sysconfig/qemu-ga, and restart qemu-guest-agent",
				  name);
	if (strstr(why, "No such file"))
		return braid_fail(-ENOENT, "its guest agent finds no file of the driver: is debugfs mounted in the guest, at /sys/kernel/debug?");
	if (strstr(why, "Permission denied") || strstr(why, "not permitted"))
		return braid_fail(-EACCES, "its guest agent may not write the driver's files: SELinux confines it, or the kernel's lockdown closes debugfs (%s)",
				  why);
	return braid_fail(-EIO, "its guest agent: %s", why);
}

/* *reply: the answer, to be freed. 0, or -errno with braid_fail(). */
static int run(virDomainPtr dom, const char *name, const char *arguments, char **reply)
{
	char command[512];

	snprintf(command, sizeof(command), "{\"execute\":\"%s\",\"arguments\":{%s}}", name,
		 arguments);
	*reply = virDomainQemuAgentCommand(dom, command, COMMAND_S, 0);
	return *reply ? 0 : explain(name);
}

/* A number of an answer. 0, or -EBADMSG with braid_fail(). */
static int take_number(const char *reply, const char *key, long long *number)
{
	const char *at = strstr(reply, key);
	char *end;

	at += at ? strlen(key) : 0;
	errno = 0;
	if (at) {
		at += strspn(at, ": ");
		*number = strtoll(at, &end, 10);
	}
	if (!at || errno || end == at || (*end != '}' && *end != ','))
		return braid_fail(-EBADMSG, "its guest agent gives an answer that is not one of qemu-guest-agent's");
	return 0;
}

/* A file is written when it is closed: until then the agent keeps what it was given. */
static int put(virDomainPtr dom, long long handle, bool on)
{
	braid_auto_free char *written = NULL, *closed = NULL;
	char arguments[96], why[512];
	long long count = 0;
	int err, close_err;

	snprintf(arguments, sizeof(arguments), "\"handle\":%lld,\"buf-b64\":\"%s\"", handle,
		 on ? "MQ==" : "MA==");
	err = run(dom, "guest-file-write", arguments, &written);
	if (!err)
		err = take_number(written, "\"count\"", &count);
	if (!err && count != 1)
		err = braid_fail(-EIO, "its guest agent has not written the driver's file");
	snprintf(why, sizeof(why), "%s", err ? braid_failure() : "");
	snprintf(arguments, sizeof(arguments), "\"handle\":%lld", handle);
	close_err = run(dom, "guest-file-close", arguments, &closed);
	return err ? braid_fail(err, "%s", why) : close_err;
}

/* Opened to be read, too: that does not make a file, and does not truncate one. */
static int write_file(virDomainPtr dom, const char *path, bool on, bool *maybe)
{
	braid_auto_free char *reply = NULL;
	char arguments[BRAID_GUEST_AGENT_PATH_BYTES + 32];
	long long handle = 0;
	int err;

	snprintf(arguments, sizeof(arguments), "\"path\":\"%s\",\"mode\":\"r+\"", path);
	err = run(dom, "guest-file-open", arguments, &reply);
	if (!err)
		err = take_number(reply, "\"return\"", &handle);
	*maybe = !err;
	return err ? err : put(dom, handle, on);
}

/* Domains ----------------------------------------------------------------------------------- */

/* The user has named it. */
static bool may_ask(const struct asker *a, virDomainPtr dom)
{
	char uuid[VIR_UUID_STRING_BUFLEN] = "";
	size_t k;

	virDomainGetUUIDString(dom, uuid);
	for (k = 0; k < a->nr; k++)
		if (!strcmp(a->names[k], virDomainGetName(dom)) || !strcmp(a->names[k], uuid))
			return true;
	return false;
}

/* libvirtd may have been restarted. */
static int connect_again(struct asker *a)
{
	if (a->conn && virConnectIsAlive(a->conn) == 1)
		return 0;
	if (a->conn)
		virConnectClose(a->conn);
	a->conn = NULL;
	return braid_libvirt_open(&a->conn, a->uri, true);
}

static int set_file(struct asker *a, const struct braid_guest_agent_file *file, bool on,
		    bool *maybe)
{
	char path[BRAID_GUEST_AGENT_PATH_BYTES];
	virDomainPtr dom;
	int err = braid_guest_agent_path(file, path);

	*maybe = false;
	if (!err)
		err = connect_again(a);
	if (!err)
		err = braid_libvirt_domain(a->conn, file->domain, &dom);
	if (err)
		return err;
	err = may_ask(a, dom) ? write_file(dom, path, on, maybe) :
				braid_fail(-EPERM, "the domain is not one of -d");
	if (err == -ESHUTDOWN && virDomainIsActive(dom) == 1)
		err = -EAGAIN;		/* paused */
	virDomainFree(dom);
	return err;
}

/* Forgets a file, and those of a former boot, which has ended. */
static void forget(struct asker *a, const struct braid_guest_agent_file *file)
{
	size_t k, nr = 0;

	for (k = 0; k < a->nr_on; k++)
		if (!braid_guest_agent_same(&a->on[k], file) &&
		    (strcmp(a->on[k].domain, file->domain) ||
		     !memcmp(a->on[k].boot_id, file->boot_id, sizeof(file->boot_id))))
			a->on[nr++] = a->on[k];
	a->nr_on = nr;
}

/* Whether an event that is not disabled may be on. */
static bool stays_on(int err)
{
	return err && err != -ENOENT && err != -ESHUTDOWN;
}

/* What may be on is noted before: the recorder can die at any moment. */
static int serve(struct asker *a, struct request *request, bool *maybe)
{
	struct braid_guest_agent_file *file = &request->file;
	int err;

	file->domain[sizeof(file->domain) - 1] = 0;
	forget(a, file);
	if (braid_array_push(a->on, a->nr_on, a->capacity, *file))
		return braid_out_of_memory();
	err = set_file(a, file, request->on, maybe);
	if (request->on ? err && !*maybe : !stays_on(err))
		forget(a, file);
	return err;
}

static void become_asker(void *arg, int fd)
{
	struct asker *a = arg;
	struct request request;
	struct answer answer;
	bool maybe = false;
	size_t k;

	/* It outlives a recorder that dies, and disables what that has enabled. */
	prctl(PR_SET_PDEATHSIG, 0);
	while (recv(fd, &request, sizeof(request), 0) == (ssize_t)sizeof(request)) {
		memset(&answer, 0, sizeof(answer));
		answer.err = serve(a, &request, &maybe);
		answer.maybe = maybe;
		snprintf(answer.why, sizeof(answer.why), "%s", answer.err ? braid_failure() : "");
		braid_text_clean(answer.why);
		send(fd, &answer, sizeof(answer), MSG_NOSIGNAL);
	}
	alarm(ALONE_S);
	for (k = a->nr_on; k--;)
		set_file(a, &a->on[k], false, &maybe);
}

/* Door -------------------------------------------------------------------------------------- */

int braid_guest_agent_start(struct braid_guest_agent *agent, const char *uri,
			    const char *const *names, size_t nr)
{
	struct asker a = { .uri = uri, .names = names, .nr = nr };

	return braid_helper_start(&agent->fd, &agent->pid, become_asker, &a);
}

static int say_ended(void)
{
	return braid_fail(-EPIPE, "the process that asks guest agents has ended");
}

int braid_guest_agent_set(struct braid_guest_agent *agent,
			  const struct braid_guest_agent_file *file, bool on)
{
	const struct request request = { .file = *file, .on = on };

	return send(agent->fd, &request, sizeof(request), MSG_NOSIGNAL | MSG_DONTWAIT) ==
	       (ssize_t)sizeof(request) ? 0 : say_ended();
}

int braid_guest_agent_answer(struct braid_guest_agent *agent, int *err, bool *maybe)
{
	struct answer answer;
	ssize_t n = recv(agent->fd, &answer, sizeof(answer), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n != (ssize_t)sizeof(answer))
		return say_ended();
	answer.why[sizeof(answer.why) - 1] = 0;
	*maybe = answer.maybe;
	*err = answer.err < 0 ? braid_fail(answer.err, "%s", answer.why) : 0;
	return 1;
}

void braid_guest_agent_stop(struct braid_guest_agent *agent)
{
	braid_helper_stop(&agent->fd, &agent->pid);
}
