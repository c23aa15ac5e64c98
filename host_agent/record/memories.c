// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Guests whose regions come into their own memory during the recording: VMs that start, and drivers
 * that are loaded later.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/clock_sync/host.h"
#include "host_agent/record/private.h"
#include "host_agent/transport/vm_mirror.h"
#include "host_agent/transport/vm_search.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

#define LOOK_NS		1000000000ULL
#define ROUND_NS	500000000ULL	/* at least, for a search of all VMs */
#define SHARE		100		/* searches take one part of so many of the time */

int braid_record_note_domain(struct braid_recording *r, const char *path, const char *name)
{
	struct braid_record_memories *m = &r->memories;
	struct braid_record_domain domain = { 0 };
	size_t k;

	snprintf(domain.path, sizeof(domain.path), "%s", path);
	snprintf(domain.name, sizeof(domain.name), "%s", name);
	for (k = 0; k < m->nr_domains; k++) {
		if (strcmp(m->domains[k].name, name))
			continue;
		m->domains[k] = domain;
		return 0;
	}
	return braid_array_push(m->domains, m->nr_domains, m->capacity, domain) ?
	       braid_out_of_memory() : 0;
}

/* Whether a VM is a guest already: by its memory, or by a device's region that its driver uses. */
static bool is_recorded(const struct braid_recording *r, const struct braid_vm *vm,
			const char *path)
{
	struct braid_region_status status;
	size_t k;

	for (k = 0; k < r->nr_guests; k++) {
		status = braid_region_source_status(r->guests[k].source);
		if (!strcmp(r->guests[k].path, path) ||
		    (status.qemu_pid == vm->pid && status.phase == BRAID_PHASE_RECORDING))
			return true;
	}
	return false;
}

/*
 * Whether it is the copy of a region that is recorded elsewhere. While a guest is migrated, pages
 * of different times arrive in the destination, and no heartbeat there proves anything.
 */
static bool is_copy(const struct braid_recording *r, const struct braid_vm_memory *memory,
		    const struct braid_vm_region *region)
{
	struct braid_superblock sb;
	size_t k;

	if (braid_vm_region_read(memory, region, 0, &sb, sizeof(sb)))
		return true;
	for (k = 0; k < r->nr_guests; k++)
		if (braid_region_source_status(r->guests[k].source).incarnation == sb.incarnation)
			return true;
	return false;
}

/* Return: whether a VM has a region to record; 0 also if its memory cannot be read; -ENOMEM. */
static int has_region(const struct braid_recording *r, pid_t pid)
{
	struct braid_vm_region regions[BRAID_VM_REGIONS];
	struct braid_vm_search search;
	struct braid_vm_memory memory;
	int err = braid_vm_memory_open(&memory, pid);
	bool found = false;
	u32 k;

	if (err)
		return err == -ENOMEM ? err : 0;
	err = braid_vm_search(&memory, regions, &search);
	for (k = 0; !err && k < search.nr_regions && !found; k++)
		found = !is_copy(r, &memory, &regions[k]);
	braid_vm_memory_close(&memory);
	return err == -ENOMEM ? err : found;
}

static int memories_begin_guest(struct braid_recording *r, const struct braid_vm *vm,
				const char *path)
{
	const struct braid_record_memories *m = &r->memories;
	struct braid_record_guest guest = { .wait = BRAID_WAIT_GUEST_NONE };
	size_t k;
	int err;

	strcpy(guest.path, path);
	strcpy(guest.name, vm->name);
	for (k = 0; k < m->nr_domains; k++) {
		if (strcmp(m->domains[k].path, path))
			continue;
		strcpy(guest.domain, m->domains[k].name);
		strcpy(guest.name, m->domains[k].name);
	}
	if (braid_record_check_name(r, path, guest.name, guest.domain))
		snprintf(guest.name, sizeof(guest.name), "%.50s[%d]", vm->name, (int)vm->pid);
	if (braid_array_push(r->guests, r->nr_guests, r->guests_capacity, guest))
		return braid_out_of_memory();
	err = braid_record_open_guest(r, &r->guests[r->nr_guests - 1]);
	if (err) {
		r->nr_guests--;
		braid_record_say(r, guest.name, "left out: %s", braid_failure());
		return err == -ENOMEM ? err : 0;
	}
	braid_record_say(r, guest.name, "recorded from now on");
	return 0;
}

/* The next VM that is not recorded. */
static int search_next(struct braid_recording *r)
{
	struct braid_record_memories *m = &r->memories;
	const struct braid_vm *vm;
	char path[32];
	size_t k;
	int ret;

	for (k = 0; k < m->vms.nr; k++) {
		vm = &m->vms.items[m->at++ % m->vms.nr];
		snprintf(path, sizeof(path), BRAID_VM_SCHEME "%d", (int)vm->pid);
		if (is_recorded(r, vm, path))
			continue;
		ret = has_region(r, vm->pid);
		return ret > 0 ? memories_begin_guest(r, vm, path) : ret;
	}
	return 0;
}

int braid_record_poll_memories(struct braid_recording *r)
{
	struct braid_record_memories *m = &r->memories;
	u64 now_ns = braid_host_clock_ns(), end_ns, rest_ns;
	int err = 0;

	if (!m->wanted || !r->start_ns || r->end_ns)
		return 0;
	if (now_ns >= m->look_ns) {
		m->look_ns = now_ns + LOOK_NS;
		err = braid_vms_look(&m->vms);
	}
	if (err || now_ns < m->search_ns || !m->vms.nr)
		return err;
	now_ns = braid_host_clock_ns();
	err = search_next(r);
	end_ns = braid_host_clock_ns();
	rest_ns = SHARE * (end_ns - now_ns);
	if (rest_ns < ROUND_NS / m->vms.nr)
		rest_ns = ROUND_NS / m->vms.nr;
	m->search_ns = end_ns + rest_ns;
	return err;
}

void braid_record_close_memories(struct braid_recording *r)
{
	braid_vms_free(&r->memories.vms);
	free(r->memories.domains);
}
