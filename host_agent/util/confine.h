/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Gives up all that reading what guests wrote does not need. */
#ifndef BRAID_UTIL_CONFINE_H
#define BRAID_UTIL_CONFINE_H

#include <sys/types.h>

#define BRAID_CONFINE_CHILDREN	3

/* What is left to do. */
enum braid_confine {
	BRAID_CONFINE_READ,	/* open files to read, print */
	BRAID_CONFINE_CONVERT,	/* and make files */
	BRAID_CONFINE_RECORD,	/* and drain guests, trace the host, serve sockets that listen */
};

/**
 * braid_confine - drop capabilities, and refuse system calls, for good
 * @what: is left to do
 * @children: the processes that may still be killed, each 0 or its id; NULL: none
 *
 * Must be called before there is a second thread: capabilities are each thread's own. What
 * is refused fails with EPERM: a library that asks for more than we knew makes one thing
 * fail, by a line, and not a recording of many guests.
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_confine(enum braid_confine what, const pid_t children[BRAID_CONFINE_CHILDREN]);

#endif /* BRAID_UTIL_CONFINE_H */
