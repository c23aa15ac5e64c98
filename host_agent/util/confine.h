/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Gives up all that reading what guests wrote does not need. */
#ifndef BRAID_UTIL_CONFINE_H
#define BRAID_UTIL_CONFINE_H

#include <sys/types.h>

#define BRAID_CONFINE_CHILDREN	3

/* What is left to do. */
enum braid_confine {
	BRAID_CONFINE_FILES,	/* read files that are open, or anybody's to read; print */
	BRAID_CONFINE_CONVERT,	/* and make files */
	BRAID_CONFINE_LOOK,	/* open other users' regions to be read; print */
	BRAID_CONFINE_RECORD,	/* drain guests, trace the host, serve sockets that listen, make files */
	BRAID_CONFINE_PEEK,	/* open what /proc shows of other users' processes: util/peek.c */
};

/**
 * braid_confine - drop capabilities, and refuse system calls, for good
 * @what: is left to do
 * @children: the processes that may still be killed, each 0 or its id; NULL: none
 *
 * Must be called before there is a second thread: capabilities are each thread's own. What
 * the seccomp filter refuses fails with EPERM, what Landlock refuses with EACCES: a library that asks for more than we knew makes one thing
 * fail, by a line, and not a recording of many guests.
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_confine(enum braid_confine what, const pid_t children[BRAID_CONFINE_CHILDREN]);

#endif /* BRAID_UTIL_CONFINE_H */
