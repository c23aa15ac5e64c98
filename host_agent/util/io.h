/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads and writes that finish what they began. */
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

#endif /* BRAID_UTIL_IO_H */
