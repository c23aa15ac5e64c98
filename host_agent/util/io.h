/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads and writes that finish what they began; messages with a descriptor along. */
#ifndef BRAID_UTIL_IO_H
#define BRAID_UTIL_IO_H

#include <sys/types.h>

#include "tracebraid/types.h"

/**
 * braid_write_all - write everything
 * @fd: where
 * @data: what
 * @bytes: of it
 *
 * Return: 0 or -errno; part may have been written then.
 */
int braid_write_all(int fd, const void *data, size_t bytes);

/**
 * braid_pread_all - read up to @bytes
 * @fd: a file
 * @to: room for @bytes
 * @bytes: wanted
 * @offset: in the file
 *
 * Return: bytes read, fewer than @bytes at the end of the file only; or -errno.
 */
ssize_t braid_pread_all(int fd, void *to, size_t bytes, u64 offset);

/**
 * braid_send_with - send a message over a UNIX socket, with a descriptor along
 * @socket: where
 * @data: the message
 * @bytes: of it, at least 1
 * @fd: stays open here; -1: none
 * @flags: of sendmsg(2), besides MSG_NOSIGNAL
 *
 * Return: bytes sent; or -errno, as errno has it.
 */
ssize_t braid_send_with(int socket, const void *data, size_t bytes, int fd, int flags);

/**
 * braid_receive_with - receive a message, and at most one descriptor: the kernel closes others
 * @socket: from where
 * @data: room for @bytes
 * @bytes: at most
 * @fd: set to the descriptor, close-on-exec; -1: none
 * @flags: of recvmsg(2), besides MSG_CMSG_CLOEXEC
 *
 * Return: bytes received; 0: the peer is gone; or -errno.
 */
ssize_t braid_receive_with(int socket, void *data, size_t bytes, int *fd, int flags);

#endif /* BRAID_UTIL_IO_H */
