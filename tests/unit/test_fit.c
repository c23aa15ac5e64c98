// SPDX-License-Identifier: GPL-2.0-or-later
/* The clock fit: whatever the delays, the true time is within the bound. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/clock_model/timeline.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"

#define MAX_SAMPLES	4000u

static struct braid_round_trip samples[MAX_SAMPLES];
static u64 seed = 1;

static u64 random_below(u64 n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % n;
}

static int fit(struct braid_clock *clock, u64 hz, u32 type, const struct braid_round_trip *c,
	       size_t nr)
{
	struct braid_clock_inputs in = {
		.counter_hz = hz, .counter_type = type, .nr_vcpus = 1,
		.round_trips = c, .nr_round_trips = nr,
	};

	return braid_clock_fit(clock, &in);
}

static struct braid_clock_time convert(const struct braid_clock *clock, u64 counter, u64 taken_ns)
{
	return braid_clock_convert(clock, 0, counter, taken_ns, 0);
}

/* A clock that is truly a line. */
struct truth {
	u64 hz;			/* stated */
	double ppm;		/* faster than stated, in ns for a counter step */
	u64 counter0;
	u64 ns0;
};

static long double truth_ns(const struct truth *t, u64 counter)
{
	long double steps = counter >= t->counter0 ? (long double)(counter - t->counter0) :
						     -(long double)(t->counter0 - counter);

	return t->ns0 + steps * 1e9L / t->hz * (1 + t->ppm / 1e6L);
}

/* Samples every @step_ns with delays up to @delay_ns, mostly on one side. */
static void take_samples(const struct truth *t, u32 first, u32 nr, u64 step_ns, u64 delay_ns)
{
	u64 counter = t->counter0;
	u32 k;

	for (k = first; k < first + nr; k++) {
		u64 before = 100 + random_below(delay_ns),
		    after = 100 + random_below(delay_ns / 20 + 1);
		long double ns = truth_ns(t, counter);

		if (random_below(4) == 0)
			after += random_below(50 * delay_ns);
		samples[k].s.h1_ns = (u64)floorl(ns) - before;
		samples[k].s.counter = counter;
		samples[k].s.h2_ns = (u64)ceill(ns) + after;
		counter += (u64)((long double)step_ns * t->hz / 1e9L) + random_below(1000);
	}
}

/* Checks that the truth is within the bound, at and beyond the samples. */
static u64 check_truth(const struct braid_clock *clock, const struct truth *t, u64 from, u64 to)
{
	u64 step = (to - from) / 997 + 1, counter, worst = 0;

	for (counter = from; counter < to; counter += step) {
		struct braid_clock_time at =
			convert(clock, counter, BRAID_TAKEN_UNKNOWN);
		u64 bound = at.bound_ns;
		long double off = at.ns - truth_ns(t, counter);

		CHECK(bound != BRAID_BOUND_UNKNOWN);
		if (fabsl(off) > bound) {
			CHECK(fabsl(off) <= bound);
			fprintf(stderr, "off by %Lf, bound %llu\n", off, (unsigned long long)bound);
			return worst;
		}
		worst = bound > worst ? bound : worst;
	}
	return worst;
}

static void drift_and_delays(void)
{
	static const double ppms[] = { 0, 0.02, -35, 500, -9000, 15000 };
	static const u64 rates[] = { 24000000, 1000000000, 2712345678ULL, 5000000000ULL };
	struct braid_clock clock;
	u32 i, j;

	for (i = 0; i < sizeof(ppms) / sizeof(*ppms); i++) {
		for (j = 0; j < sizeof(rates) / sizeof(*rates); j++) {
			struct truth t = {
				.hz = rates[j], .ppm = ppms[i],
				.counter0 = random_below(1ULL << 52), .ns0 = 1ULL << 50,
			};
			u64 worst, last;

			take_samples(&t, 0, 500, 20000000, 2000);
			NEED(!fit(&clock, t.hz, BRAID_COUNTER_TSC, samples, 500));
			CHECK_EQ(clock.kind, BRAID_CLOCK_EXCHANGE);
			CHECK_EQ(clock.tracks->nr_epochs, 1);
			CHECK_EQ(clock.nr_samples, 500);
			CHECK(fabs(clock.tracks->epochs[0].drift_ppm - ppms[i]) < 1);
			last = samples[499].s.counter;
			worst = check_truth(&clock, &t, t.counter0, last);
			CHECK(worst < 2000);
			CHECK(worst <= braid_clock_worst_bound(&clock, 0) + 1);
			/* Ten minutes on, and two seconds before. */
			check_truth(&clock, &t, last, last + 600 * t.hz);
			check_truth(&clock, &t, t.counter0 - 2 * t.hz, t.counter0);
			braid_clock_free(&clock);
		}
	}
}

static void long_time(void)
{
	struct truth t = { .hz = 3000000000ULL, .ppm = 0.3, .counter0 = 77, .ns0 = 1ULL << 40 };
	struct braid_clock clock;

	take_samples(&t, 0, MAX_SAMPLES, 60000000000ULL, 1500);		/* almost three days */
	NEED(!fit(&clock, t.hz, BRAID_COUNTER_TSC, samples, MAX_SAMPLES));
	CHECK_EQ(clock.tracks->nr_epochs, 1);
	check_truth(&clock, &t, t.counter0, samples[MAX_SAMPLES - 1].s.counter);
	CHECK(braid_clock_worst_bound(&clock, 0) < 300);
	braid_clock_free(&clock);
}

static void one_sample(void)
{
	struct truth t = { .hz = 1000000000, .ppm = 100, .counter0 = 5000, .ns0 = 1ULL << 40 };
	struct braid_clock clock;

	take_samples(&t, 0, 1, 1, 1000);
	NEED(!fit(&clock, t.hz, BRAID_COUNTER_TSC, samples, 1));
	check_truth(&clock, &t, t.counter0, t.counter0 + 1000000000);
	CHECK(braid_clock_worst_bound(&clock, 0) < 60000);
	braid_clock_free(&clock);
}

/* A step begins a new epoch; times in between may belong to either, and their bound covers both. */
static void steps(void)
{
	struct truth before = { .hz = 1000000000, .ppm = 3, .counter0 = 1000, .ns0 = 1ULL << 40 };
	struct truth after = { .hz = 1000000000, .ppm = -8, .ns0 = (1ULL << 40) + 30000000000ULL };
	struct braid_clock_time t;
	struct braid_clock clock;
	u64 between;
	s64 a, b;

	take_samples(&before, 0, 200, 50000000, 1000);
	after.counter0 = samples[199].s.counter + 5000000000ULL;
	take_samples(&after, 200, 200, 50000000, 1000);
	NEED(!fit(&clock, 1000000000, BRAID_COUNTER_TSC, samples, 400));
	CHECK_EQ(clock.tracks->nr_epochs, 2);
	CHECK_EQ(clock.tracks->epochs[1].cause, BRAID_EPOCH_STOOD_STILL);
	check_truth(&clock, &before, before.counter0, samples[199].s.counter + 1);
	check_truth(&clock, &after, after.counter0, samples[399].s.counter);
	between = samples[199].s.counter + 1000000000;
	t = convert(&clock, between, BRAID_TAKEN_UNKNOWN);
	a = (s64)truth_ns(&before, between);
	b = (s64)truth_ns(&after, between);
	CHECK(!t.sure);
	CHECK((u64)llabs(t.ns - a) <= t.bound_ns && (u64)llabs(t.ns - b) <= t.bound_ns);
	/* It existed before the later line could have produced it. */
	t = convert(&clock, between, b - 100000);
	CHECK(t.sure && !t.epoch && t.bound_ns < 10000);
	CHECK((u64)llabs(t.ns - a) <= t.bound_ns);
	/* Its ring does not return to an epoch that has ended. */
	t = braid_clock_convert(&clock, 0, between, BRAID_TAKEN_UNKNOWN, 1);
	CHECK(t.sure && t.epoch == 1 && (u64)llabs(t.ns - b) <= t.bound_ns);
	braid_clock_free(&clock);
}

/* Wide samples that overlap narrow ones or span a step cause no epoch and no false bound. */
static void wide_samples(void)
{
	struct truth before = {
		.hz = 1000000000, .ppm = 1, .counter0 = 1ULL << 33, .ns0 = 1ULL << 40
	};
	struct truth after = before;
	struct braid_clock clock;
	u64 counter, stop;
	u32 k;

	take_samples(&before, 0, 100, 10000000, 1000);
	stop = samples[99].s.counter + 4000000;
	after.counter0 = stop;
	after.ns0 = (u64)truth_ns(&before, stop) + 3000000000ULL;
	take_samples(&after, 100, 100, 10000000, 1000);
	for (k = 0; k < 100; k += 7)	/* asked before its neighbour, answered after it */
		samples[k] = (struct braid_round_trip){ .s = {
			samples[k].s.h1_ns - 6000000, samples[k].s.counter + 15000000,
			samples[k].s.h2_ns + 25000000 } };
	/* Asked before the stop, answered after it. */
	counter = stop + 10000000;
	samples[99].s = (struct braid_clock_sample){ (u64)truth_ns(&before, stop - 2000000),
						     counter,
						     (u64)truth_ns(&after, counter) + 1000 };
	NEED(!fit(&clock, 1000000000, BRAID_COUNTER_TSC, samples, 200));
	CHECK_EQ(clock.tracks->nr_epochs, 2);
	check_truth(&clock, &before, before.counter0, stop);
	check_truth(&clock, &after, stop + 1, samples[199].s.counter);
	braid_clock_free(&clock);
}

/* vCPUs whose counters differ: each has a track, and no step is found. */
static void tracks(void)
{
	struct truth t[3] = {
		{ .hz = 2500000000ULL, .ppm = 2, .counter0 = 1ULL << 40, .ns0 = 1ULL << 44 },
		{ .hz = 2500000000ULL,
		  .ppm = 2,
		  .counter0 = (1ULL << 40) + 777777777,
		  .ns0 = 1ULL << 44 },
		{ .hz = 2500000000ULL, .ppm = 2, .counter0 = 9999, .ns0 = 1ULL << 44 },
	};
	struct braid_clock_inputs in = {
		.counter_hz = 2500000000ULL, .counter_type = BRAID_COUNTER_TSC, .nr_vcpus = 3,
		.round_trips = samples, .nr_round_trips = 900,
	};
	struct braid_clock clock;
	struct braid_clock_time at;
	u32 k, cpu;

	for (k = 0; k < 900; k++) {
		u64 counter = t[k % 3].counter0 + k * 25000000ULL;
		u64 ns = (u64)truth_ns(&t[k % 3], counter);

		samples[k].s = (struct braid_clock_sample){ ns - 100, counter,
							    ns + 100 + random_below(3000) };
		samples[k].vcpu = k % 3 + 1;
	}
	NEED(!braid_clock_fit(&clock, &in));
	CHECK_EQ(clock.nr_tracks, 3);
	for (cpu = 0; cpu < 3; cpu++) {
		CHECK_EQ(clock.tracks[cpu].nr_epochs, 1);
		at = braid_clock_convert(&clock, cpu, t[cpu].counter0 + 5000000000ULL,
					 BRAID_TAKEN_UNKNOWN, 0);
		CHECK(fabsl(at.ns - truth_ns(&t[cpu], t[cpu].counter0 + 5000000000ULL)) <=
		      at.bound_ns);
		CHECK(at.bound_ns < 1000);
	}
	braid_clock_free(&clock);

	/* A guest that may have more vCPUs than were sampled: the clocks of others are unknown. */
	in.nr_vcpus = 4096;
	NEED(!braid_clock_fit(&clock, &in));
	CHECK_EQ(clock.nr_tracks, 4096);
	CHECK_EQ(clock.nr_samples, 900);
	at = braid_clock_convert(&clock, 2, t[2].counter0 + 5000000000ULL, BRAID_TAKEN_UNKNOWN, 0);
	CHECK(at.bound_ns < 1000);
	for (cpu = 3; cpu < 4096; cpu++) {
		CHECK_EQ(clock.tracks[cpu].nr_epochs, clock.tracks[3].nr_epochs);
		at = braid_clock_convert(&clock, cpu, t[0].counter0, BRAID_TAKEN_UNKNOWN, 0);
		CHECK_EQ(at.bound_ns, BRAID_BOUND_UNKNOWN);
	}
	for (k = 0; k < 900; k++)
		samples[k].vcpu = 0;
	braid_clock_free(&clock);
}

/* A counter that jitters about its line, as an emulated one does: one epoch, a larger bound. */
static void jittery(void)
{
	struct truth t = { .hz = 1000000000, .ppm = 5, .counter0 = 1 << 30, .ns0 = 1ULL << 45 };
	static s64 off[1000];
	struct braid_clock_time at;
	struct braid_clock clock;
	u32 k;

	take_samples(&t, 0, 1000, 30000000, 300);
	for (k = 0; k < 1000; k++) {
		off[k] = (s64)random_below(161) - 80;
		samples[k].s.h1_ns = (u64)floorl(truth_ns(&t, samples[k].s.counter)) + off[k] - 20;
		samples[k].s.h2_ns = samples[k].s.h1_ns + 41;
	}
	NEED(!fit(&clock, t.hz, BRAID_COUNTER_TSC, samples, 1000));
	CHECK_EQ(clock.tracks->nr_epochs, 1);
	CHECK(clock.tracks->epochs[0].slack_ns > 2 && clock.tracks->epochs[0].slack_ns <= 128);
	for (k = 0; k < 1000; k++) {
		at = convert(&clock, samples[k].s.counter, BRAID_TAKEN_UNKNOWN);
		CHECK(fabsl(at.ns - truth_ns(&t, samples[k].s.counter) - off[k]) <= at.bound_ns);
	}
	CHECK(braid_clock_worst_bound(&clock, 0) < 600);
	braid_clock_free(&clock);
}

/* The counter restarted: an event's page determines its epoch. */
static void counter_reset(void)
{
	struct truth before = { .hz = 1000000000, .counter0 = 1ULL << 40, .ns0 = 1ULL << 40 };
	struct truth after = { .hz = 1000000000,
			       .counter0 = 500,
			       .ns0 = (1ULL << 40) + (1ULL << 36) };
	struct braid_clock_inputs in = {
		.counter_hz = 1000000000, .counter_type = BRAID_COUNTER_TSC, .nr_vcpus = 1,
		.round_trips = samples, .nr_round_trips = 100,
		.init_counter = before.counter0 - 100,
	};
	struct braid_clock clock;

	take_samples(&before, 0, 50, 50000000, 1000);
	take_samples(&after, 50, 50, 50000000, 1000);
	NEED(!braid_clock_fit(&clock, &in));
	CHECK_EQ(clock.tracks->nr_epochs, 2);
	CHECK_EQ(clock.tracks->epochs[1].cause, BRAID_EPOCH_WENT_BACK);
	CHECK_EQ(convert(&clock, samples[20].s.counter, samples[21].s.h2_ns).epoch, 0);
	CHECK_EQ(convert(&clock, samples[70].s.counter, samples[71].s.h2_ns).epoch, 1);
	braid_clock_free(&clock);
}

static void invalid_samples(void)
{
	struct braid_clock clock;
	u32 k;

	for (k = 0; k < 1000; k++) {
		samples[k].s.h1_ns = random_below(~0ULL);
		samples[k].s.h2_ns = random_below(~0ULL);
		samples[k].s.counter = random_below(~0ULL);
	}
	NEED(!fit(&clock, random_below(~0ULL), BRAID_COUNTER_TSC, samples, 1000));
	for (k = 0; k < 1000; k++) {
		braid_clock_convert(&clock, 0, random_below(~0ULL), random_below(~0ULL),
				    random_below(clock.tracks->nr_epochs));
	}
	CHECK(clock.tracks->nr_epochs <= 256);
	braid_clock_worst_bound(&clock, 0);
	braid_clock_free(&clock);
	CHECK_EQ(fit(&clock, 5, BRAID_COUNTER_TSC, NULL, 0), -ENODATA);
	NEED(!braid_clock_nominal(&clock, 0, 5, 10));
	CHECK_EQ(clock.kind, BRAID_CLOCK_NOMINAL);
	CHECK_EQ(convert(&clock, 5, BRAID_TAKEN_UNKNOWN).ns, 10);
	CHECK_EQ(braid_clock_worst_bound(&clock, 0), BRAID_BOUND_UNKNOWN);
	braid_clock_free(&clock);
}

/* More samples never make the bound worse where both hold. */
static void tightens(void)
{
	struct truth t = { .hz = 2000000000, .ppm = 7, .counter0 = 1 << 20, .ns0 = 1ULL << 45 };
	u64 last = ~0ULL, bound;
	struct braid_clock clock;
	u32 nr;

	take_samples(&t, 0, 640, 10000000, 3000);
	for (nr = 10; nr <= 640; nr *= 2) {
		NEED(!fit(&clock, t.hz, BRAID_COUNTER_TSC, samples, nr));
		bound = convert(&clock, t.counter0, BRAID_TAKEN_UNKNOWN).bound_ns;
		CHECK(bound <= last);
		last = bound;
		braid_clock_free(&clock);
	}
}

/*
 * An emulated counter gains in small steps, at any moment: the bound must cover the times in
 * between.
 */
static void emulated_runs_ahead(void)
{
	enum { BURSTS = 6, STEPS = 1000 };
	static struct { u64 ns, counter; } truth[BURSTS * STEPS];
	struct braid_round_trip s[BURSTS * 4] = { 0 };
	struct braid_clock clock;
	u64 seed = 12345, counter = 5000000, ns = 1000000000, nr = 0, k, j;

	for (k = 0; k < BURSTS; k++) {
		u64 gain = k % 3 * 5;		/* alternately idle and under load */

		for (j = 0; j < STEPS; j++) {
			seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
			ns += 1000000;
			counter += 2000000 + (gain ? (seed >> 33) % (2 * gain) : 0);
			truth[nr].ns = ns;
			truth[nr++].counter = counter;
		}
		for (j = 0; j < 4; j++) {
			ns += 1000;
			counter += 2000;
			s[k * 4 + j].s = (struct braid_clock_sample){ ns - 60, counter, ns + 70 };
		}
	}
	NEED(!fit(&clock, 2000000000, BRAID_COUNTER_TSC_EMULATED, s, BURSTS * 4));
	CHECK_EQ(clock.tracks->nr_epochs, 1);
	for (k = STEPS; k < nr; k++) {	/* from the first burst on */
		struct braid_clock_time at = convert(&clock, truth[k].counter, BRAID_TAKEN_UNKNOWN);
		s64 off = at.ns - (s64)truth[k].ns;

		if ((u64)llabs(off) > at.bound_ns) {
			CHECK_EQ(off, 0);
			break;
		}
	}
	CHECK(braid_clock_worst_bound(&clock, 0) < 50000);
	braid_clock_free(&clock);
}

int main(void)
{
	RUN(emulated_runs_ahead);
	RUN(drift_and_delays);
	RUN(long_time);
	RUN(one_sample);
	RUN(steps);
	RUN(wide_samples);
	RUN(tracks);
	RUN(jittery);
	RUN(counter_reset);
	RUN(invalid_samples);
	RUN(tightens);
	return VERDICT();
}
