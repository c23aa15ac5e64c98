/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Clocks in ns; among them that of waits and of progress. */
#ifndef BRAID_UTIL_MONOTONIC_H
#define BRAID_UTIL_MONOTONIC_H

#include <time.h>

#include "tracebraid/types.h"

#define BRAID_SECOND_NS		1000000000ULL
#define BRAID_HOST_CLOCK	"mono_raw"	/* the clock of captures, as tracefs' trace_clock calls it */

/** braid_clock_read_ns - ns of one clock; no system call */
static inline u64 braid_clock_read_ns(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return t.tv_sec * BRAID_SECOND_NS + t.tv_nsec;
}

/** braid_clock_timespec - the same as a struct timespec */
static inline struct timespec braid_clock_timespec(u64 ns)
{
	return (struct timespec){ .tv_sec = ns / BRAID_SECOND_NS, .tv_nsec = ns % BRAID_SECOND_NS };
}

/** braid_monotonic_ns - CLOCK_MONOTONIC; unlike the clock of captures, NTP slews it */
static inline u64 braid_monotonic_ns(void)
{
	return braid_clock_read_ns(CLOCK_MONOTONIC);
}

#endif /* BRAID_UTIL_MONOTONIC_H */
