// SPDX-License-Identifier: GPL-2.0-or-later
/* Random lives of a counter, sampled at random: whenever a bound is known, the truth is in it. */
#include <string.h>

#include "tests/unit/check.h"
#include "tests/unit/need.h"
#include "tests/unit/truth.h"

#define SECOND		1000000000ULL
#define MILLI		1000000ULL
#define BEGIN_NS	(1ULL << 50)
#define MAX_ROUND_TRIPS	20000u
#define SCENARIOS	300
#define EVENTS		1500

enum delays { UNIFORM, HEAVY_TAIL, ONE_SIDED, CONSTANT, DELAYS };

static struct braid_round_trip round_trips[MAX_ROUND_TRIPS];
static u32 nr_round_trips;

/* One life. */
static struct {
	struct truth counter;
	u64 hz;			/* stated */
	u64 to_ns;
	s64 jittery;		/* jitters by up to this many steps */
	u32 vcpu;		/* the vCPU */
	enum delays delays;
	bool polls;		/* in addition to bursts */
} life;

/* A triangle of several hertz, of amplitude life.jittery. */
static u64 counter_at(u64 ns)
{
	s64 phase = (s64)(ns % (SECOND / 7)) - (s64)(SECOND / 14);

	return truth_counter(&life.counter, ns) +
	       (u64)(life.jittery ? 4 * (llabs(phase) - (s64)(SECOND / 28)) * life.jittery /
				   (s64)(SECOND / 7) : 0);
}

static u64 delay(u64 usual)
{
	switch (life.delays) {
	case UNIFORM:
		return truth_below(2 * usual);
	case HEAVY_TAIL:
		return truth_below(usual) * (1 + truth_below(1ULL << truth_below(12)) / 8);
	case ONE_SIDED:
		return truth_below(20);
	default:
		return usual;
	}
}

static void cross(u64 before, u64 ns, u64 after)
{
	NEED(nr_round_trips < MAX_ROUND_TRIPS);
	round_trips[nr_round_trips++] = (struct braid_round_trip){
		.s = { ns - before, counter_at(ns), ns + after }, .vcpu = life.vcpu + 1,
	};
}

static void see_all(u64 usual)
{
	u64 ns, at;
	u32 k;

	for (ns = BEGIN_NS; ns < life.to_ns; ns += SECOND / 10 + truth_below(SECOND))
		for (k = 0, at = ns; k < 8; k++, at += 2000 + truth_below(5000))
			cross(delay(usual), at,
			      life.delays == ONE_SIDED ? 10 * usual : delay(usual));
	for (ns = BEGIN_NS; life.polls && ns < life.to_ns; ns += truth_below(SECOND))
		cross(truth_below(90 * MILLI), ns, truth_below(90 * MILLI));
}

static int fit(struct braid_clock *clock, u32 nr_vcpus)
{
	struct braid_clock_inputs in = {
		.counter_hz = life.hz, .counter_type = BRAID_COUNTER_TSC, .nr_vcpus = nr_vcpus,
		.round_trips = round_trips, .nr_round_trips = nr_round_trips,
	};

	truth_sort(round_trips, nr_round_trips);
	return braid_clock_fit(clock, &in);
}

/* An event that is read some time after it was recorded. */
static bool check_event(const struct braid_clock *clock, u64 ns, u64 *known)
{
	struct braid_clock_time t = braid_clock_convert(clock, life.vcpu, counter_at(ns),
							ns + truth_below(SECOND / 5), 0);

	*known += t.bound_ns != BRAID_BOUND_UNKNOWN;
	return truth_holds(&t, ns);
}

static void check_events(const struct braid_clock *clock, u32 least_known)
{
	u64 known = 0, ns, k;

	for (k = 0; k < EVENTS; k++) {
		ns = BEGIN_NS + truth_below(life.to_ns - BEGIN_NS);
		if (check_event(clock, ns, &known))
			continue;
		CHECK(!"the truth is within the bound");
		return;
	}
	CHECK(known >= least_known);
}

static void begin(u32 turn)
{
	memset(&life, 0, sizeof(life));
	nr_round_trips = 0;
	life.hz = turn % 3 ? SECOND / 10 + truth_below(4 * SECOND) :
			     10000000 + truth_below(SECOND / 10);
	life.to_ns = BEGIN_NS + (3 + truth_below(turn % 10 ? 20 : 200)) * SECOND;
	life.delays = turn % DELAYS;
	life.polls = turn / DELAYS % 2;
}

static double random_rate(void)
{
	double ppm = truth_between(-1000000, 1000000) / 1e6;

	return life.hz / 1e9 * (1 + ppm * (truth_below(2) ? 15000 : 50) / 1e6);
}

static void straight(void)
{
	struct braid_clock clock;
	u32 turn;

	for (turn = 0; turn < SCENARIOS; turn++) {
		begin(turn);
		truth_step(&life.counter, BEGIN_NS, truth_random() >> 12, random_rate());
		see_all(100 + truth_below(turn % 3 ? 3000 : 3 * MILLI));
		NEED(!fit(&clock, 1));
		CHECK_EQ(clock.tracks->nr_epochs, 1);
		check_events(&clock, EVENTS);
		braid_clock_free(&clock);
	}
}

/*
 * Steps too large for slack: forward, or a stop; the counter of a stopped guest is not
 * read meanwhile. Bursts sample each epoch more than once.
 */
static void steps(void)
{
	struct braid_clock clock;
	u64 ns, stopped[TRUTH_EXTENTS][2], known = 0, n;
	u32 turn, k, nr;

	for (turn = 0; turn < SCENARIOS; turn++) {
		begin(turn);
		truth_step(&life.counter, BEGIN_NS, 1LL << 50, random_rate());
		ns = BEGIN_NS;
		nr = 0;
		while (nr < 6 && (ns += 3 * SECOND + truth_below(6 * SECOND)) < life.to_ns) {
			u64 for_ns = 5 * MILLI + truth_below(1ULL << truth_below(33));
			double rate = truth_below(3) ? life.counter.extents[nr].rate :
						       random_rate();
			bool ahead = truth_below(2);
			s64 by = (s64)(for_ns * life.counter.extents[nr].rate);

			stopped[nr][0] = ns;
			ns += ahead ? 0 : for_ns;
			stopped[nr++][1] = ns;
			truth_step(&life.counter, ns, ahead ? by : -by, rate);
		}
		life.to_ns = life.to_ns > ns + 3 * SECOND ? life.to_ns : ns + 3 * SECOND;
		see_all(100 + truth_below(3000));
		for (k = 0; k < nr_round_trips; k++)	/* no answer while stopped */
			for (n = 0; n < nr; n++)
				if (round_trips[k].s.h2_ns >= stopped[n][0] &&
				    round_trips[k].s.h1_ns < stopped[n][1])
					round_trips[k].s.h2_ns = 0;
		for (k = n = 0; k < nr_round_trips; k++)
			if (round_trips[k].s.h2_ns)
				round_trips[n++] = round_trips[k];
		nr_round_trips = n;
		NEED(!fit(&clock, 1));
		for (k = 0; k < EVENTS; k++) {
			bool ran = true;

			ns = BEGIN_NS + truth_below(life.to_ns - BEGIN_NS);
			for (n = 0; n < nr; n++)
				ran &= ns < stopped[n][0] || ns >= stopped[n][1];
			if (ran && !check_event(&clock, ns, &known)) {
				CHECK(!"the truth is within the bound");
				fprintf(stderr, "scenario %u\n", turn);
				break;
			}
		}
		braid_clock_free(&clock);
	}
}

/*
 * A poll sample after a stop that was requested during it: by the former model the guest would have
 * answered at a time that the bursts permit, but that is wrong.
 */
static void poll_after_a_stop(void)
{
	struct braid_clock clock;
	u64 at, ns, known = 0;
	u32 turn, k;

	for (turn = 0; turn < SCENARIOS; turn++) {
		begin(turn);
		life.delays = ONE_SIDED;
		life.polls = false;
		truth_step(&life.counter, BEGIN_NS, 1LL << 50, random_rate());
		at = BEGIN_NS + 4 * SECOND + truth_below(SECOND);
		truth_step(&life.counter, at + 20 * MILLI,
			   -(s64)(20 * MILLI * life.counter.extents[0].rate), random_rate());
		life.to_ns = at;
		see_all(3000);
		for (k = 0; k < 8; k++)		/* the last ones before it */
			cross(10, at - SECOND / 10 + k * 5000, 30000);
		ns = at + 20 * MILLI + truth_below(MILLI);
		cross(20 * MILLI - 5000 - truth_below(20000), ns, truth_below(MILLI));
		for (k = 0; k < 80; k++)
			cross(10, at + (k / 8 + 1) * SECOND / 10 + k * 5000, 30000);
		NEED(!fit(&clock, 1));
		CHECK_EQ(clock.tracks->nr_epochs, 2);
		for (k = 0; k < EVENTS; k++)
			if (!check_event(&clock, BEGIN_NS + truth_below(at - BEGIN_NS), &known))
				break;
		CHECK_EQ(k, EVENTS);
		braid_clock_free(&clock);
	}
}

/*
 * The offset is set back: counter values repeat, at other times. By more than the time between two
 * bursts; less looks like a stop.
 */
static void steps_back(void)
{
	struct braid_clock clock;
	u64 ns;
	u32 turn;

	for (turn = 0; turn < SCENARIOS; turn++) {
		begin(turn);
		truth_step(&life.counter, BEGIN_NS, 1LL << 50, random_rate());
		ns = BEGIN_NS + 3 * SECOND + truth_below(2 * SECOND);
		truth_step(&life.counter, ns,
			   -(s64)((12 * SECOND / 10 + truth_below(3 * SECOND)) *
				  life.counter.extents[0].rate),
			   life.counter.extents[0].rate);
		life.to_ns = ns + 3 * SECOND + truth_below(5 * SECOND);
		see_all(100 + truth_below(3000));
		NEED(!fit(&clock, 1));
		check_events(&clock, 0);
		braid_clock_free(&clock);
	}
}

/* The counter restarts below all former values. */
static void resets(void)
{
	struct braid_clock clock;
	u32 turn;

	for (turn = 0; turn < SCENARIOS; turn++) {
		begin(turn);
		truth_step(&life.counter, BEGIN_NS, 1LL << 50, random_rate());
		truth_step(&life.counter, BEGIN_NS + (life.to_ns - BEGIN_NS) / 2,
			   -(s64)(life.hz * (life.to_ns - BEGIN_NS) / SECOND) -
				   (s64)truth_below(1LL << 49),
			   random_rate());
		see_all(100 + truth_below(3000));
		NEED(!fit(&clock, 1));
		check_events(&clock, EVENTS / 2);
		braid_clock_free(&clock);
	}
}

/* Each vCPU has a counter of its own. */
static void each_vcpu(void)
{
	struct truth counters[4];
	struct braid_clock clock;
	double rate;
	u32 turn, k;

	for (turn = 0; turn < SCENARIOS / 4; turn++) {
		begin(turn);
		rate = random_rate();
		for (k = 0; k < 4; k++) {
			memset(&life.counter, 0, sizeof(life.counter));
			truth_step(&life.counter, BEGIN_NS,
				   (1LL << 50) + (s64)truth_below(1ULL << 40), rate);
			counters[k] = life.counter;
			life.vcpu = k;
			see_all(100 + truth_below(3000));
		}
		NEED(!fit(&clock, 4));
		CHECK_EQ(clock.nr_tracks, 4);
		for (k = 0; k < 4; k++) {
			life.counter = counters[k];
			life.vcpu = k;
			check_events(&clock, EVENTS);
		}
		braid_clock_free(&clock);
	}
}

/* Off its line by up to 300 ns, enough for samples to show it. */
static void jittery(void)
{
	struct braid_clock clock;
	u32 turn;

	for (turn = 0; turn < SCENARIOS; turn++) {
		begin(turn);
		life.delays = turn % 2 ? UNIFORM : CONSTANT;
		life.to_ns = BEGIN_NS + 100 * SECOND;
		life.hz = SECOND + truth_below(3 * SECOND);	/* no step hides it */
		life.jittery = (s64)(truth_between(100, 300) * life.hz / SECOND);
		truth_step(&life.counter, BEGIN_NS, truth_random() >> 12, random_rate());
		see_all(30);
		NEED(!fit(&clock, 1));
		CHECK_EQ(clock.tracks->nr_epochs, 1);
		check_events(&clock, EVENTS);
		CHECK(braid_clock_worst_bound(&clock, 0) < 2000);
		braid_clock_free(&clock);
	}
}

int main(void)
{
	RUN(straight);
	RUN(steps);
	RUN(poll_after_a_stop);
	RUN(steps_back);
	RUN(resets);
	RUN(each_vcpu);
	RUN(jittery);
	return VERDICT();
}
