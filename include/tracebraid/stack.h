/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Stacks: with samples of what CPUs execute, and with events. */
#ifndef TRACEBRAID_STACK_H
#define TRACEBRAID_STACK_H

#include "tracebraid/types.h"

/*
 * arg0 of the command SAMPLE, before the host enables sample:cpu: version:8 | flags:8 | 0:16 |
 * hz:32 (from bit 56, 48, 32, 0). It holds until the event is off. A guest refuses another version
 * (EOPNOTSUPP), and refuses all while its own user has the event on (EBUSY).
 */
#define BRAID_SAMPLE_VERSION		1u
#define BRAID_SAMPLE_VERSION_SHIFT	56
#define BRAID_SAMPLE_FLAGS_SHIFT	48
#define BRAID_SAMPLE_FLAGS_MASK		0xffu
#define BRAID_SAMPLE_USER_STACKS	(1u << 0)
#define BRAID_SAMPLE_MAX_HZ		10000u

static inline u64 braid_sample_request(u32 hz, u32 flags)
{
	return (u64)BRAID_SAMPLE_VERSION << BRAID_SAMPLE_VERSION_SHIFT |
	       (u64)(flags & BRAID_SAMPLE_FLAGS_MASK) << BRAID_SAMPLE_FLAGS_SHIFT | hz;
}

/*
 * arg0 of the command STACKS, before the host enables events: version:8 | flags:8 | 0:48. Matching
 * events get these stacks: after each of their records that is written comes one of the event
 * tracebraid:stack, which refers to the table below. Flags of 0 end that; so does an ENABLE of the
 * event without BRAID_KEEP_STACKS, and a DISABLE of all events.
 */
#define BRAID_STACKS_VERSION		1u
#define BRAID_STACKS_MINOR		11u	/* of the region */
#define BRAID_STACKS_VERSION_SHIFT	56
#define BRAID_STACKS_FLAGS_SHIFT	48
#define BRAID_STACKS_FLAGS_MASK		0xffu
#define BRAID_STACKS_KERNEL		(1u << 0)
#define BRAID_STACKS_USER		(1u << 1)
#define BRAID_KEEP_STACKS		2u	/* arg0 of ENABLE */

static inline u64 braid_stacks_request(u32 flags)
{
	return (u64)BRAID_STACKS_VERSION << BRAID_STACKS_VERSION_SHIFT |
	       (u64)(flags & BRAID_STACKS_FLAGS_MASK) << BRAID_STACKS_FLAGS_SHIFT;
}

/*
 * The table of stacks: each distinct one once, addresses of code from the innermost frame on. Slots
 * of 16 + 8 * nr_frames bytes follow the head; they are filled in order, in any context, and may be
 * complete in another order. A slot never changes while first stays: the guest empties a table only
 * while no event has stacks; ids go on then.
 */
#define BRAID_STACK_FRAMES		64u	/* at most, of a slot */
#define BRAID_STACK_SLOTS		(1u << 16)

struct braid_stack {
	u64 check;			/* braid_stack_check(), stored last, with release; 0: not
					   complete */
	u32 id;				/* by which records refer to it; never 0 */
	u32 nr;				/* of frames[], not 0 */
	u64 frames[];
};

struct braid_stack_table {
	u32 first;			/* id of slot 0: changes when the table is emptied */
	u32 nr_used;			/* slots; a later one may be complete already */
	u32 nr_slots;
	u32 nr_frames;			/* room of a slot */
	u64 missed;			/* stacks of records that did not fit, as of the guest's
					   last poll */
	u64 reserved[5];
	u64 slots[];
};

/* How the user frames of a sample or of an event's stack end: the field "ends". */
enum braid_stack_end {
	BRAID_STACK_NONE = 0,		/* no user stack was asked for, or the task has none */
	BRAID_STACK_WHOLE = 1,		/* the outermost frame has no caller */
	BRAID_STACK_BROKEN = 2,		/* the next frame pointer leads nowhere */
	BRAID_STACK_DEEP = 3,		/* there are more frames */
};

static_assert(sizeof(struct braid_stack) == 16, "stack");
static_assert(sizeof(struct braid_stack_table) == 64, "stack table");

#endif /* TRACEBRAID_STACK_H */
