/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Prints a capture while it is being written. */
#ifndef BRAID_CLI_LIVE_VIEW_H
#define BRAID_CLI_LIVE_VIEW_H

#include <stdbool.h>

#include "tracebraid/types.h"

struct braid_live_view {
	const char *path;	/* of the capture, which is there when the first mark is */
	int marks_fd;		/* has struct braid_capture_mark, does not block; its end is the
				   recording's */
	bool json;
};

/**
 * braid_live_view - follow and print, on standard output, until the recording ends
 * @v: the view
 *
 * Call in a separate process, which it confines. A slow reader of the lines gets fewer, and the
 * number of missed ones; the recorder never waits.
 *
 * Return: the exit code.
 */
int braid_live_view(const struct braid_live_view *v);

#endif /* BRAID_CLI_LIVE_VIEW_H */
