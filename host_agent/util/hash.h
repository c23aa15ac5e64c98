/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A hash table of the numbers of an array's elements. Keys are chosen by guests and files, so the
 * hash depends on a secret of the process: no choice of keys makes a search long. Nothing may
 * depend on the order of slots; it differs from run to run.
 */
#ifndef BRAID_UTIL_HASH_H
#define BRAID_UTIL_HASH_H

#include <stdbool.h>
#include <stddef.h>

#include "tracebraid/types.h"

#define BRAID_HASH_NONE	UINT32_MAX

struct braid_hash_slot {
	u32 hash;
	u32 number;		/* + 1; 0: free */
};

/* Zeroed: empty. */
struct braid_hash {
	struct braid_hash_slot *slots;
	u32 nr_slots;		/* 0, or a power of two, at least twice nr */
	u32 nr;
};

/** braid_hash_of - of a key's bytes, padding included; @more: what else is part of the key, or 0 */
u32 braid_hash_of(const void *key, size_t bytes, u64 more);

/** braid_hash_of_number - the same for a key of one number */
u32 braid_hash_of_number(u64 key);

/**
 * braid_hash_find - search for a key
 * @h: may be empty
 * @hash: of the key
 * @same: whether element @number has @key; inlined
 * @in: where the elements are, for @same
 * @key: for @same
 *
 * Return: the element's number, or BRAID_HASH_NONE.
 */
static inline __attribute__((__always_inline__)) u32
braid_hash_find(const struct braid_hash *h, u32 hash,
		bool (*same)(const void *in, u32 number, const void *key), const void *in,
		const void *key)
{
	const struct braid_hash_slot *slot;
	u32 k;

	/* Half of the slots stay free. */
	for (k = hash; h->nr; k++) {
		slot = &h->slots[k & (h->nr_slots - 1)];
		if (!slot->number)
			break;
		if (slot->hash == hash && same(in, slot->number - 1, key))
			return slot->number - 1;
	}
	return BRAID_HASH_NONE;
}

/**
 * braid_hash_reserve - make space for one more element
 * @h: to be extended
 * @max: elements that it may have, up to 2^30
 *
 * Return: 0; -ENOSPC: it has @max; -ENOMEM.
 */
int braid_hash_reserve(struct braid_hash *h, u32 max);

/** braid_hash_put - add an element that is not in the table; after braid_hash_reserve() */
void braid_hash_put(struct braid_hash *h, u32 hash, u32 number);

/** braid_hash_remove - remove an element that is in the table */
void braid_hash_remove(struct braid_hash *h, u32 hash, u32 number);

/** braid_hash_clear - remove all */
void braid_hash_clear(struct braid_hash *h);

/** braid_hash_free - free the slots; of a zeroed table, too */
void braid_hash_free(struct braid_hash *h);

#endif /* BRAID_UTIL_HASH_H */
