// SPDX-License-Identifier: GPL-2.0-or-later
/* Guests that cause work all the time: limits of work per turn and per second. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/clock_sync/host.h"
#include "host_agent/control/control.h"
#include "host_agent/live/region_private.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"
#include "tests/unit/scratch.h"
#include "tests/unit/session.h"

#define TURNS		4000
#define MANY_VCPUS	64u
#define LIMIT_NS	60000000000ULL

static char *region_path, *capture_path;

static const struct fake_params usual = {
	.name = "fake", .bytes = 4 << 20, .nr_vcpus = 2, .subbuf_bytes = 4096, .nr_slots = 16,
	.flags = BRAID_BUFFER_OVERWRITE,
};

static const struct braid_buffer_params other = {
	.name = "other", .subbuf_bytes = 1024, .nr_slots = 8,
};

/* The most that a rate allows since @start_ns, including partial seconds at both ends. */
static u64 allowed(u64 start_ns, u32 a_second)
{
	return ((braid_host_clock_ns() - start_ns) / BRAID_RATE_NS + 2) * a_second;
}

static void begin(struct session *s, const struct fake_params *p)
{
	s->guest = fake_guest_new(region_path, p);
	session_begin(s, region_path, capture_path, NULL);
	session_settle(s);
}

static bool followed(struct session *s)
{
	return fake_guest_followed(s->guest);
}

/* A buffer that is added and removed in each turn is followed occasionally, and at the end. */
static void buffers_that_change_all_the_time(void)
{
	struct session s = { 0 };
	u64 changes = 0, start_ns;
	u32 k, index;

	begin(&s, &usual);
	start_ns = braid_host_clock_ns();
	for (k = 0; k < TURNS; k++) {
		index = fake_guest_open_buffer(s.guest, &other);
		NEED(session_turn(&s) >= 0);
		changes += followed(&s);
		fake_guest_close_buffer(s.guest, index, false);
	}
	CHECK(changes > 0 && changes <= allowed(start_ns, BRAID_LAYOUTS_A_SECOND));
	index = fake_guest_open_buffer(s.guest, &other);
	fake_guest_write_to(s.guest, index, 0, 10);
	session_until(&s, followed);
	session_settle(&s);
	CHECK_EQ(s.status.events, 10);
	/* The recording's end does not wait for the next second. */
	for (k = 0; k < TURNS; k++) {
		fake_guest_close_buffer(s.guest, index, false);
		index = fake_guest_open_buffer(s.guest, &other);
		NEED(session_turn(&s) >= 0);
	}
	fake_guest_write_to(s.guest, index, 1, 7);
	session_end(&s);
	CHECK_EQ(s.status.events, 17);
	fake_guest_free(s.guest);
}

/* Each of very many rings has an event: a turn reads some rings, later turns the rest. */
static void very_many_rings(void)
{
	struct fake_params p = usual;
	struct braid_buffer_params params = other;
	struct session s = { 0 };
	u64 before = 0, most = 0, all = (u64)BRAID_MAX_BUFFERS * MANY_VCPUS;
	char name[16];
	u32 b, k;

	p.bytes = 256 << 20;
	p.nr_vcpus = MANY_VCPUS;
	s.guest = fake_guest_new(region_path, &p);
	for (b = 1; b < BRAID_MAX_BUFFERS; b++) {
		snprintf(name, sizeof(name), "b%u", b);
		params.name = name;
		CHECK_EQ(fake_guest_open_buffer(s.guest, &params), b);
	}
	for (b = 0; b < BRAID_MAX_BUFFERS; b++)
		for (k = 0; k < MANY_VCPUS; k++)
			fake_guest_write_to(s.guest, b, k, 1);
	session_begin(&s, region_path, capture_path, NULL);
	while (s.status.events < all) {
		int ret = session_turn(&s);

		NEED(ret >= 0);
		CHECK(ret != BRAID_POLL_IDLE || s.status.events == all);
		if (s.status.events - before > most)
			most = s.status.events - before;
		before = s.status.events;
	}
	CHECK(most <= BRAID_TURN_RINGS);
	session_settle(&s);
	/* Those at the end of the list are read in the last drain, too. */
	for (k = 0; k < MANY_VCPUS; k++)
		fake_guest_write_to(s.guest, BRAID_MAX_BUFFERS - 1, k, 3);
	session_end(&s);
	CHECK_EQ(s.status.events, all + 3 * MANY_VCPUS);
	CHECK_EQ(s.status.lost, 0);
	fake_guest_free(s.guest);
}

/* Notes that were delivered, and those that were only counted. */
static u64 heard, left_out;

static void hear(struct session *s)
{
	unsigned long long nr;

	if (sscanf(s->last_note, "%llu more note", &nr) == 1)
		left_out += nr;
	else
		heard++;
}

static void very_many_notes(void)
{
	struct session s = { .heard = hear };
	u64 start_ns;
	u32 k;

	begin(&s, &usual);
	heard = left_out = 0;
	start_ns = braid_host_clock_ns();
	for (k = 0; k < TURNS; k++)
		CHECK_EQ(braid_region_source_note(s.source, "it happened again"), 0);
	CHECK(heard > 0 && heard <= allowed(start_ns, BRAID_NOTES_A_SECOND));
	session_end(&s);
	CHECK_EQ(heard + left_out, TURNS);
	fake_guest_free(s.guest);
}

/* A directory that changes in each turn is loaded occasionally, and at the end. */
static void directory_that_changes_all_the_time(void)
{
	struct fake_guest *g = fake_guest_new(region_path, &usual);
	struct braid_directory *shared =
		(void *)(g->base + g->sb.sections[BRAID_SECTION_DIRECTORY].offset);
	struct braid_live_sink sink = { .next_stream = 1 };
	struct braid_pattern on;
	struct braid_region_options o = {
		.path = region_path, .name = "fake", .sink = &sink, .flight = true,
		.on = &on, .nr_on = 1,
	};
	struct braid_region_source *s;
	u64 loads = 0, generation, start_ns;
	u32 k;

	NEED(!braid_pattern_parse(&on, "irq:irq_handler_entry"));
	NEED(!braid_capture_create_history(&sink.capture, false));
	NEED(!braid_region_source_open(&s, &o));
	start_ns = braid_host_clock_ns();
	for (k = 0; k < TURNS; k++) {
		generation = s->watch.generation;
		braid_store(&shared->generation, shared->generation + 1);
		NEED(braid_region_source_poll(s) >= 0);
		loads += s->watch.generation != generation;
	}
	CHECK(loads > 0 && loads <= allowed(start_ns, BRAID_DIRECTORIES_A_SECOND));
	start_ns = braid_host_clock_ns();
	while (s->watch.generation != shared->generation &&
	       braid_host_clock_ns() - start_ns < LIMIT_NS)
		NEED(braid_region_source_poll(s) >= 0);
	CHECK_EQ(s->watch.generation, shared->generation);
	CHECK_EQ(braid_region_source_finish(s), 0);
	braid_region_source_close(s);
	CHECK_EQ(braid_capture_finish(sink.capture), 0);
	fake_guest_free(g);
}

int main(void)
{
	region_path = scratch("region");
	capture_path = scratch("capture");
	RUN(buffers_that_change_all_the_time);
	RUN(very_many_rings);
	RUN(very_many_notes);
	RUN(directory_that_changes_all_the_time);
	return VERDICT();
}
