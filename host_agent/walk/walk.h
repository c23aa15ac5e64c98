/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The common part of all forms: merge, select, count, convert times; and pass on the rest. */
#ifndef BRAID_WALK_WALK_H
#define BRAID_WALK_WALK_H

#include "host_agent/walk/options.h"
#include "host_agent/format/format.h"
#include "host_agent/walk/order.h"
#include "host_agent/walk/select.h"

struct braid_merge;
struct braid_states;

/* What braid_walk_next() found. */
enum braid_walk_got {
	BRAID_WALK_END = 0,	/* the end; or the present end of a source that grows */
	BRAID_WALK_EVENT = 1,
	BRAID_WALK_LOST = 2,	/* item->lost_before, never 0; its event may follow */
	BRAID_WALK_NOTE = 3,	/* the payload is text */
	BRAID_WALK_PAST = 4,	/* never returned: no later item is selected */
};

/* A walk along the timeline. */
struct braid_walk {
	struct braid_source *source;
	struct braid_format *format;
	struct braid_select *select;
	const struct braid_walk_options *options;
	struct braid_walk_totals *totals;
	u64 clock_bound_ns;		/* worst of the clock that is shown; 0 of the host's own */
	struct braid_order order;
	s64 latest_ns;			/* of all selected items up to now; host time */
	/*
	 * Set after braid_walk_begin(): each run covers the rings selected at that time, so that
	 * runs are parts of a walk.
	 */
	bool (*wants)(void *arg, const struct braid_ring *ring);
	void *wants_arg;
	/*
	 * Set after braid_walk_begin(), begun: takes all events, whatever is selected, each before
	 * the ops do; the selected time limits its observation. The caller ends and frees it.
	 */
	struct braid_states *states;
	/* With ->states, set with it; NULL: not asked. Gets each event after they took it. */
	int (*watch)(void *arg, const struct braid_item *item,
		     const struct braid_event_type_info *info);
	void *watch_arg;
	bool no_order;			/* set after braid_walk_begin(): whether an event's order is
					   uncertain is not checked; ->uncertain and its total stay 0 */
	bool only_states;		/* likewise, with ->states: they take events, the ops none */
	bool in_parts;			/* set after braid_walk_begin(): for braid_walk_part() */
	bool met_first;			/* with these: the first event of all was found */

	struct braid_merge *merge;	/* NULL: not started */
	u64 turns;			/* items merged */
	u32 generation;			/* of the source, when its formats were opened */
	bool all_rings;			/* of this run: each is selected */
	s64 part_ns;			/* where the part ends */
	bool past;			/* the selected time is over */
	bool skipped;			/* what is before the selected time, as far as possible */
	bool halved;			/* the item's loss was delivered; its event is next */

	/* Of the current item: */
	const struct braid_item *item;
	const struct braid_event_type_info *info;	/* of an event: its type */
	s64 ns;				/* its time, by the clock that is shown */
	u64 bound_ns;
	bool uncertain;			/* an event whose order is uncertain */
	bool late;			/* of a source that grows: a later one came before */
};

/*
 * Called for each item; NULL: ignored. Return: 0, or -errno with braid_fail(), which ends the walk.
 */
struct braid_walk_ops {
	int (*event)(void *arg, const struct braid_item *item,
		     const struct braid_event_type_info *info);
	int (*lost)(void *arg, const struct braid_item *item);	/* item->lost_before, never 0 */
	int (*note)(void *arg, const struct braid_item *item);	/* the payload is text */
	/* Of a source that grows: all that is complete was delivered; and, it has more. */
	int (*pause)(void *arg);
	int (*grown)(void *arg);
};

/**
 * braid_walk_begin - prepare to walk
 * @w: filled
 * @source: rewound
 * @options: the selection; must stay valid
 * @totals: zeroed, then counted up by the walk
 *
 * Return: 0, or -errno with braid_fail(); braid_walk_end() is needed in either case.
 */
int braid_walk_begin(struct braid_walk *w, struct braid_source *source,
		     const struct braid_walk_options *options,
		     struct braid_walk_totals *totals);

/**
 * braid_walk_start - begin at the first item; for braid_walk_next()
 * @w: begun; its source rewound
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_walk_start(struct braid_walk *w);

/**
 * braid_walk_next - move on to the next selected item
 * @w: started; ->item, ->info, ->ns, ->bound_ns, ->uncertain and ->late are of the item, valid until
 *	the next call
 *
 * A loss precedes the event that it is reported with.
 *
 * Return: enum braid_walk_got, or -errno with braid_fail().
 */
int braid_walk_next(struct braid_walk *w);

/**
 * braid_walk_skip - skip items before a time, where they need not be read
 * @w: started; its item is before @ns
 * @ns: by the clock that is shown; all items from then on follow, and some earlier ones before them
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_walk_skip(struct braid_walk *w, s64 ns);

/**
 * braid_walk_part - go on with a part of the time
 * @w: started, with ->in_parts; braid_walk_next() has returned BRAID_WALK_END, if it was called
 * @from_ns: host time: where it is; or later: what precedes it is skipped, as far as possible
 * @until_ns: host time: braid_walk_next() returns BRAID_WALK_END at the first item of then or later
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_walk_part(struct braid_walk *w, s64 from_ns, s64 until_ns);

/**
 * braid_walk_range - the selected time, by the host's clock
 * @w: started, with ->states or ->in_parts
 * @from_ns: set; INT64_MIN: from the start
 * @to_ns: set; INT64_MAX: up to the end
 */
void braid_walk_range(const struct braid_walk *w, s64 *from_ns, s64 *to_ns);

/**
 * braid_walk_more - take in what a growing source has got
 * @w: started; braid_walk_next() returned BRAID_WALK_END
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_walk_more(struct braid_walk *w);

/**
 * braid_walk_is_over - whether braid_walk_next(), having returned BRAID_WALK_END, will find no more
 * @w: started; all that its source has got was taken in
 */
bool braid_walk_is_over(const struct braid_walk *w);

/**
 * braid_walk_run - walk from the first item to the last, or up to the limit
 * @w: begun
 * @ops: called for each; a loss precedes the event that it is reported with
 * @arg: passed to @ops
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_walk_run(struct braid_walk *w, const struct braid_walk_ops *ops, void *arg);

/** braid_walk_deliver - call the op for @got, from braid_walk_next(); returns its return value */
int braid_walk_deliver(const struct braid_walk *w, const struct braid_walk_ops *ops, void *arg,
		       int got);

/** braid_walk_stop - stop a walk; braid_walk_start() may follow */
void braid_walk_stop(struct braid_walk *w);

/** braid_walk_end - free what the walk needed */
void braid_walk_end(struct braid_walk *w);

/** braid_walk_shown_ns - a time of the host's clock, by the clock that is shown */
s64 braid_walk_shown_ns(const struct braid_walk *w, s64 host_ns);

/** braid_walk_stream_bound - the worst bound of a stream's times, in the shown clock */
u64 braid_walk_stream_bound(const struct braid_walk *w, const struct braid_stream *stream);

#endif /* BRAID_WALK_WALK_H */
