/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What /proc shows of other users' processes, also to a process that gave up its rights. */
#ifndef BRAID_UTIL_PEEK_H
#define BRAID_UTIL_PEEK_H

#include <stddef.h>
#include <sys/types.h>

/**
 * braid_peek_start - start the process that opens these files for us
 *
 * Before braid_confine(): what reads guests' bytes has no right to look into other processes
 * afterwards, since with that right it could read their memory. The helper reads no byte of a
 * guest, and hands out nothing but the two files below. Without it both functions open the
 * files themselves.
 *
 * Return: 0 or -errno with braid_fail().
 */
int braid_peek_start(void);

/** braid_peek_maps - open /proc/@pid/maps: a descriptor, close() it; or -errno */
int braid_peek_maps(pid_t pid);

/**
 * braid_peek_syscall - read /proc/@pid/task/@tid/syscall
 * @pid: a process
 * @tid: a thread of it
 * @text: filled and terminated on success
 * @room: of @text in bytes, at least 1
 *
 * Return: 0 or -errno.
 */
int braid_peek_syscall(pid_t pid, pid_t tid, char *text, size_t room);

#endif /* BRAID_UTIL_PEEK_H */
