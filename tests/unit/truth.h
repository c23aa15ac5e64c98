/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Counters whose every value is known, and what is seen of them. */
#ifndef BRAID_TESTS_TRUTH_H
#define BRAID_TESTS_TRUTH_H

#include "host_agent/timeline/timeline.h"

#define TRUTH_PIECES	16

/* From a host time on: a value, and steps for each ns. */
struct truth_piece {
	u64 ns;
	u64 counter;
	double rate;
};

/* A counter that is straight but for steps and changes of its rate. */
struct truth {
	u32 nr;
	struct truth_piece pieces[TRUTH_PIECES];	/* by ns */
};

/* What the counter shows at a host time; before the first piece as in it. */
u64 truth_counter(const struct truth *t, u64 ns);

/* From @ns on it is @by steps ahead of where it would be, and runs at another rate. */
void truth_step(struct truth *t, u64 ns, s64 by, double rate);

/* All tests' random numbers are the same ones each time. */
extern u64 truth_seed;
u64 truth_random(void);
u64 truth_below(u64 n);

/* Between two numbers, both included. */
s64 truth_between(s64 low, s64 high);

/* Orders crossings as a capture's reader does. */
void truth_sort(struct braid_crossing *c, size_t nr);

/* The map of the host's counter, as it is sampled every 100 ms in [from_ns, to_ns]. */
void truth_host_clock(struct braid_clock *clock, const struct truth *host, u64 from_ns, u64 to_ns);

/* Whether a time, its bound included, holds the truth; says so when it does not. */
bool truth_holds(const struct braid_clock_time *t, u64 ns);

#endif /* BRAID_TESTS_TRUTH_H */
