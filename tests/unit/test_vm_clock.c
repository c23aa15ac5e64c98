// SPDX-License-Identifier: GPL-2.0-or-later
/* A guest whose memory is only read: its events' times are true within their bounds. */
#include <stdio.h>
#include <string.h>

#include "host_agent/cli/cli.h"
#include "host_agent/clock_sync/exchange.h"
#include "host_agent/clock_sync/host.h"
#include "host_agent/trace/source.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"
#include "tests/unit/own_memory.h"
#include "tests/unit/run_command.h"
#include "tests/unit/scratch.h"
#include "tests/unit/session.h"
#include "tests/unit/truth.h"

#define NONCE		0x7071727374757677ULL
#define RECORD_NS	3000000000ULL
#define TURN_NS		9000000	/* of the agent: not in step with the guest's polls */
#define MOST_NS		15000000	/* of a bound */

static const struct fake_params usual = {
	.name = "fake", .bytes = OWN_CHUNK_ROOM, .nr_vcpus = 2, .subbuf_bytes = 4096,
	.nr_slots = 16, .always = true, .flags = BRAID_BUFFER_OVERWRITE,
	.poll_ns = 20000000,
};

static const struct braid_pattern sched = { .system = "sched" };
static bool told;

static void hear_enabling(struct session *s)
{
	told |= !!strstr(s->last_note, "no event can be enabled from here");
}

static void record(const char *region, const char *capture, u64 rate)
{
	struct fake_params p = usual;
	struct session s = { .pattern = &sched, .heard = hear_enabling };
	struct own_memory memory;
	char path[32];
	u64 end_ns;

	NEED(!braid_exchange_start(&s.exchange));
	told = false;
	p.rate = rate;
	s.guest = fake_guest_new(region, &p);
	own_memory_begin(&memory, s.guest, NONCE);
	fake_guest_start_process(s.guest);
	snprintf(path, sizeof(path), "pid:%d", memory.pid);
	session_begin(&s, path, capture, NULL);
	for (end_ns = braid_host_clock_ns() + RECORD_NS; braid_host_clock_ns() < end_ns;) {
		NEED(session_turn(&s) >= 0);
		braid_sleep_ns(TURN_NS);
	}
	session_end(&s);
	braid_exchange_stop(s.exchange);
	fake_guest_free(s.guest);
	own_memory_end(&memory);
}

static void check_times(u64 rate)
{
	char *names[] = { (char *)scratch("capture") };
	struct braid_source *source;
	struct braid_stream *stream;
	u64 events = 0, outside = 0, worst = 0, bound = 0;
	size_t k;

	record(scratch("region"), names[0], rate);
	NEED(!braid_source_open_captures(&source, names, 1, NULL));
	NEED(source->nr_streams == 1);
	stream = source->streams[0];
	CHECK(!strcmp(braid_clock_kind_name(stream->clock.kind), "reads"));
	CHECK_EQ(braid_clock_epochs(&stream->clock), 1);
	for (k = 0; k < stream->nr_rings; k++) {
		struct braid_ring *ring = stream->rings[k];

		while (braid_ring_next(ring) > 0) {
			const struct braid_item *i = &ring->item;
			struct braid_clock_time t = { i->host_ns, i->bound_ns, 0, true };

			if (ring->item.kind != BRAID_ITEM_EVENT)
				continue;
			events++;
			outside += !truth_holds(&t, ring->item.counter - FAKE_COUNTER_OFFSET);
			worst = t.bound_ns > worst ? t.bound_ns : worst;
			bound += t.bound_ns / 1000;
		}
	}
	CHECK(events > rate);
	CHECK(told);
	CHECK_EQ(outside, 0);
	CHECK(worst < MOST_NS);
	printf("%llu events, bound %llu us, at most %llu us\n", (unsigned long long)events,
	       (unsigned long long)(events ? bound / events : 0), (unsigned long long)worst / 1000);
	braid_source_free(source);
	CHECK_EQ(RUN_COMMAND(braid_cmd_clock, "clock", names[0]), EXIT_SUCCESS);
}

static void of_a_busy_guest(void)
{
	check_times(2000);
}

/* Nothing is copied in most turns: clock cells get looks of their own. */
static void of_a_guest_at_rest(void)
{
	check_times(10);
}

/* They look at a region in place, and say what does that here. */
static void commands_refuse(void)
{
	CHECK_EQ(RUN_COMMAND(braid_cmd_stat, "stat", "pid:1"), EXIT_FAILURE);
	CHECK(strstr(printed, "'tracebraid recover pid:1'"));
	CHECK_EQ(RUN_COMMAND(braid_cmd_verify, "verify", "pid:1"), EXIT_FAILURE);
	CHECK(strstr(printed, "'tracebraid recover pid:1'"));
	CHECK_EQ(RUN_COMMAND(braid_cmd_top, "top", "-r", "pid:1"), EXIT_FAILURE);
	CHECK(strstr(printed, "'tracebraid recover pid:1'"));
}

static void is_listed(void)
{
	struct own_memory memory;
	struct fake_guest *g = fake_guest_new(scratch("region"), &usual);
	char path[32];

	own_memory_begin(&memory, g, NONCE);
	fake_guest_start_process(g);
	snprintf(path, sizeof(path), "pid:%d", memory.pid);
	CHECK_EQ(RUN_COMMAND(braid_cmd_list, "list", path), EXIT_SUCCESS);
	CHECK(strstr(printed, "live") && strstr(printed, path));
	fake_guest_free(g);
	own_memory_clear(&memory);
	CHECK_EQ(RUN_COMMAND(braid_cmd_list, "list", path), EXIT_SUCCESS);
	CHECK(strstr(printed, "no driver") && !strstr(printed, "tracebraid create"));
	own_memory_end(&memory);
}

int main(void)
{
	scratch(".");
	RUN(of_a_busy_guest);
	RUN(of_a_guest_at_rest);
	RUN(commands_refuse);
	RUN(is_listed);
	return VERDICT();
}
