// SPDX-License-Identifier: GPL-2.0-or-later
/* Whether the host trusts its own counter. */
#include <stdio.h>
#include <string.h>

#include "host_agent/clock_sync/counter.h"
#include "host_agent/util/cleanup.h"

#define CLOCKSOURCE	"/sys/devices/system/clocksource/clocksource0/current_clocksource"

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
