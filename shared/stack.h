/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The table of stacks: where its slots are; a slot's check; a copy of a slot. */
#ifndef BRAID_SHARED_STACK_H
#define BRAID_SHARED_STACK_H

#include "shared/platform.h"
#include "tracebraid/abi.h"

/* A copy of a slot, private. */
struct braid_stack_copy {
	u32 id;
	u32 nr;
	u64 frames[BRAID_STACK_FRAMES];
};

/** braid_stack_slot_bytes - of a slot with room for @nr_frames */
static inline u32 braid_stack_slot_bytes(u32 nr_frames)
{
	return sizeof(struct braid_stack) + nr_frames * (u32)sizeof(u64);
}

/** braid_stack_bytes - of a table of @nr_slots */
static inline u64 braid_stack_bytes(u32 nr_slots, u32 nr_frames)
{
	return sizeof(struct braid_stack_table) +
	       (u64)nr_slots * braid_stack_slot_bytes(nr_frames);
}

/** braid_stack_mix - a hash of frames, from @seed on. May be 0 */
u64 braid_stack_mix(u64 seed, const u64 *frames, u32 nr);

/** braid_stack_check - what a complete slot has in its check; never 0 */
u64 braid_stack_check(u32 id, const u64 *frames, u32 nr);

/* A table's shape, loaded once, that fits the section whatever the guest claims. */
struct braid_stack_shape {
	u32 first;
	u32 nr_used;
	u32 nr_slots;
	u32 nr_frames;
};

/**
 * braid_stack_load_shape - the shape of a table
 * @table: the section; NULL: none
 * @bytes: of it
 *
 * Return: the shape; nr_slots is 0 if there is no table, or an impossible one.
 */
struct braid_stack_shape braid_stack_load_shape(const struct braid_stack_table *table, u64 bytes);

/**
 * braid_stack_load - copy a slot
 * @out: filled on success
 * @table: the section
 * @shape: braid_stack_load_shape() of it
 * @slot: below shape->nr_slots
 *
 * Return: false: it has no complete stack, at least not now.
 */
bool braid_stack_load(struct braid_stack_copy *out, const struct braid_stack_table *table,
		      const struct braid_stack_shape *shape, u32 slot);

#endif /* BRAID_SHARED_STACK_H */
