/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Durations by magnitude: percentiles that are at most 1/8 too small, in bounded memory; and the
 * longest of them.
 */
#ifndef BRAID_UTIL_HISTOGRAM_H
#define BRAID_UTIL_HISTOGRAM_H

#include "tracebraid/types.h"

#define BRAID_HISTOGRAM_SLOTS	320u	/* 8 for each power of two; up to 2^42 ns, an hour */

struct braid_histogram {
	u32 counts[BRAID_HISTOGRAM_SLOTS];
	u64 nr;
	u64 longest_ns;		/* 0 if nothing was added */
	s64 longest_at_ns;	/* when it began; of equal ones the earliest */
};

static inline u32 braid_histogram_slot(u64 ns)
{
	u32 power = ns < 8 ? 0 : 63 - __builtin_clzll(ns);
	u64 slot = ns < 8 ? ns : (power - 2) * 8 + ((ns >> (power - 3)) & 7);

	return slot < BRAID_HISTOGRAM_SLOTS ? slot : BRAID_HISTOGRAM_SLOTS - 1;
}

/** braid_histogram_least - the least duration of a slot, in ns */
static inline u64 braid_histogram_least(u32 slot)
{
	return slot < 8 ? slot : (u64)(8 + (slot & 7)) << (slot / 8 - 1);
}

/* The result does not depend on the order in which durations come. */
static inline void braid_histogram_compare(struct braid_histogram *h, u64 ns, s64 at_ns)
{
	if (h->nr && (ns < h->longest_ns || (ns == h->longest_ns && at_ns >= h->longest_at_ns)))
		return;
	h->longest_ns = ns;
	h->longest_at_ns = at_ns;
}

/** braid_histogram_add - count a duration that began at @at_ns */
static inline void braid_histogram_add(struct braid_histogram *h, u64 ns, s64 at_ns)
{
	braid_histogram_compare(h, ns, at_ns);
	h->counts[braid_histogram_slot(ns)]++;
	h->nr++;
}

/** braid_histogram_merge - add all of another one's */
static inline void braid_histogram_merge(struct braid_histogram *h,
					 const struct braid_histogram *more)
{
	u32 k;

	if (more->nr)
		braid_histogram_compare(h, more->longest_ns, more->longest_at_ns);
	for (k = 0; k < BRAID_HISTOGRAM_SLOTS; k++)
		h->counts[k] += more->counts[k];
	h->nr += more->nr;
}

/** braid_histogram_percentile - the least duration of its slot, so at most 1/8 too small */
static inline u64 braid_histogram_percentile(const struct braid_histogram *h, u32 percent)
{
	u64 rank = (h->nr * percent + 99) / 100, seen = 0;
	u32 k;

	for (k = 0; k < BRAID_HISTOGRAM_SLOTS; k++) {
		seen += h->counts[k];
		if (seen >= rank && seen)
			return braid_histogram_least(k);
	}
	return 0;
}

#endif /* BRAID_UTIL_HISTOGRAM_H */
