/* SPDX-License-Identifier: GPL-2.0 */
/* Whose records the host wants: cgroups, and tasks with those that they fork. */
#ifndef BRAID_EVENT_WHO_H
#define BRAID_EVENT_WHO_H

#include "guest_driver/event/refusal.h"
#include "shared/filter.h"

extern const struct braid_filter_tasks braid_who_tasks;

/**
 * braid_who_resolve - replace the paths of cgroups in a program by ids
 * @program: checked
 * @refusal: set on failure
 *
 * Context: may sleep. Return: 0 or -errno.
 */
int braid_who_resolve(struct braid_filter_program *program, struct braid_refusal *refusal);

/**
 * braid_who_choose - choose a task, and all that it forks from now on
 * @task: its number in the initial namespace
 * @refusal: set if the kernel has no such number
 *
 * A task is chosen until it is freed. Context: may sleep. Return: 0, -EINVAL, -ENOMEM.
 */
int braid_who_choose(u64 task, struct braid_refusal *refusal);

/** braid_who_choose_none - no task is chosen any more. May sleep */
void braid_who_choose_none(void);

#endif /* BRAID_EVENT_WHO_H */
