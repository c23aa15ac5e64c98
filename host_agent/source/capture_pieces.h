/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where the pieces of a ring lie: some bytes for each, since a capture has millions. */
#ifndef BRAID_SOURCE_CAPTURE_PIECES_H
#define BRAID_SOURCE_CAPTURE_PIECES_H

#include <stdbool.h>
#include <stddef.h>

#include "tracebraid/types.h"

/* A piece of a ring. */
struct braid_piece {
	u64 offset;			/* of the chunk, a multiple of 8 */
	u32 file;
	bool final;
	u64 position;
	u64 first_seq;			/* HOST_PAGE: lost before */
	u32 from_bytes;
	u32 to_bytes;			/* HOST_PAGE: of the sub-buffer */
};

struct braid_piece_block;

/* A list that grows at its end; all zero: empty. */
struct braid_pieces {
	struct braid_piece_block *first, *last;
	size_t nr;
	struct braid_piece latest;
};

/* A place in such a list; all zero: before the first one. */
struct braid_piece_cursor {
	const struct braid_piece_block *block;
	u32 at;				/* in the block */
	size_t nr;			/* pieces before the place */
	struct braid_piece piece;	/* the last of them */
};

/** braid_pieces_add - append a piece. Return: 0 or -ENOMEM. */
int braid_pieces_add(struct braid_pieces *list, const struct braid_piece *piece);

/**
 * braid_pieces_next - go on in a list
 * @list: since the first piece it may have grown, and not changed otherwise
 * @c: moved on
 *
 * Return: whether there was one more; it is c->piece then.
 */
bool braid_pieces_next(const struct braid_pieces *list, struct braid_piece_cursor *c);

/**
 * braid_pieces_forget - free what of a list lies before a place
 * @list: nobody begins at its start any more, nor sorts it
 * @c: the only cursor
 */
void braid_pieces_forget(struct braid_pieces *list, const struct braid_piece_cursor *c);

/**
 * braid_pieces_sort - put a list in order
 * @list: the list; one that is in order is left as it is
 * @compare: as qsort_r() has it
 * @arg: for @compare
 *
 * Return: 0 or -ENOMEM.
 */
int braid_pieces_sort(struct braid_pieces *list,
		      int (*compare)(const void *a, const void *b, void *arg), void *arg);

/** braid_pieces_free - free the list; it is empty then */
void braid_pieces_free(struct braid_pieces *list);

#endif /* BRAID_SOURCE_CAPTURE_PIECES_H */
