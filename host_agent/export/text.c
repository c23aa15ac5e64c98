// SPDX-License-Identifier: GPL-2.0-or-later
/* The time line as text: one event a line, in columns. */
#include <string.h>

#include "host_agent/export/line.h"

#define COMM_WIDTH	16
#define PID_WIDTH	7
#define SECONDS_WIDTH	6
#define EVENT_WIDTH	22	/* name and colon; longer ones shift their line */
#define NS_PER_SECOND	1000000000ULL

static void put_spaces(struct braid_text *t, int n)
{
	while (n-- > 0)
		braid_text_putc(t, ' ');
}

/* "guest1: " to the width of the widest name. */
static void put_stream(struct braid_line_export *x, const struct braid_item *item)
{
	size_t width = strlen(item->stream->name);

	braid_text_put(&x->out, item->stream->name, width);
	braid_text_putc(&x->out, ':');
	put_spaces(&x->out, x->name_width - (int)width + 1);
}

/* "[001]   123.456789012: ", or "[001] ~    123.456789012: " */
static void put_cpu_and_time(struct braid_line_export *x, const struct braid_item *item)
{
	struct braid_text *t = &x->out;
	u64 ns = x->walk.ns < 0 ? -(u64)x->walk.ns : (u64)x->walk.ns;

	braid_text_puts(t, " [");
	if (item->ring->cpu == BRAID_RING_NOTES)
		braid_text_puts(t, "---");
	else
		braid_text_u64(t, item->ring->cpu, 3, '0');
	braid_text_puts(t, "] ");
	if (x->walk.options->uncertain)
		braid_text_puts(t, x->walk.uncertain ? "~ " : "  ");
	if (x->walk.ns < 0)
		braid_text_putc(t, '-');
	braid_text_u64(t, ns / NS_PER_SECOND, SECONDS_WIDTH, ' ');
	braid_text_putc(t, '.');
	braid_text_u64(t, ns % NS_PER_SECOND, 9, '0');
	braid_text_puts(t, ": ");
}

/* What is no event leaves the task's column empty. */
static void begin_other(struct braid_line_export *x, const struct braid_item *item)
{
	put_stream(x, item);
	put_spaces(&x->out, COMM_WIDTH + 1 + PID_WIDTH);
	put_cpu_and_time(x, item);
}

/* "            bash-1234   ": comm and pid */
static void put_task(struct braid_text *t, const struct braid_item *item)
{
	s32 pid = braid_format_pid(item);
	const char *comm = braid_format_comm(item, pid);
	size_t before;

	put_spaces(t, COMM_WIDTH - (int)strlen(comm));
	braid_text_puts(t, comm);
	braid_text_putc(t, '-');
	before = t->bytes;
	if (pid < 0)
		braid_text_putc(t, '-');
	braid_text_u64(t, pid < 0 ? -(u64)pid : (u64)pid, 0, ' ');
	put_spaces(t, PID_WIDTH - (int)(t->bytes - before));
}

static void put_event(struct braid_line_export *x, const struct braid_item *item,
		      const struct braid_event_type_info *info)
{
	struct braid_text *t = &x->out;
	size_t before;

	if (info->raw) {
		begin_other(x, item);
	} else {
		put_stream(x, item);
		put_task(t, item);
		put_cpu_and_time(x, item);
	}
	before = t->bytes;
	braid_text_puts(t, braid_format_label(info));
	braid_text_putc(t, ':');
	put_spaces(t, EVENT_WIDTH - (int)(t->bytes - before));
	braid_text_putc(t, ' ');
	braid_format_text(x->walk.format, item, t);
	braid_text_putc(t, '\n');
}

static void put_lost(struct braid_line_export *x, const struct braid_item *item)
{
	begin_other(x, item);
	if (item->lost_before == BRAID_LOST_SOME)
		braid_text_puts(&x->out, "LOST some events");
	else
		braid_text_printf(&x->out, "LOST %llu event%s",
				  (unsigned long long)item->lost_before,
				  item->lost_before == 1 ? "" : "s");
	if (item->damaged_before && item->lost_before != BRAID_LOST_SOME)
		braid_text_printf(&x->out, " (%llu of them recorded, but not readable here)",
				  (unsigned long long)item->damaged_before);
	braid_text_putc(&x->out, '\n');
}

static void put_note(struct braid_line_export *x, const struct braid_item *item)
{
	begin_other(x, item);
	braid_text_puts(&x->out, "NOTE ");
	braid_text_safe(&x->out, (const char *)item->payload, item->payload_bytes);
	braid_text_putc(&x->out, '\n');
}

/* "1.9 µs": two digits that matter, rounded up. */
static void put_bound(struct braid_text *t, u64 ns)
{
	if (ns == BRAID_BOUND_UNKNOWN)
		braid_text_puts(t, "bound unknown");
	else if (ns < 1000)
		braid_text_printf(t, "bound ≤ %llu ns", (unsigned long long)ns);
	else if (ns < 1000000)
		braid_text_printf(t, "bound ≤ %.1f µs", (ns + 99) / 100 / 10.0);
	else
		braid_text_printf(t, "bound ≤ %.1f ms", (ns + 99999) / 100000 / 10.0);
}

static void put_clock(struct braid_line_export *x, const struct braid_stream *s)
{
	const struct braid_clock *clock = &s->clock;
	struct braid_text *t = &x->out;

	if (s->kind == BRAID_STREAM_HOST) {
		braid_text_puts(t, "clock ");
		if (x->walk.source->clocks.trace.nr_tracks)
			braid_text_puts(t, x->walk.source->clocks.trace_name);
		else
			braid_text_safe(t, x->walk.source->head.clock, sizeof(x->walk.source->head.clock));
		if (braid_walk_stream_bound(&x->walk, s)) {
			braid_text_puts(t, ", ");
			put_bound(t, braid_walk_stream_bound(&x->walk, s));
		}
		return;
	}
	braid_text_printf(t, "clock %s", braid_clock_kind_name(clock->kind));
	if (*clock->reason && !braid_line_misses_clock(x, s))
		braid_text_printf(t, " (%s)", clock->reason);
	if (clock->nr_samples && clock->kind != BRAID_CLOCK_KVM)
		braid_text_printf(t, ", %u crossings", clock->nr_samples);
	if (clock->kind == BRAID_CLOCK_EXCHANGE)
		braid_text_printf(t, ", drift %+.3f ppm", braid_clock_drift(clock));
	braid_text_puts(t, ", ");
	put_bound(t, braid_walk_stream_bound(&x->walk, s));
	if (braid_clock_epochs(clock) > 1)
		braid_text_printf(t, ", %u epochs", braid_clock_epochs(clock));
}

static void put_accounting(struct braid_line_export *x, const struct braid_stream *s)
{
	struct braid_stream_sum sum = braid_stream_sum_up(s);

	if (sum.known)
		braid_text_printf(&x->out, "#   written %llu = read %llu + lost %llu + left %llu%s\n",
				  (unsigned long long)sum.written, (unsigned long long)sum.read,
				  (unsigned long long)sum.lost, (unsigned long long)sum.left,
				  sum.written == sum.read + sum.lost + sum.left ? "" :
				  " (does not add up)");
	else
		braid_text_puts(&x->out, "#   accounting unknown: the recording did not end by itself\n");
}

static void put_stream_head(struct braid_line_export *x, const struct braid_stream *s)
{
	const char *why = braid_end_reason_name(s->end_reason);
	struct braid_text *t = &x->out;

	braid_text_printf(t, "# %s: Linux %s %s, %u %s, ", s->name, s->kernel_release, s->machine,
			  s->nr_cpus, s->kind == BRAID_STREAM_HOST ? "CPUs" : "vCPUs");
	put_clock(x, s);
	if (why && s->end_reason != BRAID_END_STOPPED)
		braid_text_printf(t, "; ended: %s", why);
	braid_text_putc(t, '\n');
	if (braid_line_misses_clock(x, s))
		braid_text_printf(t, "#   its clock %s can't be had: %s\n",
				  braid_clock_kind_name(x->walk.options->clock), s->clock.reason);
	put_accounting(x, s);
}

static void put_header(struct braid_line_export *x)
{
	const char *only = x->walk.options->stream;
	struct braid_text *t = &x->out;
	size_t k;

	braid_text_printf(t, "# tracebraid: times are seconds of %s",
			  x->walk.options->realtime ? "CLOCK_REALTIME, by " : "");
	braid_text_puts(t, "the host's clock ");
	braid_text_safe(t, x->walk.source->head.clock, sizeof(x->walk.source->head.clock));
	braid_text_putc(t, '\n');
	for (k = 0; k < x->walk.source->nr_streams; k++) {
		const struct braid_stream *s = x->walk.source->streams[k];

		if (!only || !strcmp(only, s->name))
			put_stream_head(x, s);
	}
	if (x->walk.source->faults)
		braid_text_printf(t, "# %llu fault%s found so far; 'tracebraid verify' explains %s\n",
				  (unsigned long long)x->walk.source->faults,
				  x->walk.source->faults == 1 ? "" : "s",
				  x->walk.source->faults == 1 ? "it" : "each");
}

static void put_footer(struct braid_line_export *x)
{
	braid_text_printf(&x->out, "# %llu events, %llu lost%s, %llu in an order that is not proven\n",
			  (unsigned long long)x->walk.totals->events,
			  (unsigned long long)x->walk.totals->lost,
			  x->walk.totals->some_lost ? " and more that nobody counted" : "",
			  (unsigned long long)x->walk.totals->uncertain);
}

int braid_export_text(FILE *to, struct braid_source *source,
		      const struct braid_export_options *options,
		      struct braid_export_totals *totals)
{
	static const struct braid_line_ops ops = {
		.header = put_header,
		.event = put_event,
		.lost = put_lost,
		.note = put_note,
		.footer = put_footer,
	};

	return braid_line_run(&ops, to, source, options, totals);
}
