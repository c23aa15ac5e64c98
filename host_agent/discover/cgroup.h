/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The cgroups that limit the CPU time of threads: of version 1 or 2, by their files alone. */
#ifndef BRAID_DISCOVER_CGROUP_H
#define BRAID_DISCOVER_CGROUP_H

#include <stdbool.h>
#include <sys/types.h>

#include "tracebraid/types.h"

#define BRAID_CGROUP_PATH	512u

/* The hierarchy with the cpu controller. */
struct braid_cgroups {
	char mount[256];
	bool is_v2;
};

/** braid_cgroups_find - find the mounted hierarchy. Return: false if none is mounted */
bool braid_cgroups_find(struct braid_cgroups *of);

/**
 * braid_cgroup_of_thread - a thread's cgroup
 * @of: the hierarchy
 * @tid: of any thread
 * @path: set on success: below the mount; "" is the root
 *
 * Return: 0, or -errno; -ENOENT: its folder is not below the mount, or its path is longer.
 */
int braid_cgroup_of_thread(const struct braid_cgroups *of, pid_t tid, char path[BRAID_CGROUP_PATH]);

/**
 * braid_cgroup_has_quota - whether a cgroup limits CPU time by itself
 * @of: the hierarchy
 * @path: as above
 * @id: set if it does: the number of its folder's inode, as the kernel names it
 */
bool braid_cgroup_has_quota(const struct braid_cgroups *of, const char *path, u64 *id);

/** braid_cgroup_stat - open its cpu.stat: a descriptor for braid_cgroup_throttled(), or -errno */
int braid_cgroup_stat(const struct braid_cgroups *of, const char *path);

/** braid_cgroup_throttled - how long its run queues were, so far. Return: false: unknown */
bool braid_cgroup_throttled(int stat, u64 *ns);

#endif /* BRAID_DISCOVER_CGROUP_H */
