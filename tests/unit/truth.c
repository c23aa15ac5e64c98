// SPDX-License-Identifier: GPL-2.0-or-later
/* Counters with known values, and samples of them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/need.h"
#include "tests/unit/truth.h"

#define HOST_EVERY_NS	100000000ULL
#define HOST_SAMPLES	100000u

u64 truth_seed = 88172645463325252ULL;

u64 truth_random(void)
{
	truth_seed ^= truth_seed << 13;
	truth_seed ^= truth_seed >> 7;
	truth_seed ^= truth_seed << 17;
	return truth_seed;
}

u64 truth_below(u64 n)
{
	return truth_random() % n;
}

s64 truth_between(s64 low, s64 high)
{
	return low + (s64)truth_below((u64)(high - low) + 1);
}

u64 truth_counter(const struct truth *t, u64 ns)
{
	const struct truth_extent *p = &t->extents[t->nr - 1];

	while (p > t->extents && ns < p->ns)
		p--;
	return p->counter + (u64)(s64)floorl((long double)(s64)(ns - p->ns) * p->rate);
}

void truth_step(struct truth *t, u64 ns, s64 by, double rate)
{
	u64 counter = t->nr ? truth_counter(t, ns) : 0;

	NEED(t->nr < TRUTH_EXTENTS);
	t->extents[t->nr++] = (struct truth_extent){ ns, counter + (u64)by, rate };
}

static int by_h1(const void *a, const void *b)
{
	const struct braid_clock_sample *x = &((const struct braid_round_trip *)a)->s;
	const struct braid_clock_sample *y = &((const struct braid_round_trip *)b)->s;

	if (x->h1_ns != y->h1_ns)
		return x->h1_ns < y->h1_ns ? -1 : 1;
	return x->h2_ns < y->h2_ns ? -1 : x->h2_ns > y->h2_ns;
}

void truth_sort(struct braid_round_trip *c, size_t nr)
{
	qsort(c, nr, sizeof(*c), by_h1);
}

void truth_host_clock(struct braid_clock *clock, const struct truth *host, u64 from_ns, u64 to_ns)
{
	struct braid_round_trip *c = calloc(HOST_SAMPLES, sizeof(*c));
	struct braid_clock_inputs in = {
		.counter_type = BRAID_COUNTER_TSC, .nr_vcpus = 1, .round_trips = c,
	};
	u64 ns;

	NEED(c);
	for (ns = from_ns; ns <= to_ns && in.nr_round_trips < HOST_SAMPLES; ns += HOST_EVERY_NS)
		c[in.nr_round_trips++].s = (struct braid_clock_sample){
			ns - 10 - truth_below(20), truth_counter(host, ns),
			ns + 10 + truth_below(30),
		};
	NEED(!braid_clock_fit(clock, &in));
	NEED(clock->tracks->nr_epochs == 1);
	free(c);
}

bool truth_holds(const struct braid_clock_time *t, u64 ns)
{
	s64 off = t->ns - (s64)ns;

	/*
	 * The counter's step and its rounding are at most 2 ns: the true value is rounded down,
	 * too.
	 */
	if (t->bound_ns == BRAID_BOUND_UNKNOWN || (u64)llabs(off) <= t->bound_ns + 2)
		return true;
	fprintf(stderr, "the truth is %llu, not %lld: off by %lld, bound %llu, epoch %u%s\n",
		(unsigned long long)ns, (long long)t->ns, (long long)off,
		(unsigned long long)t->bound_ns, t->epoch, t->sure ? "" : ", perhaps");
	return false;
}
