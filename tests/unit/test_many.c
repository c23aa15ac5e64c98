// SPDX-License-Identifier: GPL-2.0-or-later
/* Many guests in one recorder: none of them takes time from the others. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/clock_sync/host.h"
#include "host_agent/live/rings.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"
#include "tests/unit/session.h"

#define NR_QUIET	6
#define NR_ROUNDS	200
#define EVENTS		20	/* events of each quiet guest per round: less than a sub-buffer */
#define SUBBUF_BYTES	1024

static char dir[] = "/tmp/test_many.XXXXXX";
static char regions[NR_QUIET + 1][64], captures[NR_QUIET + 1][64];

static const struct fake_params quiet = {
	.name = "quiet", .bytes = 1 << 20, .nr_vcpus = 1, .subbuf_bytes = SUBBUF_BYTES,
	.nr_slots = 8,
};
static const struct fake_params flooding = {
	.name = "flood", .bytes = 16 << 20, .nr_vcpus = 2, .subbuf_bytes = 4096, .nr_slots = 1024,
};

static void begin(struct session *s, const struct fake_params *p, int k)
{
	s->guest = fake_guest_new(regions[k], p);
	session_begin(s, regions[k], captures[k], NULL);
	session_settle(s);
}

static void end(struct session *s)
{
	session_end(s);
	fake_guest_free(s->guest);
}

/* Fills the flooding guest's rings completely. */
static void flood(struct session *s)
{
	u32 k;

	for (k = 0; k < flooding.nr_vcpus; k++)
		fake_guest_write(s->guest, k, 200000);
}

static u64 most(u64 a, u64 b)
{
	return a > b ? a : b;
}

/* One round of the recorder's loop: each guest gets exactly one turn. */
static u64 round_of(struct session *all, u64 *bytes)
{
	u64 taken = 0;
	int k;

	for (k = 0; k <= NR_QUIET; k++) {
		NEED(session_turn(&all[k]) >= 0);
		taken = most(taken, all[k].status.bytes - bytes[k]);
		bytes[k] = all[k].status.bytes;
	}
	return taken;
}

/* Rings of eight sub-buffers never overrun while another guest's are always full. */
static void a_flood_delays_no_guest(void)
{
	static struct session all[NR_QUIET + 1];
	u64 bytes[NR_QUIET + 1] = { 0 }, taken = 0;
	int round, k;

	memset(all, 0, sizeof(all));
	for (k = 0; k < NR_QUIET; k++)
		begin(&all[k], &quiet, k);
	begin(&all[NR_QUIET], &flooding, NR_QUIET);
	flood(&all[NR_QUIET]);
	for (round = 0; round < NR_ROUNDS; round++) {
		if (round % 16 == 0)
			flood(&all[NR_QUIET]);
		for (k = 0; k < NR_QUIET; k++)
			fake_guest_write(all[k].guest, 0, EVENTS);
		taken = most(taken, round_of(all, bytes));
	}
	CHECK(taken <= BRAID_TURN_BYTES + 2 * flooding.subbuf_bytes);
	CHECK(taken > BRAID_TURN_BYTES / 2);
	for (k = 0; k <= NR_QUIET; k++)
		end(&all[k]);
	for (k = 0; k < NR_QUIET; k++) {
		CHECK_EQ(all[k].status.lost, 0);
		CHECK_EQ(all[k].status.events, NR_ROUNDS * EVENTS);
	}
	CHECK(all[NR_QUIET].status.lost > 0);
}

/* Turns of a guest that ends with all its rings full. */
static void ends_in_turns(struct session *s, enum braid_region_phase phase, bool refill)
{
	u64 bytes = s->status.bytes, taken = 0, start_bytes = bytes;
	int turns = 0;

	while (s->status.phase == BRAID_PHASE_RECORDING && turns++ < 5000) {
		NEED(session_turn(s) >= 0);
		taken = most(taken, s->status.bytes - bytes);
		bytes = s->status.bytes;
		/* One that keeps writing is not waited for: no more is read than its rings hold. */
		if (refill && s->status.phase == BRAID_PHASE_RECORDING)
			fake_guest_write(s->guest, 0, 5000);
	}
	CHECK_EQ(s->status.phase, phase);
	CHECK(taken <= BRAID_TURN_BYTES + 2 * flooding.subbuf_bytes);
	CHECK(turns > 8);
	CHECK(bytes - start_bytes > 7 << 20);
}

static void an_end_delays_no_guest(void)
{
	struct braid_superblock *shared;
	struct session s = { 0 };

	/* Its driver is unloaded. */
	begin(&s, &flooding, 0);
	shared = (struct braid_superblock *)s.guest->base;
	flood(&s);
	braid_store_release(&shared->state, BRAID_STATE_DOWN);
	ends_in_turns(&s, BRAID_PHASE_DOWN, false);
	end(&s);
	/* Its file is removed, and it keeps writing. */
	memset(&s, 0, sizeof(s));
	begin(&s, &flooding, 0);
	flood(&s);
	NEED(!unlink(regions[0]));
	braid_sleep_ns(1100000000);	/* files are checked once per second */
	ends_in_turns(&s, BRAID_PHASE_GONE, true);
	end(&s);
}

int main(void)
{
	int k;

	NEED(mkdtemp(dir));
	for (k = 0; k <= NR_QUIET; k++) {
		snprintf(regions[k], sizeof(regions[k]), "%s/region%d", dir, k);
		snprintf(captures[k], sizeof(captures[k]), "%s/capture%d", dir, k);
	}
	RUN(a_flood_delays_no_guest);
	RUN(an_end_delays_no_guest);
	for (k = 0; k <= NR_QUIET; k++)
		unlink(captures[k]);
	rmdir(dir);
	return VERDICT();
}
