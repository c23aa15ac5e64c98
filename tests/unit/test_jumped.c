// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A guest's counter jumps back during a capture: its rings show the jump, with and without
 * samples of it. And it jumps forward, which only samples show.
 */
#include <stdlib.h>
#include <unistd.h>

#include "host_agent/trace/source.h"
#include "tests/unit/check.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"
#include "tests/unit/scratch.h"

#define MILLI		1000000ULL
#define JUMP		(50 * MILLI)	/* steps of 1 ns */
#define STEP		(100000ULL)
#define EVENTS		400u		/* before the jump, and after it */

static char *path;
static struct synth_guest g;

/* Ticks, and round-trip samples of a given width. */
static void run_ticks(struct braid_capture_writer *w, u64 wide_ns, u32 *number)
{
	u32 k;

	for (k = 0; k < EVENTS; k++) {
		CHECK(synth_tick(&g, 0, (*number)++, "tick"));
		g.now += STEP;
		if (k % 8 == 0)
			synth_sample(w, &g, wide_ns, wide_ns);
		if (k % 16 == 0)
			synth_drain(w, &g, 0);
	}
}

static struct braid_source *capture(u64 wide_ns, u32 flags)
{
	const struct synth_guest_params params = {
		.name = "jumper", .incarnation = 5, .boot = 3, .start_ns = SYNTH_START_NS,
		.flags = flags, .nr_slots = 16, .subbuf_bytes = 1024,
	};
	struct braid_capture_writer *w = synth_capture(path);
	struct braid_source *source;
	char *names[] = { path };
	u32 number = 0;

	synth_guest_init(&g, &params);
	g.now += 1000 * MILLI;
	synth_begin(w, &g, 1);
	run_ticks(w, wide_ns, &number);
	g.now -= JUMP;
	g.start_ns += JUMP;	/* the host's time continues */
	run_ticks(w, wide_ns, &number);
	synth_drain(w, &g, 0);
	synth_end(w, &g, BRAID_END_STOPPED);
	NEED(!braid_capture_finish(w));
	NEED(!braid_source_open_captures(&source, names, 1, NULL));
	NEED(source->nr_streams == 1);
	return source;
}

/* Counts events with a bound before and after the jump; each bound must contain the truth. */
static void check(struct braid_source *source, u32 *before, u32 *after)
{
	struct braid_stream *stream = source->streams[0];
	s64 last_ns = INT64_MIN, truth;
	u32 number = 0, k;

	*before = *after = 0;
	for (k = 0; k < stream->nr_rings; k++) {
		struct braid_ring *ring = stream->rings[k];
		const struct braid_item *i = &ring->item;

		while (ring->cpu == 0 && braid_ring_next(ring) > 0) {
			bool jumped = number++ >= EVENTS;

			CHECK(i->host_ns >= last_ns);
			last_ns = i->host_ns;
			truth = (s64)(i->counter + SYNTH_START_NS + (jumped ? JUMP : 0));
			if (i->bound_ns == BRAID_BOUND_UNKNOWN)
				continue;
			*(jumped ? after : before) += 1;
			CHECK((u64)llabs(i->host_ns - truth) <= i->bound_ns);
		}
		CHECK_EQ(ring->walk.faults, 0);
	}
	CHECK_EQ(number, 2 * EVENTS);
}

/* Round-trip samples show the jump: each side has its model. */
static void round_trips_show_it(u32 flags)
{
	struct braid_source *source = capture(1000, flags);
	u32 before, after;

	CHECK_EQ(source->streams[0]->clock.tracks->nr_epochs, 2);
	check(source, &before, &after);
	CHECK_EQ(before, EVENTS);
	CHECK(after > EVENTS - 20);	/* the first ones may be from either side */
	braid_source_free(source);
	synth_guest_free(&g);
}

/* They do not: events after it have no bound, because no model is known to hold there. */
static void round_trips_do_not(u32 flags)
{
	struct braid_source *source = capture(2 * JUMP, flags);
	u32 before, after;

	CHECK_EQ(source->streams[0]->clock.tracks->nr_epochs, 1);
	check(source, &before, &after);
	CHECK_EQ(before, EVENTS);
	CHECK_EQ(after, 0);
	braid_source_free(source);
	synth_guest_free(&g);
}

/*
 * Writes a capture whose counter jumps forward. @taken: host times at which each half after it is
 * read.
 */
static void make_forward(struct synth_guest *g, u64 unsampled, u64 taken[2], u64 *jumped_at,
			 u32 *events)
{
	const struct synth_guest_params params = {
		.name = "jumper", .incarnation = 5, .boot = 3, .start_ns = SYNTH_START_NS,
		.nr_slots = 16, .subbuf_bytes = 1024,
	};
	const u64 wide = 4 * MILLI;
	struct braid_capture_writer *w = synth_capture(path);
	u64 counter;
	u32 k;

	synth_guest_init(g, &params);
	g->now += 1000 * MILLI;
	synth_begin(w, g, 1);
	run_ticks(w, wide, events);
	synth_sample(w, g, wide, wide);
	synth_drain(w, g, 0);
	g->now += JUMP;
	g->start_ns -= JUMP;
	*jumped_at = g->now;
	for (k = 0; k < 2; k++) {
		for (counter = g->now; g->now - counter < unsampled; g->now += 4 * STEP)
			CHECK(synth_tick(g, 0, (*events)++, "tick"));
		taken[k] = synth_host_ns(g, g->now);
		synth_drain(w, g, 0);
	}
	for (k = 0; k < 8; k++, g->now += MILLI)
		synth_sample(w, g, 1000, 1000);
	synth_end(w, g, BRAID_END_STOPPED);
	NEED(!braid_capture_finish(w));
}

/*
 * The counter jumps forward, and is not sampled for a while. Events that may belong to either epoch
 * are shown as late as the former one allows; those that follow surely belong to the later one.
 */
static void forward(void)
{
	const u64 unsampled = 60 * MILLI;
	u64 jumped_at, taken[2], events = 0;
	struct braid_source *source;
	struct braid_stream *stream;
	char *names[] = { path };
	s64 last_ns = INT64_MIN, truth;
	bool unsure = false, sure = false;
	u32 number = 0, k;

	make_forward(&g, unsampled, taken, &jumped_at, &number);
	NEED(!braid_source_open_captures(&source, names, 1, NULL));
	stream = source->streams[0];
	CHECK_EQ(stream->clock.tracks->nr_epochs, 2);
	for (k = 0; k < stream->nr_rings; k++) {
		struct braid_ring *ring = stream->rings[k];
		const struct braid_item *i = &ring->item;

		while (ring->cpu == 0 && braid_ring_next(ring) > 0) {
			bool late = i->counter >= jumped_at;
			u64 page = i->counter < jumped_at + unsampled ? taken[0] : taken[1];

			events++;
			truth = (s64)(i->counter + SYNTH_START_NS - (late ? JUMP : 0));
			CHECK(i->bound_ns != BRAID_BOUND_UNKNOWN);
			CHECK((u64)llabs(i->host_ns - truth) <= i->bound_ns);
			CHECK(i->host_ns >= last_ns);
			last_ns = i->host_ns;
			if (!late)
				continue;
			CHECK((u64)i->host_ns <= page);
			unsure |= !i->sure;
			sure |= i->sure;
		}
		CHECK_EQ(ring->walk.faults, 0);
	}
	CHECK_EQ(events, number);
	CHECK(unsure && sure);
	braid_source_free(source);
	synth_guest_free(&g);
}

static void shown_delta(void) { round_trips_show_it(0); }
static void shown_absolute(void) { round_trips_show_it(BRAID_BUFFER_ABSOLUTE); }
static void hidden_delta(void) { round_trips_do_not(0); }
static void hidden_absolute(void) { round_trips_do_not(BRAID_BUFFER_ABSOLUTE); }

int main(void)
{

	path = scratch("file");
	RUN(shown_delta);
	RUN(shown_absolute);
	RUN(hidden_delta);
	RUN(hidden_absolute);
	RUN(forward);
	return VERDICT();
}
