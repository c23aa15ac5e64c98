// SPDX-License-Identifier: GPL-2.0-or-later
/* The clock fit: whatever the delays, the truth lies within the bound. */
#include <math.h>
#include <string.h>

#include "host_agent/clock/fit.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"

#define MAX_SAMPLES	4000u

static struct braid_clock_sample samples[MAX_SAMPLES];
static u64 seed = 1;

static u64 random_below(u64 n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % n;
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
		u64 before = 100 + random_below(delay_ns), after = 100 + random_below(delay_ns / 20 + 1);
		long double ns = truth_ns(t, counter);

		if (random_below(4) == 0)
			after += random_below(50 * delay_ns);
		samples[k].h1_ns = (u64)floorl(ns) - before;
		samples[k].counter = counter;
		samples[k].h2_ns = (u64)ceill(ns) + after;
		counter += (u64)((long double)step_ns * t->hz / 1e9L) + random_below(1000);
	}
}

/* The truth within the bound, at and beyond the samples. */
static u64 check_truth(const struct braid_clock *clock, const struct truth *t, u64 from, u64 to)
{
	u64 step = (to - from) / 997 + 1, counter, worst = 0;

	for (counter = from; counter < to; counter += step) {
		const struct braid_clock_epoch *e = braid_clock_epoch_of(clock, counter, ~0ULL);
		u64 bound = braid_clock_bound(clock, e, counter);
		long double off = braid_clock_to_ns(&e->map, counter) - truth_ns(t, counter);

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
			NEED(!braid_clock_fit(&clock, t.hz, BRAID_COUNTER_TSC, samples, 500, 0, 0));
			CHECK_EQ(clock.kind, BRAID_CLOCK_EXCHANGE);
			CHECK_EQ(clock.nr_epochs, 1);
			CHECK_EQ(clock.nr_samples, 500);
			CHECK(fabs(clock.epochs[0].drift_ppm - ppms[i]) < 1);
			last = samples[499].counter;
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
	NEED(!braid_clock_fit(&clock, t.hz, BRAID_COUNTER_TSC, samples, MAX_SAMPLES, 0, 0));
	CHECK_EQ(clock.nr_epochs, 1);
	check_truth(&clock, &t, t.counter0, samples[MAX_SAMPLES - 1].counter);
	CHECK(braid_clock_worst_bound(&clock, 0) < 300);
	braid_clock_free(&clock);
}

static void one_sample(void)
{
	struct truth t = { .hz = 1000000000, .ppm = 100, .counter0 = 5000, .ns0 = 1ULL << 40 };
	struct braid_clock clock;

	take_samples(&t, 0, 1, 1, 1000);
	NEED(!braid_clock_fit(&clock, t.hz, BRAID_COUNTER_TSC, samples, 1, 0, 0));
	check_truth(&clock, &t, t.counter0, t.counter0 + 1000000000);
	CHECK(braid_clock_worst_bound(&clock, 0) < 60000);
	braid_clock_free(&clock);
}

/* A step, as after a migration, begins a new epoch; nothing is said of what lies between. */
static void steps(void)
{
	struct truth before = { .hz = 1000000000, .ppm = 3, .counter0 = 1000, .ns0 = 1ULL << 40 };
	struct truth after = { .hz = 1000000000, .ppm = -8, .ns0 = (1ULL << 40) + 12000000000ULL };
	const struct braid_clock_epoch *e;
	struct braid_clock clock;
	u64 between;

	take_samples(&before, 0, 200, 50000000, 1000);
	after.counter0 = samples[199].counter + 5000000000ULL;
	take_samples(&after, 200, 200, 50000000, 1000);
	NEED(!braid_clock_fit(&clock, 1000000000, BRAID_COUNTER_TSC, samples, 400, 0, 0));
	CHECK_EQ(clock.nr_epochs, 2);
	check_truth(&clock, &before, before.counter0, samples[199].counter);
	check_truth(&clock, &after, after.counter0, samples[399].counter);
	between = samples[199].counter + 1000000000;
	e = braid_clock_epoch_of(&clock, between, ~0ULL);
	CHECK_EQ(braid_clock_bound(&clock, e, between), BRAID_BOUND_UNKNOWN);
	braid_clock_free(&clock);
}

/* A counter that wavers about its line, as an emulated one does: one epoch, a larger bound. */
static void wavers(void)
{
	struct truth t = { .hz = 1000000000, .ppm = 5, .counter0 = 1 << 30, .ns0 = 1ULL << 45 };
	const struct braid_clock_epoch *e;
	static s64 off[1000];
	struct braid_clock clock;
	u32 k;

	take_samples(&t, 0, 1000, 30000000, 300);
	for (k = 0; k < 1000; k++) {
		off[k] = (s64)random_below(161) - 80;
		samples[k].h1_ns = (u64)floorl(truth_ns(&t, samples[k].counter)) + off[k] - 20;
		samples[k].h2_ns = samples[k].h1_ns + 41;
	}
	NEED(!braid_clock_fit(&clock, t.hz, BRAID_COUNTER_TSC, samples, 1000, 0, 0));
	CHECK_EQ(clock.nr_epochs, 1);
	CHECK(clock.epochs[0].slack_ns > 2 && clock.epochs[0].slack_ns <= 128);
	for (k = 0; k < 1000; k++) {
		e = braid_clock_epoch_of(&clock, samples[k].counter, ~0ULL);
		CHECK(fabsl(braid_clock_to_ns(&e->map, samples[k].counter) -
			    truth_ns(&t, samples[k].counter) - off[k]) <=
		      braid_clock_bound(&clock, e, samples[k].counter));
	}
	CHECK(braid_clock_worst_bound(&clock, 0) < 600);
	braid_clock_free(&clock);
}

/* The counter began anew: an event's page tells which epoch it is of. */
static void counter_reset(void)
{
	struct truth before = { .hz = 1000000000, .counter0 = 1ULL << 40, .ns0 = 1ULL << 40 };
	struct truth after = { .hz = 1000000000, .counter0 = 500, .ns0 = (1ULL << 40) + (1ULL << 36) };
	struct braid_clock clock;

	take_samples(&before, 0, 50, 50000000, 1000);
	take_samples(&after, 50, 50, 50000000, 1000);
	NEED(!braid_clock_fit(&clock, 1000000000, BRAID_COUNTER_TSC, samples, 100, 0, 0));
	CHECK_EQ(clock.nr_epochs, 2);
	CHECK(braid_clock_epoch_of(&clock, samples[20].counter, samples[21].h2_ns) == &clock.epochs[0]);
	CHECK(braid_clock_epoch_of(&clock, samples[70].counter, samples[71].h2_ns) == &clock.epochs[1]);
	braid_clock_free(&clock);
}

static void nonsense(void)
{
	struct braid_clock clock;
	u32 k;

	for (k = 0; k < 1000; k++) {
		samples[k].h1_ns = random_below(~0ULL);
		samples[k].h2_ns = random_below(~0ULL);
		samples[k].counter = random_below(~0ULL);
	}
	NEED(!braid_clock_fit(&clock, random_below(~0ULL), BRAID_COUNTER_TSC, samples, 1000, 0, 0));
	for (k = 0; k < 1000; k++) {
		u64 counter = random_below(~0ULL);

		braid_clock_bound(&clock, braid_clock_epoch_of(&clock, counter, ~0ULL), counter);
	}
	CHECK(clock.nr_epochs <= 256);
	braid_clock_worst_bound(&clock, 0);
	braid_clock_free(&clock);
	NEED(!braid_clock_fit(&clock, 0, BRAID_COUNTER_TSC, NULL, 0, 5, 10));
	CHECK_EQ(clock.kind, BRAID_CLOCK_NOMINAL);
	CHECK_EQ(braid_clock_to_ns(&clock.epochs[0].map, 5), 10);
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
		NEED(!braid_clock_fit(&clock, t.hz, BRAID_COUNTER_TSC, samples, nr, 0, 0));
		bound = braid_clock_bound(&clock, clock.epochs, t.counter0);
		CHECK(bound <= last);
		last = bound;
		braid_clock_free(&clock);
	}
}

/* An emulated counter gains by little steps, at any moment: the bound must cover what lies between. */
static void emulated_runs_ahead(void)
{
	enum { BURSTS = 6, STEPS = 1000 };
	static struct { u64 ns, counter; } truth[BURSTS * STEPS];
	struct braid_clock_sample s[BURSTS * 4];
	struct braid_clock clock;
	u64 seed = 12345, counter = 5000000, ns = 1000000000, nr = 0, k, j;

	for (k = 0; k < BURSTS; k++) {
		u64 gain = k % 3 * 5;		/* now idle, now under load */

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
			s[k * 4 + j] = (struct braid_clock_sample){ ns - 60, counter, ns + 70 };
		}
	}
	NEED(!braid_clock_fit(&clock, 2000000000, BRAID_COUNTER_TSC_EMULATED, s, BURSTS * 4, 0, 0));
	CHECK_EQ(clock.nr_epochs, 1);
	for (k = STEPS; k < nr; k++) {	/* from the first burst on */
		s64 off = braid_clock_to_ns(&clock.epochs[0].map, truth[k].counter) - (s64)truth[k].ns;

		if ((u64)llabs(off) > braid_clock_bound(&clock, clock.epochs, truth[k].counter)) {
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
	RUN(wavers);
	RUN(counter_reset);
	RUN(nonsense);
	RUN(tightens);
	return VERDICT();
}
