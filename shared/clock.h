/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Counter-to-time maths in integers: exact, monotone, the same on both sides. */
#ifndef BRAID_SHARED_CLOCK_H
#define BRAID_SHARED_CLOCK_H

#include "shared/platform.h"

/*
 * A line: ns = ref_ns + (counter - ref_counter) * mult / 2^BRAID_CLOCK_SHIFT. mult
 * is ns for one step of the counter, in units of 2^-BRAID_CLOCK_SHIFT.
 */
struct braid_clock_map {
	u64 ref_counter;
	s64 ref_ns;
	u64 mult;
};

#define BRAID_CLOCK_SHIFT	56

/** braid_clock_high - the upper 64 bits of @a * @b */
u64 braid_clock_high(u64 a, u64 b);

/**
 * braid_clock_nominal_mult - mult of a counter that keeps its nominal frequency
 * @counter_hz: 10^7 to 10^11; slower ones overflow mult
 *
 * Return: mult, or 0 when @counter_hz is out of range.
 */
u64 braid_clock_nominal_mult(u64 counter_hz);

/**
 * braid_clock_to_ns - convert a counter value
 * @map: the line
 * @counter: any, before or after ref_counter
 *
 * Monotone: a larger counter never gives a smaller time.
 * Return: ns of the line's time scale, rounded down; saturated to the range of s64.
 */
s64 braid_clock_to_ns(const struct braid_clock_map *map, u64 counter);

/**
 * braid_clock_to_counter - the inverse, rounded down
 * @map: the line
 * @ns: any within reach of 64 bits of counter
 */
u64 braid_clock_to_counter(const struct braid_clock_map *map, s64 ns);

/*
 * A line that one thread renews while others, interrupts and NMIs of its own CPU among them,
 * convert by it: two copies, one of which is stable. All zeros: no line yet.
 */
struct braid_clock_latch {
	u32 seq;			/* map[seq & 1] is stable; 0, 1: no line yet */
	struct braid_clock_map map[2];
};

/**
 * braid_clock_latch_set - replace the line
 * @latch: private memory
 * @map: the new line
 *
 * Context: a thread; callers serialize.
 */
void braid_clock_latch_set(struct braid_clock_latch *latch, const struct braid_clock_map *map);

/**
 * braid_clock_latch_ns - convert a counter value by the last line
 * @latch: the latch, or NULL
 * @counter: as for braid_clock_to_ns()
 *
 * Context: any, NMI included; never waits.
 * Return: ns of the line's time scale; 0: no line, or the time is not positive.
 */
u64 braid_clock_latch_ns(const struct braid_clock_latch *latch, u64 counter);

#endif /* BRAID_SHARED_CLOCK_H */
