// SPDX-License-Identifier: GPL-2.0-or-later
/* Interrupts on their way to a guest: where each was raised, injected and handled. */
#include <stdlib.h>
#include <string.h>

#include "host_agent/analyze/private.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

#define FLAG_HARDIRQ	0x08u	/* of common_flags: the context of an event */
#define FLAG_SOFTIRQ	0x10u
#define NR_VECTORS	256

int braid_marks_begin(struct braid_states *s)
{
	const struct braid_stream *part;
	struct braid_host_state *host;
	u32 *nr = calloc(s->nr_hosts, sizeof(*nr));
	size_t k, n;

	if (!nr)
		return braid_out_of_memory();
	for (k = 0; k < s->source->nr_streams; k++) {
		part = s->guests[k].nr_vcpus ? s->source->streams[k] : NULL;
		for (n = 0; part; part = braid_stream_part(s->source->streams[k], ++n)) {
			host = braid_states_host(s, part);
			host->only_guest = nr[braid_host_number(s, host)]++ ? NULL : &s->guests[k];
		}
	}
	free(nr);
	return 0;
}

static void marks_hand_on(struct braid_states *s, const struct braid_mark *mark)
{
	if (mark->kind != BRAID_MARK_LOST && mark->kind != BRAID_MARK_LOST_GUEST)
		braid_list_touch(s, mark->vcpu);
	if (s->ops && s->ops->mark)
		s->ops->mark(s->arg, mark);
}

void braid_mark(struct braid_states *s, enum braid_mark_kind kind, u32 vcpu, s64 ns,
		u64 bound_ns, u64 value)
{
	marks_hand_on(s, &(struct braid_mark){
		      .kind = kind, .vcpu = vcpu, .ns = ns, .bound_ns = bound_ns, .value = value,
	});
}

static bool in_interrupt(const struct braid_item *item, u32 flags)
{
	struct braid_record record;

	if (braid_format_pid(item) == BRAID_PID_UNKNOWN)
		return false;
	memcpy(&record, item->payload, sizeof(record));
	return record.common_flags & flags;
}

/* Where the number is in the sorted list, or belongs. */
static size_t marks_place_of(const struct braid_guest_state *guest, s64 id)
{
	size_t k;

	return braid_array_first(k, guest->nr_ids, guest->ids[k].id >= id);
}

/* The vCPU of a guest with this number of KVM's; BRAID_NO_VCPU: none is known. */
static u32 find_id(const struct braid_guest_state *guest, s64 id)
{
	size_t at = marks_place_of(guest, id);

	return at < guest->nr_ids && guest->ids[at].id == id ? guest->ids[at].vcpu : BRAID_NO_VCPU;
}

int braid_mark_set_id(struct braid_states *s, struct braid_vcpu *v, s64 id)
{
	struct braid_guest_state *guest = &s->guests[v->guest->number];
	size_t at = marks_place_of(guest, id);
	struct braid_kvm_id one = { .id = id, .vcpu = v - s->vcpus };

	if (v->number == BRAID_NO_VCPU)	/* of no guest */
		v->number = id;
	if (v->guest->kind == BRAID_STREAM_HOST)
		return 0;
	if (v->kvm_id != -1 || id < 0 || (at < guest->nr_ids && guest->ids[at].id == id))
		return 0;
	if (braid_array_push(guest->ids, guest->nr_ids, guest->ids_capacity, one))
		return braid_out_of_memory();
	memmove(&guest->ids[at + 1], &guest->ids[at], (guest->nr_ids - 1 - at) * sizeof(one));
	guest->ids[at] = one;
	v->kvm_id = id;
	return 0;
}

/*
 * The event says which APIC accepts the interrupt, but not of which guest: that is known of what a
 * vCPU sends to others, or if there is only one guest.
 */
static void take_raise(struct braid_states *s, const struct braid_vcpu *v,
		       const struct braid_item *item, const struct braid_role_info *info)
{
	struct braid_host_state *host = braid_states_host(s, item->stream);
	const struct braid_guest_state *guest;
	struct braid_mark mark = { .kind = BRAID_MARK_RAISED, .ns = item->host_ns };
	s64 id, vector;

	if (!braid_role_number(info, 0, item, &id) || !braid_role_number(info, 1, item, &vector) ||
	    vector < 0 || vector >= NR_VECTORS)
		return;
	host->seen.raises = true;
	mark.if_alone = !v || v->ipi != vector || in_interrupt(item, FLAG_HARDIRQ | FLAG_SOFTIRQ);
	guest = !mark.if_alone ? &s->guests[v->guest->number] :
		host->seen.other_vms ? NULL : host->only_guest;
	mark.vcpu = guest ? find_id(guest, id) : BRAID_NO_VCPU;
	mark.value = vector;
	if (mark.vcpu != BRAID_NO_VCPU)
		marks_hand_on(s, &mark);
}

void braid_mark_take_kvm(struct braid_states *s, struct braid_vcpu *v, const struct braid_item *item,
			 const struct braid_role_info *info)
{
	struct braid_seen *seen = &braid_states_host(s, item->stream)->seen;
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
		seen->injections = true;
		/* One that was injected before, and did not arrive, is not another one. */
		if (v && !second && value >= 0 && value < NR_VECTORS)
			braid_mark(s, BRAID_MARK_INJECTED, v - s->vcpus, item->host_ns, 0, value);
		break;
	default:
		seen->halts = true;
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
		braid_mark(s, BRAID_MARK_HANDLER, vcpu, item->host_ns,
			   braid_item_bound_of_host(item), vector);
		break;
	case BRAID_ROLE_VECTOR_EXIT:
	case BRAID_ROLE_IRQ_EXIT:
		braid_mark(s, BRAID_MARK_HANDLER_END, vcpu, item->host_ns,
			   braid_item_bound_of_host(item), 0);
		break;
	default:
		break;
	}
}

void braid_mark_wakes(struct braid_states *s, u32 vcpu, const struct braid_item *item)
{
	if (in_interrupt(item, FLAG_HARDIRQ))
		braid_mark(s, BRAID_MARK_WAKES, vcpu, item->host_ns,
			   braid_item_bound_of_host(item), 0);
}
