// SPDX-License-Identifier: GPL-2.0-or-later
/* The ring, step by step: both modes, both stamps, nesting, laps, recovery, forged words. */
#include "shared/ring.h"
#include "tests/unit/check.h"

#define N		4
#define SUBBUF		256
#define FIRST_POS	(BRAID_POS_MASK - 5)	/* wraps during each test */
#define FIRST_SEQ	(0ULL - 20)

static _Alignas(4096) u8 memory[1 << 16];
static struct braid_ring_map map;
static struct braid_writer *w;
static struct braid_reader r;
static u64 now;
static struct braid_clock_latch line;
static struct braid_clock_map truth;	/* the time by line */
static const struct braid_clock_latch *external;	/* NULL: no TIME_STAMP at the beginning */
static u64 begun;		/* sub-buffers that were read from their beginning */
static u64 got_events, got_lost, last_time, last_value;
static int nest_left;

static u64 tick(void);

static bool put_sized(u64 value, u32 bytes)
{
	u64 token;
	u8 *at = braid_ring_reserve(w, bytes, tick, &token);

	if (!at)
		return false;
	memcpy(at, &value, bytes < 8 ? bytes : 8);
	braid_ring_commit(w, token);
	return true;
}

static bool put(u64 value)
{
	return put_sized(value, 16);
}

/* The counter: a nested event may be recorded at the most critical point. */
static u64 tick(void)
{
	u64 mine = ++now;

	if (nest_left) {
		nest_left--;
		put(1000000 + nest_left);
	}
	return mine;
}

static void start(u32 flags)
{
	const struct braid_ring_identity who = {
		.incarnation = 99, .first_position = FIRST_POS, .first_seq = FIRST_SEQ,
		.counter = now, .external = external,
	};

	memset(memory, 0xa5, sizeof(memory));
	free(w);
	w = malloc(braid_writer_bytes(N));
	braid_ring_map_init(&map, memory, N, SUBBUF, BRAID_PAGE_BYTES, flags);
	braid_writer_init(w, &map, &who);
	CHECK_EQ(braid_reader_attach(&r, &map, 99), 0);
	got_events = got_lost = last_time = last_value = begun = 0;
	nest_left = 0;
}

/* From now on sub-buffers begin with a pair; at 2.6 GHz. */
static void set_line(u64 counter)
{
	truth = (struct braid_clock_map){ counter, 1700000000123456789LL, 27714494467365050ULL };
	braid_clock_latch_set(&line, &truth);
	external = &line;
}

/* A sub-buffer's first entry: a stamp's external time, or 0 for an event. */
static u64 first_external(const struct braid_span *span)
{
	struct braid_event_view view;
	struct braid_cursor c;

	braid_cursor_init(&c, span->data, span->to_bytes, span->time_stamp, map.flags);
	CHECK_EQ(braid_page_next(&c, &view), 1);
	CHECK_EQ(view.time, span->time_stamp);
	return view.type == BRAID_TYPE_TIME_STAMP ? view.external_ns : 0;
}

/* Reads all events; checks times and, if values ascend, their order. */
static void drain(void)
{
	struct braid_event_view view;
	struct braid_cursor c;
	struct braid_span span;
	u64 events;

	while (braid_reader_next(&r, &span) > 0) {
		braid_cursor_init(&c, span.data, span.to_bytes, span.time_stamp, map.flags);
		events = 0;
		begun += !span.from_bytes;
		CHECK_EQ(first_external(&span),
			 external ? braid_clock_to_ns(&truth, span.time_stamp) : 0);
		while (braid_page_next(&c, &view) > 0) {
			if (view.offset < span.from_bytes || view.type != BRAID_TYPE_DATA)
				continue;
			events++;
			CHECK(view.time >= last_time);
			last_time = view.time;
			memcpy(&last_value, view.payload, 8);
		}
		if (span.final)
			CHECK_EQ(braid_reader_span_events(&r, &span), events);
		got_events += events;
		braid_reader_done(&r, &span, events);
	}
	got_lost = r.lost;
}

/* Each sub-buffer begins with a pair, and that changes no event, time or count. */
static void begins_with_a_pair(u32 flags)
{
	u64 k, offered = 0;

	set_line(now + 12345);
	start(flags);
	for (k = 1; k <= 600; k++) {
		nest_left = k % 3;
		offered += 1 + nest_left;
		CHECK(put(k));
		now += k << 20;		/* deltas of all sizes between */
		if (k % 3 == 0)
			drain();
	}
	CHECK(begun > 60);
	CHECK_EQ(got_events, offered);
	CHECK_EQ(got_lost, 0);
	CHECK_EQ(braid_writer_written(w), offered);

	external = NULL;
}

static void pair_delta(void) { begins_with_a_pair(0); }
static void pair_absolute(void) { begins_with_a_pair(BRAID_BUFFER_ABSOLUTE | BRAID_BUFFER_OVERWRITE); }

/* An event that fits only without a pair or stamp is recorded without them. */
static void pair_where_it_fits(void)
{
	const u32 room = SUBBUF - BRAID_SUBBUF_HEADER_BYTES;
	struct braid_span span;
	u32 payload, bytes;

	for (payload = 4; (bytes = braid_event_bytes(payload)) <= room; payload += 4) {
		bool fits = bytes + BRAID_STAMP_BYTES <= room;

		set_line(now);
		start(0);
		CHECK(put_sized(1, payload));
		CHECK_EQ(braid_tail_offset(w, w->tail) * 4, bytes + (fits ? BRAID_STAMP_BYTES : 0));
		CHECK_EQ(braid_reader_next(&r, &span), 1);
		CHECK_EQ(!first_external(&span), !fits);
		memset(&line, 0, sizeof(line));
		start(0);
		CHECK(put_sized(1, payload));
		CHECK_EQ(braid_tail_offset(w, w->tail) * 4, bytes);
	}
	external = NULL;
}

/* A stamp that replaces an unknown delta has an external time, too. */
static void pair_in_the_middle(void)
{
	struct braid_event_view view;
	struct braid_cursor c;
	struct braid_span span;
	u64 stamps = 0;

	set_line(now);
	start(0);
	put(1);
	now += 1ULL << 33;
	put(2);
	CHECK_EQ(braid_reader_next(&r, &span), 1);
	braid_cursor_init(&c, span.data, span.to_bytes, span.time_stamp, 0);
	while (braid_page_next(&c, &view) > 0) {
		if (view.type != BRAID_TYPE_TIME_STAMP)
			continue;
		stamps++;
		CHECK_EQ(view.external_ns, braid_clock_to_ns(&truth, view.time));
	}
	CHECK_EQ(stamps, 2);
	CHECK_EQ(c.events, 2);
	external = NULL;
}

static void one_event(void)
{
	start(0);
	CHECK(put(5));
	drain();
	CHECK_EQ(got_events, 1);
	CHECK_EQ(last_value, 5);
	CHECK(put(6));
	drain();
	CHECK_EQ(got_events, 2);
	CHECK_EQ(last_value, 6);
	CHECK_EQ(r.read, 2);
	CHECK_EQ(map.meta->read, 2);
}

static void consumer_keeps_up(u32 flags)
{
	u64 k;

	start(flags);
	for (k = 1; k <= 500; k++) {
		CHECK(put(k));
		if (k % 7 == 0)
			drain();
	}
	drain();
	CHECK_EQ(got_events, 500);
	CHECK_EQ(last_value, 500);
	CHECK_EQ(got_lost, 0);
}

static void producer_consumer_keeps_up(void) { consumer_keeps_up(0); }
static void overwrite_keeps_up(void) { consumer_keeps_up(BRAID_BUFFER_OVERWRITE); }
static void absolute_keeps_up(void) { consumer_keeps_up(BRAID_BUFFER_ABSOLUTE); }

static void full_keeps_oldest(void)
{
	u64 k, dropped = 0;

	start(0);
	for (k = 1; k <= 300; k++)
		dropped += !put(k);
	CHECK(dropped > 0);
	drain();
	CHECK_EQ(got_events + dropped, 300);
	CHECK_EQ(last_value, got_events);
	/* The loss is reported once the ring advances. */
	CHECK(put(301));
	drain();
	CHECK_EQ(got_lost, dropped);
	CHECK_EQ(got_events + got_lost, 301);
}

static void lap_keeps_newest(void)
{
	u64 k;

	start(BRAID_BUFFER_OVERWRITE);
	for (k = 1; k <= 3000; k++)
		CHECK(put(k));
	drain();
	CHECK_EQ(last_value, 3000);
	CHECK_EQ(got_events + got_lost, 3000);
	CHECK(got_lost > 0);
}

static void lap_after_a_held_page(void)
{
	u64 k;

	start(BRAID_BUFFER_OVERWRITE);
	put(1);
	drain();		/* holds the tail */
	for (k = 2; k <= 1000; k++)
		put(k);
	drain();
	CHECK_EQ(got_events + got_lost, 1000);
	CHECK_EQ(last_value, 1000);
}

static void nested(u32 flags)
{
	u64 k, n = 0;

	start(flags);
	for (k = 1; k <= 400; k++) {
		nest_left = k % 5;
		n += 1 + nest_left;
		CHECK(put(k));
		drain();
	}
	CHECK_EQ(got_events, n);
	CHECK_EQ(got_lost, 0);
	CHECK_EQ(w->nest, 0);
}

static void nested_deltas(void) { nested(0); }
static void nested_absolute(void) { nested(BRAID_BUFFER_ABSOLUTE); }

/* An open reservation holds its sub-buffer: a storm that laps it is dropped and counted. */
static void commit_overrun(void)
{
	u64 token, k, dropped = 0;
	u8 *at;

	start(BRAID_BUFFER_OVERWRITE);
	at = braid_ring_reserve(w, 16, tick, &token);
	for (k = 1; k <= 1000; k++)
		dropped += !put(k);
	CHECK(dropped > 0);
	memset(at, 0, 16);
	braid_ring_commit(w, token);
	drain();
	CHECK_EQ(got_events, 1001 - dropped);
	put(1);
	drain();
	CHECK_EQ(got_lost, dropped);
}

static void gaps(u32 flags)
{
	static const u64 steps[] = {
		1, BRAID_DELTA_MASK, BRAID_DELTA_MASK + 1ULL, 0xffffffffULL, 1ULL << 32,
		(1ULL << 32) + 5, 1ULL << 45, 1ULL << 57,
	};
	size_t k;

	start(flags);
	put(0);
	for (k = 0; k < sizeof(steps) / sizeof(*steps); k++) {
		now += steps[k] - 1;
		put(k);
		put(k);
		drain();
		CHECK_EQ(last_time, now);
	}
}

static void gaps_delta(void) { gaps(0); }
static void gaps_absolute(void) { gaps(BRAID_BUFFER_ABSOLUTE); }

static void counter_goes_back(void)
{
	u64 high;

	start(0);
	put(1);
	high = now;
	now -= 1000;
	put(2);
	put(3);
	drain();
	CHECK_EQ(got_events, 3);
	CHECK_EQ(last_time, high);
	now = high + 10;
	put(4);
	drain();
	CHECK_EQ(last_time, high + 11);
}

static void too_large(void)
{
	start(0);
	CHECK(!put_sized(1, SUBBUF));
	CHECK(!put_sized(1, BRAID_MAX_SUBBUF_BYTES));
	CHECK(put_sized(1, SUBBUF - BRAID_SUBBUF_HEADER_BYTES - 8));
	CHECK(put(2));
	CHECK(put(3));
	drain();
	CHECK_EQ(got_events, 3);
	CHECK_EQ(got_lost, 2);
}

static void odd_sizes(void)
{
	u32 bytes;

	start(0);
	for (bytes = 0; bytes < 100; bytes++) {
		CHECK(put_sized(~0ULL, bytes));
		drain();
	}
	CHECK_EQ(got_events, 100);
}

/* Bytes that the payload does not fill hold old data, which must not show. */
static void padding_is_zero(void)
{
	struct braid_event_view view;
	struct braid_cursor c;
	struct braid_span span;
	u32 bytes;

	for (bytes = 1; bytes < 8; bytes++) {
		u64 payload = 0;

		start(0);
		CHECK(put_sized(~0ULL, bytes));
		CHECK_EQ(braid_reader_next(&r, &span), 1);
		braid_cursor_init(&c, span.data, span.to_bytes, span.time_stamp, 0);
		CHECK_EQ(braid_page_next(&c, &view), 1);
		memcpy(&payload, view.payload, view.payload_bytes);
		CHECK_EQ(payload, ~0ULL >> (64 - 8 * bytes));
	}
}

/* A sub-buffer that states another position is not the one that was taken. */
static void commit_of_another_position(void)
{
	struct braid_span span;

	start(0);
	put(1);
	drain();
	map.states[r.id].commit += 1ULL << BRAID_COMMIT_POS_SHIFT;
	CHECK_EQ(braid_reader_next(&r, &span), -EBADMSG);
	CHECK_EQ(r.fault, BRAID_READER_BAD_COMMIT);
}

/* A reader dies after any number of spans; its successor continues without a gap. */
static void successor(void)
{
	struct braid_span span;
	u64 k, seen = 0;

	start(BRAID_BUFFER_OVERWRITE);
	for (k = 1; k <= 600; k++) {
		put(k);
		if (k % 3)
			continue;
		CHECK_EQ(braid_reader_attach(&r, &map, 99), 0);
		if (braid_reader_next(&r, &span) > 0 && k % 2) {
			struct braid_cursor c;

			braid_cursor_init(&c, span.data + span.from_bytes,
					  span.to_bytes - span.from_bytes, 0, 0);
			seen = braid_page_count(&c);
			got_events += seen;
			braid_reader_done(&r, &span, seen);
		}
	}
	braid_reader_attach(&r, &map, 99);
	drain();
	CHECK_EQ(got_events, r.read);
	CHECK_EQ(r.read + r.lost, 600);
}

/* A ring that is recreated, emptied or moved continues, and unread events are lost. */
static void continues_after_its_past(u32 flags)
{
	struct braid_ring_past past;
	struct braid_ring_identity who = {
		.incarnation = 99, .first_position = FIRST_POS, .first_seq = FIRST_SEQ, .past = &past,
	};
	u64 k, read = 0, turn;

	start(flags);
	for (turn = 1; turn <= 12; turn++) {
		for (k = 0; k < turn * 7; k++)
			put(turn * 1000 + k);
		if (turn % 3) {		/* each third one is completely unread */
			drain();
			read = r.read;
		}
		for (k = 0; k < turn; k++)
			put(turn * 1000 + 500 + k);
		braid_writer_past(w, &past);
		CHECK_EQ(past.next_seq - FIRST_SEQ, braid_writer_written(w));
		CHECK(braid_position_diff(past.next_position, r.position) > 0);
		memset(memory, 0xa5, sizeof(memory));
		who.counter = now;
		braid_writer_init(w, &map, &who);
		CHECK_EQ(braid_writer_written(w), past.next_seq - FIRST_SEQ);
		CHECK_EQ(w->dropped, past.dropped);
		CHECK_EQ(braid_reader_attach(&r, &map, 99), 0);
		CHECK_EQ(r.read, read);
	}
	put(99999);
	drain();
	CHECK_EQ(r.read, read + 1);
	CHECK_EQ(braid_writer_written(w), 12 * 13 / 2 * 8 + 1);
	CHECK_EQ(r.read + r.lost, braid_writer_written(w));
	CHECK_EQ(r.next_seq - FIRST_SEQ, braid_writer_written(w));
	CHECK_EQ(r.fault, 0);
}

static void past_consumer(void) { continues_after_its_past(0); }
static void past_overwrite(void) { continues_after_its_past(BRAID_BUFFER_OVERWRITE); }

static void look(u64 events)
{
	static u8 before[sizeof(memory)];
	struct braid_peek p;
	struct braid_span span;
	u64 k, count = 0, last_end = 0;

	start(BRAID_BUFFER_OVERWRITE);
	for (k = 1; k <= events; k++)
		put(k);
	memcpy(before, memory, sizeof(memory));
	CHECK_EQ(braid_peek_begin(&p, &map, 99), 0);
	while (braid_peek_next(&p, &span) > 0) {
		struct braid_cursor c;
		s64 events;

		braid_cursor_init(&c, span.data, span.to_bytes, span.time_stamp, 0);
		events = braid_page_count(&c);
		CHECK(events >= 0);
		CHECK(braid_peek_valid(&p, &span));
		count += events;
		last_end = span.first_seq + events + span.dropped;
	}
	CHECK(!memcmp(before, memory, sizeof(memory)));
	CHECK_EQ(last_end - FIRST_SEQ, events);
	drain();
	CHECK_EQ(got_events, count);
}

static void looking_changes_nothing(void)
{
	look(1);
	look(37);
	look(1000);		/* laps ago */
}

/* The host writes any values into the words that it can reach: the writer stays in its memory. */
static void forged_by_host(void)
{
	u64 seed = 0x9e3779b97f4a7c15ULL, k;
	int round;

	for (round = 0; round < 2000; round++) {
		start(round & 1 ? BRAID_BUFFER_OVERWRITE : 0);
		for (k = 0; k < 200; k++) {
			seed ^= seed << 13; seed ^= seed >> 7; seed ^= seed << 17;
			if (seed % 5 == 0) {
				u64 *word = (u64 *)memory + seed / 5 % (4096 / 8);

				*word = seed >> 9 & 1 ? seed * seed : *word ^ 1ULL << (seed & 63);
			}
			put(k);
		}
		CHECK_EQ(w->nest, 0);
	}
}

/* The same by a hostile guest: the reader stays in bounds, ends, and reports it. */
static void forged_by_guest(void)
{
	u64 seed = 88172645463325252ULL, k;
	struct braid_span span;
	int round, left;

	for (round = 0; round < 2000; round++) {
		start(round & 1 ? BRAID_BUFFER_OVERWRITE : 0);
		for (k = 0; k < 100; k++) {
			seed ^= seed << 13; seed ^= seed >> 7; seed ^= seed << 17;
			put(k);
			((u64 *)memory)[seed % (4096 / 8)] ^= 1ULL << (seed >> 32 & 63);
			for (left = 50; left && braid_reader_next(&r, &span) > 0; left--) {
				CHECK(span.data >= map.subbufs);
				CHECK(span.data + span.to_bytes <= memory + sizeof(memory));
				CHECK(span.from_bytes < span.to_bytes);
				braid_reader_done(&r, &span, 1);
			}
		}
	}
}

int main(void)
{
	now = (1ULL << 32) - 50;
	RUN(one_event);
	RUN(producer_consumer_keeps_up);
	RUN(overwrite_keeps_up);
	RUN(absolute_keeps_up);
	RUN(full_keeps_oldest);
	RUN(lap_keeps_newest);
	RUN(lap_after_a_held_page);
	RUN(nested_deltas);
	RUN(nested_absolute);
	RUN(commit_overrun);
	RUN(pair_delta);
	RUN(pair_absolute);
	RUN(pair_where_it_fits);
	RUN(pair_in_the_middle);
	RUN(gaps_delta);
	RUN(gaps_absolute);
	RUN(counter_goes_back);
	RUN(too_large);
	RUN(odd_sizes);
	RUN(padding_is_zero);
	RUN(commit_of_another_position);
	RUN(successor);
	RUN(past_consumer);
	RUN(past_overwrite);
	RUN(looking_changes_nothing);
	RUN(forged_by_host);
	RUN(forged_by_guest);
	free(w);
	return VERDICT();
}
