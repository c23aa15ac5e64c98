// SPDX-License-Identifier: GPL-2.0-or-later
/* An emulator's counter, which drifts from the host's: between any samples the bound is true. */
#include <errno.h>
#include <string.h>

#include "tests/unit/check.h"
#include "tests/unit/need.h"
#include "tests/unit/truth.h"

#define SECOND		1000000000ULL
#define MILLI		1000000ULL
#define BEGIN_NS	(1ULL << 50)
#define GUEST_HZ	2100000000ULL
#define HOST_RATE	2.0999987	/* steps for each ns */
#define MAX_GAINS	1000000u
#define MAX_ROUND_TRIPS	4000u

static struct truth host;
static struct braid_clock host_clock;

/* The guest: its counter's drift over time. */
static struct { u64 ns; s64 gain; } gains[MAX_GAINS];
static u32 nr_gains;

static struct braid_round_trip round_trips[MAX_ROUND_TRIPS];
static u32 nr_round_trips;

static u64 guest_counter(u64 ns)
{
	u32 low = 0, high = nr_gains;

	while (low < high) {
		u32 middle = (low + high) / 2;

		if (gains[middle].ns > ns)
			high = middle;
		else
			low = middle + 1;
	}
	return truth_counter(&host, ns) - (1ULL << 51) + (low ? (u64)gains[low - 1].gain : 0);
}

static void gain(u64 ns, s64 by)
{
	NEED(nr_gains < MAX_GAINS);
	gains[nr_gains].ns = ns;
	gains[nr_gains].gain = (nr_gains ? gains[nr_gains - 1].gain : 0) + by;
	nr_gains++;
}

/* A few steps at a time, at varying rates. */
static void run_guest(u64 from_ns, u64 to_ns)
{
	u64 every = MILLI, ns;

	for (ns = from_ns; ns < to_ns; ns += 1 + truth_below(every)) {
		if (!truth_below(100))
			every = MILLI / 10 + truth_below(20 * MILLI);
		gain(ns, truth_below(100));
	}
}

/* The counter stops at @at for this time; it is not read meanwhile. */
static void stop(u64 ns, u64 for_ns)
{
	gain(ns + for_ns, -(s64)(truth_counter(&host, ns + for_ns) - truth_counter(&host, ns)));
}

static void cross(u64 h1, u64 ns, u64 h2)
{
	NEED(nr_round_trips < MAX_ROUND_TRIPS);
	round_trips[nr_round_trips++] = (struct braid_round_trip){
		.s = { h1, guest_counter(ns), h2 }, .vcpu = 1 + truth_below(2),
	};
}

/* Bursts about every second, and poll samples in between that overlap each other. */
static void sample_guest(u64 from_ns, u64 to_ns, bool polls)
{
	u64 ns, at, k;

	for (ns = from_ns; ns + MILLI < to_ns; ns += SECOND / 2 + truth_below(SECOND))
		for (k = 0, at = ns; k < 8; k++, at += 3000)
			cross(at - truth_below(300), at, at + 50 + truth_below(1500));
	for (ns = from_ns; polls && ns < to_ns; ns += truth_below(200 * MILLI))
		cross(ns - truth_below(100 * MILLI), ns, ns + truth_below(100 * MILLI));
	truth_sort(round_trips, nr_round_trips);
}

static void begin(void)
{
	nr_gains = nr_round_trips = 0;
}

static int fit(struct braid_clock *clock, u64 hz)
{
	struct braid_clock_inputs in = {
		.counter_hz = hz, .counter_type = BRAID_COUNTER_TSC_EMULATED, .nr_vcpus = 2,
		.round_trips = round_trips, .nr_round_trips = nr_round_trips, .host = &host_clock,
	};

	return braid_clock_choose(clock, &in, BRAID_CLOCK_KINDS);
}

/* Events at random moments. Return: the mean of their bounds. */
static u64 check_truth(const struct braid_clock *clock, u64 from_ns, u64 to_ns)
{
	u64 sum = 0, k;

	for (k = 0; k < 3000; k++) {
		u64 ns = from_ns + truth_below(to_ns - from_ns);
		struct braid_clock_time t =
			braid_clock_convert(clock, k % 2, guest_counter(ns),
					    ns + truth_below(SECOND / 5), 0);

		if (!truth_holds(&t, ns)) {
			CHECK(!"the truth is within the bound");
			return 0;
		}
		CHECK(t.bound_ns != BRAID_BOUND_UNKNOWN);
		sum += t.bound_ns / 3000;
	}
	return sum;
}

static void drift_only(void)
{
	struct braid_clock clock;
	u64 to, first, last, k;
	u32 turn;

	for (turn = 0; turn < 30; turn++) {
		begin();
		to = BEGIN_NS + (2 + truth_below(30)) * SECOND;
		run_guest(BEGIN_NS, to);
		sample_guest(BEGIN_NS, to, turn % 3);
		NEED(!fit(&clock, GUEST_HZ));
		CHECK_EQ(clock.kind, BRAID_CLOCK_EXCHANGE);
		CHECK_EQ(clock.nr_tracks, 1);
		CHECK_EQ(clock.tracks->nr_epochs, 1);
		CHECK(clock.tracks->epochs[0].gains);
		for (first = last = 0, k = 0; k < nr_round_trips; k++) {
			if (round_trips[k].s.h2_ns - round_trips[k].s.h1_ns > 2000)
				continue;
			first = first ? first : round_trips[k].s.h2_ns;
			last = round_trips[k].s.h1_ns;
		}
		CHECK(check_truth(&clock, first, last) < MILLI);
		CHECK(turn % 3 || braid_clock_worst_bound(&clock, 0) < 2 * MILLI);
		braid_clock_free(&clock);
	}
}

/* With little drift, its bound is nearly as small as that of the host's own counter. */
static void drifts_little(void)
{
	struct braid_clock clock;
	u64 ns;

	begin();
	for (ns = BEGIN_NS; ns < BEGIN_NS + 20 * SECOND; ns += SECOND / 10)
		gain(ns, truth_below(20));
	sample_guest(BEGIN_NS, BEGIN_NS + 20 * SECOND, true);
	NEED(!fit(&clock, GUEST_HZ));
	CHECK(check_truth(&clock, BEGIN_NS + SECOND, BEGIN_NS + 18 * SECOND) < 500);
	braid_clock_free(&clock);
}

/*
 * An agent that was not scheduled for a long time has wide samples before and after the others. The
 * bound includes what they leave possible; but times are as if the counter went on as between the
 * others.
 */
static void wide_ends(void)
{
	u64 end = BEGIN_NS + 10 * SECOND, ns;
	struct braid_clock_time t;
	struct braid_clock clock;
	u32 k, far = 0;

	begin();
	for (ns = BEGIN_NS; ns < end; ns += SECOND / 10)
		gain(ns, truth_below(20));
	sample_guest(BEGIN_NS + 2 * SECOND, BEGIN_NS + 8 * SECOND, false);
	cross(BEGIN_NS + SECOND / 2, BEGIN_NS + SECOND, BEGIN_NS + 3 * SECOND);
	cross(BEGIN_NS + 7 * SECOND, BEGIN_NS + 9 * SECOND, BEGIN_NS + 9 * SECOND + MILLI);
	truth_sort(round_trips, nr_round_trips);
	NEED(!fit(&clock, GUEST_HZ));
	CHECK_EQ(clock.tracks->nr_epochs, 1);
	check_truth(&clock, BEGIN_NS, end);
	for (k = 0; k < 3000; k++) {
		ns = BEGIN_NS + truth_below(end - BEGIN_NS);
		t = braid_clock_convert(&clock, k % 2, guest_counter(ns), ns, 0);
		far += llabs(t.ns - (s64)ns) >= 5000;
	}
	CHECK_EQ(far, 0);
	braid_clock_free(&clock);
}

/*
 * The guest idles while it is sampled, and then its vCPUs read the counter in a race until it is
 * gone. What is read promptly shows the gain.
 */
static void races_after_the_last(void)
{
	u64 ns, end = BEGIN_NS + 10 * SECOND, k;
	struct braid_clock_time t;
	struct braid_clock clock;
	u32 turn;

	for (turn = 0; turn < 30; turn++) {
		begin();
		for (ns = BEGIN_NS; ns < end; ns += SECOND / 10)
			gain(ns, truth_below(20));
		sample_guest(BEGIN_NS, end, false);
		NEED(!fit(&clock, GUEST_HZ));
		for (k = 0; k < 100; k++)
			gain(end + k * MILLI, 4000 + truth_below(2000));
		for (k = 0; k < 1000; k++) {
			u64 taken;

			ns = end + truth_below(100 * MILLI);
			taken = ns + truth_below(200);
			t = braid_clock_convert(&clock, k % 2, guest_counter(ns), taken, 0);
			CHECK(t.bound_ns != BRAID_BOUND_UNKNOWN);
			CHECK(braid_clock_earliest(t.ns, t.bound_ns) <= (s64)taken);
			CHECK(truth_holds(&t, ns));
		}
		/* A jump is not explained by such gains. */
		gain(end + SECOND, 2100000000);
		t = braid_clock_convert(&clock, 0, guest_counter(end + SECOND), end + SECOND, 0);
		CHECK(braid_clock_earliest(t.ns, t.bound_ns) > (s64)(end + SECOND));
		braid_clock_free(&clock);
	}
}

static void burst(u32 vcpu, u64 ns)
{
	u64 k, at;

	for (k = 0, at = ns; k < 8; k++, at += 3000) {
		cross(at - truth_below(300), at, at + 50 + truth_below(1500));
		round_trips[nr_round_trips - 1].vcpu = vcpu + 1;
	}
}

/*
 * Both vCPUs do nothing but read the counter, so it gains more than a millisecond from one burst to
 * the next; and only one of them answers. What it shows is true of the other one, too.
 */
static void gains_steadily(void)
{
	static const u64 bursts[] = { 49100, 175400, 379300 };	/* us */
	u64 ns, end = BEGIN_NS + 380 * MILLI;
	struct braid_clock clock;
	u32 turn, k;

	for (turn = 0; turn < 30; turn++) {
		begin();
		for (ns = BEGIN_NS + 25 * MILLI; ns < end; ns += 4000)
			gain(ns, 30 + truth_below(ns < BEGIN_NS + 175 * MILLI ? 20 : 40));
		burst(0, BEGIN_NS);
		burst(0, BEGIN_NS + 24700000);
		for (k = 0; k < 3; k++)
			burst(1, BEGIN_NS + bursts[k] * 1000);
		NEED(!fit(&clock, GUEST_HZ));
		CHECK_EQ(clock.nr_tracks, 1);
		CHECK_EQ(clock.tracks->nr_epochs, 1);
		check_truth(&clock, BEGIN_NS, BEGIN_NS + 379 * MILLI);
		braid_clock_free(&clock);
	}
}

static void stands_still(void)
{
	struct braid_clock clock;
	u64 at, for_ns, to;
	u32 turn;

	for (turn = 0; turn < 30; turn++) {
		begin();
		at = BEGIN_NS + 4 * SECOND + truth_below(4 * SECOND);
		for_ns = 20 * MILLI + truth_below(turn % 2 ? 3 * SECOND : 300 * MILLI);
		to = BEGIN_NS + 16 * SECOND;
		run_guest(BEGIN_NS, at);
		stop(at, for_ns);
		run_guest(at + for_ns + 1, to);
		sample_guest(BEGIN_NS, at, turn % 3);
		sample_guest(at + for_ns, to, turn % 3);
		if (turn % 2)	/* asked before, answered after it */
			cross(at - truth_below(20 * MILLI), at + for_ns + truth_below(20 * MILLI),
			      at + for_ns + 30 * MILLI);
		truth_sort(round_trips, nr_round_trips);
		NEED(!fit(&clock, GUEST_HZ));
		CHECK_EQ(clock.nr_tracks, 1);
		CHECK_EQ(clock.tracks->nr_epochs, 2);
		CHECK(clock.tracks->epochs[0].gains && clock.tracks->epochs[1].gains);
		CHECK_EQ(clock.tracks->epochs[1].cause, BRAID_EPOCH_STOOD_STILL);
		CHECK(clock.tracks->epochs[1].from_ns <= (s64)at);
		CHECK(clock.tracks->epochs[1].begun_ns >= (s64)(at + for_ns));
		CHECK(turn % 6 ||
		      llabs(clock.tracks->epochs[1].step_ns - (s64)for_ns) < (s64)(5 * MILLI));
		check_truth(&clock, BEGIN_NS + SECOND, at);
		check_truth(&clock, at + for_ns, to - 2 * SECOND);
		braid_clock_free(&clock);
	}
}

/* The step is that of both vCPUs' counter, though each of them answers on one side of it only. */
static void one_answers_before(void)
{
	u64 at = BEGIN_NS + 300 * MILLI, end = BEGIN_NS + 700 * MILLI;
	struct braid_clock clock;
	u32 turn;

	for (turn = 0; turn < 10; turn++) {
		begin();
		run_guest(BEGIN_NS, at);
		stop(at, 100 * MILLI);
		run_guest(at + 100 * MILLI + 1, end);
		burst(0, BEGIN_NS);
		burst(0, BEGIN_NS + 200 * MILLI);
		burst(1, BEGIN_NS + 500 * MILLI);
		burst(1, BEGIN_NS + 699 * MILLI);
		NEED(!fit(&clock, GUEST_HZ));
		CHECK_EQ(clock.nr_tracks, 1);
		CHECK_EQ(clock.tracks->nr_epochs, 2);
		check_truth(&clock, BEGIN_NS, BEGIN_NS + 200 * MILLI);
		check_truth(&clock, BEGIN_NS + 500 * MILLI, BEGIN_NS + 699 * MILLI);
		braid_clock_free(&clock);
	}
}

/*
 * A jump of less than an eighth of the time between two bursts looks like a gain, and counts as
 * one.
 */
static void jumps_a_little(void)
{
	struct braid_clock clock;
	u32 turn;
	u64 at;

	for (turn = 0; turn < 20; turn++) {
		begin();
		at = BEGIN_NS + 4 * SECOND + truth_below(4 * SECOND);
		run_guest(BEGIN_NS, at);
		gain(at, 2100 * truth_below(1000000));
		run_guest(at + 1, BEGIN_NS + 12 * SECOND);
		sample_guest(BEGIN_NS, BEGIN_NS + 12 * SECOND, turn % 2);
		NEED(!fit(&clock, GUEST_HZ));
		CHECK_EQ(clock.nr_tracks, 1);
		check_truth(&clock, BEGIN_NS + SECOND, BEGIN_NS + 10 * SECOND);
		braid_clock_free(&clock);
	}
}

static void jumps_ahead(void)
{
	struct braid_clock clock;
	u64 at;
	u32 turn;

	for (turn = 0; turn < 20; turn++) {
		begin();
		at = BEGIN_NS + 4 * SECOND + truth_below(4 * SECOND);
		run_guest(BEGIN_NS, at);
		gain(at, 2100000000 + truth_below(1ULL << 40));
		run_guest(at + 1, BEGIN_NS + 12 * SECOND);
		sample_guest(BEGIN_NS, BEGIN_NS + 12 * SECOND, turn % 2);
		NEED(!fit(&clock, GUEST_HZ));
		CHECK_EQ(clock.tracks->nr_epochs, 2);
		CHECK_EQ(clock.tracks->epochs[1].cause, BRAID_EPOCH_JUMPED);
		check_truth(&clock, BEGIN_NS + SECOND, BEGIN_NS + 10 * SECOND);
		braid_clock_free(&clock);
	}
}

/* The host's counter is known too badly to show the guest's gains: a line is fitted instead. */
static void host_known_badly(void)
{
	struct braid_clock good = host_clock, clock;
	struct braid_round_trip wide[4] = { 0 };
	struct braid_clock_inputs in = {
		.counter_type = BRAID_COUNTER_TSC, .nr_vcpus = 1, .round_trips = wide,
		.nr_round_trips = 4,
	};
	u64 ns, k;

	for (k = 0; k < 4; k++) {
		ns = BEGIN_NS + 3 * k * SECOND;
		wide[k].s = (struct braid_clock_sample){ ns - 4 * MILLI, truth_counter(&host, ns),
							 ns + 2 * MILLI };
	}
	NEED(!braid_clock_fit(&host_clock, &in));
	begin();
	for (ns = BEGIN_NS; ns < BEGIN_NS + 10 * SECOND; ns += SECOND / 10)
		gain(ns, truth_below(20));
	sample_guest(BEGIN_NS, BEGIN_NS + 10 * SECOND, true);
	NEED(!fit(&clock, GUEST_HZ));
	CHECK(!clock.tracks->epochs[0].gains);
	check_truth(&clock, BEGIN_NS, BEGIN_NS + 10 * SECOND);
	braid_clock_free(&clock);
	braid_clock_free(&host_clock);
	host_clock = good;
}

/* Counters that are not the host's: each has a line of its own, which must be found. */
static void other_counters(void)
{
	static const double ppms[] = { 7000, 3000, 500, 40, -40, -500, -3000, -19000 };
	struct truth other = { 0 };
	struct braid_clock clock;
	u64 ns, at, k, seconds;
	size_t j;

	for (j = 0; j < 2 * sizeof(ppms) / sizeof(*ppms); j++) {
		begin();
		other.nr = 0;
		truth_step(&other, BEGIN_NS, 1 << 30, HOST_RATE * (1 + ppms[j / 2] / 1e6));
		seconds = j % 2 ? 100 : 10;	/* more epochs than the fit accepts, or fewer */
		for (ns = BEGIN_NS; ns < BEGIN_NS + seconds * SECOND; ns += SECOND / 2)
			for (k = 0, at = ns; k < 8; k++, at += 3000)
				round_trips[nr_round_trips++] = (struct braid_round_trip){
					.vcpu = 1,
					.s = { at - 100, truth_counter(&other, at),
					       at + truth_below(1000) },
				};
		/* With the stated rate, or the host's. */
		NEED(!fit(&clock, ppms[j / 2] > 5000 ? GUEST_HZ / 100 * 101 : GUEST_HZ));
		for (k = 0; k < 1000; k++) {
			struct braid_clock_time t;

			ns = BEGIN_NS + truth_below((seconds - 1) * SECOND);
			t = braid_clock_convert(&clock, 0, truth_counter(&other, ns),
						ns + truth_below(SECOND / 5), 0);
			if (!truth_holds(&t, ns)) {
				CHECK_EQ(ppms[j / 2], 0);
				break;
			}
		}
		CHECK_EQ(clock.tracks->nr_epochs, 1);
		CHECK(ppms[j / 2] > 0 || !clock.tracks->epochs[0].gains);
		braid_clock_free(&clock);
	}
}

/* Words of a hostile guest: near the truth, near each other, or anything. */
static u64 hostile_word(u64 near)
{
	switch (truth_below(5)) {
	case 0:
		return truth_random();
	case 1:
		return near + (truth_random() >> truth_below(64));
	case 2:
		return near - (truth_random() >> truth_below(64));
	case 3:
		return truth_below(2) ? ~0ULL - truth_below(3) : truth_below(3);
	default:
		return near;
	}
}

static void hostile(void)
{
	struct braid_clock clock;
	u32 turn, k, n, most;

	for (turn = 0; turn < 4000; turn++) {
		begin();
		nr_round_trips = 1 + truth_below(turn % 50 ? 40 : MAX_ROUND_TRIPS);
		for (k = 0; k < nr_round_trips; k++) {
			u64 h1 = BEGIN_NS + k * truth_below(SECOND);

			round_trips[k].vcpu = truth_below(4);
			round_trips[k].s.h1_ns = turn % 4 ? h1 : hostile_word(h1);
			round_trips[k].s.counter = hostile_word(truth_counter(&host, h1));
			round_trips[k].s.h2_ns =
				turn % 4 ? h1 + (truth_random() >> (20 + truth_below(44))) :
					   hostile_word(h1);
		}
		truth_sort(round_trips, nr_round_trips);
		if (fit(&clock, turn % 8 ? GUEST_HZ : truth_random() >> truth_below(64)))
			continue;
		most = braid_clock_epochs(&clock);
		CHECK(most && most <= 256);
		for (n = 0; n < 100; n++) {
			struct braid_clock_time t =
				braid_clock_convert(&clock, truth_below(5), hostile_word(BEGIN_NS),
						    hostile_word(BEGIN_NS), truth_below(most));

			CHECK((s64)t.bound_ns >= -1 && t.epoch < most);
		}
		braid_clock_worst_bound(&clock, hostile_word(BEGIN_NS));
		braid_clock_free(&clock);
	}
}

int main(void)
{
	truth_step(&host, BEGIN_NS, 1LL << 52, HOST_RATE);
	truth_host_clock(&host_clock, &host, BEGIN_NS - SECOND, BEGIN_NS + 120 * SECOND);
	RUN(drift_only);
	RUN(drifts_little);
	RUN(wide_ends);
	RUN(races_after_the_last);
	RUN(gains_steadily);
	RUN(stands_still);
	RUN(one_answers_before);
	RUN(jumps_a_little);
	RUN(jumps_ahead);
	RUN(host_known_badly);
	RUN(other_counters);
	RUN(hostile);
	braid_clock_free(&host_clock);
	return VERDICT();
}
