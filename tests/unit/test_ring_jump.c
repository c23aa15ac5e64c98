// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A counter that goes back: a small step is a wobble, a large one a jump, which begins a
 * sub-buffer. Events nest between any two accesses of a writer, before, after and during a jump.
 */
#include "shared/platform.h"

/* The writer compiled again, with a hook for an interrupt before each access. */
static void interrupt(void);
#define others(op)	({ interrupt(); op; })
#undef braid_load
#undef braid_store
#define braid_load(p)		others(__atomic_load_n(p, __ATOMIC_RELAXED))
#define braid_store(p, v)	others(__atomic_store_n(p, v, __ATOMIC_RELAXED))
#define braid_local_cas(p, o, n) others((braid_local_cas)(p, o, n))
#define braid_local_inc(p)	others((braid_local_inc)(p))
#define braid_ring_map_init	hooked_map_init
#define braid_writer_init	hooked_init
#define braid_writer_past	hooked_past
#define braid_writer_written	hooked_written
#define braid_writer_advance	hooked_advance
#define braid_writer_drop	hooked_drop
#define braid_writer_publish	hooked_publish
#define braid_writer_plan_stamp	hooked_plan_stamp
#define braid_writer_put_stamp	hooked_put_stamp
#define braid_writer_reserve	hooked_reserve
#include "shared/ring_writer.c"		/* NOLINT: for the hooks */
#include "tests/unit/check.h"

#define N		8
#define SUBBUF		256
#define ROOM		(SUBBUF - BRAID_SUBBUF_HEADER_BYTES)
#define MOST_EVENTS	256
#define EVENT_BYTES	20		/* of 16 bytes of payload */
#define HIGH		((1ULL << 40) + 12345)

static _Alignas(4096) u8 memory[1 << 16];
static struct braid_ring_map map;
static struct braid_writer *w;
static struct braid_reader r;
static u64 now, nr_puts, nr_refused;
static u64 *reads;			/* where the current reservation stores its counter value */
static u64 read_last[MOST_EVENTS];	/* the last counter value of each reservation */

/* The interrupt, and the access before which it happens. */
static void (*act)(void);
static u32 act_at, nr_accesses;
static bool armed;

static struct braid_clock_latch line;

static u64 tick(void)
{
	now += 3;
	*reads = now;
	return now;
}

static void put(void)
{
	u64 token, number = nr_puts++, *outer = reads;
	void *at;

	CHECK(number < MOST_EVENTS);
	reads = &read_last[number];
	at = braid_ring_reserve(w, 16, tick, &token);
	if (at) {
		memcpy(at, &number, sizeof(number));
		braid_ring_commit(w, token);
	} else {
		nr_refused++;
	}
	reads = outer;
}

static void interrupt(void)
{
	if (!armed || nr_accesses++ != act_at)
		return;
	armed = false;
	act();
}

static void start(u32 flags, bool paired)
{
	const struct braid_ring_identity who = {
		.incarnation = 99, .first_position = BRAID_POS_MASK - 2, .first_seq = 7,
		.counter = now, .external = &line,
	};
	const struct braid_clock_map truth = { now, 1700000000123456789LL, 27714494467365050ULL };

	memset(&line, 0, sizeof(line));
	if (paired)
		braid_clock_latch_set(&line, &truth);
	memset(memory, 0xa5, sizeof(memory));
	braid_ring_map_init(&map, memory, N, SUBBUF, BRAID_PAGE_BYTES, flags);
	braid_writer_init(w, &map, &who);
	CHECK_EQ(braid_reader_attach(&r, &map, 99), 0);
	nr_puts = nr_refused = 0;
	armed = false;
}

/* The results of drain(). */
static bool may_close;		/* a step of the counter may close a sub-buffer early */
static u64 jumps, stamps, unpaired, last_time, events;

static void look_at_event(const struct braid_event_view *view, bool first, u32 *used_before)
{
	u64 number;

	memcpy(&number, view->payload, sizeof(number));
	/* Each event has the time of its last read of the counter, or its predecessor's. */
	CHECK(number < nr_puts && view->time - read_last[number] < BRAID_JUMP_STEPS);
	if (events && view->time < last_time) {
		CHECK(first);
		CHECK(last_time - view->time >= BRAID_JUMP_STEPS);
		jumps++;
	} else if (events && first && !may_close) {
		/* No jump: the one before was full. */
		CHECK(*used_before + EVENT_BYTES + BRAID_STAMP_BYTES > ROOM);
	}
	last_time = view->time;
	events++;
}

static void drain(void)
{
	struct braid_event_view view;
	struct braid_cursor c;
	struct braid_span span;
	u32 used = 0;
	u64 n;

	jumps = stamps = unpaired = events = 0;
	while (braid_reader_next(&r, &span) > 0) {
		braid_cursor_init(&c, span.data, span.to_bytes, span.time_stamp, map.flags);
		n = events;
		while (braid_page_next(&c, &view) > 0) {
			if (view.offset < span.from_bytes)
				continue;
			if (view.type == BRAID_TYPE_DATA) {
				look_at_event(&view, c.events == 1, &used);
				continue;
			}
			stamps++;
			unpaired += !view.external_ns;
		}
		used = span.to_bytes;
		braid_reader_done(&r, &span, events - n);
	}
	CHECK_EQ(r.fault, 0);
	CHECK_EQ(events + nr_refused, nr_puts);
	nr_puts = nr_refused = 0;
}

/* One writer ---------------------------------------------------------------------------- */

static void wobble_stays(u32 flags)
{
	static const u64 steps[] = { 1, 4, 1000, BRAID_JUMP_STEPS - 1 };
	size_t k;

	for (k = 0; k < sizeof(steps) / sizeof(*steps); k++) {
		now = HIGH;
		start(flags, false);
		put();
		now -= steps[k] + 3;
		put();
		CHECK_EQ(w->position, BRAID_POS_MASK - 2);
		drain();
		CHECK_EQ(jumps, 0);
		CHECK_EQ(events, 2);
		CHECK_EQ(last_time, HIGH + 3);
	}
}

static void wobble_stays_delta(void) { wobble_stays(0); }
static void wobble_stays_absolute(void) { wobble_stays(BRAID_BUFFER_ABSOLUTE); }

static void jump_begins_a_subbuffer(u32 flags)
{
	static const u64 steps[] = { BRAID_JUMP_STEPS, 1 << 20, 1 << 27, 1ULL << 32, HIGH / 2 };
	size_t k;

	for (k = 0; k < sizeof(steps) / sizeof(*steps); k++) {
		now = HIGH;
		start(flags, false);
		put();
		put();
		now -= steps[k] + 6;	/* it is read again in the new sub-buffer */
		put();
		CHECK_EQ(read_last[1] - read_last[2], steps[k]);
		CHECK_EQ(w->position, BRAID_POS_MASK - 1);
		put();			/* time continues from there */
		CHECK_EQ(w->position, BRAID_POS_MASK - 1);
		drain();
		CHECK_EQ(events, 4);
		CHECK_EQ(jumps, 1);
		CHECK_EQ(last_time, read_last[3]);
		CHECK_EQ(stamps, 1);	/* the new one's, of an unknown external time */
		CHECK_EQ(unpaired, 1);
	}
}

static void jump_delta(void) { jump_begins_a_subbuffer(0); }
static void jump_absolute(void) { jump_begins_a_subbuffer(BRAID_BUFFER_ABSOLUTE); }
static void jump_overwrite(void) { jump_begins_a_subbuffer(BRAID_BUFFER_OVERWRITE); }

/* A line from before the jump gives no external time after it. */
static void jump_invalidates_the_line(void)
{
	u64 k;

	now = HIGH;
	start(0, true);
	put();
	now -= 1 << 30;
	for (k = 0; k < 30; k++)	/* several sub-buffers */
		put();
	drain();
	CHECK_EQ(jumps, 1);
	CHECK_EQ(stamps, 2);
	CHECK_EQ(unpaired, 1);
	braid_clock_latch_set(&line, &(struct braid_clock_map){ now, 1700000000000000000LL,
								27714494467365050ULL });
	for (k = 0; k < 30; k++)
		put();
	drain();
	CHECK(stamps > 1);
	CHECK_EQ(unpaired, 0);
}

/* Without a free sub-buffer the event is dropped, and the jump happens once there is one. */
static void jump_in_a_full_ring(void)
{
	now = HIGH;
	start(0, false);
	while (!nr_refused)
		put();
	drain();
	while (!nr_refused) {
		now -= 1 << 20;
		put();
	}
	drain();
	CHECK(events >= N - 1);		/* each in its own sub-buffer */
	CHECK_EQ(jumps, events - 1);
	put();
	drain();
	CHECK_EQ(events, 1);
}

/* Contexts that nest --------------------------------------------------------------------------- */

static void one_event(void)
{
	put();
}

static void many_events(void)
{
	int k;

	for (k = 0; k < 25; k++)
		put();
}

static void jump_then_event(void)
{
	now -= 1 << 20;
	put();
}

static void event_then_jump(void)
{
	put();
	now -= 1 << 20;
}

static void far_jump_between_events(void)
{
	put();
	now -= 1ULL << 38;
	put();
}

static void only_jump(void)
{
	now -= 1 << 20;
}

static void long_pause_then_event(void)
{
	now += 1ULL << 33;
	put();
}

/* The counter continues normally: only a full sub-buffer is closed. */
static void put_without_closing(void)
{
	u64 tail = w->tail;

	put();
	CHECK((tail ^ w->tail) >> BRAID_TAIL_POS_SHIFT == 0 ||
	      braid_tail_offset(w, tail) * 4 + EVENT_BYTES > ROOM);
}

/* An event after @before others and @steps later, interrupted at access @at. False: it has none. */
static bool interrupted(u32 flags, u32 before, s64 steps, u32 at)
{
	bool act_moves_last = act == only_jump || act == event_then_jump;
	u32 k;

	now = HIGH;
	start(flags, flags & BRAID_BUFFER_OVERWRITE);
	for (k = 0; k < before; k++)
		put();
	now += steps;
	may_close = steps >= 1LL << 32 || steps < -3000 ||
		    !(act == one_event || act == many_events);
	act_at = at;
	nr_accesses = 0;
	armed = true;
	put();
	armed = false;
	if (!act_moves_last)
		put_without_closing();
	put();				/* the counter may have jumped at the end */
	put_without_closing();
	drain();
	CHECK_EQ(w->nest, 0);
	if (check_failures)
		fprintf(stderr, "flags %u, after %u events, %lld steps, access %u\n", flags, before,
			(long long)steps, at);
	return nr_accesses > at;
}

static void nests_anywhere(void (*what)(void), u64 least_jumps, u64 most_jumps)
{
	static const s64 steps[] = { 0, 1 << 27, 1LL << 34, -2000, -(1 << 16) };
	u32 flags, before, at;
	size_t k;

	act = what;
	for (flags = 0; flags < 4; flags++)
		for (before = 0; before < 26; before++)
			for (k = 0; k < sizeof(steps) / sizeof(*steps); k++)
				for (at = 0;
				     !check_failures && interrupted(flags, before, steps[k], at);
				     at++) {
					CHECK(jumps >= least_jumps);
					CHECK(jumps <= most_jumps + (steps[k] < -3000 && before));
				}
}

static void nothing_but_events(void) { nests_anywhere(one_event, 0, 0); }
static void many_nested_events(void) { nests_anywhere(many_events, 0, 0); }
static void jump_before_nested(void) { nests_anywhere(jump_then_event, 0, 1); }
static void jump_after_nested(void) { nests_anywhere(event_then_jump, 0, 1); }
static void jump_between_nested(void) { nests_anywhere(far_jump_between_events, 1, 1); }
static void jump_alone(void) { nests_anywhere(only_jump, 0, 1); }
static void pause_before_nested(void) { nests_anywhere(long_pause_then_event, 0, 0); }

int main(void)
{
	w = malloc(braid_writer_bytes(N));
	RUN(wobble_stays_delta);
	RUN(wobble_stays_absolute);
	RUN(jump_delta);
	RUN(jump_absolute);
	RUN(jump_overwrite);
	RUN(jump_invalidates_the_line);
	RUN(jump_in_a_full_ring);
	RUN(nothing_but_events);
	RUN(many_nested_events);
	RUN(jump_before_nested);
	RUN(jump_after_nested);
	RUN(jump_between_nested);
	RUN(jump_alone);
	RUN(pause_before_nested);
	free(w);
	return VERDICT();
}
