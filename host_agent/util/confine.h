/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Drops all privileges that reading guest data does not need. */
#ifndef BRAID_UTIL_CONFINE_H
#define BRAID_UTIL_CONFINE_H

#include <sys/types.h>

#define BRAID_CONFINE_CHILDREN	5

/* The remaining work. */
enum braid_confine {
	BRAID_CONFINE_FILES,	/* read open files and world-readable ones; print */
	BRAID_CONFINE_CONVERT,	/* and make files */
	BRAID_CONFINE_INSPECT,	/* open other users' regions to be read; print */
	BRAID_CONFINE_RECORD,	/* drain guests, trace the host, serve sockets that listen, make files */
	BRAID_CONFINE_PEEK,	/* open what /proc shows of other users' processes: util/peek.c */
	BRAID_CONFINE_READ_MEMORY,	/* transport/vm_reader.c: other users' VMMs */
	BRAID_CONFINE_SERVE,	/* read files as they come; answer on sockets that listen */
	BRAID_CONFINE_FLEET,	/* connect to a server; print */
	BRAID_CONFINE_FETCH,	/* and make files */
};

/**
 * braid_confine - drop capabilities, and refuse system calls, for good
 * @what: the remaining work
 * @children: the processes that may be killed later, each 0 or a pid; NULL: none
 *
 * Must be called before there is a second thread: capabilities are per thread. What the seccomp
 * filter refuses fails with EPERM, what Landlock refuses with EACCES: an unexpected request of a
 * library then fails one operation, with a message, instead of the whole recording.
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_confine(enum braid_confine what, const pid_t children[BRAID_CONFINE_CHILDREN]);

#endif /* BRAID_UTIL_CONFINE_H */
