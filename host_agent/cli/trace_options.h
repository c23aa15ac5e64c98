/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What commands that read captures have in common: which captures, and what of them. */
#ifndef BRAID_CLI_TRACE_OPTIONS_H
#define BRAID_CLI_TRACE_OPTIONS_H

#include <getopt.h>

#include "host_agent/cli/cli.h"
#include "host_agent/export/export.h"

/* The common options, for a command's own lists and its --help. */
#define BRAID_TRACE_SHORT	"B:e:F:v"

enum {
	BRAID_OPT_CLOCK = 512, BRAID_OPT_CLOCK_SOURCE, BRAID_OPT_STREAM, BRAID_OPT_CPU,
	BRAID_OPT_PID, BRAID_OPT_COMM, BRAID_OPT_SINCE, BRAID_OPT_UNTIL,
};

#define BRAID_TRACE_LONG \
	{ "clock", required_argument, NULL, BRAID_OPT_CLOCK }, \
	{ "clock-source", required_argument, NULL, BRAID_OPT_CLOCK_SOURCE }, \
	{ "stream", required_argument, NULL, BRAID_OPT_STREAM }, \
	{ "cpu", required_argument, NULL, BRAID_OPT_CPU }, \
	{ "buffer", required_argument, NULL, 'B' }, \
	{ "event", required_argument, NULL, 'e' }, \
	{ "filter", required_argument, NULL, 'F' }, \
	{ "invert", no_argument, NULL, 'v' }, \
	{ "pid", required_argument, NULL, BRAID_OPT_PID }, \
	{ "comm", required_argument, NULL, BRAID_OPT_COMM }, \
	{ "since", required_argument, NULL, BRAID_OPT_SINCE }, \
	{ "until", required_argument, NULL, BRAID_OPT_UNTIL }

#define BRAID_TRACE_USAGE \
	"      --clock=CLOCK   show times of CLOCK: host (default), or realtime, to compare captures\n" \
	"                      of several hosts; error bounds then refer to that clock. A report\n" \
	"                      shows realtime as a date in UTC, 2026-01-31T12:00:00.500000000Z;\n" \
	"                      JSON has the date in \"time\", and the ns since 1970\n" \
	"      --clock-source=SOURCE\n" \
	"                      convert guests' times only by SOURCE: kvm, exchange, pairs or\n" \
	"                      nominal; auto (default) selects the best available\n" \
	"      --stream=NAME   only this guest, or 'host'\n" \
	"      --cpu=N         only this CPU of each stream\n" \
	"  -B, --buffer=NAME   only guests' buffers of this name\n" \
	"  -e, --event=GLOB    only events SYSTEM:EVENT, or sub-events of that name; may be repeated\n" \
	"  -F, --filter=FILTER only events that match FILTER, 'EVENTS: EXPRESSION' as in trace-cmd:\n" \
	"                      'sched_switch: prev_prio < 100 && next_comm ~ \"q*\"'. EVENTS are\n" \
	"                      regular expressions EVENT or SYSTEM/EVENT, separated by commas;\n" \
	"                      fields are compared by == != < > <= >= & (bits), strings by == !=\n" \
	"                      ~ (glob) =~ !~ (regular expression), joined by && || ! (); CPU and\n" \
	"                      COMM can be used like fields. With several filters, one must match\n" \
	"  -v, --invert        invert the filters that follow\n" \
	"      --pid=PID       only events of this task; may be repeated\n" \
	"      --comm=GLOB     only events of tasks of that name; may be repeated\n" \
	"      --since=TIME    from TIME on: seconds as the report shows them, +SECONDS from the\n" \
	"                      first event, or -SECONDS from the recording's end; or, with\n" \
	"                      --clock=realtime, 2026-01-31T12:00:00.5 in this time zone, or in UTC\n" \
	"                      with a Z appended\n" \
	"      --until=TIME    up to TIME, in the same formats\n"

#define BRAID_TRACE_STATUS \
	"\n" \
	"Exits with 0 on success, 1 on error, and 2 if no event matches the selection.\n"

#define BRAID_TRACE_NOTHING	2	/* the exit code */

struct braid_trace_options {
	struct braid_export_options options;
	char **events;
	size_t nr_events, events_capacity;
	struct braid_export_filter *filters;
	size_t nr_filters, filters_capacity;
	s32 *pids;
	size_t nr_pids, pids_capacity;
	char **comms;
	size_t nr_comms, comms_capacity;
	const char *date;		/* a moment that is one, as it was given; NULL: none */
	bool invert;			/* the filters to come */
	struct braid_progress progress;
};

/**
 * braid_trace_take - take one of the common options
 * @t: all zero at first
 * @option: as getopt_long() returned it
 * @value: its value
 *
 * Return: 1 when it was one of them, 0 when not, -errno with braid_fail().
 */
int braid_trace_take(struct braid_trace_options *t, int option, char *value);

/**
 * braid_trace_open - open captures, and see that what was asked for is in them
 * @t: the options; its progress has begun when 0 is returned, its ->options are complete
 * @out: set on success
 * @paths: of the captures; stay
 * @nr: of them
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_trace_open(struct braid_trace_options *t, struct braid_source **out,
		     char *const *paths, size_t nr);

/**
 * braid_trace_check_output - refuse a capture's name for what is made of a capture
 * @form: the form's name
 * @out: what is to be made
 *
 * Return: 0, or -EINVAL with braid_fail().
 */
int braid_trace_check_output(const char *form, const char *out);

/**
 * braid_trace_stoppable - let Ctrl-C, SIGTERM and SIGHUP end an export that is under way
 * @t: its options
 *
 * It cleans up and fails; a second one ends the process at once.
 */
void braid_trace_stoppable(struct braid_trace_options *t);

/**
 * braid_trace_verdict - whether something matched, when something was selected
 * @t: the options
 * @totals: what was written
 *
 * Return: 0; BRAID_TRACE_NOTHING, and it was said, when it was all in vain: a slip perhaps.
 */
int braid_trace_verdict(struct braid_trace_options *t, const struct braid_export_totals *totals);

/**
 * braid_trace_exit - end a command
 * @t: the options; freed
 * @ret: 0 or 1, -errno with braid_fail(), which is told, or what braid_trace_verdict() said
 *
 * Return: the exit code.
 */
int braid_trace_exit(struct braid_trace_options *t, int ret);

/** braid_trace_free - free what the options took */
void braid_trace_free(struct braid_trace_options *t);

#endif /* BRAID_CLI_TRACE_OPTIONS_H */
