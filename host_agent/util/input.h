/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Input files of a command, opened before it drops its privileges. */
#ifndef BRAID_UTIL_INPUT_H
#define BRAID_UTIL_INPUT_H

/**
 * braid_input_keep - open a file for a later braid_input_open()
 * @path: as it is opened later
 *
 * For a process that is about to be confined, and may then not be allowed to open @path. A file
 * that can't be opened now is not kept, and braid_input_open() reports why. Not thread safe.
 *
 * Return: 0, or -ENOMEM with braid_fail().
 */
int braid_input_keep(const char *path);

/**
 * braid_input_open - open a file for reading
 * @path: any; one that was kept needs no right to open it; "-": standard input
 *
 * Does not wait for the other end of a FIFO. Descriptors of a kept file share its position:
 * read with pread().
 *
 * Return: a descriptor, close() it; or -errno.
 */
int braid_input_open(const char *path);

#endif /* BRAID_UTIL_INPUT_H */
