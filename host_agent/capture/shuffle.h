/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reorders a segment's pages before it is compressed: the header words of events, which have their
 * time deltas, are stored apart from all other bytes. Deltas hardly compress, and between the
 * payloads they would interrupt what repeats.
 */
#ifndef BRAID_CAPTURE_SHUFFLE_H
#define BRAID_CAPTURE_SHUFFLE_H

#include <stdbool.h>

#include "host_agent/capture/chunk.h"

/** braid_shuffled_bytes - bytes that as many take when they are shuffled */
static inline u32 braid_shuffled_bytes(u32 bytes)
{
	return sizeof(struct braid_packed_shuffle) + bytes;
}

/**
 * braid_shuffle - move header words apart
 * @to: room for braid_shuffled_bytes(@bytes)
 * @from: any bytes; only the events of whole PAGE and HOST_PAGE chunks, one after another, gain
 * @bytes: of them, at most BRAID_PACKED_SEGMENT_BYTES
 * @words: room for @bytes / 4; its content is lost
 *
 * Return: the number of header words found; 0: nothing is gained.
 */
u32 braid_shuffle(u8 *to, const u8 *from, u32 bytes, u32 *words);

/**
 * braid_unshuffle - restore what braid_shuffle() took
 * @to: room for @bytes
 * @from: braid_shuffled_bytes(@bytes), untrusted
 * @bytes: as given to braid_shuffle()
 * @words: as there
 *
 * Return: whether @from is valid.
 */
bool braid_unshuffle(u8 *to, const u8 *from, u32 bytes, u32 *words);

#endif /* BRAID_CAPTURE_SHUFFLE_H */
