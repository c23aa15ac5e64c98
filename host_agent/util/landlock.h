/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Takes files, and other processes, out of reach, where the kernel has Landlock. */
#ifndef BRAID_UTIL_LANDLOCK_H
#define BRAID_UTIL_LANDLOCK_H

#include <stdbool.h>

/* What is done at a place after braid_landlock(). */
enum braid_place {
	BRAID_PLACE_OUTPUT,	/* files and folders are made, written, renamed and removed */
	BRAID_PLACE_WRITTEN,	/* files that exist are written, not shortened */
	BRAID_PLACE_REMOVED,	/* files are removed */
	BRAID_PLACE_READ,	/* files are read; if there is one, nothing else is */
};

/**
 * braid_landlock_allow - keep a place writable
 * @path: a file there, which need not exist. Landlock's rules are for whole folders: the rule
 * covers the folder of the file and all below it. A device or FIFO is covered alone. Nothing below /proc
 * is; "-" is no place
 * @place: what is done there
 *
 * Call before braid_landlock(). Without a call no file can be written then.
 *
 * Return: 0, or -ENOMEM with braid_fail().
 */
int braid_landlock_allow(const char *path, enum braid_place place);

/**
 * braid_landlock - restrict this thread, and those it starts, for good
 * @writes: the places of braid_landlock_allow() are writable; else all is read-only
 *
 * From then on only our own processes can be traced, or their memory opened, whatever the user. No
 * program can be executed; no device, socket or FIFO created. no_new_privs must be set.
 *
 * Return: 0; -EOPNOTSUPP: this kernel has no Landlock; or another -errno.
 */
int braid_landlock(bool writes);

#endif /* BRAID_UTIL_LANDLOCK_H */
