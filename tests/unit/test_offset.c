// SPDX-License-Identifier: GPL-2.0-or-later
/* The clock from KVM's offsets: exact for any offset, and rejected if impossible. */
#include <errno.h>
#include <string.h>

#include "tests/unit/check.h"
#include "tests/unit/need.h"
#include "tests/unit/truth.h"

#define BEGIN_NS	(1ULL << 50)
#define END_NS		(BEGIN_NS + 20 * SECOND)
#define SECOND		1000000000ULL
#define HOST_RATE	2.599999371	/* steps for each ns */
#define GUEST_HZ	2600000000ULL
#define EXACT_NS	200		/* includes the host map's bound */

static struct truth host;
static struct braid_clock host_clock;

static struct braid_clock_inputs inputs(const struct braid_clock_offset *o, size_t nr)
{
	return (struct braid_clock_inputs){
		.counter_hz = GUEST_HZ, .counter_type = BRAID_COUNTER_TSC, .nr_vcpus = 1,
		.offsets = o, .nr_offsets = nr, .host = &host_clock,
	};
}

/* As computed by KVM and the processor. */
static u64 guest_counter(const struct braid_clock_offset *o, u64 ns)
{
	u64 counter = truth_counter(&host, ns);

	if (o->ratio_bits)
		counter = (u64)((unsigned __int128)counter * o->ratio >> o->ratio_bits);
	return counter + o->offset;
}

/* Converts a time with an offset; the truth must be within the bound. */
static struct braid_clock_time at(const struct braid_clock *clock,
				  const struct braid_clock_offset *o, u64 ns, u64 taken_ns)
{
	struct braid_clock_time t =
		braid_clock_convert(clock, o->vcpu, guest_counter(o, ns), taken_ns, 0);

	CHECK(t.bound_ns != BRAID_BOUND_UNKNOWN);
	CHECK(truth_holds(&t, ns));
	return t;
}

static struct braid_clock_offset make_offset(u32 vcpu, u64 offset, u64 after_ns, u64 seen_ns)
{
	return (struct braid_clock_offset){
		.vcpu = vcpu, .offset = offset,
		.after_counter = after_ns ? truth_counter(&host, after_ns) : 0,
		.from_counter = truth_counter(&host, seen_ns),
	};
}

static void models(void)
{
	static const u64 offsets[] = {
		0, 12345, -999999999999ULL, ~0ULL, 1ULL << 63, -(1ULL << 51)
	};
	static const struct { u64 ratio; u32 bits; } scales[] = {
		{ 0, 0 },
		{ 1ULL << 31, 32 }, { (1ULL << 32) + 12345678, 32 }, { 7ULL << 32, 32 },
		{ (1ULL << 48) / 10 * 13, 48 }, { (1ULL << 48) - 1, 48 }, { 1ULL << 44, 48 },
	};
	size_t i, j, k;

	for (i = 0; i < sizeof(offsets) / sizeof(*offsets); i++) {
		for (j = 0; j < sizeof(scales) / sizeof(*scales); j++) {
			struct braid_clock_offset o = make_offset(0, offsets[i], 0, BEGIN_NS);
			struct braid_clock_inputs in = inputs(&o, 1);
			struct braid_clock clock;

			o.ratio = scales[j].ratio;
			o.ratio_bits = scales[j].bits;
			NEED(!braid_clock_by_offset(&clock, &in));
			CHECK_EQ(clock.kind, BRAID_CLOCK_KVM);
			CHECK_EQ(clock.tracks->nr_epochs, 1);
			for (k = 0; k < 200; k++) {
				u64 ns = BEGIN_NS + truth_below(END_NS - BEGIN_NS);
				struct braid_clock_time t = at(&clock, &o, ns, BRAID_TAKEN_UNKNOWN);

				CHECK(t.sure && t.bound_ns < EXACT_NS);
			}
			CHECK(braid_clock_worst_bound(&clock, END_NS) < EXACT_NS);
			braid_clock_free(&clock);
		}
	}
}

static void offset_of_each_vcpu(void)
{
	struct braid_clock_offset o[3] = {
		make_offset(0, 5, 0, BEGIN_NS), make_offset(1, -77777777ULL, 0, BEGIN_NS),
		make_offset(2, 1ULL << 62, 0, BEGIN_NS),
	};
	struct braid_clock_inputs in = inputs(o, 3);
	struct braid_clock_time t;
	struct braid_clock clock;
	u32 k, vcpu;

	in.nr_vcpus = 3;
	NEED(!braid_clock_by_offset(&clock, &in));
	CHECK_EQ(clock.nr_tracks, 3);
	for (k = 0; k < 300; k++)
		CHECK(at(&clock, &o[k % 3], BEGIN_NS + truth_below(20 * SECOND), END_NS).bound_ns < EXACT_NS);
	braid_clock_free(&clock);

	/* vCPUs that may be added are unknown. With equal offsets one model is enough ... */
	in.nr_vcpus = 8;
	o[1].offset = o[2].offset = o[0].offset;
	NEED(!braid_clock_by_offset(&clock, &in));
	CHECK_EQ(clock.nr_tracks, 1);
	for (vcpu = 0; vcpu < 8; vcpu++) {
		t = braid_clock_convert(&clock, vcpu, guest_counter(o, BEGIN_NS), END_NS, 0);
		CHECK(t.bound_ns < EXACT_NS && truth_holds(&t, BEGIN_NS));
	}
	braid_clock_free(&clock);

	/* ... but if each has its own, that of another one is unknown. */
	o[2].offset++;
	NEED(!braid_clock_by_offset(&clock, &in));
	CHECK_EQ(clock.nr_tracks, 3);
	CHECK_EQ(braid_clock_convert(&clock, 3, guest_counter(o, BEGIN_NS), END_NS, 0).bound_ns,
		 BRAID_BOUND_UNKNOWN);
	braid_clock_free(&clock);

	in.nr_offsets = 1;
	o[0].vcpu = 1;
	CHECK_EQ(braid_clock_by_offset(&clock, &in), -ENODATA);
	CHECK(strstr(clock.reason, "KVM offset of vCPU 0 unavailable"));
}

/* KVM's tracepoint gives the time of the write, exact to the step. */
static void changed_at_a_step(void)
{
	u64 change = BEGIN_NS + 7 * SECOND, ns;
	struct braid_clock_offset o[2] = {
		make_offset(0, -(1ULL << 40), 0, BEGIN_NS),
		make_offset(0, 50 * 2600000 - (1ULL << 40), change, change),
	};
	struct braid_clock_inputs in = inputs(o, 2);
	const struct braid_clock_epoch *e;
	struct braid_clock clock;
	u32 k;

	NEED(!braid_clock_by_offset(&clock, &in));
	NEED(clock.tracks->nr_epochs == 2);
	e = &clock.tracks->epochs[1];
	CHECK_EQ(e->cause, BRAID_EPOCH_OFFSET);
	CHECK(e->from_ns <= (s64)change && (s64)change <= e->begun_ns);
	CHECK(e->begun_ns - e->from_ns < 2 * EXACT_NS);
	for (k = 0; k < 2000; k++) {
		struct braid_clock_time t;
		bool later;

		ns = change - SECOND + truth_below(2 * SECOND);
		later = ns >= change;
		t = at(&clock, &o[later], ns, ns + truth_below(SECOND));
		if (ns + EXACT_NS < change || ns > change + EXACT_NS)
			CHECK(t.sure && t.epoch == later && t.bound_ns < EXACT_NS);
	}
	braid_clock_free(&clock);

	/* Backward: values after the change may be from before it, unless the ring decides. */
	o[1].offset = o[0].offset - 50 * 2600000;
	NEED(!braid_clock_by_offset(&clock, &in));
	for (k = 0; k < 2000; k++) {
		ns = change - SECOND + truth_below(2 * SECOND);
		at(&clock, &o[ns >= change], ns, ns + truth_below(SECOND));
	}
	ns = change + SECOND / 100;
	CHECK(!at(&clock, &o[1], ns, ns).sure);
	CHECK(braid_clock_convert(&clock, 0, guest_counter(&o[1], ns), ns, 1).bound_ns < EXACT_NS);
	braid_clock_free(&clock);
}

/* Without it there are two reads, between which either offset may hold. */
static void changed_between_two_reads(void)
{
	static const s64 steps[] = { 2600000, -2600000, 700 * 2600000LL, -700 * 2600000LL,
				     2600LL << 30 };
	u64 after = BEGIN_NS + 7 * SECOND, seen = after + SECOND, change, ns;
	size_t j;
	u32 k;

	for (j = 0; j < sizeof(steps) / sizeof(*steps); j++) {
		struct braid_clock_offset o[3] = {
			make_offset(0, 1ULL << 60, 0, BEGIN_NS),
			make_offset(0, (1ULL << 60) + (u64)steps[j], after, seen),
			make_offset(0, (1ULL << 60) + (u64)steps[j], seen, END_NS),
		};
		struct braid_clock_inputs in = inputs(o, 3);
		struct braid_clock clock;

		NEED(!braid_clock_by_offset(&clock, &in));
		NEED(clock.tracks->nr_epochs == 2);	/* that it held to the end adds nothing */
		CHECK_EQ(clock.tracks->epochs[1].cause, BRAID_EPOCH_OFFSET);
		CHECK(clock.tracks->epochs[1].from_ns <= (s64)after);
		CHECK(clock.tracks->epochs[1].begun_ns >= (s64)seen);
		change = after + truth_below(SECOND);
		for (k = 0; k < 2000; k++) {
			ns = after - SECOND + truth_below(3 * SECOND);
			at(&clock, &o[ns >= change], ns, ns + truth_below(SECOND));
		}
		/* The bound must contain both models. */
		ns = (after + seen) / 2;
		at(&clock, &o[0], ns, END_NS);
		at(&clock, &o[1], ns, END_NS);
		braid_clock_free(&clock);
	}
}

static void paused(void)
{
	u64 from = BEGIN_NS + 5 * SECOND, to = BEGIN_NS + 9 * SECOND, ns;
	struct braid_clock_mark marks[] = {
		{ BRAID_MARK_PAUSED, 0, from - 1000, from + 1000 },
		{ BRAID_MARK_RESUMED, 0, to - 1000, to + 1000 },
		{ BRAID_MARK_PAUSED, 0, END_NS - SECOND, END_NS - SECOND },	/* for good */
	};
	struct braid_clock_offset o[2] = {
		make_offset(0, 99, 0, BEGIN_NS),
		make_offset(0, 1000000, to - 500, to + 500),
	};
	struct braid_clock_inputs in = inputs(o, 1);
	struct braid_clock clock;
	u32 k;

	in.marks = marks;
	in.nr_marks = 3;
	NEED(!braid_clock_by_offset(&clock, &in));
	NEED(clock.tracks->nr_epochs == 2);
	CHECK_EQ(clock.tracks->epochs[1].cause, BRAID_EPOCH_PAUSED);
	CHECK_EQ(clock.tracks->epochs[1].from_ns, from - 1000);
	CHECK_EQ(clock.tracks->epochs[1].begun_ns, to + 1000);
	for (k = 0; k < 500; k++)
		CHECK(at(&clock, o, BEGIN_NS + truth_below(20 * SECOND), END_NS).bound_ns < EXACT_NS);
	braid_clock_free(&clock);

	/* An offset that is set when a pause ends: two epochs, each at its place. */
	in.nr_offsets = 2;
	NEED(!braid_clock_by_offset(&clock, &in));
	NEED(clock.tracks->nr_epochs == 3);
	CHECK_EQ(clock.tracks->epochs[1].cause, BRAID_EPOCH_PAUSED);
	CHECK_EQ(clock.tracks->epochs[2].cause, BRAID_EPOCH_OFFSET);
	for (k = 0; k < 500; k++) {
		ns = truth_below(2) ? from - truth_below(SECOND) : to + truth_below(SECOND);
		at(&clock, &o[ns >= to], ns, ns + SECOND);
	}
	braid_clock_free(&clock);
}

/* Round-trip samples confirm or contradict the offset. */
static void round_trips_check_it(void)
{
	static struct braid_round_trip c[100];
	struct braid_clock_offset o = make_offset(0, -555555, 0, BEGIN_NS), other = o;
	struct braid_clock_inputs in = inputs(&o, 1);
	struct braid_clock clock;
	u64 ns;
	u32 k;

	for (k = 0; k < 100; k++) {
		ns = BEGIN_NS + k * SECOND / 10;
		c[k] = (struct braid_round_trip){ .vcpu = 1, .s = {
			ns - truth_below(300), guest_counter(&o, ns), ns + truth_below(3000) } };
	}
	in.round_trips = c;
	in.nr_round_trips = 100;
	NEED(!braid_clock_choose(&clock, &in, BRAID_CLOCK_KINDS));
	CHECK_EQ(clock.kind, BRAID_CLOCK_KVM);
	CHECK(strstr(clock.reason, "confirmed by 100 round-trip samples"));
	braid_clock_free(&clock);

	other.offset += 1000000;
	in.offsets = &other;
	NEED(!braid_clock_choose(&clock, &in, BRAID_CLOCK_KINDS));
	CHECK_EQ(clock.kind, BRAID_CLOCK_EXCHANGE);
	CHECK(strstr(clock.reason, "contradicts 100 of 100 round-trip samples"));
	for (k = 0; k < 100; k++)
		at(&clock, &o, BEGIN_NS + truth_below(10 * SECOND), END_NS);
	braid_clock_free(&clock);
	CHECK_EQ(braid_clock_choose(&clock, &in, BRAID_CLOCK_KVM), -ENODATA);
	CHECK(strstr(clock.reason, "contradicts"));

	in.offsets = &o;
	in.host = NULL;
	NEED(!braid_clock_choose(&clock, &in, BRAID_CLOCK_KINDS));
	CHECK_EQ(clock.kind, BRAID_CLOCK_EXCHANGE);
	CHECK(strstr(clock.reason, "not mapped to its clock"));
	braid_clock_free(&clock);
	in.nr_round_trips = 0;
	CHECK_EQ(braid_clock_choose(&clock, &in, BRAID_CLOCK_KINDS), -ENODATA);
	in.nr_offsets = 0;
	CHECK_EQ(braid_clock_choose(&clock, &in, BRAID_CLOCK_KVM), -ENODATA);
	CHECK(strstr(clock.reason, "KVM offset unavailable"));
}

/* Any claim of a capture about KVM's data. */
static void arbitrary_data(void)
{
	static struct braid_clock_offset o[4000];
	static struct braid_clock_mark marks[1000];
	u32 turn, k, nr;

	for (turn = 0; turn < 300; turn++) {
		struct braid_clock_inputs in = inputs(o, 1 + truth_below(turn % 10 ? 30 : 4000));
		struct braid_clock clock;

		for (k = 0; k < in.nr_offsets; k++)
			o[k] = (struct braid_clock_offset){
				truth_below(3), truth_random() >> (turn % 2 ? 58 : 32),
				truth_random() >> truth_below(64), truth_random(), truth_random(),
				truth_random(),
			};
		for (k = 0; k < 1000; k++)
			marks[k] = (struct braid_clock_mark){
				truth_below(4), 0, truth_random() >> truth_below(64),
				truth_random(),
			};
		in.nr_vcpus = 1 + truth_below(4);
		in.marks = marks;
		in.nr_marks = truth_below(1000);
		if (braid_clock_choose(&clock, &in, BRAID_CLOCK_KINDS))
			continue;
		CHECK(braid_clock_epochs(&clock) <= 256);
		for (k = 0, nr = braid_clock_epochs(&clock); k < 300; k++)
			braid_clock_convert(&clock, k % 5, truth_random(), truth_random(),
					    truth_below(nr));
		braid_clock_worst_bound(&clock, truth_random());
		braid_clock_free(&clock);
	}
}

int main(void)
{
	truth_step(&host, BEGIN_NS, 1LL << 52, HOST_RATE);
	truth_host_clock(&host_clock, &host, BEGIN_NS - SECOND, END_NS + SECOND);
	RUN(models);
	RUN(offset_of_each_vcpu);
	RUN(changed_at_a_step);
	RUN(changed_between_two_reads);
	RUN(paused);
	RUN(round_trips_check_it);
	RUN(arbitrary_data);
	braid_clock_free(&host_clock);
	return VERDICT();
}
