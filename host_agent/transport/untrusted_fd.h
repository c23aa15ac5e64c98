/* SPDX-License-Identifier: GPL-2.0-or-later */
/* File descriptors that a peer handed over: what they are, and using them without a stall. */
#ifndef BRAID_TRANSPORT_UNTRUSTED_FD_H
#define BRAID_TRANSPORT_UNTRUSTED_FD_H

#include <sys/types.h>

#include "tracebraid/types.h"

enum braid_untrusted_fd_kind {
	BRAID_FD_OTHER,	/* a file or device, whose owner may block every other call */
	BRAID_FD_EVENTFD,
	BRAID_FD_PIPE,
	BRAID_FD_SOCKET,
	BRAID_FD_MEMORY,	/* a file of tmpfs or hugetlbfs, or a memfd */
};

/** braid_untrusted_fd_kind - classify a file descriptor, without calls that may block */
enum braid_untrusted_fd_kind braid_untrusted_fd_kind(int fd);

/**
 * braid_untrusted_fd_nonblocking - make that writes of it don't wait, for now
 * @fd: the other side shares its flags, and may make it blocking again at any time
 */
void braid_untrusted_fd_nonblocking(int fd);

/**
 * braid_untrusted_fd_read - read without waiting, whatever the other side does with the flags
 * @fd: an eventfd; before Linux 6.5, for a pipe, as braid_untrusted_fd_nonblocking() says
 * @to: room for @bytes
 * @bytes: at most
 *
 * QEMU makes each eventfd that it receives blocking, once.
 * Return: as read(2) of a nonblocking descriptor.
 */
ssize_t braid_untrusted_fd_read(int fd, void *to, size_t bytes);

/**
 * braid_untrusted_fd_close - close a file descriptor without waiting
 * @fd: of any kind; -1: no effect
 *
 * A thread closes descriptors that may block. Its queue is bounded: excess ones stay open for good,
 * see braid_untrusted_fd_leaked().
 */
void braid_untrusted_fd_close(int fd);

/**
 * braid_untrusted_fd_hang_up - likewise, for a connection
 * @fd: of a UNIX stream socket; file descriptors queued in it are closed as well
 */
void braid_untrusted_fd_hang_up(int fd);

/** braid_untrusted_fd_leaked - number of file descriptors that stay open for good */
u32 braid_untrusted_fd_leaked(void);

#endif /* BRAID_TRANSPORT_UNTRUSTED_FD_H */
