/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a walk selects, how it shows times, and what it counts. */
#ifndef BRAID_WALK_OPTIONS_H
#define BRAID_WALK_OPTIONS_H

#include <signal.h>

#include "host_agent/trace/source.h"

/* A moment of the timeline, by the clock that is shown. */
struct braid_walk_moment {
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
struct braid_walk_options {
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
	const struct braid_walk_filter {
		const char *text;	/* "EVENTS: EXPRESSION", see filter.h */
		bool invert;		/* leave out what it matches */
	} *filters;			/* at least one of those not inverted must match, if any */
	size_t nr_filters;
	const s32 *pids;		/* only events of these tasks */
	size_t nr_pids;			/* 0: all */
	char *const *comms;		/* only events of tasks of these names; globs */
	size_t nr_comms;		/* 0: all */
	struct braid_walk_moment from, to;	/* both inclusive */
	const char *around;		/* only near events of this glob, as in ->events: NULL: all */
	const struct braid_select_times *times;	/* with ->around: of braid_around_find() */
	char *const *inputs;		/* input files, which must not be overwritten */
	size_t nr_inputs;
	const char *symbols;		/* a folder with the guests' programs; NULL: none */
	u32 cpus;			/* use so many, where the form can; 0: one */
	/* With cpus: opens the source once more, for itself. Called by several threads at once. */
	int (*reopen)(void *arg, struct braid_source **source);
	void *reopen_arg;
	const s64 *cuts;		/* of a test: cut there, at host times */
	size_t nr_cuts;			/* 0: where it is best */
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
struct braid_walk_totals {
	u64 lines;
	u64 events;
	u64 lost;
	u64 uncertain;		/* events whose order relative to the others is uncertain */
	bool some_lost;		/* and losses of unknown size */
	u64 late;		/* lines of a growing source: printed after a later one ... */
	u64 hidden;		/* ... and dropped: reader too slow */
	u64 parts;		/* that several threads made; 0: one walk made all or the rest */
};

#endif /* BRAID_WALK_OPTIONS_H */
