// SPDX-License-Identifier: GPL-2.0-or-later
/* Watches for events of the host, by a tracefs instance in which only they are enabled. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/clock_sync/host.h"
#include "host_agent/live/tracefs_private.h"
#include "host_agent/util/error.h"
#include "host_agent/util/instance.h"

#define BUFFER_KB	64	/* of each CPU: one event is enough */
#define DRAINS_MOST	4096	/* reads of old events before the watch restarts */

struct braid_tracefs_watch {
	struct tracefs_instance *instance;
	int fd;			/* trace_pipe, or -1 */
	bool noticed;
};

static int open_watch(struct braid_tracefs_watch *w, const struct braid_pattern *patterns,
		      size_t nr)
{
	const char *root;
	int err = braid_host_tracefs(&root);

	if (err)
		return err;
	w->instance = braid_instance_create(BRAID_INSTANCE_WATCH);
	if (!w->instance)
		return braid_fail(-EIO, "the host's events cannot be watched: no instance can be made in %s: %s",
				  root, strerror(errno));
	tracefs_instance_set_buffer_size(w->instance, BUFFER_KB, -1);
	w->fd = tracefs_instance_file_open(w->instance, "trace_pipe",
					   O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (w->fd < 0)
		return braid_fail(-EIO, "the host's events cannot be watched: trace_pipe: %s",
				  strerror(errno));
	return braid_host_switch_on(w->instance, patterns, nr);
}

int braid_tracefs_watch_open(struct braid_tracefs_watch **out, const struct braid_pattern *patterns,
			     size_t nr_patterns)
{
	struct braid_tracefs_watch *w = calloc(1, sizeof(*w));
	int ret;

	if (!w)
		return braid_out_of_memory();
	w->fd = -1;
	ret = open_watch(w, patterns, nr_patterns);
	if (ret <= 0) {
		braid_tracefs_watch_close(w);
		w = NULL;
	}
	*out = w;
	return ret < 0 ? ret : 0;
}

void braid_host_event_of_line(const char *line, char *to, size_t size)
{
	const char *at = line;
	size_t n;

	/* A task's name may contain anything, so what is sought is "SECONDS.FRACTION: EVENT:". */
	for (; (at = strstr(at, ": ")); at += 2) {
		n = strcspn(at + 2, ": \n");
		if (at > line && at[-1] >= '0' && at[-1] <= '9' && n && at[2 + n] == ':')
			break;
	}
	snprintf(to, size, "%.*s", at ? (int)n : 7, at ? at + 2 : "unknown");
}

bool braid_tracefs_watch_poll(struct braid_tracefs_watch *w, char *event, size_t size)
{
	char line[512];
	ssize_t n = w->noticed ? 0 : read(w->fd, line, sizeof(line) - 1);

	if (n <= 0)
		return false;
	line[n] = 0;
	braid_host_event_of_line(line, event, size);
	tracefs_trace_off(w->instance);
	return w->noticed = true;
}

void braid_tracefs_watch_again(struct braid_tracefs_watch *w)
{
	char text[4096];
	int k = 0;

	if (!w || !w->noticed)
		return;
	while (k++ < DRAINS_MOST && read(w->fd, text, sizeof(text)) > 0)
		;
	tracefs_trace_on(w->instance);
	w->noticed = false;
}

void braid_tracefs_watch_close(struct braid_tracefs_watch *w)
{
	if (!w)
		return;
	if (w->fd >= 0)
		close(w->fd);
	braid_instance_remove(w->instance);
	free(w);
}
