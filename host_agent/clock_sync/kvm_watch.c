// SPDX-License-Identifier: GPL-2.0-or-later
/* Follows KVM's tracepoint kvm_write_tsc_offset in a tracefs instance of our own. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tracefs.h>
#include <unistd.h>

#include "host_agent/clock_sync/kvm.h"
#include "host_agent/util/instance.h"

#define BUFFER_KB	16	/* of each CPU: changes are rare */
#define MAX_CHANGES	4096	/* kept; slow callers miss the older ones */
#define POLL_READS	64	/* of a line or a few each: a guest may write without end */
#define EVENT		"kvm_write_tsc_offset: "

struct braid_kvm_watch {
	struct tracefs_instance *instance;
	int fd;
	struct braid_kvm_change changes[MAX_CHANGES];
	size_t nr_changes;	/* total; the last MAX_CHANGES of them are kept */
	size_t line_bytes;
	char line[512];
};

static int open_instance(struct braid_kvm_watch *w)
{
	if (!tracefs_tracing_dir() ||
	    !tracefs_event_file_exists(NULL, "kvm", "kvm_write_tsc_offset", "id"))
		return -ENOENT;
	w->instance = braid_instance_create(BRAID_INSTANCE_CLOCK);
	if (!w->instance)
		return -errno;
	/* The text of this clock is the counter itself, to the step. */
	if (tracefs_instance_file_write(w->instance, "trace_clock", "x86-tsc") < 0 ||
	    tracefs_instance_set_buffer_size(w->instance, BUFFER_KB, -1) < 0 ||
	    tracefs_event_enable(w->instance, "kvm", "kvm_write_tsc_offset"))
		return -EIO;
	w->fd = tracefs_instance_file_open(w->instance, "trace_pipe",
					   O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	return w->fd < 0 ? -errno : 0;
}

int braid_kvm_watch_open(struct braid_kvm_watch **out)
{
	struct braid_kvm_watch *w = calloc(1, sizeof(*w));
	int err;

	if (!w)
		return -ENOMEM;
	w->fd = -1;
	err = open_instance(w);
	if (err) {
		braid_kvm_watch_close(w);
		return err;
	}
	*out = w;
	return 0;
}

/* "  CPU 0/KVM-1234  [001] d..1. 987654321: kvm_write_tsc_offset: vcpu=0 prev=0 next=18446..." */
static void take_line(struct braid_kvm_watch *w, char *line)
{
	struct braid_kvm_change change;
	char *event = strstr(line, ": " EVENT), *bracket, *at;
	char *next = event ? strstr(event, " next=") : NULL;

	if (!next) {
		if (strstr(line, "LOST "))	/* "CPU:1 [LOST 12 EVENTS]" */
			w->changes[w->nr_changes++ % MAX_CHANGES] = (struct braid_kvm_change){ 0 };
		return;
	}
	*event = 0;
	bracket = strrchr(line, '[');	/* a thread's name may have others */
	if (!bracket)
		return;
	at = strrchr(line, ' ');
	change.host_counter = at ? strtoull(at + 1, NULL, 10) : 0;
	change.offset = strtoull(next + 6, NULL, 10);
	while (bracket > line && bracket[-1] == ' ')
		bracket--;
	*bracket = 0;
	at = strrchr(line, '-');
	change.tid = at ? atoi(at + 1) : 0;
	if (change.tid && change.host_counter)
		w->changes[w->nr_changes++ % MAX_CHANGES] = change;
}

bool braid_kvm_watch_poll(struct braid_kvm_watch *w)
{
	size_t room = sizeof(w->line) - 1;
	char *end;
	ssize_t n;
	int k;

	for (k = 0; k < POLL_READS; k++) {
		n = read(w->fd, w->line + w->line_bytes, room - w->line_bytes);
		if (n <= 0)
			return n < 0 && errno == EAGAIN && !w->line_bytes;
		w->line_bytes += n;
		w->line[w->line_bytes] = 0;
		while ((end = strchr(w->line, '\n'))) {
			*end++ = 0;
			take_line(w, w->line);
			w->line_bytes -= end - w->line;
			memmove(w->line, end, w->line_bytes + 1);
		}
		if (w->line_bytes == room)
			w->line_bytes = 0;	/* no line of this kernel's */
	}
	return false;
}

const struct braid_kvm_change *braid_kvm_watch_next(const struct braid_kvm_watch *w, size_t *at)
{
	return w && *at < w->nr_changes ? &w->changes[(*at)++ % MAX_CHANGES] : NULL;
}

bool braid_kvm_watch_missed(const struct braid_kvm_watch *w, size_t at)
{
	return w && w->nr_changes - at > MAX_CHANGES;
}

void braid_kvm_watch_close(struct braid_kvm_watch *w)
{
	if (!w)
		return;
	if (w->fd >= 0)
		close(w->fd);
	braid_instance_remove(w->instance);
	free(w);
}
