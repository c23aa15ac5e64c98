/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Shared by the native benches: clocks, and the median of many turns. */
#ifndef BRAID_TESTS_TIMING_H
#define BRAID_TESTS_TIMING_H

#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "shared/ring.h"

/* Whether figures do not matter: `make check` runs every bench only to see that it works. */
static inline bool is_short(void)
{
	return getenv("BRAID_BENCH_SHORT");
}

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

static inline u64 monotonic_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

/* The duration of a function, in ns. */
static inline double timed(void (*fn)(void))
{
	u64 from_ns = monotonic_ns();

	fn();
	return monotonic_ns() - from_ns;
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
