// SPDX-License-Identifier: GPL-2.0-or-later
/* Integer clock maths against 128-bit arithmetic. */
#include "shared/clock.h"
#include "tests/unit/check.h"

static s64 expected(const struct braid_clock_map *map, u64 counter)
{
	__int128 product = (__int128)(s64)(counter - map->ref_counter) * map->mult;

	return map->ref_ns + (s64)(product >> BRAID_CLOCK_SHIFT);	/* floors */
}

static void nominal(void)
{
	CHECK_EQ(braid_clock_nominal_mult(1000000000), 1ULL << BRAID_CLOCK_SHIFT);
	CHECK_EQ(braid_clock_nominal_mult(500000000), 2ULL << BRAID_CLOCK_SHIFT);
	CHECK_EQ(braid_clock_nominal_mult(0), 0);
	CHECK_EQ(braid_clock_nominal_mult(1), 0);
	CHECK_EQ(braid_clock_nominal_mult(~0ULL), 0);
}

static void exact_and_monotone(void)
{
	struct braid_clock_map map = {
		.ref_counter = 1ULL << 63, .ref_ns = 77,
		.mult = braid_clock_nominal_mult(2599999000ULL),
	};
	u64 seed = 88172645463325252ULL;
	int k;

	for (k = 0; k < 200000; k++) {
		u64 c;

		seed ^= seed << 13; seed ^= seed >> 7; seed ^= seed << 17;
		c = map.ref_counter + (seed >> (seed & 31));
		if (seed & 64)
			c = map.ref_counter - (seed >> (8 + (seed & 31)));
		CHECK_EQ(braid_clock_to_ns(&map, c), expected(&map, c));
		CHECK(braid_clock_to_ns(&map, c + 1) >= braid_clock_to_ns(&map, c));
		if (check_failures)
			return;
	}
}

static void inverse(void)
{
	struct braid_clock_map map = {
		.ref_counter = 123456789, .ref_ns = -5000,
		.mult = braid_clock_nominal_mult(3000000000ULL),
	};
	s64 ns;

	for (ns = -100000; ns < 100000; ns += 37) {
		u64 c = braid_clock_to_counter(&map, ns);

		CHECK(braid_clock_to_ns(&map, c) <= ns);
		CHECK(braid_clock_to_ns(&map, c + 1) > ns);
	}
}

int main(void)
{
	RUN(nominal);
	RUN(exact_and_monotone);
	RUN(inverse);
	return VERDICT();
}
