/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sums of durations by vCPU, task, and culprit or exit reason: the rows of most analyses. */
#ifndef BRAID_ANALYZE_SUMS_H
#define BRAID_ANALYZE_SUMS_H

#include "host_agent/util/histogram.h"
#include "host_agent/analyze/states.h"
#include "host_agent/analyze/table.h"

#define BRAID_MAX_SUMS	(1u << 14)	/* of one analysis; what comes later is in one more row */

/* What a sum is of. What an analysis does not tell apart is 0, or unknown. */
struct braid_sum_key {
	u32 vcpu;		/* BRAID_NO_VCPU: the row of all that came too late */
	s32 task;		/* or BRAID_PID_UNKNOWN */
	struct braid_culprit culprit;
	u64 reason;
	u64 detail;		/* a system call, or a function's address */
	u32 level;		/* of virtualization */
};

struct braid_sum {
	struct braid_sum_key key;
	u64 count;
	u64 returned;		/* of exits: those after which the vCPU came back */
	u64 total_ns;
	u64 ns[BRAID_NR_VCPU_STATES];	/* its parts, as the analysis divides it */
	struct braid_histogram histogram;
};

/* Zeroed: empty. */
struct braid_sums {
	struct braid_sum **all;
	size_t nr, capacity;
	struct braid_hash by_key;	/* numbers in all */
	u64 count, total_ns;
};

/**
 * braid_sums_add - add a duration
 * @x: zeroed at first
 * @key: of its row
 * @ns: the duration
 * @at_ns: when it began
 * @out: set to its row, for the caller to add the parts; may be NULL
 *
 * Return: 0, or -ENOMEM with braid_fail().
 */
int braid_sums_add(struct braid_sums *x, const struct braid_sum_key *key, u64 ns, s64 at_ns,
		   struct braid_sum **out);

/** braid_sums_merge - add all of another row */
void braid_sums_merge(struct braid_sum *to, const struct braid_sum *from);

/** braid_sums_sort - by a comparison of struct braid_sum pointers; nothing is added after */
void braid_sums_sort(struct braid_sums *x, int (*compare)(const void *a, const void *b));

/** braid_sum_by_total - an order for it: the longest first */
int braid_sum_by_total(const void *a, const void *b);

/* The last columns of their tables, ... */
#define BRAID_SUM_COLUMNS							\
	{ "P50", "p50_ns", BRAID_CELL_DURATION },				\
	{ "P99", "p99_ns", BRAID_CELL_DURATION },				\
	{ "WORST", "worst_ns", BRAID_CELL_DURATION },				\
	{ "AT", "worst_at_ns", BRAID_CELL_TIME }

/** braid_sum_put - ... and their values */
void braid_sum_put(const struct braid_sum *sum, struct braid_table *t);

/** braid_sums_free - free all */
void braid_sums_free(struct braid_sums *x);

#endif /* BRAID_ANALYZE_SUMS_H */
