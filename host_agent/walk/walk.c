// SPDX-License-Identifier: GPL-2.0-or-later
/* Runs the merge and passes on each selected item. */
#include <errno.h>
#include <string.h>

#include "host_agent/analyze/states.h"
#include "host_agent/trace/merge.h"
#include "host_agent/util/error.h"
#include "host_agent/walk/moment.h"
#include "host_agent/walk/select.h"
#include "host_agent/walk/walk.h"

static u64 add_bounds(u64 a, u64 b)
{
	return a == BRAID_BOUND_UNKNOWN || b == BRAID_BOUND_UNKNOWN ? BRAID_BOUND_UNKNOWN : a + b;
}

/* A stretch of the host's clock in ns of one that NTP slews, rounded up. */
static u64 slew(u64 ns)
{
	return ns == BRAID_BOUND_UNKNOWN ? ns : ns + ns / 1024 + 1;
}

u64 braid_walk_stream_bound(const struct braid_walk *w, const struct braid_stream *stream)
{
	return w->options->realtime ? add_bounds(slew(stream->bound_ns), w->clock_bound_ns) :
				      stream->bound_ns;
}

s64 braid_walk_shown_ns(const struct braid_walk *w, s64 host_ns)
{
	if (!w->options->realtime)
		return host_ns;
	return (s64)braid_clock_reading_at(&w->source->clocks.realtime, host_ns).value;
}

/* The item's time by the clock that is shown. */
static void set_time(struct braid_walk *w, const struct braid_item *item)
{
	struct braid_clock_reading r;

	w->ns = item->host_ns;
	w->bound_ns = item->bound_ns;
	if (!w->options->realtime)
		return;
	r = braid_clock_reading_at(&w->source->clocks.realtime, item->host_ns);
	w->ns = (s64)r.value;
	w->bound_ns = add_bounds(slew(item->bound_ns), r.bound_ns);
}

static bool full(const struct braid_walk *w)
{
	return w->options->max_lines && w->totals->lines >= w->options->max_lines;
}

/* A selected item. */
static void note_order(struct braid_walk *w, const struct braid_item *item)
{
	w->late = w->source->grows && item->host_ns < w->latest_ns;
	w->totals->late += w->late;
	if (!w->late)
		w->latest_ns = item->host_ns;
}

static enum braid_walk_got got_lost(struct braid_walk *w, const struct braid_item *item)
{
	note_order(w, item);
	if (item->lost_before == BRAID_LOST_SOME)
		w->totals->some_lost = true;
	else
		w->totals->lost += item->lost_before;
	w->totals->lines++;
	return BRAID_WALK_LOST;
}

/* Events of types that are not selected need not be merged, unless states need them. */
static int leave_out(struct braid_walk *w, const struct braid_stream *stream)
{
	return w->states || w->source->grows ? 0 : braid_select_leave_out(w->select, stream);
}

/* Return: enum braid_walk_got, BRAID_WALK_END for an event that is not selected; or -errno. */
static int got_event(struct braid_walk *w, const struct braid_item *item)
{
	int ret;

	if (!w->states)		/* else feed_states() has found it */
		w->info = braid_format_event(w->format, item);
	if (!w->info)
		return braid_out_of_memory();
	ret = braid_select_event(w->select, item, w->info);
	if (!ret && !item->ring->left_out && braid_select_is_left_out(w->select, w->info))
		ret = leave_out(w, item->stream);
	if (ret <= 0)
		return ret;
	note_order(w, item);
	if (!w->no_order) {
		w->uncertain = braid_order_next(&w->order, item);
		w->totals->uncertain += w->uncertain;
	}
	w->totals->events++;
	w->totals->lines++;
	return BRAID_WALK_EVENT;
}

/* One item: up to two lines; its event is the second. Return: as got_event(). */
static int got_item(struct braid_walk *w, const struct braid_item *item)
{
	w->uncertain = false;
	if (item->kind == BRAID_ITEM_NOTE) {
		note_order(w, item);
		w->totals->lines++;
		return BRAID_WALK_NOTE;
	}
	if (item->lost_before) {
		w->halved = item->kind == BRAID_ITEM_EVENT;
		return got_lost(w, item);
	}
	return item->kind == BRAID_ITEM_EVENT ? got_event(w, item) : 0;
}

static void close_formats(struct braid_walk *w)
{
	braid_select_end(w->select);
	braid_format_close(w->format);
	w->select = NULL;
	w->format = NULL;
}

/* Loads the present formats, and the selection. Return: 0, or -errno. */
static int open_formats(struct braid_walk *w)
{
	int err;

	close_formats(w);
	w->generation = w->source->generation;
	err = braid_format_open(&w->format, w->source);
	return err ? err : braid_select_begin(&w->select, w->source, w->format, w->options);
}

bool braid_walk_is_over(const struct braid_walk *w)
{
	return w->past || full(w) || !w->source->grows || w->source->until_ns == INT64_MAX;
}

int braid_walk_more(struct braid_walk *w)
{
	int err = w->source->generation == w->generation ? 0 : open_formats(w);

	return err ? err : braid_merge_more(w->merge);
}

/* Waits until the source has more. Return: 1, 0 at the end, -errno. */
static int walk_grow(struct braid_walk *w, const struct braid_walk_ops *ops, void *arg)
{
	int ret = ops->pause ? ops->pause(arg) : 0;

	if (!ret)
		ret = w->options->more(w->options->live_arg);
	if (ret <= 0)
		return ret;
	ret = braid_walk_more(w);
	if (!ret && ops->grown)
		ret = ops->grown(arg);
	return ret ? ret : 1;
}

/* Return: 0, or -errno with braid_fail(). */
static int feed_states(struct braid_walk *w, const struct braid_item *item)
{
	int err = 0;

	if (item->kind == BRAID_ITEM_EVENT) {
		w->info = braid_format_event(w->format, item);
		if (!w->info)
			return braid_out_of_memory();
	}
	if (item->kind == BRAID_ITEM_NOTE || !braid_states_takes(item->host_ns))
		return 0;
	if (item->lost_before)
		err = braid_states_lost(w->states, item);
	if (!err && item->kind == BRAID_ITEM_EVENT)
		err = braid_states_event(w->states, item, w->info);
	if (!err && item->kind == BRAID_ITEM_EVENT && w->watch)
		err = w->watch(w->watch_arg, item, w->info);
	return err;
}

static bool walk_wanted(const struct braid_walk *w, const struct braid_ring *ring)
{
	return braid_select_ring((void *)w->options, ring) &&
	       (!w->wants || w->wants(w->wants_arg, ring));
}

int braid_walk_skip(struct braid_walk *w, s64 ns)
{
	/* States need all events, and wall time may go back from one epoch to the next. */
	if (w->states || w->source->grows ||
	    (w->options->realtime && braid_clock_epochs(&w->source->clocks.realtime) > 1))
		return 0;
	w->halved = false;
	if (w->options->realtime)
		ns = braid_moment_reached(w->source, ns, -BRAID_STATES_MAX_NS, BRAID_STATES_MAX_NS);
	return braid_merge_skip(w->merge, ns);
}

int braid_walk_part(struct braid_walk *w, s64 from_ns, s64 until_ns)
{
	int err = 0;

	if (from_ns > w->part_ns) {
		w->skipped = true;
		err = braid_merge_skip(w->merge, from_ns);
	}
	w->part_ns = until_ns;
	braid_merge_stop_before(w->merge, until_ns);
	return err;
}

/* If the first item precedes the range, many may: skip them. Return: 0, or -errno. */
static int skip(struct braid_walk *w)
{
	s64 from_ns, to_ns;

	w->skipped = true;
	braid_select_range(w->select, &from_ns, &to_ns);
	return braid_walk_skip(w, from_ns);
}

/* Return: as got_event(); BRAID_WALK_PAST: this and all later items are after the selected time. */
static int got_selected(struct braid_walk *w, const struct braid_item *item)
{
	enum braid_select_when when;

	if (w->states && !w->all_rings && !walk_wanted(w, item->ring))
		return 0;
	set_time(w, item);
	when = braid_select_time(w->select, item, w->ns);
	/* The host's clock never goes back; wall time may. */
	if (when == BRAID_SELECT_AFTER)
		return w->options->realtime ? 0 : BRAID_WALK_PAST;
	if (when == BRAID_SELECT_BEFORE && item->kind != BRAID_ITEM_NOTE && !w->skipped)
		return skip(w);
	if (when != BRAID_SELECT_WITHIN || w->only_states ||
	    (w->options->times && !braid_select_near(w->options->times, item->host_ns)))
		return 0;
	return got_item(w, item);
}

static int stop_or_show(const struct braid_walk *w)
{
	const struct braid_walk_options *o = w->options;

	if (o->stop && *o->stop)
		return braid_fail(-EINTR, "interrupted: the output was discarded");
	if (o->progress && !(w->turns & 0xffff))
		o->progress(o->progress_arg, "merging", w->source->bytes_read < w->source->bytes ?
			    w->source->bytes_read : w->source->bytes, w->source->bytes);
	return 0;
}

/* The merge's next item, whether selected or not. Return: 1, 0 at the end, -errno. */
static int walk_merge(struct braid_walk *w, const struct braid_item **item)
{
	int ret = braid_merge_next(w->merge, item), err = 0;

	if (ret > 0 && !(++w->turns & 0xfff))
		err = stop_or_show(w);
	return err ? err : ret;
}

int braid_walk_next(struct braid_walk *w)
{
	int ret = 0;

	if (w->past)
		return BRAID_WALK_END;
	if (full(w)) {
		if (w->states)
			braid_states_cut(w->states);
		return BRAID_WALK_END;
	}
	if (w->halved) {
		w->halved = false;
		ret = got_event(w, w->item);
	}
	while (!ret) {
		ret = walk_merge(w, &w->item);
		if (ret <= 0)
			break;
		ret = w->states ? feed_states(w, w->item) : 0;
		if (!ret)
			ret = got_selected(w, w->item);
	}
	if (ret != BRAID_WALK_PAST)
		return ret;
	w->past = true;
	return BRAID_WALK_END;
}

static bool walk_want_ring(void *arg, const struct braid_ring *ring)
{
	const struct braid_walk *w = arg;

	return w->states || walk_wanted(w, ring);
}

void braid_walk_range(const struct braid_walk *w, s64 *from_ns, s64 *to_ns)
{
	braid_select_range(w->select, from_ns, to_ns);
	if (w->options->realtime)
		braid_moment_cover(w->source, from_ns, to_ns);
}

static void limit_states(struct braid_walk *w)
{
	s64 from_ns, to_ns;

	braid_walk_range(w, &from_ns, &to_ns);
	if (from_ns == INT64_MAX)
		from_ns = BRAID_STATES_MAX_NS - 1;
	braid_states_limit(w->states, from_ns, to_ns);
}

/* With parts, the first event of all may not be in the first part: times are relative to it. */
static int meet_first(struct braid_walk *w)
{
	struct braid_merge *merge = NULL;
	const struct braid_item *item;
	int ret;

	ret = braid_merge_begin(&merge, w->source, braid_select_ring, (void *)w->options);
	if (ret)
		return ret;
	while ((ret = braid_merge_next(merge, &item)) > 0 && item->kind == BRAID_ITEM_NOTE)
		;
	if (ret > 0) {
		set_time(w, item);
		braid_select_time(w->select, item, w->ns);
	}
	braid_merge_end(merge);
	braid_source_rewind(w->source);
	return ret < 0 ? ret : 0;
}

void braid_walk_stop(struct braid_walk *w)
{
	braid_merge_end(w->merge);
	w->merge = NULL;
}

int braid_walk_start(struct braid_walk *w)
{
	size_t k;
	int err;

	if ((w->wants || w->states || w->in_parts) && !w->met_first) {
		err = meet_first(w);
		if (err)
			return err;
		w->met_first = true;
		if (w->states)
			limit_states(w);
	}
	w->all_rings = !w->options->stream && !w->options->buffer && !w->options->one_cpu && !w->wants;
	w->past = w->halved = w->skipped = false;
	w->part_ns = INT64_MIN;
	braid_walk_stop(w);
	err = braid_merge_begin(&w->merge, w->source, walk_want_ring, w);
	/* In parts from the start: where two parts meet, their rings are at the same items. */
	for (k = 0; w->in_parts && k < w->source->nr_streams && !err; k++)
		err = leave_out(w, w->source->streams[k]);
	return err;
}

int braid_walk_deliver(const struct braid_walk *w, const struct braid_walk_ops *ops, void *arg,
		       int got)
{
	switch (got) {
	case BRAID_WALK_EVENT:
		return ops->event ? ops->event(arg, w->item, w->info) : 0;
	case BRAID_WALK_LOST:
		return ops->lost ? ops->lost(arg, w->item) : 0;
	case BRAID_WALK_NOTE:
		return ops->note ? ops->note(arg, w->item) : 0;
	}
	return 0;
}

/* All that can be merged now. Return: 0, or -errno. */
static int deliver_all(struct braid_walk *w, const struct braid_walk_ops *ops, void *arg)
{
	int ret;

	while ((ret = braid_walk_next(w)) > 0) {
		int err = braid_walk_deliver(w, ops, arg, ret);

		if (err)
			return err;
	}
	return ret;
}

int braid_walk_run(struct braid_walk *w, const struct braid_walk_ops *ops, void *arg)
{
	int ret = braid_walk_start(w);

	if (ret)
		return ret;
	do
		ret = deliver_all(w, ops, arg);
	while (!ret && w->source->grows && !full(w) && (ret = walk_grow(w, ops, arg)) > 0);
	braid_walk_stop(w);
	return ret;
}

int braid_walk_begin(struct braid_walk *w, struct braid_source *source,
		     const struct braid_walk_options *options,
		     struct braid_walk_totals *totals)
{
	memset(w, 0, sizeof(*w));
	memset(totals, 0, sizeof(*totals));
	w->source = source;
	w->options = options;
	w->totals = totals;
	w->latest_ns = INT64_MIN;
	w->order.several = source->nr_hosts > 1;
	if (options->realtime) {
		if (!source->clocks.realtime.nr_tracks)
			return braid_fail(-ENODATA, "the capture has no wall time: omit --clock");
		w->clock_bound_ns = braid_clock_worst_bound(&source->clocks.realtime, 0);
	}
	return open_formats(w);
}

void braid_walk_end(struct braid_walk *w)
{
	braid_walk_stop(w);
	close_formats(w);
}
