// SPDX-License-Identifier: GPL-2.0-or-later
/* Interrupts on their way to a guest: where each was raised, injected and handled. */
#include <string.h>

#include "host_agent/analyze/private.h"

#define FLAG_HARDIRQ	0x08u	/* of common_flags: the context of an event */
#define FLAG_SOFTIRQ	0x10u
#define NR_VECTORS	256

static void hand_on(const struct braid_states *s, const struct braid_mark *mark)
{
	if (s->ops && s->ops->mark)
		s->ops->mark(s->arg, mark);
}

void braid_mark(const struct braid_states *s, enum braid_mark_kind kind, u32 vcpu, s64 ns,
		u64 bound_ns, u64 value)
{
	hand_on(s, &(struct braid_mark){
		.kind = kind, .vcpu = vcpu, .ns = ns, .bound_ns = bound_ns, .value = value,
	});
}

static bool in_interrupt(const struct braid_item *item, u32 flags)
{
	struct braid_record record;

	if (item->payload_bytes < sizeof(record))
		return false;
	memcpy(&record, item->payload, sizeof(record));
	return record.common_flags & flags;
}

/* The vCPU of a guest with this number of KVM's; BRAID_NO_VCPU: none is known. */
static u32 find_id(const struct braid_states *s, const struct braid_guest_state *guest, s64 id)
{
	u32 k;

	/* Usually they are the same numbers. */
	if (id >= 0 && id < guest->nr_vcpus && s->vcpus[guest->first_vcpu + id].kvm_id == id)
		return guest->first_vcpu + (u32)id;
	for (k = 0; k < guest->nr_vcpus; k++)
		if (s->vcpus[guest->first_vcpu + k].kvm_id == id)
			return guest->first_vcpu + k;
	return BRAID_NO_VCPU;
}

/* The only guest of the trace with vCPUs, if no other VM has run on the host as yet; else NULL. */
static const struct braid_guest_state *only_guest(const struct braid_states *s)
{
	const struct braid_guest_state *only = NULL;
	size_t k;

	for (k = 0; k < s->source->nr_streams; k++) {
		if (!s->guests[k].nr_vcpus)
			continue;
		if (only)
			return NULL;
		only = &s->guests[k];
	}
	return s->other_vms ? NULL : only;
}

/*
 * The event says which APIC accepts the interrupt, but not of which guest: that is known of what a
 * vCPU sends to others, or if there is only one guest.
 */
static void take_raise(struct braid_states *s, const struct braid_vcpu *v,
		       const struct braid_item *item, const struct braid_role_info *info)
{
	const struct braid_guest_state *guest;
	struct braid_mark mark = { .kind = BRAID_MARK_RAISED, .ns = item->host_ns };
	s64 id, vector;

	if (!braid_role_number(info, 0, item, &id) || !braid_role_number(info, 1, item, &vector) ||
	    vector < 0 || vector >= NR_VECTORS)
		return;
	s->any_raise = true;
	mark.if_alone = !v || v->ipi != vector || in_interrupt(item, FLAG_HARDIRQ | FLAG_SOFTIRQ);
	guest = mark.if_alone ? only_guest(s) : &s->guests[v->guest->number];
	mark.vcpu = guest ? find_id(s, guest, id) : BRAID_NO_VCPU;
	mark.value = vector;
	if (mark.vcpu != BRAID_NO_VCPU)
		hand_on(s, &mark);
}

void braid_mark_take_kvm(struct braid_states *s, struct braid_vcpu *v, const struct braid_item *item,
			 const struct braid_role_info *info)
{
	s64 value = 0, second = 0;

	if (info->role == BRAID_ROLE_KVM_RAISE) {
		take_raise(s, v, item, info);
		return;
	}
	if (!braid_role_number(info, 0, item, &value))
		return;
	braid_role_number(info, 1, item, &second);
	switch (info->role) {
	case BRAID_ROLE_KVM_IPI:
		if (v && !in_interrupt(item, FLAG_HARDIRQ | FLAG_SOFTIRQ))
			v->ipi = value & (NR_VECTORS - 1);
		break;
	case BRAID_ROLE_KVM_INJECT:
		s->any_inject = true;
		/* One that was injected before, and did not arrive, is not another one. */
		if (v && !second && value >= 0 && value < NR_VECTORS)
			braid_mark(s, BRAID_MARK_INJECTED, v - s->vcpus, item->host_ns, 0, value);
		break;
	default:
		s->any_halted = true;
		if (v)
			braid_mark(s, BRAID_MARK_HALTED, v - s->vcpus, item->host_ns, 0, !!value);
	}
}

void braid_mark_take_guest(struct braid_states *s, u32 vcpu, const struct braid_item *item,
			   const struct braid_role_info *info)
{
	struct braid_guest_state *guest = &s->guests[item->stream->number];
	s64 vector = BRAID_MARK_DEVICE;

	switch (info->role) {
	case BRAID_ROLE_VECTOR_ENTRY:
		if (!braid_role_number(info, 0, item, &vector) || vector <= 0 || vector >= NR_VECTORS)
			return;
		/* fallthrough */
	case BRAID_ROLE_IRQ_ENTRY:
		guest->any_handler = true;
		braid_mark(s, BRAID_MARK_HANDLER, vcpu, item->host_ns, item->bound_ns, vector);
		break;
	case BRAID_ROLE_VECTOR_EXIT:
	case BRAID_ROLE_IRQ_EXIT:
		braid_mark(s, BRAID_MARK_HANDLER_END, vcpu, item->host_ns, item->bound_ns, 0);
		break;
	default:
		break;
	}
}

void braid_mark_wakes(const struct braid_states *s, u32 vcpu, const struct braid_item *item)
{
	if (in_interrupt(item, FLAG_HARDIRQ))
		braid_mark(s, BRAID_MARK_WAKES, vcpu, item->host_ns, item->bound_ns, 0);
}
