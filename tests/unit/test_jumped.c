// SPDX-License-Identifier: GPL-2.0-or-later
/* A guest's counter jumps back amid a capture: what its rings tell of that, whether or not crossings do. */
#include <stdlib.h>
#include <unistd.h>

#include "host_agent/source/source.h"
#include "tests/unit/check.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"

#define MILLI		1000000ULL
#define JUMP		(50 * MILLI)	/* steps of 1 ns */
#define STEP		(100000ULL)
#define EVENTS		400u		/* before the jump, and after it */

static char path[] = "/tmp/test_jumped.XXXXXX";
static struct synth_guest g;

/* Ticks, and crossings that are so wide. */
static void go_on(struct braid_capture_writer *w, u64 wide_ns, u32 *number)
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
	go_on(w, wide_ns, &number);
	g.now -= JUMP;
	g.start_ns += JUMP;	/* the host's time goes on */
	go_on(w, wide_ns, &number);
	synth_drain(w, &g, 0);
	synth_end(w, &g, BRAID_END_STOPPED);
	NEED(!braid_capture_finish(w));
	NEED(!braid_source_open_captures(&source, names, 1, NULL));
	NEED(source->nr_streams == 1);
	return source;
}

/* Counts events with a bound before and after the jump; whatever has one is where it truly was. */
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

/* Crossings show the jump: each side has its law. */
static void crossings_show_it(u32 flags)
{
	struct braid_source *source = capture(1000, flags);
	u32 before, after;

	CHECK_EQ(source->streams[0]->clock.tracks->nr_epochs, 2);
	check(source, &before, &after);
	CHECK_EQ(before, EVENTS);
	CHECK(after > EVENTS - 20);	/* the first ones may be of either side */
	braid_source_free(source);
	synth_guest_free(&g);
}

/* They do not: what comes after it has no bound, since no law is known to hold there. */
static void crossings_do_not(u32 flags)
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

static void shown_delta(void) { crossings_show_it(0); }
static void shown_absolute(void) { crossings_show_it(BRAID_BUFFER_ABSOLUTE); }
static void hidden_delta(void) { crossings_do_not(0); }
static void hidden_absolute(void) { crossings_do_not(BRAID_BUFFER_ABSOLUTE); }

int main(void)
{
	int fd = mkstemp(path);

	NEED(fd >= 0);
	close(fd);
	RUN(shown_delta);
	RUN(shown_absolute);
	RUN(hidden_delta);
	RUN(hidden_absolute);
	unlink(path);
	return VERDICT();
}
