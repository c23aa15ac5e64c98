// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Clocks in ns that are adjusted while they run: wall time, and clocks that follow NTP. Their rate
 * changes often, slightly and without a jump, so one line is valid only briefly; instead they are
 * nearly straight between samples. The rates nearby limit the curvature: while rates are in [low,
 * high], a curve deviates from its chord by at most (high - low) / 4 of the chord's length; and a
 * step within the chord, which changes its rate, by (high - low) of it.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/clock_model/model.h"
#include "host_agent/util/array.h"

#define MOMENT_NS	1000000		/* samples closer together are of one moment */
#define LONG_NS		2000000000ULL	/* an unobserved gap this long can hide any rate */
#define MOST_SLEW	0.112		/* of host time: 1 / 0.9, by adjtimex()'s tick, and some more */
#define AROUND		2		/* chords before and after that give the rates */
#define ROUNDING_NS	2
#define NS_HZ		1000000000ULL

/* Building --------------------------------------------------------------------------------- */

static bool makes_sense(const struct braid_clock_sample *s)
{
	return braid_sample_sane(s) && !(s->counter >> 62);
}

static u64 width(const struct braid_clock_sample *s)
{
	return s->h2_ns - s->h1_ns;
}

static struct braid_clock_breakpoint breakpoint_of(const struct braid_clock_sample *s)
{
	return (struct braid_clock_breakpoint){
		.value = s->counter,
		.ns = (s64)(s->h1_ns + width(s) / 2),
		.error_ns = width(s) / 2 + ROUNDING_NS,
	};
}

/* Whether the clock went from one breakpoint to the next without a step. */
static bool follows(const struct braid_clock_breakpoint *a, const struct braid_clock_breakpoint *b)
{
	double errors = a->error_ns + b->error_ns, ns = b->ns - a->ns;
	double value = (double)(s64)(b->value - a->value);

	return value > 0 && ns + errors >= value * (1 - MOST_SLEW) &&
	       ns - errors <= value * (1 + MOST_SLEW);
}

/* The largest deviation from the chord after breakpoint @at. */
static u64 bend(const struct braid_clock_epoch *e, size_t at)
{
	size_t from = at > AROUND ? at - AROUND : 0, to = at + AROUND + 1, k;
	double value = e->breakpoints[at + 1].value - e->breakpoints[at].value;
	double low = INFINITY, high = -INFINITY, most;

	to = to < e->nr_breakpoints - 1 ? to : e->nr_breakpoints - 1;
	for (k = from; k < to; k++) {
		double noise = (e->breakpoints[k].error_ns + e->breakpoints[k + 1].error_ns) /
			       (double)(e->breakpoints[k + 1].value - e->breakpoints[k].value);

		low = fmin(low, braid_chord_slope(&e->breakpoints[k]) - noise);
		high = fmax(high, braid_chord_slope(&e->breakpoints[k]) + noise);
	}
	if (value > LONG_NS || e->nr_breakpoints == 2) {
		low = fmin(low, 1 - MOST_SLEW);
		high = fmax(high, 1 + MOST_SLEW);
	}
	/*
	 * All of it: a small step within the chord looks like a rate, with an error of that size.
	 */
	most = (high - low) * value;
	return (u64)fmin(most, BRAID_MOST_NS) + 1;
}

static void set_bends(struct braid_clock_track *track)
{
	size_t k, at;

	for (k = 0; k < track->nr_epochs; k++)
		for (at = 0; at + 1 < track->epochs[k].nr_breakpoints; at++)
			track->epochs[k].breakpoints[at].bend_ns = bend(&track->epochs[k], at);
}

static struct braid_clock_epoch first_epoch(const struct braid_clock_breakpoint *first)
{
	return (struct braid_clock_epoch){
		.model = &braid_model_chords,
		.edge_rate = MOST_SLEW,
		.cause = BRAID_EPOCH_FIRST,
		.from_ns = INT64_MIN,
		.begun_ns = INT64_MIN,
		.first_counter = first->value,
	};
}

/* A step: the epoch that begins with a breakpoint, and the one before it. */
static struct braid_clock_epoch next_epoch(const struct braid_clock_epoch *before,
					   const struct braid_clock_breakpoint *breakpoint)
{
	const struct braid_clock_breakpoint *last =
		&before->breakpoints[before->nr_breakpoints - 1];
	struct braid_clock_epoch e = first_epoch(breakpoint);

	e.from_ns = last->ns - (s64)last->error_ns;
	e.begun_ns = breakpoint->ns + (s64)breakpoint->error_ns;
	e.step_ns = (breakpoint->ns - last->ns) - (s64)(breakpoint->value - last->value);
	if ((s64)(breakpoint->value - last->value) < 0)
		e.cause = BRAID_EPOCH_WENT_BACK;
	else
		e.cause = e.step_ns > 0 ? BRAID_EPOCH_STOOD_STILL : BRAID_EPOCH_JUMPED;
	return e;
}

static int put_breakpoint(struct braid_clock *clock, size_t *capacity,
			  const struct braid_clock_breakpoint *breakpoint)
{
	struct braid_clock_track *track = clock->tracks;
	struct braid_clock_epoch *e = NULL, next;
	int err = 0;

	if (track->nr_epochs)
		e = &track->epochs[track->nr_epochs - 1];
	if (e && breakpoint->ns <= e->breakpoints[e->nr_breakpoints - 1].ns) {
		clock->nr_refused++;	/* a sample too wide to be useful */
		return 0;
	}
	if (!e || !follows(&e->breakpoints[e->nr_breakpoints - 1], breakpoint)) {
		if (track->nr_epochs == BRAID_MAX_EPOCHS) {
			clock->nr_refused++;	/* clocks are not set that often */
			e->breakpoints[e->nr_breakpoints - 1].error_ns = BRAID_MOST_NS;
			return 0;
		}
		next = e ? next_epoch(e, breakpoint) : first_epoch(breakpoint);
		err = braid_array_push(track->epochs, track->nr_epochs, track->capacity, next);
		if (err)
			return err;
		e = &track->epochs[track->nr_epochs - 1];
		*capacity = 0;
	}
	err = braid_array_push(e->breakpoints, e->nr_breakpoints, *capacity, *breakpoint);
	if (err)
		return err;
	e->last_counter = breakpoint->value;
	e->nr_samples++;
	clock->nr_samples++;
	return 0;
}

/* The tightest sample of each moment makes a breakpoint. */
static int put_breakpoints(struct braid_clock *clock, const struct braid_clock_inputs *in)
{
	const struct braid_clock_sample *best = NULL, *s;
	struct braid_clock_breakpoint breakpoint;
	size_t capacity = 0, k;
	u64 moment_ns = 0;
	int err = 0;

	for (k = 0; k < in->nr_round_trips && !err; k++) {
		s = &in->round_trips[k].s;
		if (!makes_sense(s)) {
			clock->nr_refused++;
			continue;
		}
		if (best && s->h1_ns - moment_ns > MOMENT_NS) {
			breakpoint = breakpoint_of(best);
			err = put_breakpoint(clock, &capacity, &breakpoint);
			best = NULL;
		}
		if (!best)
			moment_ns = s->h1_ns;
		if (!best || width(s) < width(best))
			best = s;
	}
	if (!best)
		return err ? err : -ENODATA;
	breakpoint = breakpoint_of(best);
	return err ? err : put_breakpoint(clock, &capacity, &breakpoint);
}

int braid_clock_slewed(struct braid_clock *clock, const struct braid_clock_inputs *in)
{
	int err;

	memset(clock, 0, sizeof(*clock));
	clock->kind = BRAID_CLOCK_EXCHANGE;
	clock->nominal.mult = braid_clock_nominal_mult(NS_HZ);
	err = braid_clock_make_tracks(clock, 1);
	if (!err)
		err = put_breakpoints(clock, in);
	if (err) {
		braid_clock_free(clock);
		return err;
	}
	set_bends(clock->tracks);
	return 0;
}

bool braid_clock_name_slewed(const char *name)
{
	static const char *const slewed[] = { "mono", "boot", "tai", "realtime" };
	size_t k;

	for (k = 0; k < sizeof(slewed) / sizeof(*slewed); k++)
		if (!strcmp(name, slewed[k]))
			return true;
	return false;
}
