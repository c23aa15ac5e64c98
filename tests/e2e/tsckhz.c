// SPDX-License-Identifier: GPL-2.0-or-later
/* Prints this machine's TSC frequency in kHz, which emulated guests get as a kernel argument. */
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

#define INTERVAL_NS 50000000

static int64_t clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_RAW, &ts);
	return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

/* Keeps the pair whose two counter reads around the clock read are closest to each other. */
static void sample(uint64_t *tsc, int64_t *ns)
{
	uint64_t best = UINT64_MAX;
	int i;

	for (i = 0; i < 50; i++) {
		uint64_t before = __rdtsc();
		int64_t now = clock_ns();
		uint64_t after = __rdtsc();

		if (after - before < best) {
			best = after - before;
			*tsc = before + best / 2;
			*ns = now;
		}
	}
}

int main(void)
{
	struct timespec pause = { .tv_nsec = INTERVAL_NS };
	uint64_t tsc0 = 0, tsc1 = 0;
	int64_t ns0 = 0, ns1 = 0;

	sample(&tsc0, &ns0);
	nanosleep(&pause, NULL);
	sample(&tsc1, &ns1);
	printf("%.0f\n", (double)(tsc1 - tsc0) * 1e6 / (double)(ns1 - ns0));
	return 0;
}
