/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Writes a merged trace out, in one of several forms.
 *
 * Invariants:
 * - Every form gets its items from a walk (walk.h), which alone merges and selects. No form reads a capture itself.
 * - Items come in the merge's order, that of the host's clock: wall time, if it is shown, may go back. The conversion
 *   to wall time makes a bound larger, never smaller.
 * - A regular file gets its name when it is complete; after a failure the partial file is removed. Standard output
 *   and files that are not regular are written directly. A file of options.inputs is never replaced.
 * - A run begins with a rewound source, and leaves it anywhere.
 * - The callbacks of options and source run in the caller's thread, unless two_cpus is set. Then they and the walk
 *   run in either of two threads, never in both at once. The functions of a form run beside the walk, those of a
 *   line-by-line form also beside each other; ahead.h says what they may use.
 */
#ifndef BRAID_EXPORT_EXPORT_H
#define BRAID_EXPORT_EXPORT_H

#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

#include "host_agent/store/source.h"

/* A moment of the timeline, by the clock that is shown. */
struct braid_export_moment {
	enum {
		BRAID_MOMENT_NONE = 0,
		BRAID_MOMENT_AT,	/* ns */
		BRAID_MOMENT_SINCE,	/* ns after the first event */
		BRAID_MOMENT_BEFORE,	/* ns before the end of the recording */
		BRAID_MOMENT_DATE,	/* wall time: ns since 1970 */
		BRAID_MOMENT_CLOCK,	/* wall time: ns since midnight, on a day of the recording */
		BRAID_MOMENT_CLOCK_UTC,	/* the same, in UTC */
	} kind;
	s64 ns;
};

/* Selection and form of a trace's output. */
struct braid_export_options {
	bool realtime;			/* times are CLOCK_REALTIME's; else the host's clock's */
	bool uncertain;			/* mark events whose order is uncertain */
	bool clock_asked;		/* guests' clocks were to be of this kind: */
	enum braid_clock_kind clock;
	bool states;			/* write vCPUs' states as events, where the form takes it */
	bool no_header;			/* only print items of the timeline */
	u64 max_lines;			/* 0: all */
	const char *stream;		/* only this one, by name; NULL: all */
	const char *buffer;		/* only guests' buffers of this name; NULL: all */
	bool one_cpu;			/* only cpu */
	u32 cpu;
	char *const *events;		/* globs "SYSTEM:EVENT" or "EVENT" or "SYSTEM"; a
					   sub-event's name is as good as its event's */
	size_t nr_events;		/* 0: all */
	const struct braid_export_filter {
		const char *text;	/* "EVENTS: EXPRESSION", see filter.h */
		bool invert;		/* leave out what it matches */
	} *filters;			/* at least one of those not inverted must match, if any */
	size_t nr_filters;
	const s32 *pids;		/* only events of these tasks */
	size_t nr_pids;			/* 0: all */
	char *const *comms;		/* only events of tasks of these names; globs */
	size_t nr_comms;		/* 0: all */
	struct braid_export_moment from, to;	/* both inclusive */
	const char *around;		/* only near events of this glob, as in ->events: NULL: all */
	const struct braid_export_times *times;	/* with ->around: of braid_around_find() */
	char *const *inputs;		/* input files, which must not be overwritten */
	size_t nr_inputs;
	bool two_cpus;			/* use a second CPU if there is one: any callback, the
					   source's included, may then run in another thread */
	void (*progress)(void *arg, const char *what, u64 done, u64 total);
	void *progress_arg;
	const volatile sig_atomic_t *stop;	/* nonzero: give up and remove the output; or
						   NULL */

	/* Of a source that grows: */
	int (*more)(void *arg);		/* waits till it has: 1; 0: it does no more; -errno */
	bool (*may_write)(void *arg);	/* lines are printed now; else only counted. NULL: always */
	void *live_arg;
};

/* Counts of the output. */
struct braid_export_totals {
	u64 lines;
	u64 events;
	u64 lost;
	u64 uncertain;		/* events whose order relative to the others is uncertain */
	bool some_lost;		/* and losses of unknown size */
	u64 late;		/* lines of a growing source: printed after a later one ... */
	u64 hidden;		/* ... and dropped: reader too slow */
};

/* A form to write in: of one file, or of several that belong together. */
struct braid_export_form {
	const char *name;
	const char *help;	/* one line: the output, and the tool that opens it */
	bool makes_many;	/* OUT is not a single file: run() creates and names the files */
	bool takes_states;	/* options.states */
	/* One of both; as braid_export_run(). Of one file: writes to it. */
	int (*write)(FILE *to, struct braid_source *source,
		     const struct braid_export_options *options,
		     struct braid_export_totals *totals);
	int (*run)(const char *out, struct braid_source *source,
		   const struct braid_export_options *options,
		   struct braid_export_totals *totals);
};

/**
 * braid_export_run - write in a form
 * @form: the form
 * @out: its output, which is replaced, with mode 0600, like the capture; partial output is removed.
 *	"-": standard output, unless the form makes several files
 * @source: rewound
 * @options: the selection
 * @totals: filled
 *
 * Return: 0, -EPIPE when the reader is gone, -errno with braid_fail().
 */
int braid_export_run(const struct braid_export_form *form, const char *out,
		     struct braid_source *source, const struct braid_export_options *options,
		     struct braid_export_totals *totals);

/** braid_export_form_by_number - iterate over the forms from 0; NULL after the last */
const struct braid_export_form *braid_export_form_by_number(size_t number);

/** braid_export_form_by_name - the form of that name, or NULL */
const struct braid_export_form *braid_export_form_by_name(const char *name);

/**
 * braid_export_create - create an output file that is renamed when complete
 * @folder: of braid_folder_open(@path)
 * @path: its final name, and ...
 * @part: ... its temporary one in @folder; an incomplete old one is replaced
 * @options: for checking that neither is an input
 * @made: filled, for braid_folder_rename() or braid_folder_remove()
 *
 * Return: its descriptor, of mode 0600; or -errno with braid_fail().
 */
int braid_export_create(int folder, const char *path, const char *part,
			const struct braid_export_options *options, struct stat *made);

/**
 * braid_export_complete - give a complete file its name
 * Parameters as above. Return: 0, or -errno with braid_fail(); then it is still to be removed.
 */
int braid_export_complete(int folder, const char *path, const char *part, const struct stat *made);

/* An output file while it is written. */
struct braid_export_file {
	FILE *to;
	const char *out;
	bool direct;			/* not a regular file, or standard output; else: */
	int folder;			/* that the file is in */
	char part[256 + 8];		/* its name until it is complete */
	struct stat made;
};

/**
 * braid_export_file_open - begin to write one file, completely or not at all
 * @f: filled; f->to is to be written
 * @out: its name; replaced on success. "-" is standard output; a file that is not regular is
 *	written directly. Must stay valid
 * @options: for checking that it is not an input
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_export_file_open(struct braid_export_file *f, const char *out,
			   const struct braid_export_options *options);

/** braid_export_file_close - rename it, or remove it if @err is an error. Return: @err, or -errno with braid_fail() */
int braid_export_file_close(struct braid_export_file *f, int err);

/**
 * braid_export_to_file - write one file completely, or not at all
 * @out: as for braid_export_file_open()
 * @write: writes to a file
 * Other parameters and return as braid_export_run().
 */
int braid_export_to_file(const char *out, struct braid_source *source,
			 const struct braid_export_options *options,
			 struct braid_export_totals *totals,
			 int (*write)(FILE *to, struct braid_source *source,
				      const struct braid_export_options *options,
				      struct braid_export_totals *totals));

/**
 * braid_export_text - lines for people
 * @to: the output
 * @source: rewound
 * @options: the selection
 * @totals: filled
 *
 * Return: 0, -EPIPE when the reader is gone, -errno with braid_fail().
 */
int braid_export_text(FILE *to, struct braid_source *source,
		      const struct braid_export_options *options,
		      struct braid_export_totals *totals);

/**
 * braid_export_json - one JSON object a line, for programs; else as braid_export_text()
 */
int braid_export_json(FILE *to, struct braid_source *source,
		      const struct braid_export_options *options,
		      struct braid_export_totals *totals);

/** braid_export_html - a page that shows all by itself; as braid_export_run() */
int braid_export_html(const char *out, struct braid_source *source,
		      const struct braid_export_options *options,
		      struct braid_export_totals *totals);

/**
 * braid_export_perfetto - Perfetto's trace format, for ui.perfetto.dev; as braid_export_text()
 *
 * Times are the host's clock's; with @options->realtime Perfetto is set to show wall time.
 */
int braid_export_perfetto(FILE *to, struct braid_source *source,
			  const struct braid_export_options *options,
			  struct braid_export_totals *totals);

/**
 * braid_export_stats - statistics for people: events, CPUs, tasks, vCPUs; else as
 * braid_export_text()
 */
int braid_export_stats(FILE *to, struct braid_source *source,
		       const struct braid_export_options *options,
		       struct braid_export_totals *totals);

/** braid_export_stats_json - the same as one JSON object; else as braid_export_text() */
int braid_export_stats_json(FILE *to, struct braid_source *source,
			    const struct braid_export_options *options,
			    struct braid_export_totals *totals);

#endif /* BRAID_EXPORT_EXPORT_H */
