// SPDX-License-Identifier: GPL-2.0-or-later
/* The clock that KVM's tsc-offset gives: exact, except for the map of the host's own counter. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/clock_model/model.h"
#include "host_agent/util/array.h"

#define ROUNDING_NS	1	/* of the offset's counter step */
#define MAX_RATIO_BITS	63	/* KVM has 32 or 48 */
#define MOST_GAPS	65536u	/* of all tracks: each pause is an epoch of each */

/* The host counter at a guest's counter value; @steps: host steps per guest step. */
static u64 host_counter(const struct braid_clock_offset *o, u64 counter, u64 *steps)
{
	u64 scaled = counter - o->offset;

	*steps = 1;
	if (!o->ratio_bits || !o->ratio)
		return scaled;
	*steps = (u64)(((unsigned __int128)1 << o->ratio_bits) / o->ratio) + 1;
	return (u64)(((unsigned __int128)scaled << o->ratio_bits) / o->ratio);
}

/* The part of a bound from the step of the guest's counter and rounding to ns. */
static u64 add_steps(const struct braid_clock_epoch *e, u64 bound_ns, u64 steps)
{
	struct braid_clock_map rate = { .mult = e->host->nominal.mult };

	return bound_ns == BRAID_BOUND_UNKNOWN ? bound_ns :
	       bound_ns + ROUNDING_NS + (u64)braid_clock_to_ns(&rate, steps);
}

static struct braid_clock_time offset_to_host(const struct braid_clock *clock,
					      const struct braid_clock_epoch *e, u64 counter)
{
	u64 steps, at = host_counter(&e->offset, counter, &steps);
	struct braid_clock_time t = braid_clock_convert(e->host, 0, at, BRAID_TAKEN_UNKNOWN, 0);

	(void)clock;
	t.bound_ns = add_steps(e, t.bound_ns, steps);
	return t;
}

static u64 offset_bound_of(const struct braid_clock *clock, const struct braid_clock_epoch *e,
			   u64 end_ns)
{
	u64 steps;

	(void)clock;
	host_counter(&e->offset, 0, &steps);
	return add_steps(e, braid_clock_worst_bound(e->host, end_ns), steps);
}

static const struct braid_clock_model model = {
	.any_counter = true,
	.to_host = offset_to_host,
	.bound = offset_bound_of,
};

/* When the host's counter had a value. */
static struct braid_clock_time time_of(const struct braid_clock *host, u64 counter)
{
	return braid_clock_convert(host, 0, counter, BRAID_TAKEN_UNKNOWN, 0);
}

static int put_epoch(struct braid_clock_track *track, const struct braid_clock_epoch *e)
{
	return braid_array_push(track->epochs, track->nr_epochs, track->capacity, *e);
}

/* An event is held against each epoch of its vCPU, and that against each epoch of the host. */
static size_t most_epochs(const struct braid_clock_inputs *in)
{
	return BRAID_MAX_EPOCHS / in->host->tracks->nr_epochs;
}

/* How far the pauses and breaks of the inputs have been taken. */
struct gaps {
	size_t mark;
	size_t brk;
};

/* The next pause; NULL: none. */
static const struct braid_clock_mark *next_pause(const struct braid_clock_inputs *in, size_t *at)
{
	for (; *at + 1 < in->nr_marks; ++*at)
		if (in->marks[*at].kind == BRAID_MARK_PAUSED &&
		    in->marks[*at + 1].kind == BRAID_MARK_RESUMED)
			return &in->marks[*at];
	return NULL;
}

/* Sets the limits and the cause of an epoch. Return: false if no epoch begins before @until_ns. */
static bool next_gap(const struct braid_clock_inputs *in, struct gaps *at, s64 until_ns,
		     struct braid_clock_epoch *e)
{
	const struct braid_clock_mark *pause = next_pause(in, &at->mark);
	const struct braid_clock_mark *brk = at->brk < in->nr_breaks ? &in->breaks[at->brk] : NULL;

	if (pause && (s64)pause->from_ns < until_ns && (!brk || pause->from_ns <= brk->from_ns)) {
		e->cause = BRAID_EPOCH_PAUSED;
		e->disrupted = false;
		e->from_ns = (s64)pause[0].from_ns;
		e->begun_ns = (s64)pause[1].to_ns;
		at->mark++;
		return true;
	}
	if (!brk || (s64)brk->from_ns >= until_ns)
		return false;
	e->cause = braid_break_cause(brk);
	e->disrupted = brk->kind == BRAID_MARK_DISRUPTED;
	e->from_ns = (s64)brk->from_ns;
	e->begun_ns = (s64)brk->to_ns;
	at->brk++;
	return true;
}

/*
 * A pause or a break begins an epoch even if the model stays: no interpolation across it. When
 * the table is full, further ones begin none.
 */
static int put_gaps(struct braid_clock *clock, struct braid_clock_track *track,
		    const struct braid_clock_inputs *in, struct gaps *at, s64 until_ns)
{
	size_t most = MOST_GAPS / clock->nr_tracks;
	struct braid_clock_epoch e;
	int err = 0;

	if (most >= most_epochs(in))
		most = most_epochs(in) - 1;
	if (!track->nr_epochs)
		return 0;
	e = track->epochs[track->nr_epochs - 1];
	e.step_ns = 0;
	while (track->nr_epochs < most && !err && next_gap(in, at, until_ns, &e))
		err = put_epoch(track, &e);
	return err;
}

/* No scaling of KVM's; or a guest that writes its counter all the time, to keep us busy. */
static int offset_refuse(struct braid_clock *clock, const struct braid_clock_offset *o)
{
	bool impossible = o->ratio_bits > MAX_RATIO_BITS && o->ratio_bits != BRAID_OFFSET_LOST;

	snprintf(clock->reason, sizeof(clock->reason), "KVM %s vCPU %u%s",
		 impossible ? "scales" : "set the offset of", o->vcpu,
		 impossible ? " by an invalid ratio" : " too often");
	return -ENODATA;
}

/*
 * When an offset began to hold of which a new stream knows no more than that it does: not before
 * the last time at which the guest was seen elsewhere.
 */
static s64 moved_ns(const struct braid_clock_inputs *in, const struct braid_clock_epoch *e)
{
	s64 ns = e->from_ns;
	size_t k;

	for (k = 0; k < in->nr_breaks && (s64)in->breaks[k].from_ns <= e->begun_ns; k++)
		if (in->breaks[k].kind == BRAID_MARK_UNSEEN && (s64)in->breaks[k].from_ns > ns)
			ns = (s64)in->breaks[k].from_ns;
	return ns;
}

/* @offsets: nr of them, of this vCPU. */
static int build_track(struct braid_clock *clock, struct braid_clock_track *track,
		       const struct braid_clock_inputs *in, u32 vcpu,
		       const struct braid_clock_offset *const *offsets, size_t nr)
{
	const struct braid_clock_offset *last = NULL;
	struct gaps gaps = { 0 };
	size_t k;
	int err = 0;

	for (k = 0; k < nr && !err; k++) {
		const struct braid_clock_offset *o = offsets[k];
		struct braid_clock_epoch e = { .model = &model, .host = in->host, .offset = *o };
		struct braid_clock_time from, begun;

		if (last && braid_offset_same(last, o))
			continue;
		if (o->ratio_bits > MAX_RATIO_BITS || track->nr_epochs + 1 >= most_epochs(in))
			return offset_refuse(clock, o);
		e.drift_ppm = braid_clock_drift(in->host);
		e.from_ns = e.begun_ns = INT64_MIN;
		if (last) {
			e.cause = BRAID_EPOCH_OFFSET;
			from = time_of(in->host, o->after_counter);
			begun = time_of(in->host, o->from_counter);
			e.from_ns = braid_clock_earliest(from.ns, from.bound_ns);
			e.begun_ns = braid_clock_latest(begun.ns, begun.bound_ns);
			if (!o->after_counter)
				e.from_ns = moved_ns(in, &e);
			err = put_gaps(clock, track, in, &gaps, e.from_ns);
		}
		if (!err)
			err = put_epoch(track, &e);
		last = o;
	}
	if (!err && !last) {
		snprintf(clock->reason, sizeof(clock->reason), "KVM offset of vCPU %u unavailable", vcpu);
		return -ENODATA;
	}
	return err ? err : put_gaps(clock, track, in, &gaps, INT64_MAX);
}

/* Whether all vCPUs always had one model. */
static bool all_alike(const struct braid_clock *clock)
{
	u32 t;

	for (t = 0; t < clock->nr_tracks; t++)
		if (clock->tracks[t].nr_epochs != 1 ||
		    !braid_offset_same(&clock->tracks[t].epochs[0].offset,
			      &clock->tracks[0].epochs[0].offset))
			return false;
	return true;
}

/* By vCPU, and those of one in the order seen. */
static int offset_by_vcpu(const void *a, const void *b)
{
	const struct braid_clock_offset *x = *(const struct braid_clock_offset **)a;
	const struct braid_clock_offset *y = *(const struct braid_clock_offset **)b;

	if (x->vcpu != y->vcpu)
		return x->vcpu < y->vcpu ? -1 : 1;
	return x < y ? -1 : x > y;
}

static int build_tracks(struct braid_clock *clock, const struct braid_clock_inputs *in)
{
	const struct braid_clock_offset **sorted = malloc(in->nr_offsets * sizeof(*sorted));
	size_t k, at = 0, end;
	int err = sorted ? 0 : -ENOMEM;
	u32 t;

	for (k = 0; k < in->nr_offsets && !err; k++)
		sorted[k] = &in->offsets[k];
	if (!err)
		qsort(sorted, in->nr_offsets, sizeof(*sorted), offset_by_vcpu);
	for (t = 0; t < clock->nr_tracks && !err; t++, at = end) {
		for (end = at; end < in->nr_offsets && sorted[end]->vcpu == t;)
			end++;
		err = build_track(clock, &clock->tracks[t], in, t, &sorted[at], end - at);
	}
	free(sorted);
	return err;
}

int braid_clock_by_offset(struct braid_clock *clock, const struct braid_clock_inputs *in)
{
	char reason[sizeof(clock->reason)];
	u32 nr = 1;
	int err;
	size_t k;

	memset(clock, 0, sizeof(*clock));
	if (!in->nr_offsets || !in->host) {
		snprintf(clock->reason, sizeof(clock->reason), "%s", !in->nr_offsets ?
			 "KVM offset unavailable" : "the host's counter is not mapped to its clock");
		return -ENODATA;
	}
	clock->kind = BRAID_CLOCK_KVM;
	clock->nominal = in->host->nominal;
	clock->init_counter = in->init_counter;
	for (k = 0; k < in->nr_offsets; k++)	/* possible vCPUs may never have existed */
		if (in->offsets[k].vcpu < in->nr_vcpus && in->offsets[k].vcpu >= nr)
			nr = in->offsets[k].vcpu + 1;
	err = braid_clock_make_tracks(clock, nr);
	if (!err)
		err = build_tracks(clock, in);
	if (err) {
		memcpy(reason, clock->reason, sizeof(reason));
		braid_clock_free(clock);
		memcpy(clock->reason, reason, sizeof(reason));
		return err;
	}
	if (all_alike(clock))
		while (clock->nr_tracks > 1)
			free(clock->tracks[--clock->nr_tracks].epochs);
	return 0;
}
