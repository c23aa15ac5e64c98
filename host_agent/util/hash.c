// SPDX-License-Identifier: GPL-2.0-or-later
/* Open addressing; slots have the hash, so that elements are neither compared nor hashed in vain. */
#define XXH_INLINE_ALL		/* short keys are hashed for each event */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/random.h>
#include <xxhash.h>

#include "host_agent/util/hash.h"

#define FIRST_SLOTS	64u

static u64 seed;

/* Before main(), so that no thread sees another one. */
__attribute__((__constructor__)) static void make_seed(void)
{
	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		memcpy(&seed, (const void *)getauxval(AT_RANDOM), sizeof(seed));
}

u32 braid_hash_of(const void *key, size_t bytes, u64 more)
{
	u64 head[2] = { more, XXH3_64bits_withSeed(key, bytes, seed) };

	return more ? XXH3_64bits_withSeed(head, sizeof(head), seed) : head[1];
}

u32 braid_hash_of_number(u64 key)
{
	return XXH3_64bits_withSeed(&key, sizeof(key), seed);
}

static void hash_place(struct braid_hash *h, struct braid_hash_slot what)
{
	u32 k = what.hash;

	while (h->slots[k & (h->nr_slots - 1)].number)
		k++;
	h->slots[k & (h->nr_slots - 1)] = what;
}

int braid_hash_reserve(struct braid_hash *h, u32 max)
{
	struct braid_hash more = { .nr_slots = h->nr_slots ? 2 * h->nr_slots : FIRST_SLOTS };
	u32 k;

	if (h->nr >= max)
		return -ENOSPC;
	if (2 * (h->nr + 1) <= h->nr_slots)
		return 0;
	more.slots = calloc(more.nr_slots, sizeof(*more.slots));
	if (!more.slots)
		return -ENOMEM;
	for (k = 0; k < h->nr_slots; k++)
		if (h->slots[k].number)
			hash_place(&more, h->slots[k]);
	free(h->slots);
	h->slots = more.slots;
	h->nr_slots = more.nr_slots;
	return 0;
}

void braid_hash_put(struct braid_hash *h, u32 hash, u32 number)
{
	hash_place(h, (struct braid_hash_slot){ .hash = hash, .number = number + 1 });
	h->nr++;
}

void braid_hash_remove(struct braid_hash *h, u32 hash, u32 number)
{
	const u32 mask = h->nr_slots - 1;
	u32 hole = hash & mask, k;

	while (h->slots[hole].number != number + 1)
		hole = (hole + 1) & mask;
	/* Those after it that a search would miss now move up. */
	for (k = (hole + 1) & mask; h->slots[k].number; k = (k + 1) & mask) {
		if (((k - h->slots[k].hash) & mask) < ((k - hole) & mask))
			continue;
		h->slots[hole] = h->slots[k];
		hole = k;
	}
	h->slots[hole].number = 0;
	h->nr--;
}

void braid_hash_clear(struct braid_hash *h)
{
	if (h->nr)
		memset(h->slots, 0, h->nr_slots * sizeof(*h->slots));
	h->nr = 0;
}

void braid_hash_free(struct braid_hash *h)
{
	free(h->slots);
	*h = (struct braid_hash){ 0 };
}
