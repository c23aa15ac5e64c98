/* SPDX-License-Identifier: GPL-2.0 */
/* The comm table: which name a pid had, and since when. */
#ifndef BRAID_CORE_COMM_H
#define BRAID_CORE_COMM_H

#include "guest_driver/core/region.h"

/**
 * braid_comm_start - fill the table with all tasks, then follow forks and renames
 * @region: laid out
 *
 * Context: may sleep. Return: 0 or -errno.
 */
int braid_comm_start(struct braid_guest_region *region);

/** braid_comm_stop - follow no more; returns when no probe runs */
void braid_comm_stop(void);

/**
 * braid_comm_copy - the name that the table has for a task
 * @region: laid out
 * @pid: the task's
 * @comm: filled, always, with printable bytes and a NUL: the host may write in the table
 *
 * Context: any.
 */
void braid_comm_copy(const struct braid_guest_region *region, s32 pid,
		     char comm[BRAID_COMM_BYTES]);

#endif /* BRAID_CORE_COMM_H */
