/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The table of stacks: each distinct one is stored once, and has a number.
 *
 * - A private copy of all stacks and an index of it are searched; the shared table is only written.
 * - Storing takes no lock, in any context. A stack that two contexts store at once may have two
 *   numbers.
 * - What finds no room is counted.
 */
#ifndef BRAID_CORE_STACK_H
#define BRAID_CORE_STACK_H

#include "guest_driver/core/region.h"

/**
 * braid_stack_store - the number of a stack
 * @frames: addresses, the innermost first
 * @nr: of them; those beyond the table's depth are left out
 * @fresh: set: it was stored now
 *
 * Context: any, NMI included, with preemption off. Return: its number; 0: it has no frames, or did
 * not fit, which is counted.
 */
u32 braid_stack_store(const u64 *frames, u32 nr, bool *fresh);

/** braid_stack_miss - count a stack that could not be taken. Context: any */
void braid_stack_miss(void);

/** braid_stack_depth - frames that a stack may have */
u32 braid_stack_depth(void);

/** braid_stack_start - begin with an empty table; no event has stacks. May sleep. 0 or -ENOMEM */
int braid_stack_start(struct braid_guest_region *region);

/** braid_stack_stop - forget all; no event has stacks. May sleep */
void braid_stack_stop(void);

/** braid_stack_renew - empty a table that is half full; no event has stacks. May sleep */
void braid_stack_renew(void);

/** braid_stack_flush - tell the host what has been counted. Callers serialize */
void braid_stack_flush(void);

#endif /* BRAID_CORE_STACK_H */
