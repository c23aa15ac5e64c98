/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Processes of our own that do what the confined agent has no right to do. */
#ifndef BRAID_UTIL_HELPER_H
#define BRAID_UTIL_HELPER_H

#include <sys/types.h>

/* What a helper does; its end of the socket is fd. */
typedef void (*braid_helper_fn)(void *arg, int fd);

/**
 * braid_helper_start - start a process of our own
 * @fd: set on success to our end of a SOCK_SEQPACKET pair
 * @pid: set on success
 * @run: what it does; it ends when that returns
 * @arg: passed to @run
 *
 * Must be called while there is one thread, and before braid_confine(). The helper dies with
 * this process, and has nothing of it open but standard error.
 *
 * Return: 0 or -errno with braid_fail().
 */
int braid_helper_start(int *fd, pid_t *pid, braid_helper_fn run, void *arg);

/** braid_helper_stop - end a helper and wait for its end; does nothing when none was started */
void braid_helper_stop(int *fd, pid_t *pid);

#endif /* BRAID_UTIL_HELPER_H */
