/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Counters with known values, and samples of them. */
#ifndef BRAID_TESTS_TRUTH_H
#define BRAID_TESTS_TRUTH_H

#include "host_agent/clock_model/timeline.h"

#define TRUTH_EXTENTS	16

/* From a host time on: a value, and steps for each ns. */
struct truth_extent {
	u64 ns;
	u64 counter;
	double rate;
};

/* A counter that is straight except for steps and changes of its rate. */
struct truth {
	u32 nr;
	struct truth_extent extents[TRUTH_EXTENTS];	/* by ns */
};

/* The counter's value at a host time; before the first extent as in it. */
u64 truth_counter(const struct truth *t, u64 ns);

/* From @ns on it is @by steps ahead, and runs at another rate. */
void truth_step(struct truth *t, u64 ns, s64 by, double rate);

/* All tests' random numbers are the same in each run. */
extern u64 truth_seed;
u64 truth_random(void);
u64 truth_below(u64 n);

/* Between two numbers, inclusive. */
s64 truth_between(s64 low, s64 high);

/* Orders round-trip samples as a capture's reader does. */
void truth_sort(struct braid_round_trip *c, size_t nr);

/* The map of the host's counter, sampled every 100 ms in [from_ns, to_ns]. */
void truth_host_clock(struct braid_clock *clock, const struct truth *host, u64 from_ns, u64 to_ns);

/* Whether the true time is within a time's bound; prints it if it is not. */
bool truth_holds(const struct braid_clock_time *t, u64 ns);

#endif /* BRAID_TESTS_TRUTH_H */
