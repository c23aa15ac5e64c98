/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The VMs of this host, whether or not their guests have the driver: processes that run vCPUs. */
#ifndef BRAID_DISCOVER_VMS_H
#define BRAID_DISCOVER_VMS_H

#include "host_agent/discover/discover.h"

struct braid_vm {
	pid_t pid;
	u64 start_ticks;			/* as /proc/PID/stat has it: another one of that
						   number began later */
	char name[BRAID_GUEST_NAME_BYTES];	/* -name, or "PROGRAM[PID]"; perhaps not unique */
};

/* The VMs that are known; zero at first. */
struct braid_vms {
	struct braid_vm *items;			/* by pid */
	size_t nr, capacity;
	struct braid_vms_seen *seen;		/* all processes, by pid */
	size_t nr_seen;
};

/**
 * braid_vms_look - update the list
 * @vms: braid_vms_free() it
 *
 * To be called about once a second. A process is examined when it is new, and again after 1, 2, 4,
 * ... calls, because one that is new may become a VMM later; of the others only the number is read.
 * VMs that this user may not inspect are found by their program's name alone.
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_vms_look(struct braid_vms *vms);

/** braid_vms_find - the VM of a process, or NULL; valid until the next look */
const struct braid_vm *braid_vms_find(const struct braid_vms *vms, pid_t pid);

/** braid_vms_free - what was found */
void braid_vms_free(struct braid_vms *vms);

#endif /* BRAID_DISCOVER_VMS_H */
