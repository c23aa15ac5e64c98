/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Braids all rings of all streams into one order.
 *
 * Invariants:
 * - The merge reads no bytes: it compares items' times and braid_ring.order, and copies and changes no item.
 * - Items are ordered by host time, then by host and its own clock, then by stream, CPU and sequence
 *   (braid_ring.order): a complete trace always gives the same order. Times never decrease, except for
 *   late events of a growing source.
 * - A ring is in one merge at most (braid_ring.merging): a second merge leaves it out.
 * - The item returned is the ring's own; the ring's cursor moves only in the next call.
 * - Of a growing source, no item after until_ns is returned, and a ring at its end is read again only by
 *   braid_merge_more().
 * - The merge's own memory grows with the number of rings; braid_merge_next() allocates none.
 * - A merge has no lock: one thread at a time uses it and its source.
 */
#ifndef BRAID_TRACE_MERGE_H
#define BRAID_TRACE_MERGE_H

#include "host_agent/trace/source.h"

struct braid_merge;

/**
 * braid_merge_begin - begin to merge
 * @out: set on success
 * @source: rewound; the merge moves its cursors
 * @want: whether a ring takes part; NULL: all do
 * @arg: handed to @want
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_merge_begin(struct braid_merge **out, struct braid_source *source,
		      bool (*want)(void *arg, const struct braid_ring *ring), void *arg);

/**
 * braid_merge_next - the next item
 * @m: the merge
 * @item: set when 1 is returned; good until the next call
 *
 * Return: 1; 0 at the end, or where a growing source is not complete yet; -errno with braid_fail()
 * (I/O).
 */
int braid_merge_next(struct braid_merge *m, const struct braid_item **item);

/**
 * braid_merge_more - read the new data of a growing source
 * @m: the merge, whose braid_merge_next() has returned 0
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_merge_more(struct braid_merge *m);

/**
 * braid_merge_skip - leave out items before a time
 * @m: the merge; an item that it returned is no longer good
 * @ns: as for braid_ring_skip()
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_merge_skip(struct braid_merge *m, s64 ns);

/**
 * braid_merge_stop_before - let braid_merge_next() return 0 before a time
 * @m: the merge; it goes on from there with a later time
 * @ns: host time; INT64_MAX: it does not stop
 */
void braid_merge_stop_before(struct braid_merge *m, s64 ns);

/** braid_merge_end - free a merge; NULL is fine */
void braid_merge_end(struct braid_merge *m);

#endif /* BRAID_TRACE_MERGE_H */
