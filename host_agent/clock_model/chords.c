// SPDX-License-Identifier: GPL-2.0-or-later
/* A clock in ns that is known at breakpoints, and nearly straight from each to the next. */
#include <math.h>

#include "host_agent/clock_model/model.h"

#define ROUNDING_NS	2

/* Host ns for each of the clock's, from a breakpoint to the next. */
double braid_chord_slope(const struct braid_clock_breakpoint *k)
{
	return (double)(k[1].ns - k[0].ns) / (double)(k[1].value - k[0].value);
}

/* The last breakpoint that is not after @at, a value or a host time; the first one if all are. */
static size_t chord_find(const struct braid_clock_epoch *e, bool by_value, u64 at)
{
	size_t low = 0, high = e->nr_breakpoints;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;
		const struct braid_clock_breakpoint *k = &e->breakpoints[middle];

		if (by_value ? k->value <= at : k->ns <= (s64)at)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* The slope that holds at a breakpoint's side that no chord covers. */
static double slope_near(const struct braid_clock_epoch *e, size_t at)
{
	if (e->nr_breakpoints == 1)
		return 1;
	return braid_chord_slope(&e->breakpoints[at + 1 < e->nr_breakpoints ? at : at - 1]);
}

/* The bound at a distance from breakpoint @at, in ns of either clock: in its chord, or outside. */
static u64 bound_at(const struct braid_clock_epoch *e, size_t at, bool within, double distance)
{
	const struct braid_clock_breakpoint *k = &e->breakpoints[at];
	double bound, length, part;

	if (within) {	/* the error of a chord is between those of its ends */
		length = (double)(k[1].value - k[0].value);
		part = distance < length ? distance / length : 1;
		bound = k[0].error_ns + part * ((double)k[1].error_ns - (double)k[0].error_ns) +
			k->bend_ns + ROUNDING_NS;
	} else if (e->edge_rate > 0 || !distance) {
		bound = k->error_ns + fabs(distance) *
			(e->edge_rate + fabs(slope_near(e, at) - 1));
	} else {
		return BRAID_BOUND_UNKNOWN;
	}
	return bound < BRAID_MOST_NS ? (u64)bound + 1 : BRAID_BOUND_UNKNOWN;
}

static struct braid_clock_time chords_to_host(const struct braid_clock *clock,
					      const struct braid_clock_epoch *e, u64 value)
{
	size_t at = chord_find(e, true, value);
	const struct braid_clock_breakpoint *k = &e->breakpoints[at];
	double distance = (double)(s64)(value - k->value);
	struct braid_clock_time t = { 0 };

	(void)clock;
	t.ns = (s64)((u64)k->ns + (u64)(s64)llrint(distance * slope_near(e, at)));
	t.bound_ns = bound_at(e, at, distance >= 0 && at + 1 < e->nr_breakpoints, distance);
	return t;
}

static struct braid_clock_reading to_guest(const struct braid_clock *clock,
					   const struct braid_clock_epoch *e, s64 ns)
{
	size_t at = chord_find(e, false, (u64)ns);
	const struct braid_clock_breakpoint *k = &e->breakpoints[at];
	double distance = (double)(s64)((u64)ns - (u64)k->ns), by_slope = slope_near(e, at);
	bool within = distance >= 0 && at + 1 < e->nr_breakpoints;
	struct braid_clock_reading r;

	(void)clock;

	r.value = k->value + (u64)(s64)llrint(by_slope > 0.5 ? distance / by_slope : distance);
	r.bound_ns = bound_at(e, at, within, within ? (double)(r.value - k->value) : distance);
	return r;
}

/* The largest up to a host time; 0: between the breakpoints. */
static u64 chords_bound_of(const struct braid_clock *clock, const struct braid_clock_epoch *e,
			   u64 end_ns)
{
	u64 worst = e->breakpoints[0].error_ns, bound;
	size_t k;

	(void)clock;
	for (k = 0; k + 1 < e->nr_breakpoints; k++) {
		bound = bound_at(e, k, true, 0);
		worst = bound > worst ? bound : worst;
		bound = bound_at(e, k, true, INFINITY);
		worst = bound > worst ? bound : worst;
	}
	if (end_ns && !(end_ns >> 62) && (s64)end_ns > e->breakpoints[e->nr_breakpoints - 1].ns) {
		bound = bound_at(e, e->nr_breakpoints - 1, false,
				 (double)((s64)end_ns - e->breakpoints[e->nr_breakpoints - 1].ns));
		worst = bound > worst ? bound : worst;
	}
	return worst < BRAID_MOST_NS ? worst : BRAID_BOUND_UNKNOWN;
}

const struct braid_clock_model braid_model_chords = {
	.to_host = chords_to_host,
	.to_guest = to_guest,
	.bound = chords_bound_of,
};
