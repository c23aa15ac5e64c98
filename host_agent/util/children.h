/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The processes that this one has started to work for it: what they use is the agent's. */
#ifndef BRAID_UTIL_CHILDREN_H
#define BRAID_UTIL_CHILDREN_H

#include <stddef.h>
#include <sys/types.h>

#define BRAID_CHILDREN	32u	/* further ones are not remembered */

/** braid_children_add - a process was started */
void braid_children_add(pid_t pid);

/** braid_children_remove - it ended */
void braid_children_remove(pid_t pid);

/** braid_children_get - those that run. Return: their number */
size_t braid_children_get(pid_t pids[BRAID_CHILDREN]);

#endif /* BRAID_UTIL_CHILDREN_H */
