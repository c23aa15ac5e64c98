/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A walk on two CPUs: it copies items into batches, and goes on while these are processed. */
#ifndef BRAID_EXPORT_AHEAD_H
#define BRAID_EXPORT_AHEAD_H

#include "host_agent/export/walk.h"
#include "host_agent/util/relay.h"

struct braid_ahead_item;

/* Copies of items, in their order. */
struct braid_ahead_batch {
	_Alignas(BRAID_CACHE_LINE)
	struct braid_ahead_item *items;
	size_t nr;
	struct braid_text payloads;
};

/* For a relay: its first stage is braid_ahead_fill(), the others are the form's own. */
struct braid_ahead {
	struct braid_walk *shown;	/* the caller's walk */
	_Alignas(BRAID_CACHE_LINE)
	struct braid_walk walk;		/* its copy, which runs ahead; for the first stage only */
	struct braid_export_totals totals;	/* of ->walk */
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

/** braid_ahead_fill - fill the runner's batch; returns what a relay's first stage does */
int braid_ahead_fill(struct braid_ahead *a, size_t runner);

/**
 * braid_ahead_deliver - call @ops for all items of the runner's batch
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

#endif /* BRAID_EXPORT_AHEAD_H */
