// SPDX-License-Identifier: GPL-2.0-or-later
/* Reads the host trace clock together with wall time; says whether the host trusts its counter. */
#include <stdio.h>
#include <string.h>

#include "host_agent/clock_sync/host.h"
#include "host_agent/util/cleanup.h"

#define PAIR_TRIES	8
#define CLOCKSOURCE	"/sys/devices/system/clocksource/clocksource0/current_clocksource"

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

const char *braid_host_counter_name(void)
{
	static const char *const known[][2] = {
#if defined(__x86_64__)
		{ "tsc\n", "tsc" },
#elif defined(__aarch64__)
		{ "arch_sys_counter\n", "cntvct" },
#endif
		{ NULL },
	};
	braid_auto_file FILE *f = fopen(CLOCKSOURCE, "re");
	char line[32];

	/* Another clocksource: this one is not the same on all CPUs, or stops. */
	return f && known[0][0] && fgets(line, sizeof(line), f) && !strcmp(line, known[0][0]) ?
	       known[0][1] : NULL;
}
