// SPDX-License-Identifier: GPL-2.0-or-later
/* Reads the host trace clock together with wall time. */
#include "host_agent/clock_sync/host.h"

#define PAIR_TRIES	8

void braid_host_clock_pair(u64 *host_ns, u64 *realtime_ns)
{
	u64 best = ~0ULL;
	int k;

	/* The tightest of a few: being scheduled away in between would show. */
	for (k = 0; k < PAIR_TRIES; k++) {
		u64 before = braid_host_clock_ns();
		u64 real = braid_clock_read_ns(CLOCK_REALTIME);
		u64 width = braid_host_clock_ns() - before;

		if (width >= best)
			continue;
		best = width;
		*host_ns = before + width / 2;
		*realtime_ns = real;
	}
}

void braid_sleep_ns(u64 ns)
{
	struct timespec t = braid_clock_timespec(ns);

	clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
}
