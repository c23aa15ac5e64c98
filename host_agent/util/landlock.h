/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Takes files, and other processes, out of reach, where the kernel has Landlock. */
#ifndef BRAID_UTIL_LANDLOCK_H
#define BRAID_UTIL_LANDLOCK_H

#include <stdbool.h>

/**
 * braid_landlock - restrict this thread, and those it starts, for good
 * @writes: files may be written and created, but not below /proc; else all are read-only
 *
 * From then on only our own processes can be traced, or their memory opened, whatever the user. No
 * program can be executed; no device, socket or FIFO created. no_new_privs must be set.
 *
 * Return: 0; -EOPNOTSUPP: this kernel has no Landlock; or another -errno.
 */
int braid_landlock(bool writes);

#endif /* BRAID_UTIL_LANDLOCK_H */
