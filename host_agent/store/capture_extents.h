/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The places of a ring's extents: a few bytes for each, since a capture has millions. */
#ifndef BRAID_STORE_CAPTURE_EXTENTS_H
#define BRAID_STORE_CAPTURE_EXTENTS_H

#include <stdbool.h>
#include <stddef.h>

#include "tracebraid/types.h"

/* An extent of a ring. */
struct braid_extent {
	u64 offset;			/* of the chunk, a multiple of 8 */
	u32 file;
	bool final;
	u64 position;
	u64 first_seq;			/* HOST_PAGE: lost before */
	u32 from_bytes;
	u32 to_bytes;			/* HOST_PAGE: of the sub-buffer */
};

struct braid_extent_block;

/* A list that grows at its end; all zero: empty. */
struct braid_extents {
	struct braid_extent_block *first, *last;
	size_t nr;
	struct braid_extent latest;
};

/* A place in such a list; all zero: before the first one. */
struct braid_extent_cursor {
	const struct braid_extent_block *block;
	u32 at;				/* in the block */
	size_t nr;			/* extents before the place */
	struct braid_extent extent;	/* the last of them */
};

/** braid_extents_add - append an extent. Return: 0 or -ENOMEM. */
int braid_extents_add(struct braid_extents *list, const struct braid_extent *extent);

/**
 * braid_extents_next - advance in a list
 * @list: it may only have grown since the first call
 * @c: advanced
 *
 * Return: whether there was another; it is in c->extent.
 */
bool braid_extents_next(const struct braid_extents *list, struct braid_extent_cursor *c);

/**
 * braid_extents_forget - free the part of a list before a place
 * @list: no longer iterated from its start, or sorted
 * @c: the only cursor
 */
void braid_extents_forget(struct braid_extents *list, const struct braid_extent_cursor *c);

/**
 * braid_extents_sort - put a list in order
 * @list: the list; one that is in order is left as it is
 * @compare: as qsort_r() has it
 * @arg: for @compare
 *
 * Return: 0 or -ENOMEM.
 */
int braid_extents_sort(struct braid_extents *list,
		       int (*compare)(const void *a, const void *b, void *arg), void *arg);

/** braid_extents_free - free the list; it is empty then */
void braid_extents_free(struct braid_extents *list);

#endif /* BRAID_STORE_CAPTURE_EXTENTS_H */
