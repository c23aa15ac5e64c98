// SPDX-License-Identifier: GPL-2.0-or-later
/* Finds the times around certain events. */
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "host_agent/walk/around.h"
#include "host_agent/walk/walk.h"

static int around_take_event(void *arg, const struct braid_item *item,
			     const struct braid_event_type_info *info)
{
	struct braid_select_times *times = arg;
	struct braid_select_time_range time, *last = times->nr ? &times->all[times->nr - 1] : NULL;

	(void)info;
	if (__builtin_sub_overflow(item->host_ns, BRAID_AROUND_NS, &time.from_ns))
		time.from_ns = INT64_MIN;
	if (__builtin_add_overflow(item->host_ns, BRAID_AROUND_NS, &time.to_ns))
		time.to_ns = INT64_MAX;
	if (last && time.from_ns <= last->to_ns) {
		last->to_ns = time.to_ns > last->to_ns ? time.to_ns : last->to_ns;
		return 0;
	}
	return braid_array_push(times->all, times->nr, times->capacity, time) ?
	       braid_out_of_memory() : 0;
}

int braid_around_find(struct braid_select_times *times, struct braid_source *source,
		      const struct braid_walk_options *options)
{
	static const struct braid_walk_ops ops = { .event = around_take_event };
	char *events[] = { (char *)options->around };
	const struct braid_walk_options only = {
		.realtime = options->realtime, .from = options->from, .to = options->to,
		.events = events, .nr_events = 1, .stop = options->stop,
		.progress = options->progress, .progress_arg = options->progress_arg,
	};
	struct braid_walk_totals totals;
	struct braid_walk walk;
	int err = braid_walk_begin(&walk, source, &only, &totals);

	if (!err)
		err = braid_walk_run(&walk, &ops, times);
	braid_walk_end(&walk);
	braid_source_rewind(source);
	return err;
}
