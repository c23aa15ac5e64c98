// SPDX-License-Identifier: GPL-2.0-or-later
/* Runs the merge and hands each item to a form. */
#include <errno.h>
#include <fnmatch.h>
#include <string.h>

#include "host_agent/export/line.h"
#include "host_agent/merge/merge.h"
#include "host_agent/util/error.h"

#define FLUSH_BYTES	(64u << 10)

const char *braid_end_reason_name(u32 reason)
{
	switch (reason) {
	case BRAID_END_STOPPED:
		return "recording stopped";
	case BRAID_END_DOWN:
		return "driver unloaded";
	case BRAID_END_REINIT:
		return "driver began anew";
	case BRAID_END_GONE:
		return "region gone";
	case BRAID_END_BROKEN:
		return "guest broke the rules";
	}
	return NULL;
}

struct braid_stream_sum braid_stream_sum_up(const struct braid_stream *stream)
{
	struct braid_stream_sum sum = { .known = true };
	u32 rings = 0;
	size_t k;

	for (k = 0; k < stream->nr_rings; k++) {
		const struct braid_ring *ring = stream->rings[k];

		if (ring->cpu == BRAID_RING_NOTES)
			continue;
		rings++;
		sum.known &= ring->report.nr_parts > 0;
		sum.written += ring->report.last.written;
		sum.read += ring->report.last.read;
		sum.lost += ring->report.last.lost;
		sum.left += ring->report.last.left;
	}
	sum.known &= rings > 0;
	return sum;
}

static u64 add_bounds(u64 a, u64 b)
{
	return a == BRAID_BOUND_UNKNOWN || b == BRAID_BOUND_UNKNOWN ? BRAID_BOUND_UNKNOWN : a + b;
}

/* A stretch of the host's clock in ns of one that NTP slews, rounded up. */
static u64 slew(u64 ns)
{
	return ns == BRAID_BOUND_UNKNOWN ? ns : ns + ns / 1024 + 1;
}

u64 braid_line_stream_bound(const struct braid_line_export *x, const struct braid_stream *stream)
{
	return x->options->realtime ? add_bounds(slew(stream->bound_ns), x->clock_bound_ns) :
				      stream->bound_ns;
}

bool braid_line_misses_clock(const struct braid_line_export *x, const struct braid_stream *stream)
{
	return x->options->clock_asked && stream->kind == BRAID_STREAM_GUEST &&
	       stream->clock.kind != x->options->clock;
}

/* The item's time by the clock that is shown. */
static void tell_time(struct braid_line_export *x, const struct braid_item *item)
{
	struct braid_clock_reading r;

	x->ns = item->host_ns;
	x->bound_ns = item->bound_ns;
	if (!x->options->realtime)
		return;
	r = braid_clock_reading_at(&x->source->clocks.realtime, item->host_ns);
	x->ns = (s64)r.value;
	x->bound_ns = add_bounds(slew(item->bound_ns), r.bound_ns);
}

static bool want_ring(void *arg, const struct braid_ring *ring)
{
	const struct braid_export_options *o = arg;

	if (o->stream && strcmp(o->stream, ring->stream->name))
		return false;
	if (o->buffer && ring->cpu != BRAID_RING_NOTES &&
	    strcmp(o->buffer, braid_ring_buffer_name(ring)))
		return false;
	return !o->one_cpu || ring->cpu == BRAID_RING_NOTES || ring->cpu == o->cpu;
}

static bool matches_name(const char *glob, const struct braid_event_type_info *info)
{
	return !fnmatch(glob, info->name, 0) ||
	       (info->subevent && !fnmatch(glob, info->subevent, 0));
}

/* "SYSTEM:EVENT", or one glob that may mean either. */
static bool want_event(const struct braid_export_options *o,
		       const struct braid_event_type_info *info)
{
	size_t k;

	for (k = 0; k < o->nr_events; k++) {
		const char *glob = o->events[k], *colon = strchr(glob, ':');
		char system[128];

		if (!colon) {
			if (matches_name(glob, info) || !fnmatch(glob, info->system, 0))
				return true;
			continue;
		}
		snprintf(system, sizeof(system), "%.*s", (int)(colon - glob), glob);
		if ((!system[0] || !fnmatch(system, info->system, 0)) &&
		    (!colon[1] || matches_name(colon + 1, info)))
			return true;
	}
	return !o->nr_events;
}

static int flush(struct braid_line_export *x)
{
	if (x->out.failed)
		return braid_fail(-ENOMEM, "out of memory");
	errno = 0;
	if (x->out.bytes && fwrite(x->out.data, 1, x->out.bytes, x->to) != x->out.bytes) {
		if (errno == EPIPE)
			return -EPIPE;
		return braid_fail(errno ? -errno : -EIO, "cannot write the report: %s",
				  strerror(errno ? errno : EIO));
	}
	x->out.bytes = 0;
	return 0;
}

static bool full(const struct braid_line_export *x)
{
	return x->options->max_lines && x->totals->lines >= x->options->max_lines;
}

static void count_lost(struct braid_line_export *x, const struct braid_item *item)
{
	if (item->lost_before == BRAID_LOST_SOME)
		x->totals->some_lost = true;
	else
		x->totals->lost += item->lost_before;
}

/* One item: up to two lines. */
static int put_item(struct braid_line_export *x, const struct braid_line_ops *ops,
		    const struct braid_item *item)
{
	const struct braid_event_type_info *info;

	tell_time(x, item);
	x->uncertain = false;
	if (item->kind == BRAID_ITEM_NOTE) {
		ops->note(x, item);
		x->totals->lines++;
		return 0;
	}
	if (item->lost_before) {
		ops->lost(x, item);
		count_lost(x, item);
		x->totals->lines++;
		if (full(x))
			return 0;
	}
	if (item->kind != BRAID_ITEM_EVENT)
		return 0;
	info = braid_format_event(x->format, item);
	if (!info)
		return braid_fail(-ENOMEM, "out of memory");
	if (!want_event(x->options, info))
		return 0;
	x->uncertain = braid_order_next(&x->order, item);
	x->totals->uncertain += x->uncertain;
	x->uncertain &= x->options->uncertain;
	ops->event(x, item, info);
	x->totals->events++;
	x->totals->lines++;
	return 0;
}

static int put_items(struct braid_line_export *x, const struct braid_line_ops *ops,
		     struct braid_merge *merge)
{
	const struct braid_item *item;
	u64 turns = 0;
	int ret = 0;

	while (!full(x) && (ret = braid_merge_next(merge, &item)) > 0) {
		ret = put_item(x, ops, item);
		if (!ret && x->out.bytes >= FLUSH_BYTES)
			ret = flush(x);
		if (ret)
			return ret;
		if (x->options->progress && !(++turns & 0xffff))
			x->options->progress(x->options->progress_arg, "merging",
					     x->source->bytes_read, x->source->bytes);
	}
	return ret < 0 ? ret : 0;
}

static int run(struct braid_line_export *x, const struct braid_line_ops *ops,
	       struct braid_merge *merge)
{
	size_t k;
	int err;

	for (k = 0; k < x->source->nr_streams; k++) {
		int width = strlen(x->source->streams[k]->name);

		x->name_width = width > x->name_width ? width : x->name_width;
	}
	if (!x->options->no_header)
		ops->header(x);
	err = put_items(x, ops, merge);
	if (err)
		return err;
	if (!x->options->no_header)
		ops->footer(x);
	err = flush(x);
	if (!err && fflush(x->to))
		err = errno == EPIPE ? -EPIPE :
		      braid_fail(-errno, "cannot write the report: %s", strerror(errno));
	return err;
}

int braid_line_run(const struct braid_line_ops *ops, FILE *to, struct braid_source *source,
		   const struct braid_export_options *options,
		   struct braid_export_totals *totals)
{
	struct braid_line_export x = {
		.to = to, .source = source, .options = options, .totals = totals,
	};
	struct braid_merge *merge = NULL;
	int err;

	memset(totals, 0, sizeof(*totals));
	if (options->realtime) {
		if (!source->clocks.realtime.nr_tracks)
			return braid_fail(-ENODATA, "the capture holds no wall time; without --clock times are the host's");
		x.clock_bound_ns = braid_clock_worst_bound(&source->clocks.realtime, 0);
	}
	err = braid_format_open(&x.format, source);
	if (!err)
		err = braid_merge_begin(&merge, source, want_ring, (void *)options);
	if (!err)
		err = run(&x, ops, merge);
	braid_merge_end(merge);
	braid_format_close(x.format);
	braid_text_free(&x.out);
	return err;
}
