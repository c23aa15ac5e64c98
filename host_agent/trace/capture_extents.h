/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The places of a ring's extents: a few bytes for each, since a capture has millions; or none, where
 * the capture's own index has them.
 */
#ifndef BRAID_TRACE_CAPTURE_EXTENTS_H
#define BRAID_TRACE_CAPTURE_EXTENTS_H

#include <stdbool.h>
#include <stddef.h>

#include "host_agent/capture/extent.h"
#include "host_agent/capture/types.h"

struct braid_extent_block;

/* An INDEX chunk, as it says itself. */
struct braid_index_place {
	u64 offset;			/* of the chunk */
	u32 file;
	u32 nr;				/* extents */
	u64 ns;
};

/* What a block's TYPES chunk has. */
struct braid_extents_types {
	struct braid_types_ids ids;
	char numbers[];			/* one for each extent, valid */
};

/* A list that grows at its end; all zero: empty. */
struct braid_extents {
	struct braid_extent_block *first, *last;
	size_t nr;
	struct braid_extent latest;

	/*
	 * Blocks of the file: reads one's places and, if it has them, types, all to be freed.
	 * Bytes of places, or -errno with braid_fail().
	 */
	s64 (*read)(void *arg, const struct braid_index_place *place, char **to,
		    struct braid_extents_types **types);
	void *arg;
	const struct braid_extent_block *loaded;	/* the last one read */
	char *loaded_data;
	u32 loaded_bytes;
	struct braid_extents_types *loaded_types;	/* NULL: it has none */
};

/* A place in such a list; all zero: before the first one. */
struct braid_extent_cursor {
	const struct braid_extent_block *block;
	u32 at;				/* in the block's bytes */
	u32 nr_in_block;		/* extents of it before the place */
	size_t nr;			/* extents before the place */
	struct braid_extent extent;	/* the last of them */
	u64 types;			/* its number in TYPES; BRAID_TYPES_READ: it has none */
	u32 types_at;			/* in the numbers, the next one */
};

/**
 * braid_extents_add - append an extent
 * @list: the list
 * @extent: the extent
 * @ns: what its block's ns is to be: of a first one as it is, later ones if they are later and
 * @latest: is set
 *
 * Return: 0 or -ENOMEM.
 */
int braid_extents_add(struct braid_extents *list, const struct braid_extent *extent, u64 ns,
		      bool latest);

/**
 * braid_extents_seal - an INDEX chunk has the extents since the last one
 * @list: the list
 * @place: the chunk
 * @data: its places
 * @bytes: of them
 *
 * If they are those of the list, they are read from there from now on, and need no memory.
 *
 * Return: whether they are.
 */
bool braid_extents_seal(struct braid_extents *list, const struct braid_index_place *place,
			const void *data, u32 bytes);

/** braid_extents_add_block - append what an INDEX chunk has, unread. Return: 0 or -ENOMEM */
int braid_extents_add_block(struct braid_extents *list, const struct braid_index_place *place);

/**
 * braid_extents_next - advance in a list
 * @list: it may only have grown since the first call
 * @c: advanced
 *
 * Return: 1, it is in c->extent; 0 at the end; -errno with braid_fail(), except -ENOMEM: a block
 * of the file can't be read, or has changed.
 */
int braid_extents_next(struct braid_extents *list, struct braid_extent_cursor *c);

/**
 * braid_extents_skip - move to a later block
 * @list: the list
 * @c: moved, or not
 * @ns: all that is skipped is of before this, if the blocks' ns are right
 * @first: they are of a block's first extent, and all of the block is of before the next one's;
 *	else of its latest
 *
 * One block before @ns is not skipped.
 *
 * Return: whether @c has moved: to the start of a block.
 */
bool braid_extents_skip(const struct braid_extents *list, struct braid_extent_cursor *c, u64 ns,
			bool first);

/** braid_extents_has_beginning - whether a block, at whose start @c is, has that of a sub-buffer */
bool braid_extents_has_beginning(struct braid_extents *list, struct braid_extent_cursor c);

/**
 * braid_extents_skip_near - move on within two blocks
 * @list: the list
 * @c: moved, or not
 * @before: whether an extent is of before the time that is looked for; all that precede one that is
 *	are, too. Called for some of those that @begins is true of
 * @begins: whether a cursor can begin with an extent
 * @arg: for both
 *
 * One extent before that time that a cursor can begin with is not skipped, and what follows it.
 *
 * Return: whether @c has moved; or -ENOMEM.
 */
int braid_extents_skip_near(struct braid_extents *list, struct braid_extent_cursor *c,
			    bool (*before)(void *arg, const struct braid_extent *extent),
			    bool (*begins)(const struct braid_extent *extent), void *arg);

/** braid_extents_ids - what the types of a cursor that was just moved on refer to */
static inline const struct braid_types_ids *
braid_extents_ids(const struct braid_extents *list, const struct braid_extent_cursor *c)
{
	return list->loaded == c->block && list->loaded_types ? &list->loaded_types->ids : NULL;
}

/** braid_extents_block - the first block's place, or the one after @place; NULL: none */
const struct braid_index_place *braid_extents_block(const struct braid_extents *list,
						    const struct braid_index_place *place);

/**
 * braid_extents_forget - free the part of a list before a place
 * @list: no longer iterated from its start, or sorted
 * @c: the only cursor
 */
void braid_extents_forget(struct braid_extents *list, const struct braid_extent_cursor *c);

/**
 * braid_extents_sort - put a list in order
 * @list: the list
 * @compare: as qsort_r() has it
 * @arg: for @compare
 *
 * Return: 0, -ENOMEM, or as braid_extents_next().
 */
int braid_extents_sort(struct braid_extents *list,
		       int (*compare)(const void *a, const void *b, void *arg), void *arg);

/** braid_extents_free - free the list; it is empty then */
void braid_extents_free(struct braid_extents *list);

#endif /* BRAID_TRACE_CAPTURE_EXTENTS_H */
