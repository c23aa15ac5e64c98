/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A walk on two CPUs: it is some batches of items ahead of what is made of them. */
#ifndef BRAID_EXPORT_AHEAD_H
#define BRAID_EXPORT_AHEAD_H

#include "host_agent/export/walk.h"
#include "host_agent/util/relay.h"

struct braid_ahead_item;

/* Copies of items, in order. */
struct braid_ahead_batch {
	_Alignas(BRAID_CACHE_LINE)
	struct braid_ahead_item *items;
	size_t nr;
	struct braid_text payloads;
};

/* Stages of a relay pass this on: braid_ahead_fill(), then others of the form's own. */
struct braid_ahead {
	struct braid_walk *shown;	/* the walk as others see it */
	_Alignas(BRAID_CACHE_LINE)
	struct braid_walk walk;		/* the same, ahead of it: the first stage's alone */
	struct braid_export_totals totals;	/* likewise */
	struct braid_ahead_batch batches[BRAID_RELAY_RUNNERS];	/* by runner */
};

/** braid_ahead_can - whether a walk, which is begun, may run ahead: it is to, its end is known, and there are two CPUs */
bool braid_ahead_can(const struct braid_walk *w);

/**
 * braid_ahead_begin - begin at the first item
 * @a: filled; braid_ahead_end() it in any case
 * @w: begun; from now on only its current item is used, its options, source and formats
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_ahead_begin(struct braid_ahead *a, struct braid_walk *w);

/** braid_ahead_fill - fill the runner's batch; returns as a relay's first stage */
int braid_ahead_fill(struct braid_ahead *a, size_t runner);

/**
 * braid_ahead_hand_on - hand on all items of the runner's batch
 * @a: begun
 * @runner: whose batch
 * @w: what has the current item: the walk, or a copy of it
 * @ops: as for braid_walk_run(); no item is late
 * @arg: for them
 *
 * Return: 0, or what one of them returned, which was the last one called.
 */
int braid_ahead_hand_on(struct braid_ahead *a, size_t runner, struct braid_walk *w,
			const struct braid_walk_ops *ops, void *arg);

/** braid_ahead_end - free what it held; the walk has been where this one was */
void braid_ahead_end(struct braid_ahead *a);

/**
 * braid_ahead_run - as braid_walk_run(), if possible on two CPUs
 * @w: begun
 * @ops: called in the same order, never two at once, but by two threads; meanwhile the walk goes on, so they use only
 *	what is their own, @w as braid_ahead_begin() says, and of the source what is the same throughout the walk
 * @arg: passed to them
 *
 * Return: as braid_walk_run().
 */
int braid_ahead_run(struct braid_walk *w, const struct braid_walk_ops *ops, void *arg);

#endif /* BRAID_EXPORT_AHEAD_H */
