/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What commands that read captures have in common: which captures, and what of them. */
#ifndef BRAID_CLI_TRACE_OPTIONS_H
#define BRAID_CLI_TRACE_OPTIONS_H

#include "host_agent/cli/cli.h"
#include "host_agent/export/export.h"

/* The common options. The state of a command that has them begins with struct braid_trace_options. */
extern const struct braid_option braid_trace_common[];

/* For the table of a command that has only some of them; its state begins likewise. */
braid_option_take braid_trace_take_cpu;
braid_option_take braid_trace_take_moment;	/* at options.from or options.to */

#define BRAID_TRACE_STATUS	"0 on success, 1 on error, and 2 if no event matches the selection."
#define BRAID_TRACE_NOTHING	2	/* the exit code */

struct braid_trace_options {
	struct braid_export_options options;
	unsigned int times;		/* by --clock: 0 host, 1 realtime */
	unsigned int clock;		/* by --clock-source: 0 auto, or a braid_clock_kind */
	struct braid_option_list events, comms;
	struct braid_export_filter *filters;
	size_t nr_filters, filters_capacity;
	s32 *pids;
	size_t nr_pids, pids_capacity;
	const char *date;		/* a time without a range, as given; NULL: none */
	bool invert;			/* the following filters */
	bool by_index;			/* open captures by their index even without --since */
	struct braid_progress progress;
};

/**
 * braid_trace_open - open captures, and check that the requested names are in them
 * @t: the options; its progress has begun when 0 is returned, its ->options are complete
 * @out: set on success
 * @paths: of the captures; must stay valid
 * @nr: of them
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_trace_open(struct braid_trace_options *t, struct braid_source **out,
		     char *const *paths, size_t nr);

/**
 * braid_trace_check_output - refuse a capture's name for an export
 * @form: the form's name
 * @out: the output file
 *
 * Return: 0, or -EINVAL with braid_fail().
 */
int braid_trace_check_output(const char *form, const char *out);

/**
 * braid_trace_stoppable - let Ctrl-C, SIGTERM and SIGHUP end a running export
 * @t: its options
 *
 * It cleans up and fails; a second signal ends the process at once.
 */
void braid_trace_stoppable(struct braid_trace_options *t);

/**
 * braid_trace_verdict - whether a selection matched
 * @t: the options
 * @totals: counts of the output
 *
 * Return: 0; BRAID_TRACE_NOTHING, after a message, when no item matched: possibly a typing error.
 */
int braid_trace_verdict(struct braid_trace_options *t, const struct braid_export_totals *totals);

/**
 * braid_trace_exit - end a command
 * @t: the options; freed
 * @ret: 0 or 1, -errno with braid_fail(), which is printed, or the result of braid_trace_verdict()
 *
 * Return: the exit code.
 */
int braid_trace_exit(struct braid_trace_options *t, int ret);

/** braid_trace_free - free the options' memory */
void braid_trace_free(struct braid_trace_options *t);

#endif /* BRAID_CLI_TRACE_OPTIONS_H */
