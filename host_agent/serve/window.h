/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The directory of the recording's files. */
#ifndef BRAID_SERVE_WINDOW_H
#define BRAID_SERVE_WINDOW_H

/**
 * braid_window_make - make it; files that a service that was killed has left are removed
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_window_make(const char *path);

/** braid_window_empty - remove the recording's files */
void braid_window_empty(const char *directory);

#endif /* BRAID_SERVE_WINDOW_H */
