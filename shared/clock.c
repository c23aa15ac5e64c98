// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Converts counter values by a line. */
#include "shared/clock.h"

#define NS_PER_SECOND	1000000000ULL
#define END_OF_TIME	(~0ULL >> 1)	/* the largest s64 */
#define LATCH_TRIES	3	/* renewed once a second, so two failures in a row are not a race */

/* Without a 128-bit division anywhere. */
u64 braid_clock_high(u64 a, u64 b)
{
#ifdef __SIZEOF_INT128__
	return (unsigned __int128)a * b >> 64;
#else
	u64 al = (u32)a, ah = a >> 32, bl = (u32)b, bh = b >> 32;
	u64 mid = ah * bl + (al * bl >> 32);
	u64 mid2 = al * bh + (u32)mid;

	return ah * bh + (mid >> 32) + (mid2 >> 32);
#endif
}

u64 braid_clock_nominal_mult(u64 counter_hz)
{
	u64 mult = 0, rest = NS_PER_SECOND;
	int k;

	if (counter_hz < 10000000 || counter_hz > 100000000000ULL)
		return 0;
	/* Long division, one bit per step: the kernel has no 128-bit division. */
	mult = rest / counter_hz;
	rest %= counter_hz;
	for (k = 0; k < BRAID_CLOCK_SHIFT; k++) {
		rest <<= 1;
		mult = mult << 1 | (rest >= counter_hz);
		if (rest >= counter_hz)
			rest -= counter_hz;
	}
	return mult;
}

/* floor(steps * mult / 2^shift), saturated to 63 bits */
static u64 braid_clock_scale(u64 steps, u64 mult, bool *exact)
{
	u64 high = braid_clock_high(steps, mult), low = steps * mult;

	*exact = !(low & ((1ULL << BRAID_CLOCK_SHIFT) - 1));
	if (high >> (BRAID_CLOCK_SHIFT - 1))
		return END_OF_TIME;
	return high << (64 - BRAID_CLOCK_SHIFT) | low >> BRAID_CLOCK_SHIFT;
}

s64 braid_clock_to_ns(const struct braid_clock_map *map, u64 counter)
{
	u64 steps = counter - map->ref_counter;
	bool exact;
	u64 ns;

	/* A counter below 1 GHz passes both ends of the 64 bits of ns within its own. */
	if ((s64)steps >= 0) {
		ns = braid_clock_scale(steps, map->mult, &exact);
		if (map->ref_ns > 0 && ns > END_OF_TIME - (u64)map->ref_ns)
			return END_OF_TIME;
		return (s64)((u64)map->ref_ns + ns);
	}
	ns = braid_clock_scale(-steps, map->mult, &exact);
	if (map->ref_ns < 0 && ns + !exact > END_OF_TIME - (u64)-(map->ref_ns + 1))
		return -(s64)END_OF_TIME - 1;
	return (s64)((u64)map->ref_ns - ns - !exact);
}

u64 braid_clock_to_counter(const struct braid_clock_map *map, s64 ns)
{
	u64 low = map->ref_counter + (1ULL << 63);	/* the farthest before ref */
	u64 at = 0;
	int k;

	/* The largest counter whose time is not after ns: bisection over a monotone map. */
	for (k = 63; k >= 0; k--) {
		u64 try = at | 1ULL << k;

		if (braid_clock_to_ns(map, low + try) <= ns)
			at = try;
	}
	return low + at;
}

static void braid_clock_put_map(struct braid_clock_map *to, const struct braid_clock_map *from)
{
	braid_store(&to->ref_counter, from->ref_counter);
	braid_store(&to->ref_ns, from->ref_ns);
	braid_store(&to->mult, from->mult);
}

void braid_clock_latch_set(struct braid_clock_latch *latch, const struct braid_clock_map *map)
{
	u32 seq = latch->seq;

	braid_store_release(&latch->seq, seq + 1);	/* (L1) on to map[1] */
	braid_fence();
	braid_clock_put_map(&latch->map[0], map);
	braid_store_release(&latch->seq, seq + 2);	/* (L1) and back to map[0] */
	braid_fence();
	braid_clock_put_map(&latch->map[1], map);
}

u64 braid_clock_latch_ns(const struct braid_clock_latch *latch, u64 counter)
{
	struct braid_clock_map map;
	int tries;
	u32 seq;
	s64 ns;

	if (!latch)
		return 0;
	for (tries = 0; tries < LATCH_TRIES; tries++) {
		seq = braid_load_acquire(&latch->seq);			/* (L1) */
		if (seq < 2)
			return 0;
		/* Each before the second load of seq. */
		map.ref_counter = braid_load_acquire(&latch->map[seq & 1].ref_counter);
		map.ref_ns = braid_load_acquire(&latch->map[seq & 1].ref_ns);
		map.mult = braid_load_acquire(&latch->map[seq & 1].mult);
		if (braid_load(&latch->seq) != seq)
			continue;
		ns = braid_clock_to_ns(&map, counter);
		return ns > 0 ? (u64)ns : 0;
	}
	return 0;
}
