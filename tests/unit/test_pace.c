// SPDX-License-Identifier: GPL-2.0-or-later
/* How soon guests are read while they are followed live. */
#include "host_agent/record/pace.h"
#include "tests/unit/check.h"

#define MS	1000000ULL
#define REST_NS	(20 * MS)

/* Turns from an event to the next, @gap_ns later; *delay_ns: from that to the turn with it. */
static u64 turns_between(u64 gap_ns, size_t nr, u64 *delay_ns)
{
	u64 at_ns = 0, turns = 0;

	while (at_ns < gap_ns) {
		at_ns += braid_pace_ns(at_ns, nr, REST_NS);
		turns++;
	}
	*delay_ns = at_ns - gap_ns;
	return turns;
}

/* While events flow, one is found soon, in proportion to the time since the last one. */
static void soon_while_events_flow(void)
{
	u64 gap_ns, delay_ns;

	for (gap_ns = MS / 10; gap_ns < 16 * MS; gap_ns += MS / 10) {
		turns_between(gap_ns, 1, &delay_ns);
		CHECK(delay_ns <= (gap_ns < 4 * MS ? MS : gap_ns / 4));
	}
}

/* Guests at rest, and rare events, cause few turns a second. */
static void seldom_at_rest(void)
{
	u64 delay_ns;

	CHECK_EQ(braid_pace_ns(~0ULL, 1, REST_NS), REST_NS);
	CHECK_EQ(braid_pace_ns(10000 * MS, 100, REST_NS), REST_NS);
	CHECK(turns_between(1000 * MS, 1, &delay_ns) < 70);
	CHECK(turns_between(100 * MS, 1, &delay_ns) < 20);
	CHECK(delay_ns <= REST_NS);
}

/* It never falls while nothing is found, and many guests take no whole core. */
static void bounded(void)
{
	u64 quiet_ns, before_ns = 0, ns;
	size_t nr;

	for (quiet_ns = 0; quiet_ns < 1000 * MS; quiet_ns += MS / 3) {
		ns = braid_pace_ns(quiet_ns, 1, REST_NS);
		CHECK(ns >= before_ns && ns >= BRAID_PACE_MIN_NS && ns <= REST_NS);
		before_ns = ns;
	}
	for (nr = 0; nr < 5000; nr++) {
		ns = braid_pace_ns(0, nr, REST_NS);
		CHECK(ns >= nr * 10000 || ns == REST_NS);
	}
	CHECK_EQ(braid_pace_ns(0, 1, REST_NS), BRAID_PACE_MIN_NS);
	CHECK_EQ(braid_pace_ns(0, 500, REST_NS), 10 * MS);
}

int main(void)
{
	RUN(soon_while_events_flow);
	RUN(seldom_at_rest);
	RUN(bounded);
	return VERDICT();
}
