// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Finds and checks slots of a table that the peer may be writing, or may have forged. */
#include "shared/stack.h"

u64 braid_stack_mix(u64 seed, const u64 *frames, u32 nr)
{
	u64 h = seed ^ nr;
	u32 k;

	for (k = 0; k < nr; k++) {
		h = (h ^ frames[k]) * 0x9E3779B97F4A7C15ULL;
		h ^= h >> 32;
	}
	return h;
}

u64 braid_stack_check(u32 id, const u64 *frames, u32 nr)
{
	u64 h = braid_stack_mix(id, frames, nr);

	return h ? h : 1;
}

struct braid_stack_shape braid_stack_load_shape(const struct braid_stack_table *table, u64 bytes)
{
	struct braid_stack_shape shape = { 0 };
	u32 frames, slots, used;
	u64 room;

	if (!table || bytes < sizeof(*table))
		return shape;
	frames = braid_load(&table->nr_frames);
	if (!frames || frames > BRAID_STACK_FRAMES)
		return shape;
	room = (bytes - sizeof(*table)) / braid_stack_slot_bytes(frames);
	slots = braid_load(&table->nr_slots);
	slots = slots < BRAID_STACK_SLOTS ? slots : BRAID_STACK_SLOTS;
	shape.nr_slots = slots < room ? slots : room;
	shape.nr_frames = frames;
	used = braid_load(&table->nr_used);
	shape.nr_used = used < shape.nr_slots ? used : shape.nr_slots;
	shape.first = braid_load_acquire(&table->first);
	return shape;
}

bool braid_stack_load(struct braid_stack_copy *out, const struct braid_stack_table *table,
		      const struct braid_stack_shape *shape, u32 slot)
{
	const struct braid_stack *from = (const struct braid_stack *)
		((const u8 *)table->slots + (u64)slot * braid_stack_slot_bytes(shape->nr_frames));
	u64 check = braid_load_acquire(&from->check);		/* (Z1) */
	u32 k;

	if (!check)
		return false;
	out->id = braid_load(&from->id);
	out->nr = braid_load(&from->nr);
	if (!out->id || !out->nr || out->nr > shape->nr_frames)
		return false;
	for (k = 0; k < out->nr; k++)
		out->frames[k] = braid_load(&from->frames[k]);
	return braid_stack_check(out->id, out->frames, out->nr) == check;
}
