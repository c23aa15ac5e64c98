// SPDX-License-Identifier: GPL-2.0-or-later
/* Remembers the processes that the agent has started for itself. */
#include <string.h>

#include "host_agent/util/children.h"

static pid_t children[BRAID_CHILDREN];	/* 0: free */

static void replace(pid_t from, pid_t to)
{
	size_t k;

	for (k = 0; k < BRAID_CHILDREN && children[k] != from; k++)
		;
	if (k < BRAID_CHILDREN)
		children[k] = to;
}

void braid_children_add(pid_t pid)
{
	replace(0, pid);
}

void braid_children_remove(pid_t pid)
{
	replace(pid, 0);
}

size_t braid_children_get(pid_t pids[BRAID_CHILDREN])
{
	size_t k, nr = 0;

	for (k = 0; k < BRAID_CHILDREN; k++)
		if (children[k])
			pids[nr++] = children[k];
	return nr;
}
