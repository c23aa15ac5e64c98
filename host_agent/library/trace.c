// SPDX-License-Identifier: GPL-2.0-or-later
/* Traces, their streams and rings. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/export/text/line.h"
#include "host_agent/library/private.h"
#include "host_agent/trace/epochs.h"
#include "host_agent/util/error.h"
#include "host_agent/walk/analysis.h"
#include "shared/version.h"

const char *tracebraid_error(void)
{
	return braid_failure();
}

const char *tracebraid_version(void)
{
	return BRAID_VERSION;
}

void tracebraid_free(char *text)
{
	free(text);
}

static _Thread_local struct {
	void (*report)(void *arg, const char *what, u64 done, u64 total);
	void *arg;
} progress;

void tracebraid_progress(void (*report)(void *arg, const char *what, uint64_t done, uint64_t total),
			 void *arg)
{
	progress.report = report;
	progress.arg = arg;
}

void braid_library_report_progress(struct braid_walk_options *options)
{
	options->progress = progress.report;
	options->progress_arg = progress.arg;
}

/* Open, close --------------------------------------------------------------------------------- */

void braid_library_warn(const struct tracebraid_trace *trace, const char *line)
{
	if (trace->warn)
		trace->warn(trace->warn_arg, line);
}

static void warn_of(void *arg, const char *line)
{
	braid_library_warn(arg, line);
}

static void warn_of_fault(void *arg, const struct braid_stream *stream, const char *line)
{
	struct braid_text text = { 0 };

	if (stream)
		braid_text_printf(&text, "%s: ", stream->name);
	braid_text_puts(&text, line);
	braid_text_putc(&text, '\0');
	if (!text.failed)
		warn_of(arg, text.data);
	braid_text_free(&text);
}

/* How to open captures. */
struct opening {
	unsigned int clock, all, quiet;		/* which of the words; the first one is the default */
	unsigned int unordered;
	u64 wander;				/* µs in a second; 0: as usual */
};

static const struct braid_option opening[] = {
	{ 0, "clock-source", "SOURCE", BRAID_WORD(struct opening, clock), .values = BRAID_WORDS_SOURCE,
	  .of = BRAID_LIBRARY_OPENING },
	{ 0, "read", "WHAT", BRAID_WORD(struct opening, all), .values = "index all",
	  .of = BRAID_LIBRARY_OPENING },
	{ 0, "faults", "HOW", BRAID_WORD(struct opening, quiet), .values = "warn count",
	  .of = BRAID_LIBRARY_OPENING },
	{ 0, "hosts", "HOW", BRAID_WORD(struct opening, unordered), .values = "ordered unordered",
	  .of = BRAID_LIBRARY_OPENING },
	{ 0, "wander", "NUMBER", BRAID_COUNT(struct opening, wander), .least = 1,
	  .most = BRAID_MOST_WANDER_US, .of = BRAID_LIBRARY_OPENING },
	{ 0 },
};

int braid_library_options(struct tracebraid_trace *trace, const char *const *words,
			  struct braid_source_options *options)
{
	const struct braid_option *option;
	struct opening o = { 0 };
	int err = 0;

	for (; words && *words && !err; words++) {
		option = braid_library_find(opening, *words, BRAID_LIBRARY_OPENING);
		err = option ? braid_library_take(option, &o, *words, braid_library_value(*words)) :
		      braid_fail(-EINVAL, "'%.63s' is not an option: expected clock-source=, "
				 "read=, faults=, hosts= or wander=", *words);
	}
	*options = (struct braid_source_options){
		.force_clock = o.clock > 0, .clock = o.clock, .fault = o.quiet ? NULL : warn_of_fault,
		.fault_arg = trace, .say = warn_of, .say_arg = trace, .by_index = !o.all,
		.unordered = o.unordered, .wander = o.wander * 1e3,
	};
	trace->clock = o.clock;
	return err;
}

struct tracebraid_trace *braid_library_trace_new(void (*warn)(void *arg, const char *line), void *arg)
{
	struct tracebraid_trace *trace = calloc(1, sizeof(*trace));

	if (!trace) {
		braid_out_of_memory();
		return NULL;
	}
	trace->warn = warn;
	trace->warn_arg = arg;
	return trace;
}

int braid_library_keep_paths(struct tracebraid_trace *trace, const char *const *paths, size_t nr)
{
	trace->paths = calloc(nr, sizeof(*trace->paths));
	if (!trace->paths)
		return braid_out_of_memory();
	for (; trace->nr_paths < nr; trace->nr_paths++) {
		trace->paths[trace->nr_paths] = strdup(paths[trace->nr_paths]);
		if (!trace->paths[trace->nr_paths])
			return braid_out_of_memory();
	}
	return 0;
}

static int open_files(struct tracebraid_trace *trace, const char *const *paths, size_t nr,
		      const char *const *words)
{
	struct braid_walk_options all = { 0 };
	struct braid_source_options options;
	int err = braid_library_options(trace, words, &options);

	braid_library_report_progress(&all);
	options.progress = all.progress;
	options.progress_arg = all.progress_arg;
	if (!err)
		err = braid_library_keep_paths(trace, paths, nr);
	if (!err)
		err = braid_source_open_captures(&trace->source, (char *const *)paths, nr, &options);
	if (!err)
		trace->source->progress = NULL;		/* the function is this call's */
	return !err && options.clock == BRAID_CLOCK_WINDOWS ?
	       braid_analysis_refine(trace->source, &all) : err;
}

int tracebraid_open_with(struct tracebraid_trace **trace, const char *const *paths, size_t nr,
			 const char *const *options, void (*warn)(void *arg, const char *line),
			 void *arg)
{
	struct tracebraid_trace *made;
	int err;

	if (!nr)
		return braid_fail(-EINVAL, "no capture to open");
	made = braid_library_trace_new(warn, arg);
	if (!made)
		return -ENOMEM;
	err = open_files(made, paths, nr, options);
	if (err)
		tracebraid_close(made);
	else
		*trace = made;
	return err;
}

int tracebraid_open(struct tracebraid_trace **trace, const char *const *paths, size_t nr,
		    const char *clock_source, void (*warn)(void *arg, const char *line), void *arg)
{
	char word[64];
	const char *const options[] = { word, NULL };

	/* A name that is cut off here is unknown, too. */
	snprintf(word, sizeof(word), "clock-source=%s", clock_source ?: "auto");
	return tracebraid_open_with(trace, paths, nr, options, warn, arg);
}

void tracebraid_stop_when(struct tracebraid_trace *trace, const volatile int *stop)
{
	_Static_assert(__builtin_types_compatible_p(sig_atomic_t, int), "a handler can set it");
	trace->stop = stop;
}

void tracebraid_close(struct tracebraid_trace *trace)
{
	if (!trace)
		return;
	if (trace->walk)
		trace->free_walk(trace->walk);
	braid_source_free(trace->source);
	while (trace->nr_paths)
		free(trace->paths[--trace->nr_paths]);
	free(trace->paths);
	free(trace);
}

static int claim(struct tracebraid_trace *trace)
{
	if (trace->busy)
		return braid_fail(-EBUSY, "the trace already has a walk: free it first");
	trace->busy = true;
	braid_source_rewind(trace->source);
	return 0;
}

int braid_library_claim(struct tracebraid_trace *trace)
{
	if (trace->source->grows)
		return braid_fail(-EINVAL, "not possible for a followed capture: use tracebraid_open()");
	return claim(trace);
}

int braid_library_claim_walk(struct tracebraid_trace *trace)
{
	int err;

	if (trace->walked)
		return braid_fail(-EBUSY, "a followed capture allows one walk only: follow it a second time for another");
	err = claim(trace);
	if (!err)
		trace->walked = trace->source->grows;
	return err;
}

void braid_library_release(struct tracebraid_trace *trace)
{
	trace->busy = false;
	trace->walk = NULL;
}

int tracebraid_window(const struct tracebraid_trace *trace, size_t number, int64_t *start_ns,
		      int64_t *stop_ns)
{
	const struct braid_source *source = trace->source;
	size_t k, before = 0;

	for (k = 0; k < source->nr_windows; k++)
		if (!source->windows[k].again && before++ == number)
			break;
	if (k == source->nr_windows)
		return braid_fail(-ENOENT, "the trace has no recording %zu", number);
	*start_ns = source->windows[k].start_ns;
	*stop_ns = source->windows[k].stop_ns;
	return 0;
}

/* Streams ------------------------------------------------------------------------------------- */

static const struct braid_stream *trace_inner(const struct tracebraid_stream *stream)
{
	return (const void *)stream;
}

size_t tracebraid_nr_streams(const struct tracebraid_trace *trace)
{
	return trace->source->nr_streams;
}

const struct tracebraid_stream *tracebraid_stream(const struct tracebraid_trace *trace,
						  size_t number)
{
	return number < trace->source->nr_streams ? (const void *)trace->source->streams[number] :
						    NULL;
}

const char *tracebraid_stream_name(const struct tracebraid_stream *stream)
{
	return trace_inner(stream)->name;
}

const char *tracebraid_stream_kernel(const struct tracebraid_stream *stream)
{
	return trace_inner(stream)->kernel_release;
}

const char *tracebraid_stream_machine(const struct tracebraid_stream *stream)
{
	return trace_inner(stream)->machine;
}

const char *tracebraid_stream_clock(const struct tracebraid_stream *stream)
{
	const struct braid_stream *s = trace_inner(stream);

	return s->kind == BRAID_STREAM_VM ? "" :
	       braid_clock_kind_name(braid_stream_first_part(s)->clock.kind);
}

const char *tracebraid_stream_end(const struct tracebraid_stream *stream)
{
	return braid_end_reason_name(trace_inner(stream)) ?: "";
}

const char *tracebraid_stream_host(const struct tracebraid_stream *stream)
{
	const struct braid_host *host = braid_stream_first_part(trace_inner(stream))->host;

	return host ? host->name : "";
}

const char *tracebraid_stream_host_at(const struct tracebraid_stream *stream, int64_t ns)
{
	const struct braid_host *host = braid_stream_part_at(trace_inner(stream), ns)->host;

	return host ? host->name : "";
}

int tracebraid_stream_is_host(const struct tracebraid_stream *stream)
{
	return trace_inner(stream)->kind == BRAID_STREAM_HOST;
}

uint32_t tracebraid_stream_number(const struct tracebraid_stream *stream)
{
	return trace_inner(stream)->number;
}

uint32_t tracebraid_stream_nr_cpus(const struct tracebraid_stream *stream)
{
	return trace_inner(stream)->nr_cpus;
}

uint64_t tracebraid_stream_bound_ns(const struct tracebraid_stream *stream)
{
	return trace_inner(stream)->bound_ns;
}

int tracebraid_stream_counts(const struct tracebraid_stream *stream,
			     struct tracebraid_counts *counts)
{
	struct braid_stream_sum sum = braid_stream_sum_up(trace_inner(stream));

	if (!sum.known)
		return braid_fail(-ENODATA, "%s: accounting unknown: the recording was killed, or was made by trace-cmd",
				  trace_inner(stream)->name);
	*counts = (struct tracebraid_counts){ sum.written, sum.read, sum.lost, sum.left };
	return 0;
}

int tracebraid_stream_ring(const struct tracebraid_stream *stream, size_t number,
			   struct tracebraid_ring *ring)
{
	const struct braid_stream *s = trace_inner(stream);
	const struct braid_ring *r = number < s->nr_rings ? s->rings[number] : NULL;

	if (!r || r->cpu == BRAID_RING_NOTES)	/* that is the last one */
		return braid_fail(-ENOENT, "%s has no such ring", s->name);
	*ring = (struct tracebraid_ring){
		.buffer = braid_ring_buffer_name(r), .cpu = r->cpu, .counted = r->report.nr_parts > 0,
		.counts = {
			r->report.read + r->report.lost + r->report.left, r->report.read,
			r->report.lost, r->report.left,
		},
	};
	return 0;
}

/* NULL after the last. */
static const struct braid_account *nth_account(const struct braid_stream *s, u32 kind,
					       size_t number)
{
	const struct braid_stream_accounts *all = &s->accounts[kind];

	return number < all->nr ? &all->items[number].row : NULL;
}

int tracebraid_stream_filter(const struct tracebraid_stream *stream, size_t number,
			     struct tracebraid_filter *filter)
{
	static const struct braid_filter_account unknown = {
		TRACEBRAID_UNKNOWN, TRACEBRAID_UNKNOWN, TRACEBRAID_UNKNOWN, TRACEBRAID_UNKNOWN,
		TRACEBRAID_UNKNOWN,
	};
	const struct braid_account *row = nth_account(trace_inner(stream), BRAID_ACCOUNT_FILTER,
						      number);
	const struct braid_filter_account *a;

	if (!row)
		return braid_fail(-ENOENT, "%s has no such filter", trace_inner(stream)->name);
	a = row->flags & BRAID_ACCOUNT_UNKNOWN ? &unknown : &row->filter;
	*filter = (struct tracebraid_filter){
		.system = row->system, .event = row->event, .nr_events = row->nr_events,
		.offered = a->offered, .filtered = a->filtered, .written = a->written,
		.lost = a->lost, .unjudged = a->unjudged,
	};
	return 0;
}

int tracebraid_stream_probe(const struct tracebraid_stream *stream, size_t number,
			    struct tracebraid_probe *probe)
{
	const struct braid_account *row = nth_account(trace_inner(stream), BRAID_ACCOUNT_PROBE,
						      number);

	if (!row)
		return braid_fail(-ENOENT, "%s has no such probe", trace_inner(stream)->name);
	*probe = (struct tracebraid_probe){
		.system = row->system, .event = row->event, .placed = !!row->hits.placed,
		.missed = row->hits.missed,
	};
	return 0;
}

int tracebraid_stream_epoch(const struct tracebraid_stream *stream, size_t number,
			    struct tracebraid_epoch *epoch)
{
	const struct braid_stream *of = trace_inner(stream);
	struct braid_epoch one;

	if (!braid_epoch_at(of, number, &one))
		return braid_fail(-ENOENT, "%s has no such epoch", of->name);
	*epoch = (struct tracebraid_epoch){
		.number = one.number, .vcpu = one.vcpu,
		.from_ns = one.from_ns, .begun_ns = one.begun_ns,
		.step_ns = one.moved ? 0 : one.e->step_ns,
		.cause = braid_epoch_cause(&one),
		.disrupted = !one.moved && one.e->disrupted,
		.drift_ppm = one.e->drift_ppm,
	};
	return 0;
}
