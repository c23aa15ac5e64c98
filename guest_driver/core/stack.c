// SPDX-License-Identifier: GPL-2.0
/* Stores stacks in a private hash and in the region, lockless, from any context. */
#include <linux/atomic.h>
#include <linux/log2.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/random.h>
#include <linux/slab.h>

#include "guest_driver/core/lock.h"
#include "guest_driver/core/stack.h"
#include "shared/stack.h"

#define PROBES		16
#define CELLS_EACH	4	/* of the index, for each slot: so that each stack finds one */

/* The private copy. */
struct stored {
	u64 seed;		/* of hashes: a guest's user cannot make stacks collide */
	u32 first;		/* id of slot 0 */
	u32 nr_slots, nr_frames;
	u32 bits;		/* of the number of cells */
	atomic_t claimed;	/* slots */
	u32 *cells;		/* the index: slot + 1, or 0 */
	struct copy {
		u64 hash;
		u32 nr;
	} *copies;		/* by slot */
	u64 *frames;		/* nr_frames by slot */
};

static struct stored *stored;
static struct braid_stack_table *table;
static atomic64_t missed;

static bool braid_stack_is(const struct stored *s, u32 slot, u64 hash, const u64 *frames, u32 nr)
{
	const struct copy *copy = &s->copies[slot];

	return copy->hash == hash && copy->nr == nr &&
	       !memcmp(s->frames + (size_t)slot * s->nr_frames, frames, nr * sizeof(*frames));
}

/* Whether a stack is known, in which slot; if not, *free is the first free cell, or NULL. */
static bool braid_stack_find(const struct stored *s, u64 hash, const u64 *frames, u32 nr,
			     u32 *slot, u32 **free)
{
	u32 k, seen, at = hash >> (64 - s->bits);

	*free = NULL;
	for (k = 0; k < PROBES; k++) {
		u32 *cell = &s->cells[(at + k) & ((1u << s->bits) - 1)];

		seen = smp_load_acquire(cell);
		if (!seen) {
			*free = cell;
			return false;
		}
		*slot = seen - 1;
		if (braid_stack_is(s, *slot, hash, frames, nr))
			return true;
	}
	return false;
}

static void braid_stack_publish(const struct stored *s, u32 slot, const u64 *frames, u32 nr)
{
	struct braid_stack *to = (void *)table->slots +
				 (size_t)slot * braid_stack_slot_bytes(s->nr_frames);
	u32 id = s->first + slot, k;

	to->id = id;
	to->nr = nr;
	for (k = 0; k < nr; k++)
		to->frames[k] = frames[k];
	braid_store_release(&to->check, braid_stack_check(id, frames, nr));	/* (Z1) */
	/* Of two contexts the later one may have the lower number: the next poll corrects it. */
	braid_store(&table->nr_used, slot + 1);
}

/* Return: false: the table is full. */
static bool braid_stack_claim(struct stored *s, u32 *slot)
{
	if ((u32)atomic_read(&s->claimed) >= s->nr_slots)
		return false;
	*slot = atomic_inc_return(&s->claimed) - 1;
	return *slot < s->nr_slots;
}

u32 braid_stack_store(const u64 *frames, u32 nr, bool *fresh)
{
	struct stored *s = READ_ONCE(stored);
	u32 slot, *cell;
	u64 hash;

	*fresh = false;
	if (!nr || unlikely(!s))
		return 0;
	nr = min(nr, s->nr_frames);
	hash = braid_stack_mix(s->seed, frames, nr);
	if (likely(braid_stack_find(s, hash, frames, nr, &slot, &cell)))
		return s->first + slot;
	if (!cell || !braid_stack_claim(s, &slot)) {
		braid_stack_miss();
		return 0;
	}
	s->copies[slot].hash = hash;
	s->copies[slot].nr = nr;
	memcpy(s->frames + (size_t)slot * s->nr_frames, frames, nr * sizeof(*frames));
	braid_stack_publish(s, slot, frames, nr);
	/* If another context had the cell first, this stack may be stored once more. */
	cmpxchg(cell, 0, slot + 1);
	*fresh = true;
	return s->first + slot;
}

void braid_stack_miss(void)
{
	atomic64_inc(&missed);
}

u32 braid_stack_depth(void)
{
	struct stored *s = READ_ONCE(stored);

	return s ? s->nr_frames : 0;
}

static void braid_stack_free(struct stored *s)
{
	if (!s)
		return;
	kvfree(s->cells);
	kvfree(s->copies);
	kvfree(s->frames);
	kfree(s);
}

int braid_stack_start(struct braid_guest_region *region)
{
	struct stored *s = kzalloc(sizeof(*s), GFP_KERNEL);

	if (!s)
		return -ENOMEM;
	s->seed = get_random_u64();
	s->first = 1;
	s->nr_slots = region->nr_stacks;
	s->nr_frames = region->stack_frames;
	s->bits = ilog2(roundup_pow_of_two(s->nr_slots * CELLS_EACH));
	s->cells = kvcalloc(1ul << s->bits, sizeof(*s->cells), GFP_KERNEL);
	s->copies = kvcalloc(s->nr_slots, sizeof(*s->copies), GFP_KERNEL);
	s->frames = kvcalloc(s->nr_slots, s->nr_frames * sizeof(*s->frames), GFP_KERNEL);
	if (!s->cells || !s->copies || !s->frames) {
		braid_stack_free(s);
		return -ENOMEM;
	}
	table = region->stacks;
	atomic64_set(&missed, 0);
	smp_store_release(&stored, s);
	return 0;
}

void braid_stack_stop(void)
{
	struct stored *s = stored;

	WRITE_ONCE(stored, NULL);
	braid_synchronize_writers();
	braid_stack_free(s);
}

void braid_stack_renew(void)
{
	struct stored *s = stored;
	u32 k, used = s ? min_t(u32, atomic_read(&s->claimed), s->nr_slots) : 0;

	if (!s || used < s->nr_slots / 2)
		return;
	braid_synchronize_writers();
	for (k = 0; k < used; k++)
		braid_store(&((struct braid_stack *)((void *)table->slots +
			    (size_t)k * braid_stack_slot_bytes(s->nr_frames)))->check, 0);
	braid_store(&table->nr_used, 0);
	memset(s->cells, 0, (sizeof(*s->cells)) << s->bits);
	s->first += s->nr_slots;
	if (s->first > U32_MAX - s->nr_slots)	/* 0 is no number */
		s->first = 1;
	braid_store_release(&table->first, s->first);		/* (Z2) */
	atomic_set(&s->claimed, 0);
}

void braid_stack_flush(void)
{
	struct stored *s = READ_ONCE(stored);

	if (!s)
		return;
	braid_store(&table->nr_used, min_t(u32, atomic_read(&s->claimed), s->nr_slots));
	braid_store(&table->missed, atomic64_read(&missed));
}
