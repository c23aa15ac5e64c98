// SPDX-License-Identifier: GPL-2.0-or-later
/* Takes the options that commands which read captures have in common, and checks them. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/cli/trace_options.h"
#include "host_agent/control/control.h"
#include "host_agent/export/analysis.h"
#include "host_agent/export/moment.h"
#include "host_agent/export/select.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "host_agent/util/text.h"

int braid_trace_take_cpu(const struct braid_option *o, void *to, const char *text)
{
	struct braid_trace_options *t = to;
	u64 value;
	int err = braid_take_count(o, &value, text);

	if (err)
		return err;
	t->options.one_cpu = true;
	t->options.cpu = value;
	return 0;
}

int braid_trace_take_moment(const struct braid_option *o, void *to, const char *text)
{
	struct braid_trace_options *t = (void *)((char *)to - o->at);
	bool date;
	int err = braid_moment_parse(to, text, &date);

	if (!err && date)
		t->date = text;
	return err;
}

static int take_pid(const struct braid_option *o, void *to, const char *text)
{
	struct braid_trace_options *t = to;
	u64 value;
	int err = braid_take_count(o, &value, text);

	if (!err && braid_array_push(t->pids, t->nr_pids, t->pids_capacity, (s32)value))
		err = braid_out_of_memory();
	return err;
}

static int take_event(const struct braid_option *o, void *to, const char *text)
{
	return braid_pattern_check(text) ?: braid_take_list(o, to, text);
}

static int take_filter(const struct braid_option *o, void *to, const char *text)
{
	struct braid_trace_options *t = to;
	struct braid_export_filter filter = { .text = text, .invert = t->invert };

	(void)o;
	return braid_array_push(t->filters, t->nr_filters, t->filters_capacity, filter) ?
	       braid_out_of_memory() : 0;
}

#define TRACE	struct braid_trace_options
#define MOMENT(member) \
	BRAID_TAKE(braid_trace_take_moment, struct braid_export_moment, TRACE, options.member)

const struct braid_option braid_trace_common[] = {
	{ 0, "clock", "CLOCK", BRAID_WORD(TRACE, times),
	  "show times of CLOCK: host (default), or realtime, to compare captures of several hosts; "
	  "error bounds then refer to that clock. A report shows realtime as a date in UTC, "
	  "2026-01-31T12:00:00.500000000Z; JSON has the date in \"time\", and the ns since 1970",
	  .values = "host realtime" },
	{ 0, "clock-source", "SOURCE", BRAID_WORD(TRACE, clock),
	  "convert guests' times only by SOURCE: kvm, exchange, pairs, nominal or windows (the "
	  "exchange, made tighter by the host's kvm_entry and kvm_exit events); auto (default) "
	  "selects the best except windows", .values = "auto kvm exchange pairs nominal windows" },
	{ 0, "stream", "NAME", BRAID_STRING(TRACE, options.stream), "only this guest, or 'host'",
	  .values = "@stream" },
	{ 0, "cpu", "N", .take = braid_trace_take_cpu, .help = "only this CPU of each stream", .most = 65535 },
	{ 'B', "buffer", "NAME", BRAID_STRING(TRACE, options.buffer),
	  "only guests' buffers of this name" },
	{ 'e', "event", "GLOB", BRAID_TAKE(take_event, struct braid_option_list, TRACE, events),
	  "only events SYSTEM:EVENT, or sub-events of that name; may be repeated",
	  .values = "@event" },
	{ 'F', "filter", "FILTER", .take = take_filter, .help =
	  "only events that match FILTER, 'EVENTS: EXPRESSION' as in trace-cmd: "
	  "'sched_switch: prev_prio < 100 && next_comm ~ \"q*\"'. EVENTS are regular expressions "
	  "EVENT or SYSTEM/EVENT, separated by commas; fields are compared by == != < > <= >= & "
	  "(bits), strings by == != ~ (glob) =~ !~ (regular expression), joined by && || ! (); "
	  "CPU and COMM can be used like fields. With several filters, one must match" },
	{ 'v', "invert", NULL, BRAID_FLAG(TRACE, invert), "invert the filters that follow" },
	{ 0, "pid", "PID", .take = take_pid, .help = "only events of this task; may be repeated",
	  .most = INT32_MAX },
	{ 0, "comm", "GLOB", BRAID_LIST(TRACE, comms),
	  "only events of tasks of that name; may be repeated" },
	{ 0, "since", "TIME", MOMENT(from),
	  "from TIME on: seconds as the report shows them, +SECONDS from the first event, or "
	  "-SECONDS from the recording's end; or, with --clock=realtime, 2026-01-31T12:00:00.5 in "
	  "this time zone, or in UTC with a Z appended" },
	{ 0, "until", "TIME", MOMENT(to), "up to TIME, in the same formats" },
	{ 0 },
};

static void say(void *arg, const char *line)
{
	(void)arg;
	fprintf(stderr, "tracebraid: %s\n", line);
}

int braid_trace_open(struct braid_trace_options *t, struct braid_source **out,
		     char *const *paths, size_t nr)
{
	struct braid_source_options options = {
		.progress = braid_progress_show, .progress_arg = &t->progress,
		.force_clock = t->clock, .clock = t->clock, .say = say,
		.by_index = t->by_index || t->options.from.kind,
	};
	struct braid_source *source;
	int err;

	t->options.realtime = t->times;
	t->options.clock_asked = t->clock;
	t->options.clock = t->clock;
	t->options.events = (char *const *)t->events.items;
	t->options.nr_events = t->events.nr;
	t->options.filters = t->filters;
	t->options.nr_filters = t->nr_filters;
	t->options.pids = t->pids;
	t->options.nr_pids = t->nr_pids;
	t->options.comms = (char *const *)t->comms.items;
	t->options.nr_comms = t->comms.nr;
	t->options.two_cpus = true;
	t->options.progress = braid_progress_show;
	t->options.progress_arg = &t->progress;
	t->options.inputs = paths;
	t->options.nr_inputs = nr;
	if (t->date && !t->options.realtime)
		return braid_fail(-EINVAL, "'%s' is wall time: it needs --clock=realtime", t->date);
	braid_progress_begin(&t->progress);
	err = braid_source_open_captures(&source, paths, nr, &options);
	if (err)
		return err;
	err = braid_select_check(&t->options, source);
	if (!err && t->clock == BRAID_CLOCK_WINDOWS)
		err = braid_export_refine(source, &t->options);
	if (err) {
		braid_source_free(source);
		return err;
	}
	*out = source;
	return 0;
}

static volatile sig_atomic_t stopped;

static void stop(int signal)
{
	stopped = signal;
}

void braid_trace_stoppable(struct braid_trace_options *t)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction action = { .sa_handler = stop, .sa_flags = SA_RESTART | SA_RESETHAND };
	size_t k;

	for (k = 0; k < sizeof(signals) / sizeof(*signals); k++)
		sigaction(signals[k], &action, NULL);
	t->options.stop = &stopped;
}

int braid_trace_check_output(const char *form, const char *out)
{
	size_t n = strlen(out), end = strlen(".braid");

	if (n < end || strcmp(out + n - end, ".braid"))
		return 0;
	return braid_fail(-EINVAL, "-o %s: *.braid is the name of a capture; for --to, use -o %.*s.%s",
			  out, (int)(n - end), out, form);
}

static bool selects(const struct braid_export_options *o)
{
	return o->nr_events || o->nr_filters || o->nr_pids || o->nr_comms ||
	       o->from.kind || o->to.kind || o->stream || o->buffer || o->one_cpu;
}

int braid_trace_verdict(struct braid_trace_options *t, const struct braid_export_totals *totals)
{
	const struct braid_export_options *o = &t->options;
	size_t k;

	if (totals->events || !selects(o) || (o->max_lines && totals->lines >= o->max_lines))
		return 0;
	braid_progress_end(&t->progress);
	fputs("tracebraid: no event matches", stderr);
	for (k = 0; k < o->nr_events; k++)
		fprintf(stderr, "%s '%s'", k ? " or" : "", braid_cli_clean(o->events[k]));
	fputs(o->nr_events ? "\n" : " the selection\n", stderr);
	return BRAID_TRACE_NOTHING;
}

int braid_trace_exit(struct braid_trace_options *t, int ret)
{
	braid_progress_end(&t->progress);
	braid_trace_free(t);
	if (ret == BRAID_TRACE_NOTHING)
		return ret;
	return ret >= 0 || ret == -EPIPE ? EXIT_SUCCESS : braid_complain();
}

void braid_trace_free(struct braid_trace_options *t)
{
	free(t->events.items);
	free(t->filters);
	free(t->pids);
	free(t->comms.items);
	t->events = t->comms = (struct braid_option_list){ 0 };
	t->filters = NULL;
	t->pids = NULL;
}
