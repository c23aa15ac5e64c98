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
 * @counter: any; before ref_counter is as good as after
 *
 * Monotone: a larger counter never gives a smaller time.
 * Return: ns of the line's time scale, rounded down.
 */
s64 braid_clock_to_ns(const struct braid_clock_map *map, u64 counter);

/**
 * braid_clock_to_counter - the inverse, rounded down
 * @map: the line
 * @ns: any within reach of 64 bits of counter
 */
u64 braid_clock_to_counter(const struct braid_clock_map *map, s64 ns);

#endif /* BRAID_SHARED_CLOCK_H */
