/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The directory of the recording's files. */
#ifndef BRAID_SERVE_WINDOW_H
#define BRAID_SERVE_WINDOW_H

#include <stddef.h>

#include "tracebraid/types.h"

#define BRAID_WINDOW_FILES	64u	/* the recorder keeps far fewer */

/** braid_window_make - make it. Return: 0, or -errno with braid_fail(): it is another user's */
int braid_window_make(const char *path);

/** braid_window_discard - remove, and report, the files that a service that was killed has left */
void braid_window_discard(const char *directory);

/** braid_window_empty - remove the recording's files */
void braid_window_empty(const char *directory);

/**
 * braid_window_files - the numbers of the recording's files, in order
 * @directory: of the files
 * @numbers: set; if there are more, to those of the newest ones
 * @left_out: set to how many more there are; may be NULL
 *
 * Return: how many there are; 0 also if the directory cannot be read.
 */
size_t braid_window_files(const char *directory, u32 numbers[BRAID_WINDOW_FILES],
			  size_t *left_out);

#endif /* BRAID_SERVE_WINDOW_H */
