// SPDX-License-Identifier: GPL-2.0-or-later
/* Builds timelines from a stream's clock data. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/clock_model/model.h"
#include "host_agent/util/array.h"

#define RATE_BASE_NS	1000000		/* two samples this far apart determine a frequency */
#define MOST_HZ		1000000000000u	/* no counter is so fast */

/* The frequency that the samples themselves show; 0 when they are too close together. */
static u64 rate_of(const struct braid_clock_inputs *in)
{
	const struct braid_clock_sample *a, *b;
	unsigned __int128 hz;
	u64 ns;

	if (in->nr_round_trips < 2)
		return 0;
	a = &in->round_trips[0].s;
	b = &in->round_trips[in->nr_round_trips - 1].s;
	ns = b->h1_ns - a->h1_ns;
	if ((s64)ns < RATE_BASE_NS || (s64)(b->counter - a->counter) <= 0)
		return 0;
	hz = (unsigned __int128)(b->counter - a->counter) * 1000000000u / ns;
	return hz < MOST_HZ ? (u64)hz : 0;
}

/*
 * The reference of a fit. A counter that states the host's frequency runs at it, if any
 * frequency is the likeliest: the host's is known better than a guest can measure it.
 */
static void set_nominal(struct braid_clock *clock, u64 counter_hz, u64 counter,
			const struct braid_clock *host)
{
	clock->nominal.mult = braid_clock_nominal_mult(counter_hz);
	if (host && braid_same_rate(clock->nominal.mult, host->tracks->epochs->map.mult))
		clock->nominal.mult = host->tracks->epochs->map.mult;
	if (!clock->nominal.mult)	/* impossible: use any line, without a bound */
		clock->nominal.mult = 1ULL << BRAID_CLOCK_SHIFT;
	clock->nominal.ref_counter = counter;
}

/* Steps that neither a pause nor a break explains: of all vCPUs together, or of each. */
static size_t count_steps(const struct braid_clock *clock)
{
	size_t steps = 0, k;
	u32 t;

	for (t = 0; t < clock->nr_tracks; t++)
		for (k = 1; !clock->tracks[t].shared && k < clock->tracks[t].nr_epochs; k++)
			steps += clock->tracks[t].epochs[k].cause != BRAID_EPOCH_PAUSED &&
				 !clock->tracks[t].epochs[k].parted &&
				 (clock->tracks[t].epochs[k].nr_lines ||
				  clock->tracks[t].epochs[k].gains);
	return steps;
}

static int build_by_vcpu(const void *a, const void *b)
{
	const struct braid_round_trip *x = a, *y = b;

	if (x->vcpu != y->vcpu)
		return x->vcpu < y->vcpu ? -1 : 1;
	if (x->era != y->era)
		return x->era < y->era ? -1 : 1;
	return x->s.h1_ns < y->s.h1_ns ? -1 : x->s.h1_ns > y->s.h1_ns;
}

/*
 * A vCPU without samples, or without any since a break: it may not exist, or behave like the
 * others. It gets the epochs of all vCPUs together, without a bound.
 * @like: another such vCPU, fitted before, whose epochs it shares; or NULL.
 * Return: 0 or -ENOMEM.
 */
static int fit_unseen(struct braid_clock *clock, struct braid_clock_track *track,
		      const struct braid_clock_track *like, const struct braid_clock_inputs *in)
{
	u32 samples = clock->nr_samples, refused = clock->nr_refused;
	size_t k;
	int err;

	if (like) {
		*track = *like;
		track->shared = true;
		return 0;
	}
	err = braid_line_track(clock, track, in, in->round_trips, in->nr_round_trips);
	clock->nr_samples = samples;
	clock->nr_refused = refused;
	for (k = 0; k < track->nr_epochs; k++)
		track->epochs[k].nr_lines = 0;
	return err;
}

/* Whether a vCPU was visited in each era: no model spans two, and an era without samples has none. */
static bool build_is_complete(const struct braid_clock_inputs *in,
			      const struct braid_round_trip *samples,
			      size_t nr)
{
	u32 era = in->round_trips[0].era, last = in->round_trips[in->nr_round_trips - 1].era;
	size_t k;

	for (k = 0; k < nr && samples[k].era <= era + 1; k++)
		era = samples[k].era;
	return k == nr && nr && era == last && samples[0].era == in->round_trips[0].era;
}

/* A track for each vCPU. Return: 0, -ENODATA when the samples are of one vCPU, or -ENOMEM. */
static int fit_each(struct braid_clock *clock, const struct braid_clock_inputs *in)
{
	struct braid_round_trip *sorted = malloc(in->nr_round_trips * sizeof(*sorted));
	const struct braid_clock_track *unseen = NULL;
	int err = sorted ? braid_clock_make_tracks(clock, in->nr_vcpus) : -ENOMEM;
	size_t at = 0, end;
	u32 t, seen = 0;

	if (!err) {
		memcpy(sorted, in->round_trips, in->nr_round_trips * sizeof(*sorted));
		qsort(sorted, in->nr_round_trips, sizeof(*sorted), build_by_vcpu);
		while (at < in->nr_round_trips && !sorted[at].vcpu)
			at++;
	}
	for (t = 0; t < in->nr_vcpus && !err; t++, at = end) {
		struct braid_clock_track *track = &clock->tracks[t];

		for (end = at; end < in->nr_round_trips && sorted[end].vcpu == t + 1;)
			end++;
		seen += end > at;
		if (build_is_complete(in, &sorted[at], end - at)) {
			err = braid_line_track(clock, track, in, &sorted[at], end - at);
		} else {
			err = fit_unseen(clock, track, unseen, in);
			unseen = unseen ? unseen : track;
		}
		if (!err && !track->nr_epochs)
			err = -ENODATA;
	}
	free(sorted);
	return err || seen > 1 ? err : -ENODATA;
}

/* Replaces the clock's tracks by another model's, if those need fewer steps than this. */
static int prefer(struct braid_clock *clock, struct braid_clock *other, size_t steps, int err)
{
	if (!err && count_steps(other) < steps) {
		braid_clock_free_tracks(clock->tracks, clock->nr_tracks);
		clock->tracks = other->tracks;
		clock->nr_tracks = other->nr_tracks;
		clock->nr_samples = other->nr_samples;
		clock->nr_refused = other->nr_refused;
		return 0;
	}
	braid_clock_free_tracks(other->tracks, other->nr_tracks);
	return err == -ENOMEM ? err : 0;
}

/* The vCPUs contradict each other: try one line per vCPU. */
static int try_each(struct braid_clock *clock, const struct braid_clock_inputs *in)
{
	struct braid_clock each = { .nominal = clock->nominal };

	return prefer(clock, &each, count_steps(clock), fit_each(&each, in));
}

/* The counter steps repeatedly: it may not follow the host's; try a separate line. */
static int try_line(struct braid_clock *clock, const struct braid_clock_inputs *in)
{
	struct braid_clock line = { .nominal = clock->nominal, .jittery = clock->jittery };
	int err = braid_clock_make_tracks(&line, 1);

	if (!err)
		err = braid_line_track(&line, line.tracks, in, in->round_trips, in->nr_round_trips);
	return prefer(clock, &line, count_steps(clock) / 2, err);
}

/* Return: -ENODATA when the counter is not the host's own. */
static int fit_emulated(struct braid_clock *clock, const struct braid_clock_inputs *in)
{
	int err = braid_emulated_track(clock, clock->tracks, in, in->round_trips,
				       in->nr_round_trips);

	if (!err)
		return count_steps(clock) > 1 ? try_line(clock, in) : 0;
	braid_clock_free_tracks(clock->tracks, 1);
	clock->nr_samples = clock->nr_refused = 0;
	clock->nr_tracks = 0;
	return braid_clock_make_tracks(clock, 1) ? -ENOMEM : err;
}

int braid_clock_fit(struct braid_clock *clock, const struct braid_clock_inputs *in)
{
	int err;

	memset(clock, 0, sizeof(*clock));
	clock->kind = braid_clock_sampled(in);
	clock->jittery = in->counter_type == BRAID_COUNTER_TSC_EMULATED;
	clock->init_counter = in->init_counter;
	set_nominal(clock, in->counter_hz ? in->counter_hz : rate_of(in),
		    in->nr_round_trips ? in->round_trips[0].s.counter : 0, in->host);
	err = braid_clock_make_tracks(clock, 1);
	if (!err)
		err = clock->jittery && in->host ? fit_emulated(clock, in) : -ENODATA;
	if (err == -ENODATA)
		err = braid_line_track(clock, clock->tracks, in, in->round_trips,
				       in->nr_round_trips);
	if (!err && !clock->tracks->nr_epochs)
		err = -ENODATA;
	/* All vCPUs share an emulated counter: a line for each cannot be right. */
	if (!err && !clock->jittery && in->nr_vcpus > 1 && count_steps(clock))
		err = try_each(clock, in);
	if (err)
		braid_clock_free(clock);
	return err;
}

int braid_clock_nominal(struct braid_clock *clock, u64 counter_hz, u64 counter, s64 ns)
{
	struct braid_clock_epoch epoch = {
		.model = &braid_model_line, .from_ns = INT64_MIN, .begun_ns = INT64_MIN,
	};

	memset(clock, 0, sizeof(*clock));
	clock->kind = BRAID_CLOCK_NOMINAL;
	set_nominal(clock, counter_hz, counter, NULL);
	if (braid_clock_make_tracks(clock, 1))
		return -ENOMEM;
	epoch.map = clock->nominal;
	epoch.map.ref_ns = ns;
	if (!braid_array_push(clock->tracks->epochs, clock->tracks->nr_epochs,
			      clock->tracks->capacity, epoch))
		return 0;
	braid_clock_free(clock);
	return -ENOMEM;
}
