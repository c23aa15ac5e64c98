// SPDX-License-Identifier: GPL-2.0-or-later
/* Guests' events against kvm_entry and kvm_exit: wrong clocks are found, and samples are true. */
#include <stdlib.h>
#include <string.h>

#include "host_agent/walk/analysis.h"
#include "tests/unit/check.h"
#include "tests/unit/memory_trace.h"
#include "tests/unit/need.h"
#include "tests/unit/truth.h"

#define MAX_FOUND	4096

/* What the last run found. */
static struct braid_windows_found got;
static struct braid_round_trip samples[MAX_FOUND];

static int take(void *arg, struct braid_stream *stream, const struct braid_windows_found *found)
{
	(void)arg;
	NEED(stream == &memory_guest && found->nr_samples <= MAX_FOUND);
	got = *found;
	got.samples = samples;
	if (found->nr_samples)
		memcpy(samples, found->samples, found->nr_samples * sizeof(*samples));
	return 0;
}

static void run(void)
{
	static const struct braid_walk_options options;

	memset(&got, 0, sizeof(got));
	memory_guest.nr_cpus = 1;
	braid_source_rewind(&memory_source);
	NEED(!braid_analysis_judge(&memory_source, &options, take, NULL));
}

static struct memory_event *event(s64 ns, u64 bound, u64 counter)
{
	struct memory_event *e = memory_add(2, ns, MEMORY_WRITE, 33);

	e->bound = bound;
	e->counter = counter;
	return e;
}

/* The vCPU executes from 1000 to 2000, from 3000 to 4000, ... */
static void windows(u32 nr)
{
	u32 k;

	memory_begin();
	memory_switch(0, 900, 0, 0, 70);
	for (k = 0; k < nr; k++) {
		memory_entry(0, 1000 + 2000 * k, 70);
		memory_exit(0, 2000 + 2000 * k, 70, 30);
	}
}

static void found(u64 judged, u64 outside, u64 worst_ns, size_t nr_samples)
{
	run();
	CHECK_EQ(got.judged, judged);
	CHECK_EQ(got.outside, outside);
	CHECK_EQ(got.worst_ns, worst_ns);
	CHECK_EQ(got.nr_samples, nr_samples);
}

/* One event between the windows from 3000 to 4000 and from 5000 to 6000, or in one of them. */
static void one(s64 ns, u64 bound, u64 outside, u64 worst_ns, size_t nr_samples)
{
	windows(4);
	event(ns, bound, 7);
	found(1, outside, worst_ns, nr_samples);
}

static void judges(void)
{
	one(3500, 0, 0, 0, 0);
	one(4300, 300, 0, 0, 1);
	one(4300, 299, 1, 1, 0);
	one(4700, 300, 0, 0, 1);
	one(4700, 299, 1, 1, 0);
	one(4500, 499, 1, 1, 0);
	one(4500, 500, 0, 0, 0);	/* touches both */
	one(4500, 100, 1, 400, 0);
}

/* The part of the only window that the bound leaves. */
static void sampled(s64 ns, u64 bound, u64 from, u64 to)
{
	one(ns, bound, 0, 0, 1);
	CHECK_EQ(samples[0].s.h1_ns, from);
	CHECK_EQ(samples[0].s.counter, 7);
	CHECK_EQ(samples[0].s.h2_ns, to);
	CHECK_EQ(samples[0].vcpu, 1);
}

static void samples_of_one_window(void)
{
	sampled(3500, 600, 3000, 4000);
	sampled(3100, 600, 3000, 3700);
	sampled(3900, 600, 3300, 4000);
	sampled(4400, 500, 3900, 4000);
	sampled(4600, 500, 5000, 5100);
	sampled(3500, 999, 3000, 4000);
	one(3500, 1500, 0, 0, 0);	/* two windows, or three */
	one(3100, 1100, 0, 0, 0);
	one(3900, 1100, 0, 0, 0);
}

/* What is not known is not judged. */
static void unknown(void)
{
	windows(4);
	event(3500, BRAID_BOUND_UNKNOWN, 7);
	found(0, 0, 0, 0);
	windows(1);			/* before the first entry */
	event(500, 100, 7);
	found(0, 0, 0, 0);
	windows(1);			/* after the last exit */
	event(2500, 100, 7);
	found(0, 0, 0, 0);
	windows(1);			/* the vCPU may have run again where events were lost */
	event(2500, 100, 7);
	memory_switch(0, 2800, 70, 1, 0)->lost = 5;
	memory_switch(0, 2900, 0, 0, 70);
	memory_entry(0, 3000, 70);
	memory_exit(0, 3100, 70, 30);
	memory_entry(0, 5000, 70);
	found(0, 0, 0, 0);
	windows(1);			/* nor does an event then have only one window */
	memory_switch(0, 2800, 70, 1, 0)->lost = 5;
	memory_switch(0, 2900, 0, 0, 70);
	memory_entry(0, 3000, 70);
	event(3100, 300, 7);
	memory_exit(0, 3500, 70, 30);
	memory_entry(0, 5000, 70);
	found(1, 0, 0, 0);
	windows(1);			/* an exit before the loss does not say where it was after
					   it */
	memory_switch(0, 2800, 70, 1, 0)->lost = 5;
	memory_switch(0, 2900, 0, 0, 70);
	memory_user(0, 2950, 70);
	event(2960, 100, 7);
	memory_entry(0, 3500, 70);
	memory_exit(0, 3600, 70, 30);
	memory_entry(0, 5000, 70);
	found(0, 0, 0, 0);
	/* while events of the other CPU are lost, it may run there */
	windows(1);
	memory_switch(1, 1500, 0, 0, 90);
	memory_switch(0, 2100, 70, 0, 0);
	event(2700, 100, 7);
	memory_switch(0, 4000, 0, 0, 70);
	memory_entry(0, 4100, 70);
	event(4200, 1300, 7);
	memory_exit(0, 4900, 70, 30);
	memory_switch(1, 6000, 90, 0, 0)->lost = 6;
	memory_entry(0, 6500, 70);
	found(1, 0, 0, 0);
}

/*
 * The thread is not on CPU 0 from 4100 to 4900; an event in that time shows that the vCPU executed.
 */
static void away(u32 cpu)
{
	windows(2);
	event(2500, 100, 7);		/* while it stays on its CPU, all is known */
	memory_switch(0, 4100, 70, 0, 0);
	if (cpu == 1)
		memory_switch(1, 4200, 0, 0, 70);
	event(4500, 100, 7);
	if (cpu == 1)
		memory_switch(1, 4800, 70, 0, 0);
	memory_switch(0, 4900, 0, 0, 70);
	memory_entry(0, 5000, 70);
	memory_exit(0, 6000, 70, 30);
	memory_entry(0, 7000, 70);
}

/* Events of KVM were recorded on some CPUs only: elsewhere the vCPU may have executed unseen. */
static void on_some_cpus(void)
{
	away(1);			/* CPU 1 has none */
	found(1, 1, 400, 0);
	away(1);			/* or has some of them, of other vCPUs */
	memory_entry(1, 4810, 99);
	found(1, 1, 400, 0);
	away(0);
	found(2, 2, 400, 0);
	away(0);			/* nothing was recorded on CPU 2 */
	memory_host.nr_cpus = 3;
	found(1, 1, 400, 0);
	windows(2);			/* an event has only one window, if all are known */
	event(2050, 100, 7);
	event(4080, 300, 8);
	memory_switch(0, 4100, 70, 0, 0);
	memory_switch(0, 4900, 0, 0, 70);
	memory_entry(0, 5000, 70);
	memory_exit(0, 6000, 70, 30);
	memory_host.nr_cpus = 3;
	found(2, 0, 0, 1);
	CHECK_EQ(samples[0].s.h2_ns, 2000);
}

/* Without sched_switch, the thread may be anywhere. */
static void without_switches(void)
{
	memory_formats[MEMORY_SWITCH - 1].name = "other";
	windows(4);			/* CPU 1 has no events of KVM */
	event(4500, 100, 7);
	found(0, 0, 0, 0);
	windows(4);
	memory_entry(1, 3999, 99);
	event(4500, 100, 7);
	found(1, 1, 400, 0);
	memory_formats[MEMORY_SWITCH - 1].name = "sched_switch";
}

/* Where entries were filtered, exits may have been, too. */
static void filtered(void)
{
	windows(4);
	event(4400, 100, 7);
	event(4700, 300, 8);
	found(2, 1, 300, 1);
	CHECK(!got.entries_missing);
	windows(4);
	event(4400, 100, 7);
	event(4700, 300, 8);
	memory_exit(0, 8500, 70, 30);
	found(0, 0, 0, 0);
	CHECK(got.entries_missing);
	windows(4);			/* it may have been lost */
	event(4400, 100, 7);
	memory_exit(0, 8500, 70, 30)->lost = 3;
	found(1, 1, 300, 0);
	CHECK(!got.entries_missing);
}

/* An event at a true time, by a clock that is off by up to its bound, which changes in round k. */
static void stamped(const struct truth *t, u64 at, u32 k, s64 *last)
{
	u64 bound = 1000 + truth_below(k % 100 < 50 ? 3000 : 300000);
	s64 stamp = at + truth_between(-(s64)bound, bound);

	/* As in a ring, whose order is certain. */
	if (stamp < *last) {
		bound += *last - stamp;
		stamp = *last;
	}
	*last = stamp;
	event(stamp, bound, truth_counter(t, at));
}

/* Random windows and events, and losses; the clock is off by up to its bound, which changes. */
static void scatter(const struct truth *t, u64 *end_ns)
{
	u64 ns = 1000000, at;
	s64 last = 0;
	u32 k, n, lost = 0;

	memory_begin();
	memory_switch(0, 900, 0, 0, 70);
	for (k = 0; k < 1500; k++) {
		u64 exit_ns = ns + 2000 + truth_below(200000);

		if (truth_below(40)) {
			memory_add(0, ns, MEMORY_ENTRY, 70)->lost = lost;
			memory_exit(0, exit_ns, 70, 30);
			lost = 0;
		} else {
			lost += 2;
		}
		for (n = 0, at = ns; n < 3; n++) {
			at += truth_below((exit_ns - at) / 2 + 1);
			stamped(t, at, k, &last);
		}
		ns = exit_ns + 1000 + truth_below(100000);
	}
	*end_ns = ns;
}

/* The same without losses, on several CPUs: only CPU 0 has events of KVM, CPU 2 has none at all. */
static void roam(const struct truth *t, u64 *end_ns, u32 other)
{
	u64 ns = 1000000;
	s64 last = 0;
	u32 k, n;

	memory_begin();
	memory_host.nr_cpus = 3;
	for (k = 0; k < 1200; k++) {
		u32 cpu = truth_below(2) ? other : 0;

		if (cpu < 2)
			memory_switch(cpu, ns, 0, 0, 70);
		for (n = truth_below(4); n; n--) {
			u64 entry_ns = ns + 1000 + truth_below(50000);

			ns = entry_ns + 2000 + truth_below(200000);
			stamped(t, entry_ns + truth_below(ns - entry_ns), k, &last);
			if (cpu)
				continue;
			memory_entry(0, entry_ns, 70);
			memory_exit(0, ns, 70, 30);
		}
		ns += 1000 + truth_below(20000);
		if (cpu < 2)
			memory_switch(cpu, ns, 70, truth_below(2), 0);
		ns += 1000 + truth_below(20000);
	}
	*end_ns = ns;
}

/* The true time of each sample's counter is within it; a line through them is, too. */
static void true_to(struct truth *t, u32 other)
{
	struct braid_clock_inputs in = { .counter_hz = 2000000000, .nr_vcpus = 1 };
	struct braid_clock clock;
	u64 end_ns, ns, used = 0;
	size_t k;

	if (other)
		roam(t, &end_ns, other);
	else
		scatter(t, &end_ns);
	run();
	CHECK_EQ(got.outside, 0);
	CHECK(got.judged > (other ? 300 : 3500));
	CHECK(got.nr_samples > (other ? 3 : 10));
	for (k = 0; k < got.nr_samples; k++) {
		used += samples[k].s.h2_ns - samples[k].s.h1_ns;
		CHECK(samples[k].s.counter >= truth_counter(t, samples[k].s.h1_ns) &&
		      samples[k].s.counter <= truth_counter(t, samples[k].s.h2_ns));
	}
	CHECK(used / got.nr_samples < 100000);
	truth_sort(samples, got.nr_samples);
	in.round_trips = samples;
	in.nr_round_trips = got.nr_samples;
	NEED(!braid_clock_fit(&clock, &in));
	CHECK_EQ(braid_clock_epochs(&clock), 1);
	for (ns = 2000000; ns < end_ns; ns += end_ns / 1000) {
		struct braid_clock_time time = braid_clock_convert(&clock, 0, truth_counter(t, ns),
								   BRAID_TAKEN_UNKNOWN, 0);

		CHECK(truth_holds(&time, ns));
		CHECK(time.bound_ns < (other ? 50000 : 5000));
	}
	braid_clock_free(&clock);
}

static void truths(void)
{
	u32 k;

	for (k = 0; k < 30; k++) {
		struct truth t = {
			.nr = 1,
			.extents = { { .ns = 0,
				       .counter = truth_random() >> 2,
				       .rate = 2 * (1 + 1e-6 * truth_between(-100, 100)) } },
		};

		true_to(&t, k % 3);
	}
}

/* Of a vCPU that records more between two entries than are kept, some are judged. */
static void many_events(void)
{
	u32 k;

	windows(4);
	for (k = 0; k < 100; k++)
		event(4100 + 8 * k, 10, 7 + k);
	found(32, 32, 338, 0);		/* the first, and the last ones */
}

int main(void)
{
	RUN(judges);
	RUN(samples_of_one_window);
	RUN(unknown);
	RUN(on_some_cpus);
	RUN(without_switches);
	RUN(filtered);
	RUN(many_events);
	RUN(truths);
	return VERDICT();
}
