/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A walk on two CPUs, in three steps, each of which works on another batch of items at the same time:
 * the merge copies them; select, which is the rest of the walk, marks some; and these are delivered.
 */
#ifndef BRAID_WALK_AHEAD_H
#define BRAID_WALK_AHEAD_H

#include "host_agent/util/relay.h"
#include "host_agent/walk/walk.h"

struct braid_ahead_item;
struct braid_ahead_last;

/* Copies of items, in their order. */
struct braid_ahead_batch {
	_Alignas(BRAID_CACHE_LINE)
	struct braid_ahead_item *items;
	size_t nr;
	size_t nr_next;			/* after these: what follows in rings, for ->states alone */
	struct braid_text payloads;
	struct braid_text asides;	/* the text of the walk's ->aside */
};

/* For a relay: its first stages are braid_ahead_fill() and _select(), the others are the form's own. */
struct braid_ahead {
	struct braid_walk *shown;	/* the caller's walk */

	_Alignas(BRAID_CACHE_LINE)	/* of the first stage: */
	struct braid_walk merging;	/* a copy, which has the merge */
	const struct braid_item *pending;	/* not in a batch yet; or NULL */
	bool ended;			/* nothing is selected */
	u64 batch;			/* the number of the current one, from 1 */
	struct braid_ahead_last *last;	/* by ring, with ->states */
	struct braid_ahead_last **met;	/* those of this batch */
	size_t nr_met;

	_Alignas(BRAID_CACHE_LINE)	/* of the second one: */
	struct braid_walk walk;		/* a copy, which has the selection */
	struct braid_walk_totals totals;	/* of ->walk */
	const struct braid_ahead_batch *taken;	/* what it walks along, ... */
	size_t at;			/* ... from there on */

	_Alignas(BRAID_CACHE_LINE)
	bool over;			/* atomic: nothing more is selected, so the merge can end */
	struct braid_ahead_batch batches[BRAID_RELAY_RUNNERS];	/* by runner */
};

/**
 * braid_ahead_can - whether a begun walk may run ahead: ->two_cpus is set, the source does not
 *	grow, and there are two CPUs
 */
bool braid_ahead_can(const struct braid_walk *w);

/**
 * braid_ahead_begin - begin at the first item
 * @a: set; call braid_ahead_end() in any case
 * @w: begun; until braid_ahead_end(), use only its current item, options, source and formats
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_ahead_begin(struct braid_ahead *a, struct braid_walk *w);

/** braid_ahead_fill - fill the runner's batch from the merge; returns what a relay's first stage does */
int braid_ahead_fill(struct braid_ahead *a, size_t runner);

/** braid_ahead_select - walk along the runner's batch: the second stage; returns what one does */
int braid_ahead_select(struct braid_ahead *a, size_t runner);

/**
 * braid_ahead_deliver - call @ops for the selected items of the runner's batch
 * @a: begun
 * @runner: whose batch
 * @w: the walk, or a copy of it: gets each item as its current one
 * @ops: as for braid_walk_run(); no item is late
 * @arg: passed to them
 *
 * Return: 0, or the first nonzero return value of @ops; later items are then not delivered.
 */
int braid_ahead_deliver(struct braid_ahead *a, size_t runner, struct braid_walk *w,
			const struct braid_walk_ops *ops, void *arg);

/**
 * braid_ahead_end - free the batches, and set the caller's walk and totals to those of the one that
 *	ran ahead
 */
void braid_ahead_end(struct braid_ahead *a);

/**
 * braid_ahead_run - braid_walk_run(), on two CPUs if possible
 * @w: begun
 * @ops: called in the same order, one at a time, but from two threads. The walk goes on meanwhile,
 *	so they may use only their own data, what braid_ahead_begin() allows of @w, and what does
 *	not change in the source during the walk
 * @arg: passed to them
 *
 * Return: as braid_walk_run().
 */
int braid_ahead_run(struct braid_walk *w, const struct braid_walk_ops *ops, void *arg);

#endif /* BRAID_WALK_AHEAD_H */
