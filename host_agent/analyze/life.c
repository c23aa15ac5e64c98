// SPDX-License-Identifier: GPL-2.0-or-later
/* When a guest's life ends: it was reset, its driver or VMM ended, or trace-cmd traced it. */
#include <stdlib.h>
#include <string.h>

#include "host_agent/analyze/private.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

/*
 * That a guest was reset is seen only when its next driver begins: seconds later. The tasks of the
 * old boot ended with it, so they end here with its last sign of life: an event, or an answer
 * about its clock. trace-cmd stops tracing a guest seconds before its host, and does not say when:
 * such a guest's tasks, too, end with its last event.
 */
static bool ends(const struct braid_stream *guest)
{
	if (guest->kind != BRAID_STREAM_GUEST)
		return false;
	if (*guest->trace_clock)
		return true;
	return guest->end_reason && guest->end_reason != BRAID_END_STOPPED &&
	       braid_states_takes(guest->end_ns);
}

/* Events of a ring. Return: 0, or -errno with braid_fail(). */
static int find_last(struct braid_ring *ring, s64 *last_ns)
{
	s64 until_ns = ring->stream->end_ns ? (s64)ring->stream->end_ns : INT64_MAX;
	const struct braid_item *item = &ring->item;
	int ret = braid_ring_next(ring);

	if (ret > 0 && item->host_ns < *last_ns && braid_ring_skip(ring, *last_ns))
		ret = braid_ring_next(ring);
	for (; ret > 0; ret = braid_ring_next(ring))
		if (item->kind == BRAID_ITEM_EVENT && braid_item_is_sure(item) &&
		    item->host_ns > *last_ns && item->host_ns <= until_ns)
			*last_ns = item->host_ns;
	return ret;
}

static int find_life(struct braid_states *s, const struct braid_stream *guest)
{
	const struct braid_stream *part = guest->nr_stays ?
					  guest->stays[guest->nr_stays - 1].of : guest;
	const struct braid_clock_inputs *in = &part->clock_inputs;
	s64 last_ns = braid_states_takes(guest->found_ns) ? (s64)guest->found_ns : INT64_MIN;
	s64 answer_ns = INT64_MIN;
	int err = 0;
	size_t k;

	for (k = 0; k < in->nr_round_trips; k++)
		if (braid_states_takes(in->round_trips[k].s.h1_ns) &&
		    (s64)in->round_trips[k].s.h1_ns > answer_ns)
			answer_ns = in->round_trips[k].s.h1_ns;
	answer_ns = braid_stream_on_timeline(part, answer_ns);
	last_ns = answer_ns > last_ns ? answer_ns : last_ns;
	for (k = 0; k < guest->nr_rings && !err; k++)
		if (guest->rings[k]->cpu != BRAID_RING_NOTES)
			err = find_last(guest->rings[k], &last_ns);
	s->guests[guest->number].alive_ns = last_ns;
	return err;
}

static int find_all(void *arg)
{
	struct braid_states *s = arg;
	int err = 0;
	size_t k;

	for (k = 0; k < s->source->nr_streams && !err; k++)
		if (ends(s->source->streams[k]))
			err = find_life(s, s->source->streams[k]);
	return err;
}

static int by_last_sign(const void *a, const void *b, void *arg)
{
	const struct braid_states *s = arg;
	s64 x = s->guests[*(const u32 *)a].alive_ns, y = s->guests[*(const u32 *)b].alive_ns;

	return braid_compare(x, y);
}

static void show_next(struct braid_states *s)
{
	s->alive_ns = s->nr_past < s->nr_ended ? s->guests[s->ended_guests[s->nr_past]].alive_ns : INT64_MAX;
}

int braid_life_find(struct braid_states *s)
{
	const struct braid_stream *guest;
	size_t k;
	int err;

	s->alive_ns = INT64_MAX;
	s->ended_guests = calloc(s->source->nr_streams + 1, sizeof(*s->ended_guests));
	if (!s->ended_guests)
		return braid_out_of_memory();
	for (k = 0; k < s->source->nr_streams; k++) {
		guest = s->source->streams[k];
		s->guests[guest->number].alive_ns = INT64_MAX;
		if (ends(guest))
			s->ended_guests[s->nr_ended++] = guest->number;
		if (guest->before)
			s->guests[guest->before->number].reboots =
				!!memcmp(guest->before->boot_id, guest->boot_id,
					 sizeof(guest->boot_id));
	}
	if (!s->nr_ended)
		return 0;
	err = braid_states_silently(s->source, find_all, s);
	braid_source_rewind(s->source);
	qsort_r(s->ended_guests, s->nr_ended, sizeof(*s->ended_guests), by_last_sign, s);
	show_next(s);
	return err;
}

/* Its tasks are over. */
static int end_tasks(struct braid_states *s, const struct braid_guest_state *guest)
{
	struct braid_vcpu *v = &s->vcpus[guest->first_vcpu], *past = v + guest->nr_vcpus;
	int err = 0;

	for (; v < past && !err; v++) {
		v->task = BRAID_PID_NOT_TRACED;
		v->call = BRAID_CALL_UNKNOWN;
		err = braid_vcpu_refresh(s, v, guest->alive_ns, 0);
		if (!err)
			err = braid_vcpu_refresh_behind(s, v, guest->alive_ns, 0);
	}
	return err;
}

int braid_life_pass(struct braid_states *s, s64 ns)
{
	int err = 0;

	while (ns > s->alive_ns && !err) {
		err = end_tasks(s, &s->guests[s->ended_guests[s->nr_past++]]);
		show_next(s);
	}
	return err;
}

int braid_states_settle(struct braid_states *s, u32 vcpu, s64 ns)
{
	int err = braid_life_pass(s, ns);

	return err ? err : braid_vcpu_settle(s, &s->vcpus[vcpu], ns);
}
