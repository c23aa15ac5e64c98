// SPDX-License-Identifier: GPL-2.0-or-later
/* What a guest's hypervisor reports of its counter: vmclock's disruption marker, and its time. */
#include "host_agent/clock_sync/host.h"
#include "host_agent/live/clock.h"

#define VMCLOCK_NS	10000000000ULL	/* interval in the capture, where only the time goes on */

int braid_live_vmclock_take_poll(struct braid_live_vmclock *vm, struct braid_live_stream *s,
				 const struct braid_round_trip *poll, u64 marker,
				 struct braid_round_trip *last)
{
	struct braid_clock_mark mark = {
		.kind = BRAID_MARK_DISRUPTED,
		.from_ns = vm->poll.s.h1_ns, .to_ns = poll->s.h2_ns,
	};
	u64 former = vm->marker;
	bool changed = vm->marked && marker != former;
	int err;

	*last = vm->poll;
	vm->poll = *poll;
	vm->marker = marker;
	vm->marked = true;
	if (!changed)
		return 0;
	vm->due_ns = 0;
	err = braid_live_emit(s, BRAID_CHUNK_CLOCK_MARK, NULL, 0, &mark, sizeof(mark));
	if (!err)
		err = braid_live_note(s, "the hypervisor disrupted the guest's counter, as by a migration or a restored snapshot: vmclock's marker changed from %llu to %llu",
				      (unsigned long long)former, (unsigned long long)marker);
	return err ? err : 1;
}

/* Whether two pages differ in more than the time. */
static bool differs(const struct braid_clock_vm *a, const struct braid_clock_vm *b)
{
	return a->marker != b->marker || a->generation != b->generation || a->flags != b->flags ||
	       a->changes != b->changes || a->time_type != b->time_type || a->status != b->status;
}

int braid_live_vmclock_poll(struct braid_live_vmclock *vm, struct braid_live_stream *s, bool now)
{
	const struct braid_clock_cells *cells =
		braid_mapping_section(s->mapping, &s->sb, BRAID_SECTION_CLOCK);
	struct braid_clock_vm one = { .host_ns = braid_host_clock_ns() };
	u32 seq = braid_load_acquire(&cells->vm_seq);			/* (K8) */

	if (!seq || seq & 1 || seq == vm->seq)
		return 0;
	one.marker = braid_load(&cells->vm_marker);
	one.counter = braid_load(&cells->vm_counter);
	one.time_ns = braid_load(&cells->vm_time_ns);
	one.bound_ns = braid_load(&cells->vm_bound_ns);
	one.generation = braid_load(&cells->vm_generation);
	one.flags = braid_load(&cells->vm_flags);
	one.changes = braid_load(&cells->vm_changes);
	one.time_type = braid_load(&cells->vm_time_type);
	one.status = braid_load(&cells->vm_status);
	braid_fence();							/* (K8) */
	if (braid_load(&cells->vm_seq) != seq)
		return 0;	/* it was being renewed: the next turn takes it */
	vm->seq = seq;
	if (!now && vm->taken && one.host_ns < vm->due_ns && !differs(&one, &vm->last))
		return 0;
	vm->taken = true;
	vm->due_ns = one.host_ns + VMCLOCK_NS;
	vm->last = one;
	return braid_live_emit(s, BRAID_CHUNK_CLOCK_VM, NULL, 0, &one, sizeof(one));
}
