// SPDX-License-Identifier: GPL-2.0-or-later
/* Where events are missing. */
#include "host_agent/analyze/private.h"

int braid_losses_open_gap(struct braid_states *s, const struct braid_ring *ring, s64 ns)
{
	struct braid_guest_state *guest = &s->guests[ring->stream->number];

	if (ring->stream->kind == BRAID_STREAM_HOST) {
		if (ring->cpu >= s->nr_cpus || !braid_stream_is_first_host(ring->stream) ||
		    s->cpus[ring->cpu].in_gap)
			return 0;
		braid_list_touch_cpu(s, ring->cpu);
		braid_cpu_settle(s, &s->cpus[ring->cpu], ns);
		s->cpus[ring->cpu].in_gap = true;
		s->cpus[ring->cpu].known = false;
		s->cpus[ring->cpu].irqs = 0;
		s->cpus[ring->cpu].softirq = false;
		s->open_gaps++;
		s->host_gaps++;
		braid_throttle_forget(s);
		return braid_vcpu_forget(s, ring->cpu, ns);
	}
	guest->gaps++;
	if (ring->cpu >= guest->nr_vcpus)
		return 0;
	braid_mark(s, BRAID_MARK_LOST_GUEST, guest->first_vcpu + ring->cpu, ns, 0, 0);
	s->vcpus[guest->first_vcpu + ring->cpu].in_gap = true;
	s->vcpus[guest->first_vcpu + ring->cpu].task = BRAID_PID_UNKNOWN;
	s->vcpus[guest->first_vcpu + ring->cpu].call = BRAID_CALL_UNKNOWN;
	return braid_vcpu_refresh(s, &s->vcpus[guest->first_vcpu + ring->cpu], ns, 0);
}

/* From here on they are there again. */
static int close_gap(struct braid_states *s, const struct braid_ring *ring, s64 ns)
{
	struct braid_guest_state *guest = &s->guests[ring->stream->number];

	if (ring->stream->kind == BRAID_STREAM_HOST) {
		if (ring->cpu >= s->nr_cpus || !braid_stream_is_first_host(ring->stream) ||
		    !s->cpus[ring->cpu].in_gap)
			return 0;
		s->cpus[ring->cpu].in_gap = false;
		s->open_gaps--;
		s->host_gaps++;
		/* States that events of other CPUs have shown may no longer hold. */
		return braid_vcpu_forget(s, ring->cpu, ns);
	}
	guest->gaps++;
	if (ring->cpu >= guest->nr_vcpus)
		return 0;
	s->vcpus[guest->first_vcpu + ring->cpu].in_gap = false;
	/* It records again; if that is about going offline, it will say so. */
	s->vcpus[guest->first_vcpu + ring->cpu].offline = false;
	return braid_vcpu_refresh(s, &s->vcpus[guest->first_vcpu + ring->cpu], ns, 0);
}

int braid_losses_look_ahead(struct braid_states *s)
{
	const struct braid_item *next = s->last ? &s->last->item : NULL;

	if (!next || (next->host_ns == s->last_ns && next->seq == s->last_seq &&
			 next->payload == s->last_payload && next->kind == BRAID_ITEM_EVENT))
		return 0;
	if (next->lost_before)
		return braid_losses_open_gap(s, s->last, s->last_ns);
	return next->kind != BRAID_ITEM_EVENT || !braid_stream_is_first_host(next->stream) ||
	       s->last->cpu >= s->nr_cpus ? 0 : braid_gaps_check(s, next, s->last_ns);
}

int braid_losses_pass(struct braid_states *s, s64 ns)
{
	int err = 0;

	if (s->begin_ns == INT64_MAX)
		return 0;
	if (ns >= s->edge_ns)
		err = braid_edges_pass(s, ns);
	return err ? err : braid_life_pass(s, ns);
}

int braid_states_lost(struct braid_states *s, const struct braid_item *item)
{
	int err = braid_losses_look_ahead(s);

	if (!err)
		err = braid_losses_pass(s, item->host_ns);
	s->last = NULL;
	if (!err)
		err = braid_losses_open_gap(s, item->ring, item->host_ns);
	if (!err && item->kind == BRAID_ITEM_EVENT)
		err = close_gap(s, item->ring, item->host_ns);
	return err;
}
