/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The times around certain events. */
#ifndef BRAID_WALK_AROUND_H
#define BRAID_WALK_AROUND_H

#include "host_agent/walk/select.h"

#define BRAID_AROUND_NS	10000000	/* before and after each event */

/**
 * braid_around_find - walk along a trace, and find the times around events
 * @times: filled; zeroed before. To be freed by the caller in any case
 * @source: complete, rewound; afterwards too
 * @options: of the walk that is to follow: its ->around says which events; time limits apply to them, too
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_around_find(struct braid_select_times *times, struct braid_source *source,
		      const struct braid_walk_options *options);

#endif /* BRAID_WALK_AROUND_H */
