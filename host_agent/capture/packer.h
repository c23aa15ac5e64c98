/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Makes a packed capture of a capture's bytes, as they come (chunk.h has the format). It needs
 * memory for six segments, for zstd, and for the index, which has at most BRAID_CHUNK_MAX_BYTES.
 */
#ifndef BRAID_CAPTURE_PACKER_H
#define BRAID_CAPTURE_PACKER_H

#include <stddef.h>

#include "tracebraid/types.h"

#define BRAID_PACKER_LEVEL	3	/* of zstd, by default */

struct braid_packer;

/* Writes all of it. Return: 0 or -errno. */
typedef int (*braid_packer_write_fn)(void *arg, const void *data, size_t bytes);

/* How, and to where. */
struct braid_packer_options {
	int level;			/* of zstd, 1 to 19 */
	u32 segment_bytes;		/* unpacked, of each segment; 0, or too large: the usual size */
	braid_packer_write_fn write;	/* called once for each chunk */
	void *arg;
};

/** braid_packer_new - NULL without memory */
struct braid_packer *braid_packer_new(const struct braid_packer_options *options);

/**
 * braid_packer_add - the next bytes of the capture
 * @p: the packer
 * @data: the capture begins with FILE, whose copy is written as soon as it is complete
 * @bytes: any number; they are collected, and each full segment is written
 *
 * Return: 0; -EBADMSG: it is not a capture; or -errno of the write. After an error nothing more may
 * be added.
 */
int braid_packer_add(struct braid_packer *p, const void *data, size_t bytes);

/**
 * braid_packer_end_segment - write what was collected as a segment, for those that follow the file
 *
 * Smaller segments compress less. As braid_packer_add().
 */
int braid_packer_end_segment(struct braid_packer *p);

/** braid_packer_finish - write the last segment and the index; as braid_packer_add(). Call it once */
int braid_packer_finish(struct braid_packer *p);

/** braid_packer_written - bytes of the file up to now, whole chunks */
u64 braid_packer_written(const struct braid_packer *p);

/** braid_packer_free - free; NULL is fine */
void braid_packer_free(struct braid_packer *p);

#endif /* BRAID_CAPTURE_PACKER_H */
