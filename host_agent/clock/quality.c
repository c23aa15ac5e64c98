// SPDX-License-Identifier: GPL-2.0-or-later
/* How good a clock is, and whether two of them agree. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/clock/private.h"

#define GAP_NS	20000000000ULL	/* between crossings farther apart nothing is looked at */

/* A moment at which clocks are looked at. */
struct point {
	u32 vcpu;
	u64 counter;
	u64 taken_ns;
};

/* Each crossing's moment, and the one half way to the next. Return: how many were put. */
static u32 points_of(const struct braid_clock_inputs *in, size_t k, struct point *to)
{
	const struct braid_crossing *c = &in->crossings[k];
	const struct braid_crossing *next = k + 1 < in->nr_crossings ? c + 1 : NULL;

	to[0] = (struct point){ c->vcpu ? c->vcpu - 1 : 0, c->s.counter, c->s.h2_ns };
	if (!next || next->vcpu != c->vcpu || (s64)(next->s.counter - c->s.counter) <= 1 ||
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
	u64 *bounds = calloc(2 * in->nr_crossings + 1, sizeof(*bounds));
	struct point points[2];
	size_t k, nr = 0;
	u32 n, j;

	if (!bounds)
		return -ENOMEM;
	memset(q, 0, sizeof(*q));
	for (k = 0; k < in->nr_crossings; k++) {
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
	for (k = 0; k < in->nr_crossings; k++) {
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

/* The end of an epoch: where the next begins, or the stream's end. */
static u64 worst_of_fit(const struct braid_clock *clock, const struct braid_clock_track *track,
			size_t k, u64 end_ns)
{
	const struct braid_clock_epoch *e = &track->epochs[k];
	u64 worst = braid_fit_bound(clock, e, e->first_counter);
	u64 bound = braid_fit_bound(clock, e, e->last_counter);

	worst = bound > worst ? bound : worst;
	if (!end_ns || k + 1 < track->nr_epochs || end_ns >> 62)
		return worst;
	bound = braid_fit_bound(clock, e, braid_clock_to_counter(&e->map, end_ns));
	return bound > worst ? bound : worst;
}

u64 braid_clock_worst_bound(const struct braid_clock *clock, u64 end_ns)
{
	u64 worst = 0, bound;
	size_t k;
	u32 t;

	for (t = 0; t < clock->nr_tracks; t++) {
		for (k = 0; !clock->tracks[t].shared && k < clock->tracks[t].nr_epochs; k++) {
			const struct braid_clock_epoch *e = &clock->tracks[t].epochs[k];

			if (e->knots)
				bound = braid_knots_bound(e, k + 1 < clock->tracks[t].nr_epochs ?
							     0 : end_ns);
			else if (e->gains)
				bound = braid_emulated_bound(e);
			else if (e->host)
				bound = braid_offset_bound(e, end_ns);
			else
				bound = worst_of_fit(clock, &clock->tracks[t], k, end_ns);
			worst = bound > worst ? bound : worst;
		}
	}
	return worst;
}
