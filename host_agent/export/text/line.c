// SPDX-License-Identifier: GPL-2.0-or-later
/* Writes what a form made of each item. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/export/text/line.h"
#include "host_agent/util/error.h"
#include "host_agent/util/monotonic.h"
#include "host_agent/walk/parts.h"

#define FLUSH_BYTES	(64u << 10)

const char *braid_end_reason_name(const struct braid_stream *stream)
{
	switch (stream->end_reason) {
	case BRAID_END_STOPPED:
		return "recording stopped";
	case BRAID_END_DOWN:
		return "driver unloaded";
	case BRAID_END_REINIT:
		return "driver restarted";
	case BRAID_END_GONE:
		return stream->kind == BRAID_STREAM_VM ? "VM ended" : "region gone";
	case BRAID_END_DRIVER:
		return "driver loaded";
	case BRAID_END_BROKEN:
		return "guest violated the protocol";
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
		sum.read += ring->report.read;
		sum.lost += ring->report.lost;
		sum.left += ring->report.left;
	}
	sum.written = sum.read + sum.lost + sum.left;
	sum.known &= rings > 0;
	return sum;
}

void braid_line_put_account(struct braid_text *t, const struct braid_stream *stream)
{
	struct braid_stream_sum sum = braid_stream_sum_up(stream);

	if (stream->kind == BRAID_STREAM_VM)
		braid_text_puts(t, "no events: a VM without the driver");
	else if (sum.known)
		braid_text_printf(t, "written %llu = read %llu + lost %llu + left %llu",
				  (unsigned long long)sum.written, (unsigned long long)sum.read,
				  (unsigned long long)sum.lost, (unsigned long long)sum.left);
	else
		braid_text_printf(t, "accounting unknown: %s", *stream->trace_clock ?
				  "a trace.dat has none" :
				  "the recording was killed or still runs");
}

static void put_time(struct braid_text *t, s64 ns)
{
	u64 size = ns < 0 ? -(u64)ns : (u64)ns;

	braid_text_printf(t, "%s%llu.%09llu", ns < 0 ? "-" : "",
			  (unsigned long long)(size / BRAID_SECOND_NS),
			  (unsigned long long)(size % BRAID_SECOND_NS));
}

void braid_line_put_windows(struct braid_text *t, const struct braid_walk *w)
{
	size_t k;

	for (k = 0; k < w->source->nr_windows; k++) {
		const struct braid_window *window = &w->source->windows[k];

		if (window->again)
			continue;
		braid_text_puts(t, "# recorded from ");
		put_time(t, braid_walk_shown_ns(w, window->start_ns));
		if (window->stop_ns == INT64_MAX) {
			braid_text_puts(t, " s on; the recording was killed or still runs\n");
			continue;
		}
		braid_text_puts(t, " to ");
		put_time(t, braid_walk_shown_ns(w, window->stop_ns));
		braid_text_printf(t, " s: %.3f s\n", (window->stop_ns - window->start_ns) / 1e9);
	}
}

bool braid_line_misses_clock(const struct braid_line_export *x, const struct braid_stream *stream)
{
	return x->walk.options->clock_asked && stream->kind == BRAID_STREAM_GUEST &&
	       stream->clock.kind != x->walk.options->clock;
}

u64 braid_line_faults(const struct braid_line_export *x, const struct braid_stream *stream,
		      u64 *back)
{
	bool all = x->walk.options->from.kind == BRAID_MOMENT_NONE;
	u64 faults = 0;
	size_t k;

	*back = 0;
	for (k = 0; all && k < stream->nr_rings; k++) {
		faults += stream->rings[k]->walk.faults;
		*back += stream->rings[k]->walk.back;
	}
	return faults;
}

static int write_text(struct braid_line_export *x, const struct braid_text *text)
{
	errno = 0;
	return !text->bytes || fwrite(text->data, 1, text->bytes, x->to) == text->bytes ? 0 :
	       braid_fail_output("the report");
}

static int line_flush(struct braid_line_export *x)
{
	int err = x->out.failed ? braid_out_of_memory() : write_text(x, &x->out);

	x->out.bytes = 0;
	return err;
}

/* A line is complete: writes the buffered text. */
static int line_put(struct braid_line_export *x)
{
	return x->out.bytes >= FLUSH_BYTES && !x->waits ? line_flush(x) : 0;
}

static void forget_columns(struct braid_line_export *x)
{
	braid_columns_free(x->columns);
	x->columns = NULL;
	if (x->ops->forget)
		x->ops->forget(x);
}

static void free_parts(struct braid_line_export *x)
{
	forget_columns(x);
	braid_text_free(&x->out);
}

static void report_hidden(struct braid_line_export *x)
{
	if (x->hidden)
		x->ops->hidden(x);
	x->walk.totals->hidden += x->hidden;
	x->hidden = 0;
}

/* Whether to write a line; those of a growing source may be dropped. */
static bool begin_line(struct braid_line_export *x, const struct braid_item *item)
{
	const struct braid_walk_options *o = x->walk.options;

	if (!x->walk.source->grows)
		return true;
	if (o->may_write && !o->may_write(o->live_arg)) {
		x->hidden++;
		return false;
	}
	report_hidden(x);
	if (x->walk.late && item->host_ns < x->written_ns)
		x->ops->late(x, (u64)x->walk.latest_ns - (u64)item->host_ns);
	x->written_ns = item->host_ns;
	return true;
}

static int line_put_event(void *arg, const struct braid_item *item,
			  const struct braid_event_type_info *info)
{
	struct braid_line_export *x = arg;

	if (begin_line(x, item))
		x->ops->event(x, item, info);
	return line_put(x);
}

static int line_put_lost(void *arg, const struct braid_item *item)
{
	struct braid_line_export *x = arg;

	if (begin_line(x, item))
		x->ops->lost(x, item);
	return line_put(x);
}

static int line_put_note(void *arg, const struct braid_item *item)
{
	struct braid_line_export *x = arg;

	if (begin_line(x, item))
		x->ops->note(x, item);
	return line_put(x);
}

/* For the present streams and formats. Return: 0, or -ENOMEM with braid_fail(). */
static int make_columns(struct braid_line_export *x)
{
	forget_columns(x);
	x->columns = braid_columns_new(x->walk.source);
	x->generation = x->walk.source->generation;
	x->nr_streams = x->walk.source->nr_streams;
	return x->columns ? 0 : braid_out_of_memory();
}

/* Reports new streams. */
static int line_put_grown(void *arg)
{
	struct braid_line_export *x = arg;
	size_t k = x->nr_streams;
	int err = 0;

	if (x->generation != x->walk.source->generation)
		err = make_columns(x);
	for (; k < x->nr_streams && !x->walk.options->no_header; k++)
		x->ops->grown(x, x->walk.source->streams[k]);
	return err;
}

/* No more for now: flush the output. */
static int pause_lines(void *arg)
{
	struct braid_line_export *x = arg;
	int err = line_flush(x);

	return !err && fflush(x->to) ? braid_fail_output("the report") : err;
}

static const struct braid_walk_ops walk_ops = {
	.event = line_put_event,
	.lost = line_put_lost,
	.note = line_put_note,
	.pause = pause_lines,
	.grown = line_put_grown,
};

/* Several CPUs ------------------------------------------------------------------------------- */

static int line_begin_part(void *arg, struct braid_source *source,
			   const struct braid_walk_options *options,
			   struct braid_walk_totals *totals, struct braid_parts_maker *maker)
{
	const struct braid_line_export *shown = arg;
	struct braid_line_export *x = calloc(1, sizeof(*x));
	int err;

	maker->arg = x;
	if (!x)
		return braid_out_of_memory();
	x->ops = shown->ops;
	x->waits = true;
	maker->walk = &x->walk;
	maker->ops = &walk_ops;
	maker->out = &x->out;
	err = braid_walk_begin(&x->walk, source, options, totals);
	return err ? err : make_columns(x);
}

static void line_end_part(struct braid_parts_maker *maker)
{
	struct braid_line_export *x = maker->arg;

	if (!x)
		return;
	free_parts(x);
	braid_walk_end(&x->walk);
	free(x);
}

static int line_write_part(void *arg, struct braid_text *text)
{
	struct braid_line_export *x = arg;
	int err = line_flush(x);

	return err ? err : write_text(x, text);
}

static const struct braid_parts_form parts = {
	.begin = line_begin_part, .end = line_end_part, .write = line_write_part,
};

/* -------------------------------------------------------------------------------------------------- */

static int line_run(struct braid_line_export *x)
{
	const struct braid_walk_options *o = x->walk.options;
	int err;

	err = make_columns(x);
	if (err)
		return err;
	if (!o->no_header)
		x->ops->header(x);
	err = braid_parts_run(&x->walk, &walk_ops, x, &parts);
	if (err)
		return err;
	report_hidden(x);
	if (!o->no_header)
		x->ops->footer(x);
	return pause_lines(x);
}

int braid_line_run(const struct braid_line_ops *ops, FILE *to, struct braid_source *source,
		   const struct braid_walk_options *options,
		   struct braid_walk_totals *totals)
{
	struct braid_line_export x = { .to = to, .ops = ops };
	int err;

	err = braid_walk_begin(&x.walk, source, options, totals);
	if (!err)
		err = line_run(&x);
	free_parts(&x);
	braid_walk_end(&x.walk);
	return err;
}
