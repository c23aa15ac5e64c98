// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Disruptions that the hypervisor reports, and times without samples: no model spans one, however
 * small the counter's step.
 */
#include <string.h>

#include "tests/unit/check.h"
#include "tests/unit/need.h"
#include "tests/unit/truth.h"

#define SECOND		1000000000ULL
#define MILLI		1000000ULL
#define BEGIN_NS	(1ULL << 50)
#define BREAK_NS	(BEGIN_NS + 5 * SECOND)	/* the counter steps */
#define END_NS		(BREAK_NS + SECOND)
#define RATE		2.1
#define GUEST_HZ	2100000000ULL
#define POLL_NS		(50 * MILLI)		/* between two poll samples, which are as wide */
#define MAX_SAMPLES	2000u
#define LOOK_NS		MILLI			/* between two looks at a guest that is only read */

static struct truth counter;
static struct braid_round_trip samples[MAX_SAMPLES];
static size_t nr_samples;
static struct braid_clock_mark breaks[8];
static size_t nr_breaks;

static void sample(u64 h1, u64 ns, u64 h2, u32 vcpu)
{
	NEED(nr_samples < MAX_SAMPLES);
	samples[nr_samples++] = (struct braid_round_trip){
		.s = { h1, truth_counter(&counter, ns), h2 }, .vcpu = vcpu,
	};
}

/*
 * Bursts up to the break. From there on only poll samples, which do not show a step this small: a
 * recording that ends before a burst succeeds.
 */
static void run(s64 step_ns, u32 nr_vcpus)
{
	u64 ns, h1;
	u32 k;

	memset(&counter, 0, sizeof(counter));
	truth_step(&counter, 0, 1LL << 40, RATE);
	truth_step(&counter, BREAK_NS, (s64)((double)step_ns * RATE), RATE);
	nr_samples = nr_breaks = 0;
	for (ns = BEGIN_NS; ns < BREAK_NS - SECOND / 10; ns += SECOND / 2)
		for (k = 0; k < 8; k++)
			sample(ns + k * 4000 - 300, ns + k * 4000, ns + k * 4000 + 400,
			       1 + k % nr_vcpus);
	for (h1 = BEGIN_NS - POLL_NS / 3; h1 < END_NS; h1 += POLL_NS)
		sample(h1, h1 + POLL_NS / 2, h1 + POLL_NS, 1);
}

/*
 * As the agent does: from the last poll sample with the former marker to the first with the new
 * one.
 */
static void report_break(void)
{
	struct braid_clock_mark *b = &breaks[nr_breaks++];
	size_t k;

	*b = (struct braid_clock_mark){ .kind = BRAID_MARK_DISRUPTED, .to_ns = ~0ULL };
	for (k = 0; k < nr_samples; k++) {
		const struct braid_clock_sample *s = &samples[k].s;
		u64 at = s->h1_ns + POLL_NS / 2;

		if (s->h2_ns - s->h1_ns != POLL_NS)
			continue;
		if (at < BREAK_NS && s->h1_ns > b->from_ns)
			b->from_ns = s->h1_ns;
		if (at >= BREAK_NS && s->h2_ns < b->to_ns)
			b->to_ns = s->h2_ns;
	}
	CHECK(b->from_ns <= BREAK_NS && BREAK_NS <= b->to_ns);
}

static struct braid_clock_inputs inputs(u32 nr_vcpus, const struct braid_clock *host)
{
	nr_breaks = braid_breaks_merge(breaks, nr_breaks);
	nr_samples = braid_breaks_part(samples, nr_samples, breaks, nr_breaks);
	return (struct braid_clock_inputs){
		.counter_hz = GUEST_HZ, .nr_vcpus = nr_vcpus, .host = host,
		.counter_type = host ? BRAID_COUNTER_TSC_EMULATED : BRAID_COUNTER_TSC,
		.round_trips = samples, .nr_round_trips = nr_samples,
		.breaks = breaks, .nr_breaks = nr_breaks,
	};
}

/* How many events at random moments of a time are outside their bounds. */
static u32 wrong(const struct braid_clock *clock, u64 from_ns, u64 to_ns)
{
	u32 k, nr = 0;

	for (k = 0; k < 500; k++) {
		u64 ns = from_ns + truth_below(to_ns - from_ns);
		struct braid_clock_time t = braid_clock_convert(clock, 0,
								truth_counter(&counter, ns),
								ns + SECOND / 20, 0);

		nr += t.bound_ns != BRAID_BOUND_UNKNOWN &&
		      (u64)llabs(t.ns - (s64)ns) > t.bound_ns + 2;
	}
	return nr;
}

static void check_epoch(const struct braid_clock_epoch *e, enum braid_epoch_cause cause)
{
	CHECK(e->disrupted);
	CHECK_EQ(e->cause, cause);
	CHECK_EQ(e->from_ns, breaks[0].from_ns);
	CHECK_EQ(e->begun_ns, breaks[0].to_ns);
}

/* Steps within a poll sample's width, and none at all. */
static void hidden_step(const struct braid_clock *host)
{
	static const s64 steps_ns[] = { 0, -7000000, 9000000 };
	struct braid_clock_inputs in;
	struct braid_clock clock;
	size_t k;

	for (k = 0; k < sizeof(steps_ns) / sizeof(*steps_ns); k++) {
		run(steps_ns[k], 1);
		in = inputs(1, host);
		NEED(!braid_clock_fit(&clock, &in));
		CHECK_EQ(clock.tracks->nr_epochs, 1);	/* what such a report is for */
		/*
		 * An emulated counter may gain that much between two polls, and the bound includes
		 * it.
		 */
		CHECK_EQ(!wrong(&clock, BREAK_NS, END_NS), host || !steps_ns[k]);
		braid_clock_free(&clock);
		report_break();
		in = inputs(1, host);
		NEED(!braid_clock_fit(&clock, &in));
		NEED(clock.tracks->nr_epochs == 2);
		CHECK(!clock.tracks->epochs[0].disrupted);
		CHECK(clock.tracks->epochs[1].disrupted);
		if (!host)	/* no sample proves a step */
			CHECK_EQ(clock.tracks->epochs[1].cause, BRAID_EPOCH_DISRUPTED);
		CHECK_EQ(wrong(&clock, BEGIN_NS, BREAK_NS), 0);
		CHECK_EQ(wrong(&clock, BREAK_NS, END_NS), 0);
		CHECK_EQ(braid_clock_convert(&clock, 0, truth_counter(&counter, BEGIN_NS + SECOND),
					     BEGIN_NS + 2 * SECOND, 0).epoch, 0);
		CHECK_EQ(braid_clock_convert(&clock, 0, truth_counter(&counter, END_NS - MILLI), END_NS,
					     0).epoch, 1);
		braid_clock_free(&clock);
	}
}

static void by_line(void)
{
	hidden_step(NULL);
}

static void by_emulated_counter(void)
{
	struct truth host = { .nr = 1, .extents = { { 0, 5, RATE } } };
	struct braid_clock host_clock;

	truth_host_clock(&host_clock, &host, BEGIN_NS - SECOND, END_NS + SECOND);
	hidden_step(&host_clock);
	braid_clock_free(&host_clock);
}

/* A step that samples show has its usual cause, and the limits of the report. */
static void plain_step(void)
{
	static const struct { s64 step_ns; enum braid_epoch_cause cause; } rows[] = {
		{ 3 * (s64)SECOND, BRAID_EPOCH_JUMPED },
		{ -2 * (s64)SECOND, BRAID_EPOCH_WENT_BACK },
	};
	struct braid_clock_inputs in;
	struct braid_clock clock;
	size_t k;

	for (k = 0; k < 2; k++) {
		run(rows[k].step_ns, 1);
		report_break();
		in = inputs(1, NULL);
		NEED(!braid_clock_fit(&clock, &in));
		NEED(clock.tracks->nr_epochs == 2);
		check_epoch(&clock.tracks->epochs[1], rows[k].cause);
		CHECK_EQ(wrong(&clock, BEGIN_NS, END_NS), 0);
		braid_clock_free(&clock);
	}
}

/* Looks at a guest that is only read: a sample reaches from the look before to the one after. */
static void look(u64 from_ns, u64 ns)
{
	u64 end_ns = from_ns + ns;

	for (; from_ns < end_ns; from_ns += LOOK_NS)
		sample(from_ns, from_ns + truth_below(LOOK_NS), from_ns + LOOK_NS, 1);
}

/*
 * A guest has no samples for a time, as if it or the agent stood still. No wide sample after that
 * shows a step of less than 2 % of the time, by which the rate may be off.
 * @before_ns, @after_ns: of looks
 */
static void step_unseen(u64 before_ns, u64 unseen_ns, s64 step_ns, u64 after_ns)
{
	const u64 back_ns = BREAK_NS + unseen_ns / 2;
	const struct braid_clock_epoch *e;
	struct braid_clock_inputs in;
	struct braid_clock_time t;
	struct braid_clock clock;

	memset(&counter, 0, sizeof(counter));
	truth_step(&counter, 0, 1LL << 40, RATE);
	truth_step(&counter, BREAK_NS, (s64)((double)step_ns * RATE), RATE);
	nr_samples = nr_breaks = 0;
	look(BREAK_NS - unseen_ns / 2 - before_ns, before_ns);
	look(back_ns, after_ns);
	in = inputs(1, NULL);
	in.reads = true;
	NEED(!braid_clock_fit(&clock, &in));
	NEED(clock.tracks->nr_epochs == 2);
	e = &clock.tracks->epochs[1];
	if (!step_ns || !e->step_ns)	/* else both models exclude each other */
		CHECK_EQ(e->cause, BRAID_EPOCH_UNSEEN);
	CHECK(!e->disrupted);
	CHECK(e->from_ns <= (s64)BREAK_NS && e->begun_ns == (s64)(back_ns + LOOK_NS));
	CHECK_EQ(wrong(&clock, BREAK_NS - unseen_ns / 2 - before_ns, back_ns + after_ns), 0);
	t = braid_clock_convert(&clock, 0, truth_counter(&counter, back_ns + after_ns / 2),
				back_ns + after_ns, 0);
	CHECK_EQ(t.epoch, 1);
	CHECK(t.bound_ns < 2 * LOOK_NS);
	braid_clock_free(&clock);
}

static void unseen_steps(void)
{
	static const u64 unseen_ns[] = { SECOND / 2, 2 * SECOND, 8 * SECOND };
	size_t k;
	s64 step_ns;

	for (k = 0; k < sizeof(unseen_ns) / sizeof(*unseen_ns); k++) {
		step_ns = (s64)unseen_ns[k] / 60;
		step_unseen(20 * MILLI, unseen_ns[k], 0, 50 * MILLI);
		step_unseen(20 * MILLI, unseen_ns[k], step_ns, 50 * MILLI);
		step_unseen(20 * MILLI, unseen_ns[k], -step_ns, 50 * MILLI);
		step_unseen(LOOK_NS, unseen_ns[k], step_ns, 20 * MILLI);
		step_unseen(20 * MILLI, unseen_ns[k], -step_ns, 5 * MILLI);
	}
}

/* The samples before are enough for a step to show. */
static void seen_well(void)
{
	struct braid_clock_inputs in;
	struct braid_clock clock;

	memset(&counter, 0, sizeof(counter));
	truth_step(&counter, 0, 1LL << 40, RATE);
	nr_samples = nr_breaks = 0;
	look(BEGIN_NS, SECOND);
	look(BEGIN_NS + 3 * SECOND, 20 * MILLI);
	in = inputs(1, NULL);
	in.reads = true;
	NEED(!braid_clock_fit(&clock, &in));
	CHECK_EQ(clock.tracks->nr_epochs, 1);
	CHECK_EQ(wrong(&clock, BEGIN_NS, BEGIN_NS + 3 * SECOND), 0);
	braid_clock_free(&clock);
}

/*
 * A guest was not followed, as while it was migrated: a step that samples do not show. Of KVM's
 * offset in the other VM no more is known than that it holds.
 */
static void not_followed(void)
{
	struct truth host = { .nr = 1, .extents = { { 0, 5, RATE } } };
	struct braid_clock_offset offsets[] = {
		{ .offset = 7, .from_counter = truth_counter(&host, BEGIN_NS) },
		{ .offset = 8, .from_counter = truth_counter(&host, BREAK_NS + SECOND / 5) },
	};
	struct braid_clock host_clock, clock;
	struct braid_clock_inputs in;
	u32 k;

	truth_host_clock(&host_clock, &host, BEGIN_NS - SECOND, END_NS + SECOND);
	run(-7 * (s64)MILLI, 1);
	report_break();
	breaks[0].kind = BRAID_MARK_UNSEEN;
	in = inputs(1, &host_clock);
	in.counter_type = BRAID_COUNTER_TSC;
	in.offsets = offsets;
	for (k = 0; k < 2; k++) {
		in.nr_offsets = k;
		NEED(!(k ? braid_clock_by_offset(&clock, &in) : braid_clock_fit(&clock, &in)));
		NEED(clock.tracks->nr_epochs == 2);
		CHECK_EQ(clock.tracks->epochs[1].cause, BRAID_EPOCH_UNSEEN);
		CHECK(!clock.tracks->epochs[1].disrupted);
		CHECK_EQ(clock.tracks->epochs[1].from_ns, breaks[0].from_ns);
		CHECK_EQ(clock.tracks->epochs[1].begun_ns, breaks[0].to_ns);
		CHECK(k || !wrong(&clock, BEGIN_NS, END_NS));
		braid_clock_free(&clock);
	}
	in.nr_offsets = 2;
	NEED(!braid_clock_by_offset(&clock, &in));
	NEED(clock.tracks->nr_epochs == 3);
	CHECK_EQ(clock.tracks->epochs[1].cause, BRAID_EPOCH_OFFSET);
	CHECK_EQ(clock.tracks->epochs[1].from_ns, breaks[0].from_ns);
	CHECK(braid_clock_convert(&clock, 0, truth_counter(&host, BEGIN_NS + SECOND) + 7,
				  END_NS, 0).sure);
	braid_clock_free(&clock);
	braid_clock_free(&host_clock);
}

/* Two vCPUs whose counters differ: the one that was not visited since has no bound. */
static void unvisited_vcpu(void)
{
	struct braid_clock_inputs in;
	struct braid_clock clock;
	size_t k;

	run(9 * MILLI, 2);
	for (k = 0; k < nr_samples; k++)
		samples[k].s.counter += samples[k].vcpu == 2 ? 1000000000 : 0;
	report_break();
	in = inputs(2, NULL);
	NEED(!braid_clock_fit(&clock, &in));
	NEED(clock.nr_tracks == 2);
	CHECK_EQ(wrong(&clock, BEGIN_NS, END_NS), 0);
	CHECK_EQ(braid_clock_convert(&clock, 1, truth_counter(&counter, END_NS) + 1000000000, END_NS,
				     0).bound_ns, BRAID_BOUND_UNKNOWN);
	braid_clock_free(&clock);
}

/* By KVM's offset the model stays, but an epoch begins, after a pause too. */
static void by_offset(void)
{
	struct truth host = { .nr = 1, .extents = { { 0, 5, RATE } } };
	struct braid_clock_offset o = { .offset = 7,
					.from_counter = truth_counter(&host, BEGIN_NS) };
	struct braid_clock_mark marks[] = {
		{ BRAID_MARK_PAUSED, 0, BEGIN_NS + SECOND, BEGIN_NS + SECOND },
		{ BRAID_MARK_RESUMED, 0, BEGIN_NS + 2 * SECOND, BEGIN_NS + 2 * SECOND },
	};
	struct braid_clock host_clock, clock;
	struct braid_clock_inputs in;

	truth_host_clock(&host_clock, &host, BEGIN_NS - SECOND, END_NS + SECOND);
	run(0, 1);
	report_break();
	nr_samples = 0;
	in = inputs(1, &host_clock);
	in.offsets = &o;
	in.nr_offsets = 1;
	in.marks = marks;
	in.nr_marks = 2;
	NEED(!braid_clock_by_offset(&clock, &in));
	NEED(clock.tracks->nr_epochs == 3);
	CHECK_EQ(clock.tracks->epochs[1].cause, BRAID_EPOCH_PAUSED);
	CHECK(!clock.tracks->epochs[1].disrupted);
	check_epoch(&clock.tracks->epochs[2], BRAID_EPOCH_DISRUPTED);
	braid_clock_free(&clock);
	braid_clock_free(&host_clock);
}

static struct braid_clock_mark mark_of(u64 from_ns, u64 to_ns)
{
	return (struct braid_clock_mark){ BRAID_MARK_DISRUPTED, 0, from_ns, to_ns };
}

static void merges_breaks(void)
{
	struct braid_clock_mark b[] = {
		mark_of(500, 600), mark_of(100, 200), mark_of(150, 250), mark_of(170, 180),
		mark_of(700, 650), mark_of(250, 300), mark_of(1, ~0ULL),
	};

	CHECK_EQ(braid_breaks_merge(b, 7), 3);
	CHECK(b[0].from_ns == 100 && b[0].to_ns == 250);
	CHECK(b[1].from_ns == 250 && b[1].to_ns == 300);
	CHECK(b[2].from_ns == 500 && b[2].to_ns == 600);
	CHECK_EQ(braid_breaks_merge(NULL, 0), 0);

	b[0] = mark_of(10, 30);
	b[1] = mark_of(20, 40);
	b[2] = mark_of(50, 60);
	b[1].kind = b[2].kind = BRAID_MARK_UNSEEN;
	CHECK_EQ(braid_breaks_merge(b, 3), 2);
	CHECK(b[0].kind == BRAID_MARK_DISRUPTED && b[1].kind == BRAID_MARK_UNSEEN);
}

static void parts_samples(void)
{
	static const struct { u64 h1, h2; bool stays; u32 era; } rows[] = {
		{ 50, 100, true, 0 }, { 90, 101, false, 0 }, { 100, 400, true, 0 },
		{ 120, 130, false, 0 }, { 110, 200, true, 1 }, { 90, 200, true, 1 },
		{ 200, 300, true, 1 }, { 199, 201, false, 0 }, { 300, 350, true, 1 },
		{ 340, 500, true, 2 }, { 500, 501, true, 2 },
	};
	const struct braid_clock_mark b[] = { mark_of(100, 200), mark_of(350, 500) };
	struct braid_round_trip r[16];
	size_t k, nr = 0, left;

	for (k = 0; k < sizeof(rows) / sizeof(*rows); k++) {
		r[0] = (struct braid_round_trip){ .s = { rows[k].h1, 1, rows[k].h2 } };
		CHECK_EQ(braid_breaks_part(r, 1, b, 2), rows[k].stays);
		if (rows[k].stays)
			CHECK_EQ(r[0].era, rows[k].era);
	}
	for (k = 0; k < sizeof(rows) / sizeof(*rows); k++)
		r[nr++] = (struct braid_round_trip){ .s = { rows[k].h1, 1, rows[k].h2 } };
	left = braid_breaks_part(r, nr, b, 2);
	CHECK_EQ(left, 8);
	for (k = 1; k < left; k++)
		CHECK(r[k - 1].era < r[k].era ||
		      (r[k - 1].era == r[k].era && r[k - 1].s.h1_ns <= r[k].s.h1_ns));
	CHECK_EQ(braid_breaks_part(r, left, NULL, 0), left);
	CHECK_EQ(r[left - 1].era, 0);
}

int main(void)
{
	RUN(by_line);
	RUN(by_emulated_counter);
	RUN(plain_step);
	RUN(unseen_steps);
	RUN(seen_well);
	RUN(not_followed);
	RUN(unvisited_vcpu);
	RUN(by_offset);
	RUN(merges_breaks);
	RUN(parts_samples);
	return VERDICT();
}
