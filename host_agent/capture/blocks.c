// SPDX-License-Identifier: GPL-2.0-or-later
/* Blocks of a file, the least recently used of which is replaced. */
#include <stdlib.h>
#include <string.h>

#include "host_agent/capture/blocks.h"
#include "host_agent/util/io.h"

/* Return: the block, NULL: it is not here. *oldest: what to replace then. */
static struct braid_block *blocks_find(struct braid_blocks *b, u64 number,
				       struct braid_block **oldest)
{
	struct braid_block *block;

	*oldest = b->blocks;
	for (block = b->blocks; block < b->blocks + BRAID_NR_BLOCKS; block++) {
		if (block->number == number)
			return block;
		if (block->used < (*oldest)->used)
			*oldest = block;
	}
	return NULL;
}

/* Return: the block, NULL: not to be read as a whole. */
static struct braid_block *load(struct braid_blocks *b, int fd, u64 number)
{
	u64 *seen = &b->seen[number % BRAID_BLOCKS_SEEN];
	struct braid_block *oldest, *block = blocks_find(b, number, &oldest);
	ssize_t n;

	if (block || *seen != number) {
		*seen = number;
		return block;
	}
	if (!oldest->data)
		oldest->data = malloc(BRAID_BLOCK_BYTES);
	oldest->number = 0;
	n = oldest->data ? braid_pread_all(fd, oldest->data, BRAID_BLOCK_BYTES,
					   (number - 1) * BRAID_BLOCK_BYTES) : -1;
	if (n < 0)
		return NULL;	/* a read of what is wanted says why */
	oldest->number = number;
	oldest->bytes = n;
	return oldest;
}

/* What one block has. */
static ssize_t read_block(struct braid_blocks *b, int fd, void *to, size_t bytes, u64 offset)
{
	u32 at = offset % BRAID_BLOCK_BYTES;
	struct braid_block *block = load(b, fd, offset / BRAID_BLOCK_BYTES + 1);

	if (!block || at + bytes > block->bytes)	/* the file may have grown */
		return braid_pread_all(fd, to, bytes, offset);
	block->used = ++b->turns;
	memcpy(to, block->data + at, bytes);
	return bytes;
}

ssize_t braid_blocks_read(struct braid_blocks *b, int fd, void *to, size_t bytes, u64 offset)
{
	size_t done = 0, piece;
	ssize_t n;

	while (done < bytes) {
		piece = BRAID_BLOCK_BYTES - (offset + done) % BRAID_BLOCK_BYTES;
		piece = piece < bytes - done ? piece : bytes - done;
		n = read_block(b, fd, (u8 *)to + done, piece, offset + done);
		if (n < 0)
			return n;
		done += n;
		if ((size_t)n < piece)
			break;
	}
	return done;
}

void braid_blocks_free(struct braid_blocks *b)
{
	u32 k;

	for (k = 0; k < BRAID_NR_BLOCKS; k++)
		free(b->blocks[k].data);
	memset(b, 0, sizeof(*b));
}
