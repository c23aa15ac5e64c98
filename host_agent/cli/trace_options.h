/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What commands that read captures have in common: which captures, and what of them. */
#ifndef BRAID_CLI_TRACE_OPTIONS_H
#define BRAID_CLI_TRACE_OPTIONS_H

#include <getopt.h>

#include "host_agent/cli/cli.h"
#include "host_agent/export/export.h"

/* The common options, for a command's own lists and its --help. */
#define BRAID_TRACE_SHORT	"B:e:"

enum {
	BRAID_OPT_CLOCK = 512, BRAID_OPT_CLOCK_SOURCE, BRAID_OPT_STREAM, BRAID_OPT_CPU,
};

#define BRAID_TRACE_LONG \
	{ "clock", required_argument, NULL, BRAID_OPT_CLOCK }, \
	{ "clock-source", required_argument, NULL, BRAID_OPT_CLOCK_SOURCE }, \
	{ "stream", required_argument, NULL, BRAID_OPT_STREAM }, \
	{ "cpu", required_argument, NULL, BRAID_OPT_CPU }, \
	{ "buffer", required_argument, NULL, 'B' }, \
	{ "event", required_argument, NULL, 'e' }

#define BRAID_TRACE_USAGE \
	"      --clock=CLOCK   show times of CLOCK: host, the default, or realtime, to put captures\n" \
	"                      of several hosts side by side; bounds are then of that\n" \
	"      --clock-source=SOURCE\n" \
	"                      place guests by kvm, exchange, pairs or nominal alone, not by the\n" \
	"                      best there is (auto)\n" \
	"      --stream=NAME   only this guest, or 'host'\n" \
	"      --cpu=N         only this CPU of each stream\n" \
	"  -B, --buffer=NAME   only guests' buffers of this name\n" \
	"  -e, --event=GLOB    only events SYSTEM:EVENT, or sub-events of that name; may be\n" \
	"                      given several times\n"

struct braid_trace_options {
	struct braid_export_options options;
	char **events;
	size_t nr_events, events_capacity;
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
 * @paths: of the captures
 * @nr: of them
 * @to: the file that will be written, which must be none of them; NULL or "-": none
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_trace_open(struct braid_trace_options *t, struct braid_source **out,
		     char *const *paths, size_t nr, const char *to);

/** braid_trace_tell_empty - say that nothing passed, when events were asked for: a slip perhaps */
void braid_trace_tell_empty(struct braid_trace_options *t,
			    const struct braid_export_totals *totals);

/** braid_trace_free - free what the options took */
void braid_trace_free(struct braid_trace_options *t);

#endif /* BRAID_CLI_TRACE_OPTIONS_H */
