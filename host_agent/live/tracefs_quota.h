/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Probes in the host's kernel: they show when CPU quotas hold threads back (docs/analyze.md), and
 * which packets are sent and received (docs/hosts.md).
 *
 * - A helper process makes and removes them: whoever can write tracefs' dynamic_events can make the
 *   kernel read any of its memory, so the agent, which reads guests, must not have that file.
 * - The offsets of members of the kernel's structures are taken from its BTF.
 * - All of one kind are made, or none. They cost nothing until they are enabled, which
 *   braid_tracefs_source_start() does in the agent's own instance.
 */
#ifndef BRAID_LIVE_TRACEFS_QUOTA_H
#define BRAID_LIVE_TRACEFS_QUOTA_H

#include <sys/types.h>

#include "tracebraid/types.h"

#define BRAID_VMLINUX_BTF	"/sys/kernel/btf/vmlinux"

/* Begin with BRAID_TRACEFS_QUOTA_NONE. */
struct braid_tracefs_quota {
	int fd;			/* to the helper; -1: there are no probes */
	pid_t pid;
	u32 made;		/* BRAID_PROBES_* */
};

#define BRAID_PROBES_QUOTA	(1u << 0)
#define BRAID_PROBES_PACKETS	(1u << 1)

#define BRAID_TRACEFS_QUOTA_NONE	((struct braid_tracefs_quota){ .fd = -1 })

/**
 * braid_tracefs_quota_start - make the probes
 * @q: its fd is -1 afterwards if this kernel cannot have them, which is no error
 * @btf: file with the kernel's BTF
 * @wanted: BRAID_PROBES_*
 * @confine: called in the helper after it has made them; 0 or -errno
 *
 * Call while there is one thread, before braid_confine(). The group of the probes is
 * BRAID_QUOTA_SYSTEM or BRAID_PACKETS_SYSTEM, and our PID. Those of agents that are dead are
 * removed, with their instances.
 *
 * Return: 0, or -errno with braid_fail(): the helper could not be started.
 */
int braid_tracefs_quota_start(struct braid_tracefs_quota *q, const char *btf, u32 wanted,
			      int (*confine)(void));

/**
 * braid_tracefs_quota_stop - remove the probes
 * @q: may have none
 *
 * Call after braid_tracefs_source_close(): while they are enabled anywhere, they cannot be removed,
 * and remain. The next agent removes them.
 */
void braid_tracefs_quota_stop(struct braid_tracefs_quota *q);

#endif /* BRAID_LIVE_TRACEFS_QUOTA_H */
