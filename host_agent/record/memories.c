// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Guests whose regions come into their own memory during the recording: VMs that start, drivers
 * that are loaded later, and guests that are migrated from one VMM of this host to another.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/clock_sync/host.h"
#include "host_agent/record/private.h"
#include "host_agent/transport/endpoint.h"
#include "host_agent/transport/vm_mirror.h"
#include "host_agent/transport/vm_search.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "shared/region.h"

#define LOOK_NS		1000000000ULL
#define ROUND_NS	500000000ULL	/* at least, for a search of all VMs */
#define SILENT_NS	500000000ULL	/* from one look for a silent guest to the next */
#define BEATS		3	/* that may arrive of a guest that stands still */
#define SHARE		100		/* searches take one part of so many of the time */
#define GONE_SHARE	10		/* likewise, if all guests are gone ... */
#define MOVE_SHARE	1		/* ... and one is found elsewhere, which may live there */
#define FIND_NS		1000000000ULL	/* at least, to find a guest elsewhere then ... */
#define FIND_ROUNDS	2		/* ... in as many searches of each VM */
#define MOVE_NS		10000000000ULL	/* to see that it lives there */

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

static bool is_recording(const struct braid_record_guest *guest)
{
	return braid_region_source_status(guest->source).phase == BRAID_PHASE_RECORDING;
}

/* A flight recorder's snapshot has what the rings hold: not those of two VMs. */
static bool may_move(const struct braid_recording *r, const struct braid_record_guest *guest)
{
	return braid_endpoint_has_scheme(guest->path) && !r->o.flight.wanted;
}

/* The guest that is, or was last, recorded from a region of this incarnation; NULL: none. */
static struct braid_record_guest *find_twin(const struct braid_recording *r, u64 incarnation)
{
	size_t k;

	for (k = 0; k < r->nr_guests; k++)
		if (braid_region_source_status(r->guests[k].source).incarnation == incarnation)
			return &r->guests[k];
	return NULL;
}

/*
 * Whether a recorded guest lives in a copy of its memory. While it is migrated, pages of different
 * times arrive there, that of the heartbeat with them: nothing counts before the guest is silent
 * where it is recorded, and after that only more than the pages that were on their way can be.
 */
static bool lives_there(struct braid_record_memories *m, const struct braid_record_guest *guest,
			pid_t pid, u64 beat)
{
	const struct braid_region_status status = braid_region_source_status(guest->source);
	const struct braid_record_copy new = {
		.pid = pid, .incarnation = status.incarnation, .beat = beat,
	};
	struct braid_record_copy *copy;
	size_t k = 0;

	while (k < m->nr_copies && (m->copies[k].pid != pid ||
				    m->copies[k].incarnation != status.incarnation))
		k++;
	if (k == m->nr_copies &&
	    braid_array_push(m->copies, m->nr_copies, m->copies_capacity, new))
		return false;
	copy = &m->copies[k];
	if (is_recording(guest) && !status.silent)
		*copy = new;
	copy->beats += beat != copy->beat;
	copy->beat = beat;
	return copy->beats > BEATS;
}

/* What a VM is found to have. */
struct found {
	bool any;			/* a guest to be recorded */
	struct braid_record_guest *moved;	/* one recorded elsewhere; NULL: a new one */
};

static void examine(struct braid_recording *r, struct braid_vm_memory *memory,
		    const struct braid_vm_region *region, struct found *found)
{
	struct braid_record_guest *twin;
	struct braid_superblock sb;
	u64 beat;

	if (braid_vm_region_read(memory, region, 0, &sb, sizeof(sb)) ||
	    braid_region_check(&sb, region->bytes) ||
	    braid_vm_region_read(memory, region, sb.sections[BRAID_SECTION_MAILBOX].offset +
				 offsetof(struct braid_mailbox, guest_heartbeat), &beat,
				 sizeof(beat)))
		return;
	twin = find_twin(r, sb.incarnation);
	if (!twin || (!may_move(r, twin) && !is_recording(twin)))
		found->any |= r->memories.wanted;
	else if (may_move(r, twin) && lives_there(&r->memories, twin, memory->pid, beat))
		*found = (struct found){ .any = true, .moved = twin };
}

/* Skips a VM whose memory cannot be read. Return: 0, or -ENOMEM with braid_fail(). */
static int search(struct braid_recording *r, pid_t pid, struct found *found)
{
	struct braid_vm_region regions[BRAID_VM_REGIONS];
	struct braid_vm_search search;
	struct braid_vm_memory memory;
	int err = braid_vm_memory_open(&memory, pid);
	u32 k;

	if (err)
		return err == -ENOMEM ? err : 0;
	err = braid_vm_search(&memory, regions, &search);
	for (k = 0; !err && k < search.nr_regions && !found->any; k++)
		examine(r, &memory, &regions[k], found);
	braid_vm_memory_close(&memory);
	return err == -ENOMEM ? err : 0;
}

static int move_here(struct braid_recording *r, struct braid_record_guest *guest,
		     const struct braid_vm *vm, const char *path)
{
	strcpy(guest->path, path);
	r->memories.nr_copies = 0;
	guest->due_ns = 0;
	return braid_region_source_move(guest->source, vm->pid);
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
	struct found found = { 0 };
	const struct braid_vm *vm;
	char path[32];
	size_t k;
	int err;

	for (k = 0; k < m->vms.nr; k++) {
		vm = &m->vms.items[m->at++ % m->vms.nr];
		snprintf(path, sizeof(path), BRAID_VM_SCHEME "%d", (int)vm->pid);
		if (is_recorded(r, vm, path))
			continue;
		err = search(r, vm->pid, &found);
		if (err || !found.any)
			return err;
		return found.moved ? move_here(r, found.moved, vm, path) :
				     memories_begin_guest(r, vm, path);
	}
	return 0;
}

/* A guest in whose own memory the heartbeat stands still may have been migrated. */
static bool seeks_moved(const struct braid_recording *r)
{
	struct braid_region_status status;
	size_t k;

	for (k = 0; k < r->nr_guests; k++) {
		status = braid_region_source_status(r->guests[k].source);
		if (may_move(r, &r->guests[k]) && status.incarnation &&
		    (status.silent || status.phase == BRAID_PHASE_GONE))
			return true;
	}
	return false;
}

/* A VM that may have a guest that was recorded elsewhere. */
static bool has_others(const struct braid_recording *r)
{
	char path[32];
	size_t k;

	for (k = 0; k < r->memories.vms.nr; k++) {
		snprintf(path, sizeof(path), BRAID_VM_SCHEME "%d",
			 (int)r->memories.vms.items[k].pid);
		if (!is_recorded(r, &r->memories.vms.items[k], path))
			return true;
	}
	return false;
}

bool braid_record_awaits_moved(struct braid_recording *r)
{
	struct braid_record_memories *m = &r->memories;
	u64 now_ns = braid_host_clock_ns();
	bool searched = m->at - m->gone_at >= FIND_ROUNDS * m->vms.nr;

	if (!m->gone_ns) {
		m->gone_ns = now_ns;
		m->gone_at = m->at;
		m->look_ns = m->search_ns = 0;	/* the next turn finds the other VMs */
		return seeks_moved(r);
	}
	return now_ns - m->gone_ns < (m->nr_copies || !searched ? MOVE_NS : FIND_NS) &&
	       seeks_moved(r) && has_others(r);
}

u64 braid_record_memories_rest_ns(const struct braid_recording *r)
{
	const struct braid_record_memories *m = &r->memories;
	u64 now_ns = braid_host_clock_ns(), due_ns = m->look_ns;

	if (m->vms.nr && m->search_ns < due_ns)
		due_ns = m->search_ns;
	return due_ns > now_ns ? due_ns - now_ns : 0;
}

int braid_record_poll_memories(struct braid_recording *r)
{
	struct braid_record_memories *m = &r->memories;
	u64 now_ns = braid_host_clock_ns(), end_ns, rest_ns;
	int err = 0;

	if (!r->start_ns || r->end_ns || (now_ns < m->look_ns && now_ns < m->search_ns))
		return 0;
	if (!m->wanted && !seeks_moved(r)) {
		m->look_ns = m->search_ns = now_ns + SILENT_NS;
		return 0;
	}
	if (now_ns >= m->look_ns) {
		m->look_ns = now_ns + LOOK_NS;
		err = braid_vms_look(&m->vms);
	}
	if (err || now_ns < m->search_ns || !m->vms.nr)
		return err;
	now_ns = braid_host_clock_ns();
	err = search_next(r);
	end_ns = braid_host_clock_ns();
	rest_ns = (!m->gone_ns ? SHARE : m->nr_copies ? MOVE_SHARE : GONE_SHARE) *
		  (end_ns - now_ns);
	if (rest_ns < ROUND_NS / m->vms.nr)
		rest_ns = ROUND_NS / m->vms.nr;
	m->search_ns = end_ns + rest_ns;
	return err;
}

void braid_record_close_memories(struct braid_recording *r)
{
	braid_vms_free(&r->memories.vms);
	free(r->memories.domains);
	free(r->memories.copies);
}
