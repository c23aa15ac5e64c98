// SPDX-License-Identifier: GPL-2.0-or-later
/* Clocks that are adjusted while sampled: for any action of NTP, the truth is within the bound. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "host_agent/clock_model/timeline.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"

#define MAX_SECONDS	700
#define MAX_SAMPLES	40000u
#define START_NS	5000000000000ULL
#define START_VALUE	1700000000000000000ULL
#define PHASE_NS	45000000ULL	/* rates change between two samples */
#define STEP_NS		100000000ULL
#define FIRST_STEP_NS	20000000ULL

static struct braid_round_trip samples[MAX_SAMPLES];
static double offset_ns[MAX_SECONDS + 1];	/* gained up to the start of each second */
static double rate_ppm[MAX_SECONDS + 1];
static u32 seconds, nr_samples;

static u64 truth(u64 ns)
{
	u64 since = ns - START_NS + PHASE_NS, second = since / 1000000000;
	double part = (since % 1000000000) / 1e9;

	return START_VALUE + since + (s64)floor(offset_ns[second] + part * rate_ppm[second] * 1e3);
}

/* A sampled clock whose rate changes every second, and whose offset changes by steps. */
static void run_clock(u32 nr, double (*rate)(u32 second), double (*step)(u32 second))
{
	u64 ns, every, seed = 7;
	u32 k;

	seconds = nr;
	offset_ns[0] = 0;
	for (k = 0; k <= nr; k++) {
		rate_ppm[k] = rate(k);
		if (k)
			offset_ns[k] = offset_ns[k - 1] + rate_ppm[k - 1] * 1e3 +
				       (step ? step(k) : 0);
	}
	nr_samples = 0;
	for (ns = START_NS; ns < START_NS + nr * 1000000000ULL; ns += every) {
		every = ns < START_NS + 1000000000 ? FIRST_STEP_NS : STEP_NS;
		for (k = 0; k < 4; k++) {
			struct braid_clock_sample *s = &samples[nr_samples++].s;

			NEED(nr_samples < MAX_SAMPLES);
			seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
			s->counter = truth(ns + k * 100);
			s->h1_ns = ns + k * 100 - 15 - (seed >> 60);
			s->h2_ns = ns + k * 100 + 15 + (seed >> 33) % 40;
		}
	}
}

static void fit(struct braid_clock *clock)
{
	struct braid_clock_inputs in = {
		.nr_vcpus = 1, .round_trips = samples, .nr_round_trips = nr_samples,
	};

	NEED(!braid_clock_slewed(clock, &in));
}

/* Converts both ways, over all that was sampled. Return: the mean bound. */
static u64 check_truth(const struct braid_clock *clock)
{
	u64 last = samples[nr_samples - 1].s.h1_ns, ns, sum = 0, nr = 0;

	for (ns = START_NS; ns < last; ns += 9999991) {
		u64 value = truth(ns);
		struct braid_clock_time t = braid_clock_convert(clock, 0, value,
								BRAID_TAKEN_UNKNOWN, 0);
		struct braid_clock_reading r = braid_clock_reading_at(clock, ns);

		CHECK(llabs(t.ns - (s64)ns) <= (s64)t.bound_ns);
		CHECK(llabs((s64)(r.value - value)) <= (s64)r.bound_ns);
		sum += t.bound_ns;
		nr++;
	}
	return sum / nr;
}

static double steady(u32 second)
{
	(void)second;
	return 37;
}

/* adjtime(): 100 ppm for some seconds. */
static double slewed(u32 second)
{
	return second >= 3 && second < 8 ? 100 : 0;
}

/* The kernel's loop: 10 ms are corrected, by less each second. */
static double locked_loop(u32 second)
{
	return 39 * pow(1 - 1 / 256.0, second);
}

static double disciplined(u32 second)
{
	return second / 64 % 2 ? 12 : -7;
}

static void adjusted(void)
{
	struct braid_clock clock;

	run_clock(10, steady, NULL);
	fit(&clock);
	CHECK(check_truth(&clock) < 400);
	CHECK(braid_clock_worst_bound(&clock, 0) < 600);
	braid_clock_free(&clock);

	run_clock(12, slewed, NULL);
	fit(&clock);
	CHECK_EQ(braid_clock_epochs(&clock), 1);
	CHECK(check_truth(&clock) < 1000);
	CHECK(braid_clock_worst_bound(&clock, 0) < 20000);
	braid_clock_free(&clock);

	run_clock(600, locked_loop, NULL);
	fit(&clock);
	CHECK_EQ(braid_clock_epochs(&clock), 1);
	CHECK(check_truth(&clock) < 400);
	braid_clock_free(&clock);

	run_clock(600, disciplined, NULL);
	fit(&clock);
	CHECK(check_truth(&clock) < 400);
	braid_clock_free(&clock);
}

static double set_ahead(u32 second)
{
	return second == 4 ? 1.5e9 : 0;
}

static double set_back(u32 second)
{
	return second == 4 ? -2e9 : 0;
}

/* The clock is set: an epoch begins, and ambiguous values have a bound that covers both. */
static void steps(void)
{
	struct braid_clock clock;

	run_clock(10, steady, set_ahead);
	fit(&clock);
	CHECK_EQ(braid_clock_epochs(&clock), 2);
	CHECK_EQ(clock.tracks[0].epochs[1].cause, BRAID_EPOCH_JUMPED);
	check_truth(&clock);
	braid_clock_free(&clock);

	run_clock(10, steady, set_back);
	fit(&clock);
	CHECK_EQ(braid_clock_epochs(&clock), 2);
	CHECK_EQ(clock.tracks[0].epochs[1].cause, BRAID_EPOCH_WENT_BACK);
	check_truth(&clock);
	braid_clock_free(&clock);
}

static double set_often(u32 second)
{
	return second ? 5e8 : 0;
}

/* More steps than there can be epochs: what is not known has no bound. */
static void too_many_steps(void)
{
	struct braid_clock clock;
	u32 unknown = 0, k;
	u64 ns;

	run_clock(400, steady, set_often);
	fit(&clock);
	CHECK_EQ(braid_clock_epochs(&clock), 256);
	for (ns = START_NS; ns < samples[nr_samples - 1].s.h1_ns; ns += 9999991) {
		struct braid_clock_time t =
			braid_clock_convert(&clock, 0, truth(ns), BRAID_TAKEN_UNKNOWN, 0);

		if (t.bound_ns == BRAID_BOUND_UNKNOWN)
			unknown++;
		else
			CHECK(llabs(t.ns - (s64)ns) <= (s64)t.bound_ns);
	}
	CHECK(unknown);
	braid_clock_free(&clock);

	/* Always set back: one moment in each epoch. */
	run_clock(30, steady, NULL);
	for (k = 0; k < nr_samples; k++)
		samples[k].s.counter = START_VALUE - k / 4 * 1000000000ULL;
	fit(&clock);
	CHECK_EQ(braid_clock_epochs(&clock), 256);
	CHECK_EQ(braid_clock_worst_bound(&clock, 0), BRAID_BOUND_UNKNOWN);
	braid_clock_free(&clock);
}

/* Fewer samples give a wider bound. */
static void few_samples(void)
{
	struct braid_clock_inputs in = { .nr_vcpus = 1, .round_trips = samples };
	struct braid_clock_reading r;
	struct braid_clock clock;

	CHECK_EQ(braid_clock_slewed(&clock, &in), -ENODATA);
	run_clock(2, steady, NULL);
	in.nr_round_trips = 1;
	NEED(!braid_clock_slewed(&clock, &in));
	r = braid_clock_reading_at(&clock, START_NS);
	CHECK(r.bound_ns < 100);
	r = braid_clock_reading_at(&clock, START_NS + 1000000000);
	CHECK(llabs((s64)(r.value - truth(START_NS + 1000000000))) <= (s64)r.bound_ns);
	CHECK(r.bound_ns >= 100000000 && r.bound_ns < 200000000);
	braid_clock_free(&clock);

	/* Two captures of one clock, with a long time between them. */
	run_clock(500, disciplined, NULL);
	memmove(samples + 100, samples + nr_samples - 100, 100 * sizeof(*samples));
	nr_samples = 200;
	fit(&clock);
	check_truth(&clock);
	CHECK(braid_clock_worst_bound(&clock, 0) > 1000000000);
	braid_clock_free(&clock);
}

/* Impossible samples do no harm. */
static void impossible(void)
{
	struct braid_clock clock;
	u32 k;

	run_clock(10, steady, NULL);
	samples[5].s.h2_ns = samples[5].s.h1_ns - 1;
	samples[6].s.counter = ~0ULL;
	for (k = 100; k < 104; k++)
		samples[k].s.h2_ns += 60000000000ULL;
	fit(&clock);
	CHECK(clock.nr_refused >= 2);
	check_truth(&clock);
	braid_clock_free(&clock);
	for (k = 0; k < nr_samples; k++)
		samples[k].s.counter = k & 4 ? START_VALUE : START_VALUE + 5000000000;
	fit(&clock);
	CHECK(braid_clock_epochs(&clock) <= 256);
	braid_clock_convert(&clock, 0, START_VALUE, BRAID_TAKEN_UNKNOWN, 0);
	braid_clock_free(&clock);
}

/* For any content of a capture, every bound can be added to a time. */
static void hostile(void)
{
	struct braid_clock_inputs in = {
		.nr_vcpus = 1, .round_trips = samples, .nr_round_trips = 60,
	};
	u64 seed = 11, ns;
	u32 turn, k;

	for (turn = 0; turn < 3000; turn++) {
		struct braid_clock clock;

		for (ns = k = 0; k < 60; k++) {
			struct braid_clock_sample *s = &samples[k].s;

			seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
			ns += seed >> (3 + seed % 60);
			s->h1_ns = ns;
			s->counter = turn & 1 ? ns + (seed >> 60) : seed >> (seed / 64 % 64);
			s->h2_ns = ns + (seed >> (2 + seed / 4096 % 61));
		}
		if (braid_clock_slewed(&clock, &in))
			continue;
		for (k = 0; k < 60; k++) {
			u64 value = samples[k].s.counter;

			CHECK((s64)braid_clock_convert(&clock, 0, value, BRAID_TAKEN_UNKNOWN,
						       0).bound_ns >= -1);
			CHECK((s64)braid_clock_reading_at(&clock, samples[k].s.h1_ns).bound_ns >= -1);
		}
		braid_clock_worst_bound(&clock, ~0ULL);
		braid_clock_free(&clock);
	}
}

int main(void)
{
	RUN(adjusted);
	RUN(steps);
	RUN(too_many_steps);
	RUN(few_samples);
	RUN(impossible);
	RUN(hostile);
	return VERDICT();
}
