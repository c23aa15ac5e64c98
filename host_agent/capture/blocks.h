/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads many small pieces of a file, which are near each other, by few system calls. */
#ifndef BRAID_CAPTURE_BLOCKS_H
#define BRAID_CAPTURE_BLOCKS_H

#include <sys/types.h>

#include "tracebraid/types.h"

#define BRAID_BLOCK_BYTES	(64u << 10)
#define BRAID_NR_BLOCKS		4u
#define BRAID_BLOCKS_SEEN	64u

/*
 * The last blocks that were read. Rings take turns in a capture, and a merge reads each of them from
 * its own place: what it reads next is near, but rarely adjacent. A block is read as a whole the
 * second time that some of it is wanted, so that pieces far apart cost little. All zero: none read.
 */
struct braid_blocks {
	struct braid_block {
		u64 number;			/* from 1; 0: none */
		u64 used;			/* when, by ->turns */
		u32 bytes;			/* fewer than a block at the end of the file only */
		u8 *data;
	} blocks[BRAID_NR_BLOCKS];
	u64 turns;
	u64 seen[BRAID_BLOCKS_SEEN];		/* by number: wanted once */
};

/**
 * braid_blocks_read - read from a file
 * @b: what is left of former reads
 * @fd: the file; always the same, and only appended to
 * @to: room for @bytes
 * @bytes: wanted
 * @offset: in the file
 *
 * Return: bytes read, fewer than @bytes at the end only; or -errno.
 */
ssize_t braid_blocks_read(struct braid_blocks *b, int fd, void *to, size_t bytes, u64 offset);

/** braid_blocks_free - free the blocks; none are left */
void braid_blocks_free(struct braid_blocks *b);

#endif /* BRAID_CAPTURE_BLOCKS_H */
