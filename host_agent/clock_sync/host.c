// SPDX-License-Identifier: GPL-2.0-or-later
/* Reads the host trace clock together with wall time; says whether the host trusts its counter. */
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "host_agent/clock_sync/host.h"
#include "host_agent/util/cleanup.h"

#define PAIR_TRIES	8
#define BOOT_ID		"/proc/sys/kernel/random/boot_id"
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

/* Adds a file's text, or nothing. Return: whether there was some. */
static bool add_text(char *text, size_t size, const char *path)
{
	braid_auto_file FILE *f = fopen(path, "re");
	size_t used = strlen(text), n;

	if (!f)
		return false;
	n = fread(text + used, 1, size - used - 2, f);
	text[used + n] = '\n';
	text[used + n + 1] = 0;
	return n;
}

bool braid_host_id(u8 id[BRAID_HOST_ID_BYTES])
{
	char text[1024] = "";
	XXH128_canonical_t hash;

	memset(id, 0, BRAID_HOST_ID_BYTES);
	if (!add_text(text, sizeof(text), BOOT_ID))
		return false;
	add_text(text, sizeof(text), "/etc/machine-id");
	add_text(text, sizeof(text), "/proc/self/timens_offsets");
	XXH128_canonicalFromHash(&hash, XXH3_128bits(text, strlen(text)));
	static_assert(sizeof(hash) == BRAID_HOST_ID_BYTES, "id");
	memcpy(id, &hash, sizeof(hash));
	return true;
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
