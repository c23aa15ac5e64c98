/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The event tracebraid:stack: where a record of another event came from.
 *
 * - It is written right after that record, in the same context, so that between the two there are
 *   only records of contexts that interrupted it, with their own stacks.
 * - Events without stacks pay nothing: those with stacks are set aside, as those with filters are.
 */
#ifndef BRAID_EVENT_STACKS_H
#define BRAID_EVENT_STACKS_H

#include "guest_driver/event/event.h"

/**
 * braid_stacks_set_matching - which stacks events have
 * @system: a glob, "" for all
 * @name: likewise
 * @flags: BRAID_STACKS_*; 0: none
 * @matched: how many can have stacks, set on success and on failure
 *
 * Context: may sleep. Return: 0 or -ENOMEM.
 */
int braid_stacks_set_matching(const char *system, const char *name, u32 flags, u32 *matched);

/** braid_stacks_clear - no event has stacks. May sleep */
void braid_stacks_clear(void);

/**
 * braid_stacks_write - write the stacks of a record that was just written
 * @id: its event
 * @flags: BRAID_STACKS_*
 * @probe: a return address in the function that recorded it: the stack begins with its caller
 *
 * Context: any, with preemption off.
 */
void braid_stacks_write(u16 id, u32 flags, unsigned long probe);

/** braid_stacks_init - register the event. 0 or -errno */
int braid_stacks_init(void);
void braid_stacks_exit(void);

#endif /* BRAID_EVENT_STACKS_H */
