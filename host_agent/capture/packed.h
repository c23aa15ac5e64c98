/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A packed capture, read as if it were not packed (chunk.h has the format). It needs memory for
 * some segments, and 16 bytes for the place of each. Bytes of a damaged or missing segment are read
 * as 0.
 */
#ifndef BRAID_CAPTURE_PACKED_H
#define BRAID_CAPTURE_PACKED_H

#include <stdbool.h>
#include <sys/types.h>

#include "host_agent/capture/chunk.h"

struct braid_packed;

/**
 * braid_packed_is - whether a file begins like a packed capture
 * @fd: the file
 * @head: set to the capture's FILE, unchecked, for use if the first segment is damaged
 *
 * Return: 1, 0, or -errno of a read.
 */
int braid_packed_is(int fd, struct braid_chunk_file *head);

/**
 * braid_packed_open - find a packed capture's segments, by its index or by scanning for them
 * @out: set on success
 * @fd: the file, which must stay open
 * @file_bytes: of it
 *
 * Return: 0, -ENOMEM with braid_fail(), or -errno of a read.
 */
int braid_packed_open(struct braid_packed **out, int fd, u64 file_bytes);

/**
 * braid_packed_grow - find the segments that the file has gained since
 * @p: the packed capture. One whose file has its end does not grow
 * @file_bytes: of the file, now
 *
 * Return: as braid_packed_open().
 */
int braid_packed_grow(struct braid_packed *p, u64 file_bytes);

/** braid_packed_bytes - size of the capture, up to the end of its last segment */
u64 braid_packed_bytes(const struct braid_packed *p);

/**
 * braid_packed_read - read the capture
 * @p: the packed capture
 * @to: room for @bytes
 * @bytes: wanted
 * @offset: in the capture
 *
 * Return: bytes read, fewer than @bytes at the end only; or -errno. -EOVERFLOW: the reads are so
 * scattered that segments were unpacked too often.
 */
ssize_t braid_packed_read(struct braid_packed *p, void *to, size_t bytes, u64 offset);

/** braid_packed_damaged - number of segments that are missing, or could not be unpacked so far */
u64 braid_packed_damaged(const struct braid_packed *p);

/** braid_packed_no_end - whether the file has no FILE_END: it was cut off, or is still written */
bool braid_packed_no_end(const struct braid_packed *p);

/** braid_packed_free - free; NULL is fine */
void braid_packed_free(struct braid_packed *p);

#endif /* BRAID_CAPTURE_PACKED_H */
