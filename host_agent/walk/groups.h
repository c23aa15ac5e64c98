/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A walk on several CPUs, for what needs no order between rings: rings are divided into groups, and
 * threads walk along one group each.
 *
 * Invariants:
 * - A thread has a source of its own, so that nothing of a walk is shared.
 * - What a group finds is as one walk finds it. If a source has a fault, one walk makes all, and
 *   reports it.
 */
#ifndef BRAID_WALK_GROUPS_H
#define BRAID_WALK_GROUPS_H

#include <pthread.h>

#include "host_agent/walk/walk.h"

struct braid_groups;

/* Rings that one thread walks along. */
struct braid_group {
	struct braid_source *source;		/* its own */
	struct braid_walk_options options;
	struct braid_walk_totals totals;
	struct braid_groups *all;
	u32 number;
	pthread_t thread;			/* of the first one: unused */
};

/** braid_group_begin - begin a walk along a group; as braid_walk_begin() */
int braid_group_begin(struct braid_group *group, struct braid_walk *w);

/** braid_group_is_over - whether something went wrong: what is made of the group is not needed */
bool braid_group_is_over(const struct braid_group *group);

/**
 * braid_groups_run - walk in groups, if options->cpus is more than 1 and the source allows it
 * @source: rewound
 * @options: the selection
 * @totals: zeroed; set to the sums of all groups, unless 0 or an error is returned
 * @make: called once for each group, in a thread. Return: 0, or -errno with braid_fail()
 * @arg: passed to @make
 *
 * Return: 1; 0: that is not possible, or a source had a fault: one walk is needed, and what groups
 * have made is not; or -errno with braid_fail().
 */
int braid_groups_run(struct braid_source *source, const struct braid_walk_options *options,
		     struct braid_walk_totals *totals,
		     int (*make)(void *arg, struct braid_group *group), void *arg);

#endif /* BRAID_WALK_GROUPS_H */
