// SPDX-License-Identifier: GPL-2.0-or-later
/* record --status-fd: JSON lines that never block; those that are not read in time are dropped and counted. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/cli/record_status.h"
#include "host_agent/clock_sync/host.h"
#include "host_agent/util/error.h"

int braid_record_status_begin(struct braid_record_status *s, u64 fd)
{
	int flags;

	*s = (struct braid_record_status){ .fd = -1 };
	if (!fd)
		return 0;
	flags = fd <= STDERR_FILENO || fd > INT32_MAX ? -1 : fcntl(fd, F_GETFL);
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) || fcntl(fd, F_SETFD, FD_CLOEXEC))
		return braid_fail(-EBADF, "--status-fd=%llu: must be an open descriptor above 2, as in 'tracebraid record --status-fd 3 3>FILE'",
				  (unsigned long long)fd);
	s->fd = fd;
	return 0;
}

/* Writes what is left. Return: whether all is written. */
static bool record_status_give(struct braid_record_status *s)
{
	ssize_t n = 0;

	while (s->fd >= 0 && s->from < s->line.bytes) {
		n = write(s->fd, s->line.data + s->from, s->line.bytes - s->from);
		if (n > 0) {
			s->from += n;
		} else if (errno == EAGAIN) {
			return false;
		} else if (errno != EINTR) {
			s->gone = errno == EPIPE;
			s->fd = -1;
		}
	}
	s->line.bytes = s->from = 0;
	return s->fd >= 0;
}

/* A line can begin: what was before it is written. */
static bool record_status_begin(struct braid_record_status *s, const char *type)
{
	if (s->fd < 0)
		return false;
	if (!record_status_give(s)) {
		s->dropped++;
		return false;
	}
	braid_text_printf(&s->line, "{\"type\":\"%s\"", type);
	if (s->dropped)
		braid_text_printf(&s->line, ",\"dropped\":%llu", (unsigned long long)s->dropped);
	s->dropped = 0;
	return true;
}

static void record_status_end(struct braid_record_status *s)
{
	braid_text_puts(&s->line, "}\n");
	if (s->line.failed) {
		braid_text_free(&s->line);
		s->line = (struct braid_text){ 0 };
		s->dropped++;
	}
	record_status_give(s);
}

static const char *phase_name(const struct braid_region_status *status)
{
	switch (status->phase) {
	case BRAID_PHASE_WAITING:
		return "waiting";
	case BRAID_PHASE_DOWN:
		return "down";
	case BRAID_PHASE_GONE:
		return "gone";
	default:
		return status->silent ? "silent" : "recording";
	}
}

static void record_status_put_guest(struct braid_text *t, const struct braid_record_guest *guest)
{
	struct braid_region_status status;

	braid_region_source_status(guest->source, &status);
	braid_text_puts(t, "{");
	braid_text_member(t, "name", *guest->name ? guest->name : *status.name ? status.name : guest->path);
	braid_text_printf(t, ",\"state\":\"%s\",\"events\":%llu,\"lost\":%llu,\"bytes\":%llu,\"fill\":%.3f,\"confirmed\":%s}",
			  phase_name(&status), (unsigned long long)status.events,
			  (unsigned long long)status.lost, (unsigned long long)status.bytes,
			  braid_region_source_fill(guest->source) / 1000.0,
			  status.unconfirmed ? "false" : "true");
}

void braid_record_status_put(struct braid_record_status *s, const char *type,
			     const struct braid_recording *r)
{
	u64 now_ns = r->end_ns ?: braid_host_clock_ns();
	struct braid_tracefs_status host;
	size_t k;

	if (!record_status_begin(s, type))
		return;
	braid_text_printf(&s->line, ",\"ns\":%llu,\"duration_ns\":%llu,\"bytes\":%llu,\"guests\":[",
			  (unsigned long long)now_ns, (unsigned long long)(now_ns - r->start_ns),
			  (unsigned long long)(r->sink.capture ? braid_capture_bytes(r->sink.capture) : 0));
	for (k = 0; k < r->nr_guests; k++) {
		braid_text_puts(&s->line, k ? "," : "");
		record_status_put_guest(&s->line, &r->guests[k]);
	}
	braid_text_puts(&s->line, "]");
	if (r->host_source) {
		braid_tracefs_source_status(r->host_source, &host);
		braid_text_printf(&s->line, ",\"host\":{\"bytes\":%llu,\"events\":%llu,\"lost\":%llu}",
				  (unsigned long long)host.bytes, (unsigned long long)host.events,
				  (unsigned long long)host.lost);
	}
	record_status_end(s);
}

void braid_record_status_say(struct braid_record_status *s, const char *name, const char *text)
{
	if (!record_status_begin(s, "message"))
		return;
	if (name && *name)
		braid_text_member(&s->line, "guest", name);
	braid_text_member(&s->line, "text", text);
	record_status_end(s);
}

bool braid_record_status_gone(const struct braid_record_status *s)
{
	struct pollfd p = { .fd = s->fd };

	return s->gone || (s->fd >= 0 && poll(&p, 1, 0) > 0 && p.revents & (POLLERR | POLLHUP));
}

void braid_record_status_end(struct braid_record_status *s)
{
	braid_text_free(&s->line);
}
