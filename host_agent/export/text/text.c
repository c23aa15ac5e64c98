// SPDX-License-Identifier: GPL-2.0-or-later
/* The timeline as text: one event a line, in columns. */
#include <string.h>

#include "host_agent/export/text/form.h"
#include "host_agent/export/text/line.h"
#include "host_agent/trace/epochs.h"

/* Each frame of a stack has a line. */
static void text_put_frames(struct braid_line_export *x, const struct braid_item *item,
			    const struct braid_event_type_info *info)
{
	struct braid_text text = { 0 };
	const char *at, *next;

	braid_format_text_of(item, info, &text);
	braid_text_putc(&text, 0);
	x->out.failed |= text.failed;
	for (at = text.data; !text.failed && at; at = next) {
		next = strstr(at + 1, BRAID_FRAME_BEFORE);
		if (!strncmp(at, BRAID_FRAME_BEFORE, strlen(BRAID_FRAME_BEFORE)))
			braid_text_putc(&x->out, '\n');
		braid_text_put(&x->out, at, next ? (size_t)(next - at) : strlen(at));
	}
	braid_text_free(&text);
}

static void text_put_event(struct braid_line_export *x, const struct braid_item *item,
			   const struct braid_event_type_info *info)
{
	braid_columns_put_event(x->columns, &x->walk, item, info, &x->out);
	if (info->frames)
		text_put_frames(x, item, info);
	else
		braid_format_text_of(item, info, &x->out);
	braid_text_putc(&x->out, '\n');
}

void braid_line_put_lost(struct braid_text *t, const struct braid_item *item)
{
	if (item->lost_before == BRAID_LOST_SOME)
		braid_text_puts(t, "LOST some events");
	else
		braid_text_printf(t, "LOST %llu event%s", (unsigned long long)item->lost_before,
				  item->lost_before == 1 ? "" : "s");
	if (item->damaged_before && item->lost_before != BRAID_LOST_SOME)
		braid_text_printf(t, " (%llu of them recorded, but not readable here)",
				  (unsigned long long)item->damaged_before);
}

static void text_put_lost(struct braid_line_export *x, const struct braid_item *item)
{
	braid_columns_put_other(x->columns, &x->walk, item, &x->out);
	braid_line_put_lost(&x->out, item);
	braid_text_putc(&x->out, '\n');
}

static void text_put_note(struct braid_line_export *x, const struct braid_item *item)
{
	braid_columns_put_other(x->columns, &x->walk, item, &x->out);
	braid_text_puts(&x->out, "NOTE ");
	braid_text_safe(&x->out, (const char *)item->payload, item->payload_bytes);
	braid_text_putc(&x->out, '\n');
}

static void put_bound(struct braid_text *t, u64 ns)
{
	char text[32];

	braid_bound_text(ns, text);
	braid_text_printf(t, "bound %s%s", ns == BRAID_BOUND_UNKNOWN ? "" : "≤ ",
			  ns == BRAID_BOUND_UNKNOWN ? "unknown" : text);
}

/* Without its bound. */
static void put_model(struct braid_line_export *x, const struct braid_stream *s)
{
	const struct braid_clock *clock = &s->clock;
	struct braid_text *t = &x->out;

	braid_text_printf(t, "clock %s", braid_clock_kind_name(clock->kind));
	if (*clock->reason && !braid_line_misses_clock(x, s))
		braid_text_printf(t, " (%s)", clock->reason);
	if (clock->nr_samples && clock->kind != BRAID_CLOCK_KVM)
		braid_text_printf(t, ", %u round-trip sample%s", clock->nr_samples,
				  clock->nr_samples == 1 ? "" : "s");
	if (clock->kind == BRAID_CLOCK_EXCHANGE || clock->kind == BRAID_CLOCK_READS)
		braid_text_printf(t, ", drift %+.3f ppm", braid_clock_drift(clock));
	braid_text_puts(t, ", ");
}

/* A guest that moved between hosts: its clock on each. */
static void put_stays(struct braid_line_export *x, const struct braid_stream *s)
{
	size_t k, n;

	for (k = 0; k < s->nr_stays; k++) {
		for (n = 0; n < k && s->stays[n].of != s->stays[k].of; n++)
			;
		if (n < k)
			continue;
		braid_text_printf(&x->out, "#   on host %s: ", s->stays[k].of->host->name);
		put_model(x, s->stays[k].of);
		put_bound(&x->out, s->stays[k].bound_ns);
		braid_text_putc(&x->out, '\n');
	}
}

static void text_put_clock(struct braid_line_export *x, const struct braid_stream *s)
{
	struct braid_text *t = &x->out;
	u32 epochs;

	if (s->kind == BRAID_STREAM_HOST) {
		braid_text_puts(t, "clock ");
		if (*s->trace_clock)
			braid_text_puts(t, s->trace_clock);
		else if (x->walk.source->clocks.trace.nr_tracks)
			braid_text_puts(t, x->walk.source->clocks.trace_name);
		else
			braid_text_safe(t, x->walk.source->head.clock, sizeof(x->walk.source->head.clock));
		if (braid_walk_stream_bound(&x->walk, s)) {
			braid_text_puts(t, ", ");
			put_bound(t, braid_walk_stream_bound(&x->walk, s));
		}
		return;
	}
	if (s->nr_stays)
		braid_text_printf(t, "clocks of %zu hosts, ", s->nr_parts + 1);
	else
		put_model(x, s);
	put_bound(t, braid_walk_stream_bound(&x->walk, s));
	epochs = braid_epochs_most(s);
	if (epochs > 1)
		braid_text_printf(t, ", %u epochs", epochs);
}

static void put_accounting(struct braid_line_export *x, const struct braid_stream *s)
{
	braid_text_puts(&x->out, "#   ");
	braid_line_put_account(&x->out, s);
	braid_text_putc(&x->out, '\n');
}

static void put_vm(struct braid_line_export *x, const struct braid_stream *s)
{
	braid_text_printf(&x->out, "# %s: a VM without the driver, process %d, ", s->name, s->pid);
	if (s->nr_cpus)
		braid_text_printf(&x->out, "%u vCPU%s", s->nr_cpus, s->nr_cpus == 1 ? "" : "s");
	else
		braid_text_puts(&x->out, BRAID_VCPUS_UNKNOWN);
}

static void put_identity(struct braid_line_export *x, const struct braid_stream *s)
{
	if (s->kind == BRAID_STREAM_VM) {
		put_vm(x, s);
		return;
	}
	braid_text_printf(&x->out, "# %s: Linux %s %s, %u %s", s->name, s->kernel_release,
			  s->machine, s->nr_cpus, s->kind == BRAID_STREAM_HOST ? "CPUs" : "vCPUs");
}

static void put_stream_head(struct braid_line_export *x, const struct braid_stream *s)
{
	const char *why = braid_end_reason_name(s);
	struct braid_text *t = &x->out;

	put_identity(x, s);
	if (s->kind != BRAID_STREAM_VM) {
		braid_text_puts(t, ", ");
		text_put_clock(x, s);
	}
	if (why && s->end_reason != BRAID_END_STOPPED)
		braid_text_printf(t, "; ended: %s", why);
	braid_text_putc(t, '\n');
	if (braid_line_misses_clock(x, s))
		braid_text_printf(t, "#   clock source %s is unavailable: %s\n",
				  braid_clock_kind_name(x->walk.options->clock), s->clock.reason);
	put_stays(x, s);
	if (s->kind != BRAID_STREAM_VM)
		put_accounting(x, s);
	if (s->unconfirmed)
		braid_text_puts(t, "#   " BRAID_LINE_UNCONFIRMED "\n");
	if (s->tsc_unstable && braid_clock_trusts_counter(&s->clock))
		braid_text_puts(t, "#   " BRAID_LINE_UNSTABLE BRAID_LINE_UNSTABLE_BOUNDS "\n");
}

static void put_stream_heads(struct braid_line_export *x)
{
	const char *only = x->walk.options->stream;
	size_t k;

	for (k = 0; k < x->walk.source->nr_streams; k++) {
		const struct braid_stream *s = x->walk.source->streams[k];

		if (!only || !strcmp(only, s->name))
			put_stream_head(x, s);
	}
}

/* How the other hosts' clocks are known by the first one's. */
static void put_hosts(struct braid_line_export *x)
{
	const struct braid_source *source = x->walk.source;
	struct braid_text *t = &x->out;
	size_t k;

	for (k = 0; k < source->nr_hosts && source->nr_hosts > 1; k++) {
		const struct braid_host *host = source->hosts[k];

		if (*host->lies)
			braid_text_printf(t, "# host %s: %s\n", host->name, host->lies);
		if (!k) {
			braid_text_printf(t, "# host %s: its clock is the timeline\n", host->name);
			continue;
		}
		braid_text_printf(t, "# host %s: clock %s, ", host->name, host->tie.reason);
		if (!host->unordered)
			braid_text_printf(t, "%u %s, drift %+.3f ppm, ", host->tie.nr_samples,
					  host->declared ? "samples" : "messages",
					  braid_clock_drift(&host->tie));
		put_bound(t, host->bound_ns);
		braid_text_putc(t, '\n');
	}
}

static void put_header(struct braid_line_export *x)
{
	struct braid_text *t = &x->out;

	braid_text_puts(t, x->walk.options->realtime ?
			"# tracebraid: times are UTC (CLOCK_REALTIME), by the host's clock " :
			"# tracebraid: times are seconds of the host's clock ");
	braid_text_safe(t, x->walk.source->head.clock, sizeof(x->walk.source->head.clock));
	braid_text_putc(t, '\n');
	if (x->walk.source->grows) {
		braid_text_puts(t, "# live: provisional timestamps; 'tracebraid report' computes the final ones\n");
		return;
	}
	braid_line_put_windows(t, &x->walk);
	put_hosts(x);
	put_stream_heads(x);
	if (x->walk.source->faults)
		braid_text_printf(t, "# %llu fault%s found so far; 'tracebraid verify' explains %s\n",
				  (unsigned long long)x->walk.source->faults,
				  x->walk.source->faults == 1 ? "" : "s",
				  x->walk.source->faults == 1 ? "it" : "each");
}

/* A stream of a source that grows; of its clock more is known at the end. */
static void text_put_grown(struct braid_line_export *x, const struct braid_stream *s)
{
	put_identity(x, s);
	braid_text_putc(&x->out, '\n');
}

static void put_late(struct braid_line_export *x, u64 ns)
{
	braid_text_printf(&x->out, "# late: the next event was %llu.%03llu ms before a line above\n",
			  (unsigned long long)ns / 1000000, (unsigned long long)ns / 1000 % 1000);
}

static void put_hidden(struct braid_line_export *x)
{
	braid_text_printf(&x->out, "# ... %llu line%s dropped: reader too slow\n",
			  (unsigned long long)x->hidden, x->hidden == 1 ? "" : "s");
}

/* What was found in a stream while it was read. */
static void put_faults(struct braid_line_export *x, const struct braid_stream *s)
{
	u64 back, faults = braid_line_faults(x, s, &back);
	struct braid_text *t = &x->out;

	if (!faults)
		return;
	braid_text_printf(t, "# %s: ", s->name);
	if (back)
		braid_text_printf(t, "time goes back at %llu event%s, shown at the time before %s%s",
				  (unsigned long long)back, back == 1 ? "" : "s",
				  back == 1 ? "it" : "them", faults > back ? "; " : "");
	if (faults > back)
		braid_text_printf(t, "%llu fault%s in its pages",
				  (unsigned long long)(faults - back),
				  faults - back == 1 ? "" : "s");
	braid_text_printf(t, "; 'tracebraid verify' explains %s\n", faults == 1 ? "it" : "each");
}

static void put_footer(struct braid_line_export *x)
{
	const struct braid_walk_totals *totals = x->walk.totals;
	size_t k;

	for (k = 0; k < x->walk.source->nr_streams; k++)
		put_faults(x, x->walk.source->streams[k]);
	if (x->walk.source->grows) {
		put_stream_heads(x);
		braid_text_printf(&x->out, "# live: %llu line%s late, %llu not shown\n",
				  (unsigned long long)totals->late, totals->late == 1 ? "" : "s",
				  (unsigned long long)totals->hidden);
	}
	braid_text_printf(&x->out, "# %llu event%s, %llu lost%s, order uncertain for %llu\n",
			  (unsigned long long)totals->events, totals->events == 1 ? "" : "s",
			  (unsigned long long)totals->lost,
			  totals->some_lost ? " plus an unknown number" : "",
			  (unsigned long long)totals->uncertain);
}

int braid_export_text(FILE *to, struct braid_source *source,
		      const struct braid_walk_options *options,
		      struct braid_walk_totals *totals)
{
	static const struct braid_line_ops ops = {
		.header = put_header,
		.event = text_put_event,
		.lost = text_put_lost,
		.note = text_put_note,
		.footer = put_footer,
		.grown = text_put_grown,
		.late = put_late,
		.hidden = put_hidden,
	};

	return braid_line_run(&ops, to, source, options, totals);
}
