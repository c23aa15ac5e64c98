/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads /proc files of other users' processes, also for a confined process. */
#ifndef BRAID_UTIL_PEEK_H
#define BRAID_UTIL_PEEK_H

#include <stddef.h>
#include <sys/types.h>

/**
 * braid_peek_start - start the helper that opens these files
 *
 * Call before braid_confine(): afterwards the process that reads guest data may not access other
 * processes, since that right would include their memory. The helper reads no guest data, and hands
 * out only the files below. Without it these functions open the files themselves.
 *
 * Return: 0 or -errno with braid_fail().
 */
int braid_peek_start(void);

/** braid_peek_maps - open /proc/@pid/maps: a descriptor, close() it; or -errno */
int braid_peek_maps(pid_t pid);

/** braid_peek_pagemap - open /proc/@pid/pagemap: a descriptor, close() it; or -errno */
int braid_peek_pagemap(pid_t pid);

/**
 * braid_peek_syscall - read /proc/@pid/task/@tid/syscall
 * @pid: a process
 * @tid: a thread of it
 * @text: filled and terminated on success
 * @size: of @text in bytes, at least 1
 *
 * Return: 0 or -errno.
 */
int braid_peek_syscall(pid_t pid, pid_t tid, char *text, size_t size);

#endif /* BRAID_UTIL_PEEK_H */
