/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The event sample:mapping: which file is mapped where user code was sampled.
 *
 * Invariants:
 * - An interrupt or an event only notes an address, in bounded time. A worker looks at the address
 *   space later, reads the file's build id, and writes the record.
 * - Each mapping is written when the first address in it is noted, while the event is on. One that
 *   is written again says the same.
 * - An address that could not be noted, because the worker is behind, is noted when it is sampled
 *   again.
 */
#ifndef BRAID_EVENT_MAPPING_H
#define BRAID_EVENT_MAPPING_H

#include <linux/types.h>

struct mm_struct;

/**
 * braid_mapping_note - write the mappings of addresses, unless that was done
 * @mm: the current task's
 * @space: its braid_mapping_space()
 * @addresses: of user space
 * @nr: of them
 *
 * Context: any but NMI, with preemption off; braid_mapping_exit() only after the last call.
 */
void braid_mapping_note(struct mm_struct *mm, u64 space, const unsigned long *addresses, u32 nr);

/** braid_mapping_space - what names a process' address space in records; differs from others' */
u64 braid_mapping_space(const struct mm_struct *mm, pid_t tgid);

/** braid_mapping_init - register the event. 0 or -errno */
int braid_mapping_init(void);

/** braid_mapping_exit - remove it; no worker is left */
void braid_mapping_exit(void);

#endif /* BRAID_EVENT_MAPPING_H */
