// SPDX-License-Identifier: GPL-2.0-or-later
/* Goes on with a source that grows: what was handed on before stays as it is. */
#include "host_agent/analyze/grow.h"
#include "host_agent/analyze/private.h"

/* Culprits are handed on up to a pause; not those of a wait whose CPU is not certain. */
static bool settles(const struct braid_vcpu *v)
{
	return !v->holds &&
	       (v->now.state == BRAID_VCPU_STOLEN || v->now.state == BRAID_VCPU_THROTTLED);
}

int braid_states_pause(struct braid_states *s, s64 ns)
{
	int err = braid_losses_look_ahead(s);
	u32 k;

	if (!err)
		err = braid_losses_pass(s, ns);
	s->last = NULL;
	s->paused_ns = ns;
	for (k = 0; k < s->nr_vcpus && !err && s->begin_ns != INT64_MAX; k++)
		if (settles(&s->vcpus[k]))
			err = braid_vcpu_settle(s, &s->vcpus[k], ns);
	return err;
}

/* A ring's next item, which the pause did not know: what is missing before it is so since then. */
static int take_next(struct braid_states *s, const struct braid_ring *ring)
{
	const struct braid_guest_state *guest = &s->guests[ring->stream->number];
	const struct braid_item *next = &ring->item;
	bool host = ring->stream->kind == BRAID_STREAM_HOST;

	if (!ring->merging || next->host_ns <= s->paused_ns || next->kind == BRAID_ITEM_NOTE ||
	    s->begin_ns == INT64_MAX)
		return 0;
	if (braid_stream_is_guest(ring->stream) && ring->cpu < guest->nr_vcpus &&
	    s->vcpus[guest->first_vcpu + ring->cpu].in_gap)
		return 0;
	if (next->lost_before)
		return braid_losses_open_gap(s, ring, s->paused_ns);
	return next->kind != BRAID_ITEM_EVENT || !host ||
	       ring->cpu >= braid_states_host(s, ring->stream)->nr_cpus ? 0 :
	       braid_gaps_check(s, next, s->paused_ns);
}

/* Return: 0 or -ENOMEM with braid_fail(). */
static int map_threads(struct braid_states *s)
{
	struct braid_source part = *s->source;
	struct braid_vcpu_map map = { 0 };
	int err;

	part.nr_streams = s->nr_streams;
	err = braid_vcpu_map_make(&map, &part);
	if (err)
		return err;
	braid_vcpu_map_free(&s->threads);
	s->threads = map;
	return 0;
}

int braid_states_grown(struct braid_states *s, bool renewed)
{
	int err = renewed ? map_threads(s) : 0;
	size_t k, n;

	if (renewed) {
		braid_roles_renew(&s->roles);
		braid_gaps_free(&s->gaps);
	}
	if (!err)
		err = braid_quota_grown(s);
	if (!err)
		braid_observe_grown(s);
	for (k = 0; k < s->nr_streams; k++)
		for (n = 0; n < s->source->streams[k]->nr_rings && !err; n++)
			err = take_next(s, s->source->streams[k]->rings[n]);
	return err;
}
