// SPDX-License-Identifier: GPL-2.0-or-later
/* Where events are missing. */
#include "host_agent/analyze/private.h"

/* Of a host's CPU. */
static int open_host_gap(struct braid_states *s, struct braid_host_state *host, u32 number, s64 ns)
{
	struct braid_host_cpu *cpu = &host->cpus[number];

	if (number >= host->nr_cpus || cpu->in_gap)
		return 0;
	braid_list_touch_cpu(host, number);
	braid_cpu_settle(s, cpu, ns);
	cpu->in_gap = true;
	cpu->known = false;
	cpu->irqs = 0;
	cpu->softirq = false;
	host->open_gaps++;
	host->gaps++;
	braid_throttle_forget(host);
	return braid_vcpu_forget(s, host, number, ns);
}

int braid_losses_open_gap(struct braid_states *s, const struct braid_ring *ring, s64 ns)
{
	struct braid_guest_state *guest = &s->guests[ring->stream->number];

	if (ring->stream->kind == BRAID_STREAM_HOST)
		return open_host_gap(s, braid_states_host(s, ring->stream), ring->cpu, ns);
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
	struct braid_host_state *host = braid_states_host(s, ring->stream);

	if (ring->stream->kind == BRAID_STREAM_HOST) {
		if (ring->cpu >= host->nr_cpus || !host->cpus[ring->cpu].in_gap)
			return 0;
		host->cpus[ring->cpu].in_gap = false;
		host->open_gaps--;
		host->gaps++;
		/* States that events of other CPUs have shown may no longer hold. */
		return braid_vcpu_forget(s, host, ring->cpu, ns);
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
	return next->kind != BRAID_ITEM_EVENT || next->stream->kind != BRAID_STREAM_HOST ||
	       s->last->cpu >= braid_states_host(s, next->stream)->nr_cpus ? 0 :
	       braid_gaps_check(s, next, s->last_ns);
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
