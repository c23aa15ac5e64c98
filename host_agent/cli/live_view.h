/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Prints a capture while it is being written. */
#ifndef BRAID_CLI_LIVE_VIEW_H
#define BRAID_CLI_LIVE_VIEW_H

#include <stdbool.h>

#include "tracebraid/types.h"

/* What the recorder tells through a pipe; the last one holds. */
struct braid_live_mark {
	u64 bytes;		/* of the capture, that may be read: whole chunks */
	s64 until_ns;		/* all that was before is in them, as far as can be known */
};

struct braid_live_view {
	const char *path;	/* of the capture, which is there when the first mark is */
	int marks_fd;		/* does not block; its end is the recording's */
	bool json;
};

/**
 * braid_live_view - follow and print, on standard output, until the recording ends
 * @v: what
 *
 * To be called in a process of its own, which it confines. Whoever takes the lines may take
 * his time: he gets fewer, and is told how many fewer; the recorder is never waited for.
 *
 * Return: the exit code.
 */
int braid_live_view(const struct braid_live_view *v);

#endif /* BRAID_CLI_LIVE_VIEW_H */
