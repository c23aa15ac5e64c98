// SPDX-License-Identifier: GPL-2.0-or-later
/* The exponential buckets of Prometheus' native histograms. */
#include <stdbool.h>

#include "host_agent/online/native.h"

#define PER_OCTAVE	(1 << BRAID_NATIVE_SCHEMA)
#define FRACTION	32	/* bits of a limit behind the point */

/* 2^(k / 4) s in ns. */
static const u64 native_roots[PER_OCTAVE] = {
	1000000000ULL << FRACTION, 5107605667107197932ULL, 6074000999952099384ULL,
	7223245205676679009ULL,
};

static bool native_fits(u64 ns, u32 bucket)
{
	int power = (int)bucket + BRAID_NATIVE_FIRST - 1;
	int octave = power >= 0 ? power / PER_OCTAVE : -((PER_OCTAVE - 1 - power) / PER_OCTAVE);
	unsigned __int128 limit = native_roots[power - octave * PER_OCTAVE];
	unsigned __int128 value = (unsigned __int128)ns << FRACTION;

	return octave < 0 ? value << -octave <= limit : value <= limit << octave;
}

u32 braid_native_bucket(u64 ns)
{
	u32 low = 0, high = BRAID_NATIVE_BUCKETS - 1, middle;

	while (low < high) {
		middle = (low + high) / 2;
		if (native_fits(ns, middle))
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}
