/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Samples of what CPUs execute: what a host asks for. */
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

/* How the user frames of a sample end: its field "ends". */
enum braid_stack_end {
	BRAID_STACK_NONE = 0,		/* no user stack was asked for, or the task has none */
	BRAID_STACK_WHOLE = 1,		/* the outermost frame has no caller */
	BRAID_STACK_BROKEN = 2,		/* the next frame pointer leads nowhere */
	BRAID_STACK_DEEP = 3,		/* there are more frames */
};

#endif /* TRACEBRAID_STACK_H */
