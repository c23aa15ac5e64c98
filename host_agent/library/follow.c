// SPDX-License-Identifier: GPL-2.0-or-later
/* Captures that are followed while they are recorded. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/library/private.h"
#include "host_agent/util/error.h"
#include "host_agent/util/monotonic.h"

#define CHECK_MS		20u	/* between two looks at the file */

static s64 now_ms(void)
{
	return braid_monotonic_ns() / 1000000;
}

static bool follow_is_complete(const struct tracebraid_trace *trace)
{
	return trace->source->until_ns == INT64_MAX;
}

/* Return: 1: there was more; 0; or -errno with braid_fail(). */
static int follow_take(struct tracebraid_trace *trace)
{
	int ret = braid_source_grow_alone(trace->source, trace->last), err = 0;

	if (ret > 0 && trace->walk)
		err = braid_library_walk_more(trace->walk);
	return err ? err : ret;
}

static int follow(struct tracebraid_trace *trace, const char *path, const char *clock_source)
{
	struct braid_source_options options;
	char word[64];
	const char *const words[] = { word, NULL };
	int err;

	snprintf(word, sizeof(word), "clock-source=%s", clock_source ?: "auto");
	err = braid_library_options(trace, words, &options);
	if (err)
		return err;
	if (options.clock == BRAID_CLOCK_WINDOWS)
		return braid_fail(-EINVAL, "clock source 'windows' needs a complete capture: it cannot be used to follow one");
	err = braid_library_keep_paths(trace, &path, 1);
	if (!err)
		err = braid_source_follow(&trace->source, trace->paths[0], &options);
	if (!err)
		err = follow_take(trace);
	return err < 0 ? err : 0;
}

int tracebraid_follow(struct tracebraid_trace **trace, const char *path, const char *clock_source,
		      void (*warn)(void *arg, const char *line), void *arg)
{
	struct tracebraid_trace *made = braid_library_trace_new(warn, arg);
	int err = made ? follow(made, path, clock_source) : -ENOMEM;

	if (err)
		tracebraid_close(made);
	else
		*trace = made;
	return err;
}

int tracebraid_grow(struct tracebraid_trace *trace, int timeout_ms)
{
	s64 end_ms = timeout_ms < 0 ? INT64_MAX : now_ms() + timeout_ms, left_ms;
	int ret;

	if (!trace->source->grows)
		return braid_fail(-EINVAL, "the trace cannot grow: it was not opened by tracebraid_follow()");
	for (;;) {
		if (trace->stop && *trace->stop)
			return braid_fail(-EINTR, "stopped while waiting for the recording");
		ret = follow_take(trace);
		left_ms = end_ms - now_ms();
		if (ret || left_ms <= 0 || follow_is_complete(trace))
			return ret;
		poll(NULL, 0, left_ms < CHECK_MS ? left_ms : CHECK_MS);
	}
}

int tracebraid_finish(struct tracebraid_trace *trace)
{
	if (!trace->source->grows)
		return braid_fail(-EINVAL, "the trace cannot grow: it was not opened by tracebraid_follow()");
	trace->last = true;
	return 0;
}
