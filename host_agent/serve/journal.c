// SPDX-License-Identifier: GPL-2.0-or-later
/* Datagrams to the service manager and the journal. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "host_agent/serve/journal.h"
#include "host_agent/util/text.h"

#define JOURNAL		"/run/systemd/journal/socket"

static int journal_fd = -1;
static void (*journal_print)(const char *line);
static struct journal_address {
	struct sockaddr_un to;
	socklen_t bytes;	/* 0: no address */
} journal_manager, journal_log;

static void journal_set(struct journal_address *a, const char *path)
{
	size_t bytes = path ? strlen(path) : 0;

	*a = (struct journal_address){ .to.sun_family = AF_UNIX };
	if (!bytes || bytes >= sizeof(a->to.sun_path))
		return;
	memcpy(a->to.sun_path, path, bytes);
	if (*path == '@')	/* an abstract name */
		a->to.sun_path[0] = 0;
	a->bytes = offsetof(struct sockaddr_un, sun_path) + bytes;
}

static void journal_send(const struct journal_address *a, const char *data, size_t bytes)
{
	if (a->bytes && journal_fd >= 0)
		sendto(journal_fd, data, bytes, MSG_NOSIGNAL, (const struct sockaddr *)&a->to,
		       a->bytes);
}

void braid_journal_open(void (*say)(const char *line))
{
	journal_print = say;
	journal_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	journal_set(&journal_manager, getenv("NOTIFY_SOCKET"));
	journal_set(&journal_log, getenv("JOURNAL_STREAM") ? JOURNAL : NULL);
}

u64 braid_journal_watchdog_ns(void)
{
	const char *us = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");

	if (!us || (pid && strtol(pid, NULL, 10) != getpid()))
		return 0;
	return strtoull(us, NULL, 10) * 1000;
}

void braid_journal_notify(const char *state)
{
	journal_send(&journal_manager, state, strlen(state));
}

void braid_journal_say(int priority, const char *line, const char *fields)
{
	struct braid_text t = { 0 };
	char message[1024];

	if (!journal_log.bytes) {
		journal_print(line);
		return;
	}
	snprintf(message, sizeof(message), "%s", line);
	braid_text_clean(message);	/* a line feed would begin another field */
	braid_text_printf(&t, "MESSAGE=%s\nPRIORITY=%d\nSYSLOG_IDENTIFIER=tracebraid\n%s",
			  message, priority, fields ? fields : "");
	if (!t.failed)
		journal_send(&journal_log, t.data, t.bytes);
	braid_text_free(&t);
}
