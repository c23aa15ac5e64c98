// SPDX-License-Identifier: GPL-2.0-or-later
/* Rates clocks, compares two of them, and selects the best one available. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/clock_model/model.h"

#define MOST_MODELS	256	/* times the samples: bound of the models visited by a check */
#define GAP_NS	20000000000ULL	/* samples farther apart are not interpolated */

/* A moment at which clocks are compared. */
struct point {
	u32 vcpu;
	u64 counter;
	u64 taken_ns;
};

/* Each round-trip sample's moment, and the one half way to the next. Return: how many were put. */
static u32 points_of(const struct braid_clock_inputs *in, size_t k, struct point *to)
{
	const struct braid_round_trip *c = &in->round_trips[k];
	const struct braid_round_trip *next = k + 1 < in->nr_round_trips ? c + 1 : NULL;

	to[0] = (struct point){ c->vcpu ? c->vcpu - 1 : 0, c->s.counter, c->s.h2_ns };
	if (!next || next->vcpu != c->vcpu || next->era != c->era || (s64)(next->s.counter - c->s.counter) <= 1 ||
	    next->s.h2_ns - c->s.h2_ns > GAP_NS)
		return 1;
	to[1] = to[0];
	to[1].counter += (next->s.counter - c->s.counter) / 2;
	to[1].taken_ns = next->s.h2_ns;
	return 2;
}

static struct braid_clock_time at_point(const struct braid_clock *clock, const struct point *p)
{
	return braid_clock_convert(clock, p->vcpu, p->counter, p->taken_ns, 0);
}

static int by_size(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return x < y ? -1 : x > y;
}

int braid_clock_quality(const struct braid_clock *clock, const struct braid_clock_inputs *in,
			struct braid_clock_quality *q)
{
	u64 *bounds = calloc(2 * in->nr_round_trips + 1, sizeof(*bounds));
	struct point points[2];
	size_t k, nr = 0;
	u32 n, j;

	if (!bounds)
		return -ENOMEM;
	memset(q, 0, sizeof(*q));
	for (k = 0; k < in->nr_round_trips; k++) {
		n = points_of(in, k, points);
		for (j = 0; j < n; j++)
			bounds[nr++] = at_point(clock, &points[j]).bound_ns;
	}
	qsort(bounds, nr, sizeof(*bounds), by_size);
	q->points = nr;
	if (nr) {
		q->median_ns = bounds[nr / 2];
		q->p99_ns = bounds[nr * 99 / 100];
		q->worst_ns = bounds[nr - 1];
	}
	free(bounds);
	return 0;
}

void braid_clock_compare(const struct braid_clock *a, const struct braid_clock *b,
			 const struct braid_clock_inputs *in, struct braid_clock_comparison *c)
{
	struct point points[2];
	u64 apart, allowed;
	u32 n, j;
	size_t k;

	memset(c, 0, sizeof(*c));
	for (k = 0; k < in->nr_round_trips; k++) {
		n = points_of(in, k, points);
		for (j = 0; j < n; j++) {
			struct braid_clock_time x = at_point(a, &points[j]);
			struct braid_clock_time y = at_point(b, &points[j]);

			if (x.bound_ns == BRAID_BOUND_UNKNOWN || y.bound_ns == BRAID_BOUND_UNKNOWN) {
				c->unknown++;
				continue;
			}
			apart = x.ns > y.ns ? (u64)x.ns - (u64)y.ns : (u64)y.ns - (u64)x.ns;
			allowed = x.bound_ns + y.bound_ns;
			c->points++;
			c->outside += apart > allowed;
			if (apart > c->farthest_ns)
				c->farthest_ns = apart;
		}
	}
}

/*
 * Whether a clock's time of a sample, bound included, is within it; by any vCPU if none is given.
 */
static bool explained(const struct braid_clock *clock, const struct braid_round_trip *c)
{
	u32 vcpu = c->vcpu ? c->vcpu - 1 : 0, end = c->vcpu ? c->vcpu : clock->nr_tracks;
	struct braid_clock_time t;

	for (; vcpu < end; vcpu++) {
		if (!c->vcpu && clock->tracks[vcpu].shared)
			continue;
		t = braid_clock_convert(clock, vcpu, c->s.counter, c->s.h2_ns, 0);
		if (braid_clock_latest(t.ns, t.bound_ns) >= (s64)c->s.h1_ns &&
		    braid_clock_earliest(t.ns, t.bound_ns) <= (s64)c->s.h2_ns)
			return true;
	}
	return false;
}

/* Models that a round-trip sample may have to be held against, at most. */
static size_t count_models(const struct braid_clock *clock)
{
	size_t models = 0;
	u32 t;

	for (t = 0; t < clock->nr_tracks; t++)
		if (!clock->tracks[t].shared)
			models += clock->tracks[t].nr_epochs;
	return models;
}

void braid_clock_check(const struct braid_clock *clock, const struct braid_clock_inputs *in,
		       struct braid_clock_check *check)
{
	size_t k, step = 1 + count_models(clock) / (MOST_MODELS + 1);

	memset(check, 0, sizeof(*check));
	check->shortest_ns = ~0ULL;
	for (k = 0; k < in->nr_round_trips; k += step) {
		const struct braid_round_trip *c = &in->round_trips[k];

		if (c->s.h2_ns < c->s.h1_ns)
			continue;
		check->round_trips++;
		check->violations += !explained(clock, c);
		if (c->s.h2_ns - c->s.h1_ns < check->shortest_ns)
			check->shortest_ns = c->s.h2_ns - c->s.h1_ns;
	}
}

/* The choice -------------------------------------------------------------------------------- */

/* The offset is exact, or not this guest's: the region's samples decide. */
static int choose_offset(struct braid_clock *clock, const struct braid_clock_inputs *in,
			 char *why, size_t room)
{
	struct braid_clock_check check;
	int err = braid_clock_by_offset(clock, in);

	if (err) {
		snprintf(why, room, "%s", clock->reason);
		return err;
	}
	braid_clock_check(clock, in, &check);
	if (check.violations) {
		snprintf(why, room, "KVM's offset contradicts %llu of %llu round-trip samples",
			 (unsigned long long)check.violations,
			 (unsigned long long)check.round_trips);
		braid_clock_free(clock);
		return -ENODATA;
	}
	clock->nr_samples = check.round_trips;
	snprintf(clock->reason, sizeof(clock->reason),
		 "offset from KVM%s, confirmed by %llu round-trip samples", clock->nr_tracks > 1 ?
		 " for each vCPU" : "", (unsigned long long)check.round_trips);
	return 0;
}

int braid_clock_choose(struct braid_clock *clock, const struct braid_clock_inputs *in,
		       enum braid_clock_kind wanted)
{
	char why[sizeof(clock->reason)] = "requested";
	int err = -ENODATA;

	if (wanted == BRAID_CLOCK_KINDS || wanted == BRAID_CLOCK_KVM)
		err = choose_offset(clock, in, why, sizeof(why));
	if (err != -ENODATA || wanted == BRAID_CLOCK_KVM) {
		if (err == -ENODATA)
			snprintf(clock->reason, sizeof(clock->reason), "%s", why);
		return err;
	}
	/* Windows refine the exchange later, when events can be read. */
	if (wanted == BRAID_CLOCK_KINDS || wanted == braid_clock_sampled(in) ||
	    wanted == BRAID_CLOCK_WINDOWS) {
		err = braid_clock_fit(clock, in);
		if (!err)
			snprintf(clock->reason, sizeof(clock->reason), "%s", why);
		if (err != -ENODATA)
			return err;
		snprintf(why, sizeof(why), in->nr_round_trips ? "round-trip samples give no fix" :
			 "no round-trip samples");
	}
	snprintf(clock->reason, sizeof(clock->reason), "%s", why);
	return -ENODATA;
}
