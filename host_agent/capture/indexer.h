/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Makes the index of a capture while it is written (chunk.h has the format). */
#ifndef BRAID_CAPTURE_INDEXER_H
#define BRAID_CAPTURE_INDEXER_H

#include <stdbool.h>

#include "host_agent/capture/types.h"

#define BRAID_INDEXER_HEAD	64u	/* of a payload, that braid_indexer_add() looks at */

struct braid_indexer;

/** braid_indexer_new - NULL when memory is out */
struct braid_indexer *braid_indexer_new(void);

/**
 * braid_indexer_add - a chunk was written
 * @ix: the index; NULL is fine, as in the other functions
 * @offset: of the chunk
 * @chunk: as written
 * @head: its payload's first BRAID_INDEXER_HEAD bytes, or those that there are and 0
 * @page: of a PAGE or HOST_PAGE: what follows its struct; NULL: none
 * @bytes: of @page
 *
 * When memory is out, the capture has no index.
 */
void braid_indexer_add(struct braid_indexer *ix, u64 offset, const struct braid_chunk *chunk,
		       const u8 head[BRAID_INDEXER_HEAD], const u8 *page, u32 bytes);

/* What an INDEX chunk is to hold: struct braid_chunk_index and places; and TYPES, of a stream's. */
struct braid_indexer_due {
	u32 stream;
	struct braid_chunk_index head;
	const char *places;
	u32 bytes;
	const struct braid_types_ids *ids;
	const char *types;
	u32 types_bytes;
};

/**
 * braid_indexer_take - what is due
 * @all: whatever there is
 * @due: set: to be written before the next call
 *
 * Return: whether anything is.
 */
bool braid_indexer_take(struct braid_indexer *ix, bool all, struct braid_indexer_due *due);

/** braid_indexer_wrote - what braid_indexer_take() returned is at @offset */
void braid_indexer_wrote(struct braid_indexer *ix, u64 offset);

/**
 * braid_indexer_blocks - the payload of INDEX_BLOCKS
 * @bytes: set
 *
 * Return: NULL: there is no index, or it is too large.
 */
const struct braid_index_block *braid_indexer_blocks(const struct braid_indexer *ix, u32 *bytes);

/** braid_indexer_free - free */
void braid_indexer_free(struct braid_indexer *ix);

#endif /* BRAID_CAPTURE_INDEXER_H */
