/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the native benches share: clocks, and the middle of many turns. */
#ifndef BRAID_TESTS_TIMING_H
#define BRAID_TESTS_TIMING_H

#include <stdlib.h>
#include <time.h>

#include "shared/ring.h"

static inline u64 counter(void)
{
#ifdef __x86_64__
	return __builtin_ia32_rdtsc();
#else
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
#endif
}

/* What a function takes, in ns. */
static inline double timed(void (*fn)(void))
{
	struct timespec from, to;

	clock_gettime(CLOCK_MONOTONIC, &from);
	fn();
	clock_gettime(CLOCK_MONOTONIC, &to);
	return (to.tv_sec - from.tv_sec) * 1e9 + (to.tv_nsec - from.tv_nsec);
}

static inline int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Sorts @values. */
static inline double median(double *values, size_t nr)
{
	qsort(values, nr, sizeof(*values), compare_doubles);
	return values[nr / 2];
}

#endif /* BRAID_TESTS_TIMING_H */
