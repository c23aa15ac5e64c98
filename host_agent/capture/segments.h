/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where the segments of a packed capture are in its file (chunk.h has the format). */
#ifndef BRAID_CAPTURE_SEGMENTS_H
#define BRAID_CAPTURE_SEGMENTS_H

#include <stdbool.h>
#include <stddef.h>

#include "host_agent/capture/chunk.h"

/* Ranges of a segment's small part, at most: every other chunk is a page. */
#define BRAID_PACKED_MOST_RANGES	(BRAID_PACKED_SEGMENT_BYTES / sizeof(struct braid_chunk) / 2 + 2)
#define BRAID_PACKED_SMALL_BYTES(nr, bytes)	((nr) * sizeof(struct braid_packed_range) + (bytes))

/* A PACKED_SMALL chunk. PACKED with the rest must follow, or there is no segment. */
struct braid_small_chunk {
	u64 offset, end;	/* in the file */
	struct braid_chunk_packed packed;
};

struct braid_segments {
	int fd;
	u64 file_bytes;			/* up to which the file is read */
	u64 bytes;			/* of the capture */
	struct braid_chunk_packed_place *places;	/* by ->at */
	size_t nr, capacity;
	u64 damaged;			/* that are missing */
	bool no_end;			/* the file has no FILE_END: it was cut off, or grows */
	u64 scanned;			/* without an index: in the file, where the scan goes on */
	struct braid_small_chunk small;	/* the last one of the scan */
	u8 *chunk;			/* the payload that braid_segments_read() read last */
	size_t chunk_bytes;
};

/* The head of PACKED_SMALL; that of PACKED is its beginning. */
struct braid_packed_head {
	struct braid_chunk chunk;
	struct braid_chunk_packed_small small;
};

/* All return 0, -ENOMEM with braid_fail(), or -errno of a read, unless stated otherwise. */

/** braid_segments_open - find all segments. On an error, call braid_segments_free() too */
int braid_segments_open(struct braid_segments *s, int fd, u64 file_bytes);

/** braid_segments_grow - find those that the file has gained, if it had no end */
int braid_segments_grow(struct braid_segments *s, u64 file_bytes);

/**
 * braid_segments_read - read a whole chunk into ->chunk
 * @s: the segments
 * @offset: in the file
 * @type: that it must have
 * @chunk: set to its header; ->payload_bytes: as many as were read
 *
 * Return: 1; 0: no such chunk is there, or its checksum is wrong; or as above.
 */
int braid_segments_read(struct braid_segments *s, u64 offset, u16 type, struct braid_chunk *chunk);

/** braid_segments_is_head - whether these bytes may be the start of a chunk of @type at @offset */
bool braid_segments_is_head(const struct braid_segments *s, const struct braid_packed_head *h,
			    u16 type, u64 offset);

/** braid_segments_unpacks_to - bytes that a chunk with this head unpacks to */
u64 braid_segments_unpacks_to(const struct braid_packed_head *h);

void braid_segments_free(struct braid_segments *s);

#endif /* BRAID_CAPTURE_SEGMENTS_H */
