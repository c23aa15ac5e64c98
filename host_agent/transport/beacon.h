/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Checks of beacons, which a guest writes and may forge (tracebraid/beacon.h). */
#ifndef BRAID_TRANSPORT_BEACON_H
#define BRAID_TRANSPORT_BEACON_H

#include <stdbool.h>

#include "tracebraid/beacon.h"

#define BRAID_BEACON_MOST_BYTES	(1ULL << 30)	/* of a chunk that a reader accepts */

/**
 * braid_beacon_check - check a beacon, with the list of chunks if it is chunk 0's
 * @beacon: a private copy
 *
 * An accepted list has nr_chunks valid chunks that do not overlap, and together have region_bytes.
 *
 * Return: NULL, or a short description of the problem.
 */
const char *braid_beacon_check(const struct braid_beacon *beacon);

/**
 * braid_beacon_is_chunk - whether a beacon is that of a chunk in a list
 * @beacon: a private copy, checked
 * @first: chunk 0's, likewise
 * @index: of the chunk, less than its nr_chunks
 */
bool braid_beacon_is_chunk(const struct braid_beacon *beacon, const struct braid_beacon *first,
			   u32 index);

#endif /* BRAID_TRANSPORT_BEACON_H */
