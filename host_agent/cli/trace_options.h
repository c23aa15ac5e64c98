/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What commands that read captures have in common: which captures, and what of them. */
#ifndef BRAID_CLI_TRACE_OPTIONS_H
#define BRAID_CLI_TRACE_OPTIONS_H

#include <signal.h>

#include "host_agent/cli/cli.h"
#include "host_agent/library/options.h"

struct tracebraid_trace;

/* The common options. The state of a command that has them begins with struct braid_trace_options. */
extern const struct braid_option braid_trace_common[];

braid_option_take braid_trace_take_form;	/* a const char *: the name of one */

/* Keeps an option of the library as a word for it; ->at is 0. */
braid_option_take braid_trace_take;

/* Options of the library, of exports and of analyses. */
#define BRAID_TRACE_OPTION(name_, take_) \
	{ .name = name_, .take = take_, .of = BRAID_LIBRARY_EXPORT }
#define BRAID_TRACE_ANALYSIS(name_, take_) \
	{ .name = name_, .take = take_, .of = BRAID_LIBRARY_TABLES }

#define BRAID_TRACE_STATUS	"0 on success, 1 on error, and 2 if no event matches the selection."
#define BRAID_TRACE_NOTHING	2	/* the exit code */

struct braid_trace_options {
	struct braid_option_list words;		/* "--event=sched:*", allocated; for exports and analyses */
	struct braid_option_list opening;	/* likewise, for opening captures */
	bool selects;			/* a word limits which events there are */
	bool invert;			/* the following filters */
	u64 max_lines;			/* of ->words; 0: any number */
	struct braid_progress progress;
};

/** braid_trace_words - the words, ended by NULL; NULL with braid_fail() */
const char *const *braid_trace_words(struct braid_trace_options *t);

/**
 * braid_trace_open - open captures
 * @t: the options; its progress has begun when 0 is returned
 * @trace: set on success
 * @paths: of the captures
 * @nr: of them
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_trace_open(struct braid_trace_options *t, struct tracebraid_trace **trace,
		     char *const *paths, size_t nr);

/**
 * braid_trace_export - open captures, and write what is selected of them
 * @t: the options
 * @form: the form's name; with @out and the options it passed tracebraid_export_check()
 * @out: the output; "-": standard output
 * @paths: of the captures
 * @nr: of them
 *
 * Return: 0; BRAID_TRACE_NOTHING, after a message, when no event matched; or -errno with braid_fail().
 */
int braid_trace_export(struct braid_trace_options *t, const char *form, const char *out,
		       char *const *paths, size_t nr);

/**
 * braid_trace_check_output - refuse a capture's name for an export, or a folder's for a file
 * @form: the form's name
 * @out: the output file
 *
 * Return: 0, or -EINVAL with braid_fail().
 */
int braid_trace_check_output(const char *form, const char *out);

/**
 * braid_trace_stoppable - let Ctrl-C, SIGTERM and SIGHUP end a running export
 *
 * It cleans up and fails; a second signal ends the process at once.
 *
 * Return: a flag that such a signal makes nonzero.
 */
const volatile sig_atomic_t *braid_trace_stoppable(void);

/**
 * braid_trace_exit - end a command
 * @t: the options; freed
 * @ret: 0 or 1, -errno with braid_fail(), which is printed, or BRAID_TRACE_NOTHING
 *
 * Return: the exit code.
 */
int braid_trace_exit(struct braid_trace_options *t, int ret);

/** braid_trace_free - free the options' memory */
void braid_trace_free(struct braid_trace_options *t);

#endif /* BRAID_CLI_TRACE_OPTIONS_H */
