/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where pages lie in a capture, in a few bytes for each: in memory, and in INDEX chunks. */
#ifndef BRAID_CAPTURE_EXTENT_H
#define BRAID_CAPTURE_EXTENT_H

#include <stdbool.h>

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

#define BRAID_PLACE_BYTES	64u	/* that one takes at most */

/**
 * braid_extent_put - write an extent
 * @at: room for BRAID_PLACE_BYTES
 * @before: the one before it; all 0: none
 * @extent: the extent
 *
 * Return: its end.
 */
char *braid_extent_put(char *at, const struct braid_extent *before,
		       const struct braid_extent *extent);

/**
 * braid_extent_take - read an extent that others wrote
 * @at: where it begins
 * @end: of all of them
 * @extent: the one before it; becomes this one
 *
 * Return: its end; NULL: it is not complete, or can't be an extent.
 */
const char *braid_extent_take(const char *at, const char *end, struct braid_extent *extent);

#endif /* BRAID_CAPTURE_EXTENT_H */
