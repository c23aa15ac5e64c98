/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The checksum of a chunk. */
#ifndef BRAID_CAPTURE_CHECKSUM_H
#define BRAID_CAPTURE_CHECKSUM_H

#include "host_agent/capture/chunk.h"

/**
 * braid_chunk_checksum - compute struct braid_chunk.checksum
 * @chunk: all its words before the checksum are set
 * @head: the payload's first part; NULL with 0 bytes
 * @head_bytes: of it
 * @body: the payload's second part; NULL with 0 bytes
 * @body_bytes: of it
 */
u64 braid_chunk_checksum(const struct braid_chunk *chunk, const void *head, size_t head_bytes,
			 const void *body, size_t body_bytes);

#endif /* BRAID_CAPTURE_CHECKSUM_H */
