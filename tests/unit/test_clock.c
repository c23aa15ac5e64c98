// SPDX-License-Identifier: GPL-2.0-or-later
/* Integer clock maths against 128-bit arithmetic. */
#include <pthread.h>

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

static struct braid_clock_latch latch;

#define RENEWALS	1000000
#define READS		100000
#define BASE_NS		1700000000000000000ULL

/* At both ends of the range, for slow counters: an ARM's of 24 MHz. */
static void saturates(void)
{
	static const u64 hz[] = { 10000000, 24000000, 62500000, 500000000, 1000000000, 3000000000 };
	static const s64 refs[] = { 0, 1, -1, INT64_MAX, INT64_MIN, INT64_MAX / 2, INT64_MIN / 2 };
	struct braid_clock_map map = { .ref_counter = 12345 };
	size_t k, n;
	u64 step;
	s64 last, ns;
	int bit;

	for (k = 0; k < sizeof(hz) / sizeof(*hz); k++)
		for (n = 0; n < sizeof(refs) / sizeof(*refs); n++) {
			map.mult = braid_clock_nominal_mult(hz[k]);
			map.ref_ns = last = refs[n];
			for (bit = 0; bit < 63; bit++) {
				ns = braid_clock_to_ns(&map, map.ref_counter + (1ULL << bit));
				CHECK(ns >= last);
				last = ns;
			}
			last = refs[n];
			for (bit = 0; bit < 63; bit++) {
				ns = braid_clock_to_ns(&map, map.ref_counter - (1ULL << bit));
				CHECK(ns <= last);
				last = ns;
			}
			/* The inverse is that of a monotone map. */
			map.ref_ns = refs[n] / 4;
			step = braid_clock_to_counter(&map, map.ref_ns + 1000000000);
			CHECK(step - map.ref_counter >= hz[k] - 1 &&
			      step - map.ref_counter <= hz[k] + 200);
		}
}

static void set_line(u64 counter, s64 ns)
{
	struct braid_clock_map map = { counter, ns, 1ULL << BRAID_CLOCK_SHIFT };

	braid_clock_latch_set(&latch, &map);
}

static void latch_holds_the_last(void)
{
	int k;

	CHECK_EQ(braid_clock_latch_ns(NULL, 5), 0);
	CHECK_EQ(braid_clock_latch_ns(&latch, 5), 0);
	for (k = 1; k < 10; k++) {
		set_line(1000 * k, 77 * k);
		CHECK_EQ(braid_clock_latch_ns(&latch, 1000 * k + 5), 77 * k + 5);
	}
	/* An invalid time, as of a clock that was set back to its epoch. */
	set_line(1000, 10);
	CHECK_EQ(braid_clock_latch_ns(&latch, 990), 0);
	CHECK_EQ(braid_clock_latch_ns(&latch, 1), 0);
}

/* An NMI interrupts a renewal after any of its stores: it gets one line or the other. */
static void latch_is_interrupted(void)
{
	const struct braid_clock_map rubbish = { 0x1234, -5, 0x5678 };

	set_line(1000, 5000);
	latch.seq++;
	latch.map[0] = rubbish;
	CHECK_EQ(braid_clock_latch_ns(&latch, 1001), 5001);
	latch.seq--;
	set_line(1000, 6000);
	latch.map[1] = rubbish;
	CHECK_EQ(braid_clock_latch_ns(&latch, 1001), 6001);
	memset(&latch, 0, sizeof(latch));
	latch.seq = 1;
	latch.map[0] = rubbish;
	CHECK_EQ(braid_clock_latch_ns(&latch, 1001), 0);
	memset(&latch, 0, sizeof(latch));
}

static u32 enough;

static void *renew(void *arg)
{
	u64 k;

	for (k = 1; k <= RENEWALS || !braid_load(&enough); k++)
		set_line(k * 0x100000001ULL, BASE_NS + k * 0x100000001ULL);
	return arg;
}

/* All lines are the same line from different reference points: a torn copy differs from all. */
static void latch_is_never_torn(void)
{
	u64 got, reads = 0, seen = 0, wrong = 0;
	pthread_t thread;

	if (pthread_create(&thread, NULL, renew, NULL))
		exit(EXIT_FAILURE);
	for (; reads < READS || braid_load(&latch.seq) < 2 * RENEWALS; reads++) {
		got = braid_clock_latch_ns(&latch, 42);
		seen += got == BASE_NS + 42;
		wrong += got && got != BASE_NS + 42;
	}
	braid_store(&enough, 1);
	pthread_join(thread, NULL);
	CHECK_EQ(wrong, 0);
	CHECK(seen);
	CHECK_EQ(braid_clock_latch_ns(&latch, 42), BASE_NS + 42);
}

int main(void)
{
	RUN(nominal);
	RUN(exact_and_monotone);
	RUN(inverse);
	RUN(saturates);
	RUN(latch_holds_the_last);
	RUN(latch_is_interrupted);
	RUN(latch_is_never_torn);
	return VERDICT();
}
