// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A ring's counts while it is used: writer and reader act between any two loads of a count, and
 * each count is the ring's state at one moment, before, between or after their steps.
 */
#include "shared/ring.h"
#include "tests/unit/check.h"

/* The looker and the count compiled again, with a hook for others before each load. */
static void others(void);
#undef braid_load
#undef braid_load_acquire
#define braid_load(p)		({ others(); __atomic_load_n(p, __ATOMIC_RELAXED); })
#define braid_load_acquire(p)	({ others(); __atomic_load_n(p, __ATOMIC_ACQUIRE); })
#define braid_reader_own		hooked_own
#define braid_reader_disown		hooked_disown
#define braid_reader_attach		hooked_attach
#define braid_reader_next		hooked_next
#define braid_reader_span_events	hooked_span_events
#define braid_reader_done		hooked_done
#define braid_peek_begin		hooked_peek_begin
#define braid_peek_next			hooked_peek_next
#define braid_peek_subbuf		hooked_peek_subbuf
#define braid_peek_valid		hooked_peek_valid
#define braid_ring_count		hooked_count
#include "shared/ring_reader.c"		/* NOLINT: for the hooks */
#include "shared/ring_count.c"
#undef braid_load
#undef braid_load_acquire
#undef braid_reader_attach
#undef braid_reader_next
#undef braid_reader_span_events
#undef braid_reader_done
#undef braid_ring_count

int braid_reader_attach(struct braid_reader *r, const struct braid_ring_map *map, u64 incarnation);
int braid_reader_next(struct braid_reader *r, struct braid_span *span);
void braid_reader_done(struct braid_reader *r, const struct braid_span *span, u64 events);
int braid_ring_count(const struct braid_ring_map *map, u64 incarnation, void *scratch,
		     struct braid_ring_tally *t);

#define BEFORE		((1ULL << 32) - 30)	/* events read, and dropped, before each test */
#define FIRST_SEQ	(0ULL - 20)
#define N		4
#define SUBBUF		256
#define MOST_STATES	256

static _Alignas(4096) u8 memory[1 << 16];
static u8 scratch[SUBBUF];
static struct braid_ring_map map;
static struct braid_writer *w;
static struct braid_reader r;
static u64 now, offered, refused;

/* The step of others, and the load before which it happens. */
static void (*act)(void);
static u32 act_at, nr_loads;

/* The ring's counts without a concurrent step: at first, and after each step of the others. */
static struct braid_ring_tally states[MOST_STATES];
static u32 nr_states;

static u64 tick(void)
{
	return ++now;
}

static void note_state(void)
{
	struct braid_ring_tally t;

	CHECK_EQ(braid_ring_count(&map, 99, scratch, &t), 0);
	CHECK_EQ(t.written, offered);
	CHECK_EQ(t.dropped, refused);
	CHECK_EQ(t.read, r.read);
	CHECK_EQ(t.written, t.read + t.lost + t.left);
	CHECK(nr_states < MOST_STATES);
	states[nr_states++] = t;
}

static void put(u32 bytes)
{
	u64 token;
	u8 *at = braid_ring_reserve(w, bytes, tick, &token);

	offered++;
	if (at) {
		memset(at, 1, bytes);
		braid_ring_commit(w, token);
	} else {
		refused++;
	}
}

static bool take_one(void)
{
	struct braid_span span;
	struct braid_cursor c;
	u64 events;
	s64 before;

	if (braid_reader_next(&r, &span) <= 0)
		return false;
	braid_cursor_init(&c, span.data, span.from_bytes, span.time_stamp, map.flags);
	before = braid_page_count(&c);
	braid_cursor_init(&c, span.data, span.to_bytes, span.time_stamp, map.flags);
	events = braid_page_count(&c) - before;
	braid_reader_done(&r, &span, events);
	return true;
}

static void others(void)
{
	if (nr_loads++ == act_at)
		act();
}

/* Steps of others --------------------------------------------------------------------- */

static void write_one(void)
{
	put(16);
	note_state();
}

static void write_many(void)
{
	int k;

	for (k = 0; k < 40; k++)
		write_one();
}

static void write_oversized(void)
{
	put(SUBBUF);
	note_state();
}

/* Events that fit, then some that do not: the ring's numbers count events and drops. */
static void write_sizes(void)
{
	u32 bytes;

	for (bytes = 8; bytes < 200; bytes += 12) {
		put(bytes);
		note_state();
	}
}

static void read_one(void)
{
	take_one();
	note_state();
}

static void read_all(void)
{
	while (take_one())
		note_state();
	note_state();
}

static void read_and_write(void)
{
	read_all();
	write_many();
	read_one();
	write_one();
}

/* The test -------------------------------------------------------------------------------- */

static void start(u32 flags, u32 events, u32 taken)
{
	const struct braid_ring_past past = {
		.next_position = BRAID_POS_MASK - 5, .next_seq = FIRST_SEQ + 2 * BEFORE,
		.dropped = BEFORE,
		.block = { .incarnation = 99, .next_seq = FIRST_SEQ + 2 * BEFORE,
			   .read = BEFORE, .lost = BEFORE },
	};
	const struct braid_ring_identity who = {
		.incarnation = 99, .first_seq = FIRST_SEQ, .counter = now, .past = &past,
	};
	u32 k;

	memset(memory, 0xa5, sizeof(memory));
	braid_ring_map_init(&map, memory, N, SUBBUF, BRAID_PAGE_BYTES, flags);
	braid_writer_init(w, &map, &who);
	CHECK_EQ(braid_reader_attach(&r, &map, 99), 0);
	offered = 2 * BEFORE;
	refused = BEFORE;
	for (k = 0; k < taken; k++) {
		put(16);
		take_one();
	}
	for (k = 0; k < events; k++)
		put(16);
	nr_states = 0;
	note_state();
}

static bool is_state(const struct braid_ring_tally *t)
{
	u32 k;

	for (k = 0; k < nr_states; k++)
		if (!memcmp(t, &states[k], sizeof(*t)))
			return true;
	return false;
}

/* One count with others at its load @at. Return: whether there was such a load. */
static bool count_while(u32 flags, u32 events, u32 taken, u32 at)
{
	struct braid_ring_tally t;
	bool reached;

	start(flags, events, taken);
	act_at = at;
	nr_loads = 0;
	CHECK_EQ(hooked_count(&map, 99, scratch, &t), 0);
	reached = nr_loads > at;
	if (!is_state(&t)) {
		CHECK(is_state(&t));
		fprintf(stderr, "flags %u, %u events, %u taken, load %u: written %llu read %llu lost %llu dropped %llu left %llu\n",
			flags, events, taken, at, (unsigned long long)t.written,
			(unsigned long long)t.read, (unsigned long long)t.lost,
			(unsigned long long)t.dropped, (unsigned long long)t.left);
	}
	return reached;
}

static void counts_are_of_a_moment(void (*what)(void))
{
	static const u32 events[] = { 0, 1, 5, 11, 12, 30, 47, 48, 200 };
	size_t mode, k, taken;
	u32 at;

	act = what;
	for (mode = 0; mode < 4; mode++)
		for (k = 0; k < sizeof(events) / sizeof(*events); k++)
			for (taken = 0; taken < 3; taken++)
				for (at = 0; !check_failures; at++)
					if (!count_while(mode, events[k], taken * 7, at))
						break;
}

static void while_one_is_written(void) { counts_are_of_a_moment(write_one); }
static void while_many_are_written(void) { counts_are_of_a_moment(write_many); }
static void while_one_does_not_fit(void) { counts_are_of_a_moment(write_oversized); }
static void while_sizes_are_written(void) { counts_are_of_a_moment(write_sizes); }
static void while_one_span_is_read(void) { counts_are_of_a_moment(read_one); }
static void while_all_is_read(void) { counts_are_of_a_moment(read_all); }
static void while_both_work(void) { counts_are_of_a_moment(read_and_write); }

/* A recreated ring continues its counts, and its drops stay drops. */
static void continues_after_its_past(void)
{
	struct braid_ring_past past;
	struct braid_ring_identity who = {
		.incarnation = 99, .first_seq = FIRST_SEQ, .past = &past,
	};
	struct braid_ring_tally t;

	start(0, 200, 7);
	CHECK(refused > BEFORE + 100);
	braid_writer_past(w, &past);
	who.counter = now;
	braid_writer_init(w, &map, &who);
	CHECK_EQ(braid_ring_count(&map, 99, scratch, &t), 0);
	CHECK_EQ(t.written, offered);
	CHECK_EQ(t.dropped, refused);
	CHECK_EQ(t.left, 0);
	CHECK_EQ(t.lost, offered - BEFORE - 7);
}

/* A full, unread ring drops for days: the count of one sub-buffer passes 2^32. */
static void drops_beyond_32_bits(void)
{
	u32 flags, k;

	for (flags = 0; flags <= BRAID_BUFFER_ABSOLUTE; flags += BRAID_BUFFER_ABSOLUTE) {
		struct braid_ring_tally t;

		start(flags, 100, 7);
		CHECK(refused > BEFORE);
		braid_writer_page_of(w, w->tail)->dropped += BEFORE;
		offered += BEFORE;
		refused += BEFORE;
		for (k = 0; k < 100; k++)
			put(16);
		CHECK_EQ(braid_writer_written(w), offered);
		note_state();
		while (take_one())
			;
		put(16);		/* the loss is counted once the ring advances */
		while (take_one())
			;
		note_state();
		CHECK_EQ(r.lost, refused);
		CHECK_EQ(r.read + r.lost, offered);
		CHECK_EQ(braid_ring_count(&map, 99, scratch, &t), 0);
		CHECK_EQ(t.left, 0);
	}
}

int main(void)
{
	now = (1ULL << 32) - 50;
	w = malloc(braid_writer_bytes(N));
	RUN(while_one_is_written);
	RUN(while_many_are_written);
	RUN(while_one_does_not_fit);
	RUN(while_sizes_are_written);
	RUN(while_one_span_is_read);
	RUN(while_all_is_read);
	RUN(while_both_work);
	RUN(continues_after_its_past);
	RUN(drops_beyond_32_bits);
	free(w);
	return VERDICT();
}
