/* SPDX-License-Identifier: GPL-2.0-or-later */
/* File descriptors that a peer handed over: what they are, and to use them without being held up. */
#ifndef BRAID_TRANSPORT_FOREIGN_H
#define BRAID_TRANSPORT_FOREIGN_H

#include "tracebraid/types.h"

enum braid_foreign_kind {
	BRAID_FOREIGN_OTHER,	/* a file or device, whose maker may hold up every call but that */
	BRAID_FOREIGN_EVENTFD,
	BRAID_FOREIGN_PIPE,
	BRAID_FOREIGN_SOCKET,
	BRAID_FOREIGN_MEMORY,	/* a file of tmpfs or hugetlbfs, or a memfd */
};

/** braid_foreign_kind - what a file descriptor is; asks nobody who could let us wait */
enum braid_foreign_kind braid_foreign_kind(int fd);

/** braid_foreign_nonblocking - make that reads and writes of it don't wait, for now */
void braid_foreign_nonblocking(int fd);

/**
 * braid_foreign_close - close a file descriptor without waiting
 * @fd: of any kind; -1 is fine
 *
 * What may wait is left to a thread. It has room for some: what comes on top stays open for
 * ever, see braid_foreign_leaked().
 */
void braid_foreign_close(int fd);

/**
 * braid_foreign_hang_up - likewise, for a connection
 * @fd: of a UNIX stream socket; file descriptors that wait in it are closed as well
 */
void braid_foreign_hang_up(int fd);

/** braid_foreign_leaked - how many file descriptors stay open for ever */
u32 braid_foreign_leaked(void);

#endif /* BRAID_TRANSPORT_FOREIGN_H */
