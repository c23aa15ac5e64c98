/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Helper processes for work that the confined agent is not allowed to do. */
#ifndef BRAID_UTIL_HELPER_H
#define BRAID_UTIL_HELPER_H

#include <stddef.h>
#include <sys/types.h>

/* What a helper does; its end of the socket is fd. */
typedef void (*braid_helper_fn)(void *arg, int fd);

/**
 * braid_helper_start - start a helper process
 * @fd: set on success to our end of a SOCK_SEQPACKET pair
 * @pid: set on success
 * @run: its function; the helper ends when it returns
 * @arg: passed to @run
 *
 * Must be called while there is one thread, and before braid_confine(). The helper dies with this
 * process, and inherits only standard error.
 *
 * Return: 0 or -errno with braid_fail().
 */
int braid_helper_start(int *fd, pid_t *pid, braid_helper_fn run, void *arg);

/** braid_helper_stop - end a helper and wait for it; no effect when none was started */
void braid_helper_stop(int *fd, pid_t *pid);

/* The processes that this one has started to work for it, whatever for: what they use is the agent's. */

#define BRAID_CHILDREN	32u	/* further ones are not remembered */

/** braid_children_add - a process was started */
void braid_children_add(pid_t pid);

/** braid_children_remove - it ended */
void braid_children_remove(pid_t pid);

/** braid_children_get - those that run. Return: their number */
size_t braid_children_get(pid_t pids[BRAID_CHILDREN]);

#endif /* BRAID_UTIL_HELPER_H */
