// SPDX-License-Identifier: GPL-2.0-or-later
/* Checks beacons, word by word. */
#include <stddef.h>

#include "host_agent/transport/beacon.h"
#include "tracebraid/abi.h"

static bool beacon_is_power_of_two(u64 n)
{
	return n && !(n & (n - 1));
}

static bool beacon_chunk_is_valid(const struct braid_beacon_chunk *chunk, u32 page_bytes)
{
	return beacon_is_power_of_two(chunk->bytes) &&
	       chunk->bytes >= (u64)BRAID_BEACON_MIN_PAGES * page_bytes &&
	       chunk->bytes <= BRAID_BEACON_MOST_BYTES && !(chunk->address % chunk->bytes) &&
	       chunk->address + chunk->bytes > chunk->address;
}

static bool beacon_chunks_overlap(const struct braid_beacon_chunk *a,
				  const struct braid_beacon_chunk *b)
{
	return a->address < b->address + b->bytes && b->address < a->address + a->bytes;
}

static const char *beacon_check_list(const struct braid_beacon *beacon)
{
	const struct braid_beacon_chunk *chunks = beacon->chunks;
	u64 sum = 0;
	u32 k, j;

	if (beacon->bytes < BRAID_BEACON_STEP)
		return "too small for chunk 0";
	if (chunks[0].address != beacon->address || chunks[0].bytes != beacon->bytes)
		return "its list begins with another chunk";
	for (k = 0; k < beacon->nr_chunks; k++) {
		if (!beacon_chunk_is_valid(&chunks[k], beacon->page_bytes))
			return "invalid chunk in its list";
		for (j = 0; j < k; j++)
			if (beacon_chunks_overlap(&chunks[j], &chunks[k]))
				return "chunks in its list overlap";
		sum += chunks[k].bytes - beacon->page_bytes;
	}
	return sum == beacon->region_bytes ? NULL : "its chunks are not as large as its region";
}

const char *braid_beacon_check(const struct braid_beacon *beacon)
{
	const struct braid_beacon_chunk own = { beacon->address, beacon->bytes };

	if (beacon->magic != BRAID_BEACON_MAGIC)
		return "no beacon";
	if (beacon->version_major != BRAID_BEACON_VERSION_MAJOR)
		return "unknown version";
	if (!beacon_is_power_of_two(beacon->page_bytes) || beacon->page_bytes < BRAID_PAGE_BYTES ||
	    beacon->page_bytes > BRAID_MAX_PAGE_BYTES)
		return "invalid page size";
	if (!beacon->nonce)
		return "no nonce";
	if (!beacon->nr_chunks || beacon->nr_chunks > BRAID_BEACON_CHUNKS ||
	    beacon->index >= beacon->nr_chunks)
		return "invalid number of chunks";
	if (!beacon_chunk_is_valid(&own, beacon->page_bytes))
		return "invalid chunk";
	return beacon->index ? NULL : beacon_check_list(beacon);
}

bool braid_beacon_is_chunk(const struct braid_beacon *beacon, const struct braid_beacon *first,
			   u32 index)
{
	return beacon->nonce == first->nonce && beacon->index == index &&
	       beacon->nr_chunks == first->nr_chunks && beacon->page_bytes == first->page_bytes &&
	       beacon->region_bytes == first->region_bytes &&
	       beacon->address == first->chunks[index].address &&
	       beacon->bytes == first->chunks[index].bytes;
}
