// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Copies of a ring that others write and read, between any two of the copier's loads, or at full
 * speed in other threads: each has only intact events, in sequence, each once; gaps count as lost;
 * nothing that was unread and committed before is missing.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "host_agent/transport/ring_copy.h"
#include "tests/unit/check.h"
#include "tests/unit/hooked_ring_copy.h"
#include "tests/unit/need.h"

#define INCARNATION	77u
#define FIRST_SEQ	(0ULL - 1000)
#define FIRST_POSITION	(BRAID_POS_MASK - 50)
#define WORDS		6u
#define COPIES		20u	/* during which the writer wrote */

struct shape {
	u32 nr_slots;
	u32 subbuf_bytes;
	u32 flags;
	bool reader;
};

static struct braid_ring_map ring, copy;
static struct braid_writer *w;
static size_t ring_bytes;

/* Of the threads. */
static u32 stop;
static u64 offered;
static u64 committed_seq;	/* one past the last event that was committed */
static u64 consumed_seq;	/* the reader's */

/* An event that a copy must have, because the reader took it unread. */
static bool wanted, wanted_found;
static u64 wanted_seq;

/* Of all copies. */
static u64 nr_events, nr_lost, nr_incomplete, nr_busy;

static u64 counter(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

static u64 mix(u64 value, u32 k)
{
	return (value + k + 1) * 0x9e3779b97f4a7c15ULL;
}

/* Rings ---------------------------------------------------------------------------------- */

static void begin(const struct shape *shape)
{
	struct braid_ring_identity who = {
		.incarnation = INCARNATION, .first_position = FIRST_POSITION,
		.first_seq = FIRST_SEQ, .counter = counter(),
	};
	u8 *memory;

	ring_bytes = braid_ring_bytes(shape->nr_slots, shape->subbuf_bytes, BRAID_PAGE_BYTES);
	memory = mmap(NULL, 2 * ring_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS |
		      MAP_POPULATE, -1, 0);
	NEED(memory != MAP_FAILED);
	braid_ring_map_init(&ring, memory, shape->nr_slots, shape->subbuf_bytes, BRAID_PAGE_BYTES,
			    shape->flags);
	braid_ring_map_init(&copy, memory + ring_bytes, shape->nr_slots, shape->subbuf_bytes,
			    BRAID_PAGE_BYTES, shape->flags);
	w = malloc(braid_writer_bytes(shape->nr_slots));
	NEED(w);
	braid_writer_init(w, &ring, &who);
	stop = 0;
	offered = 0;
	committed_seq = consumed_seq = FIRST_SEQ;
	nr_events = nr_lost = nr_incomplete = nr_busy = 0;
}

static void end(void)
{
	munmap(ring.priv, 2 * ring_bytes);
	free(w);
}

/* An event's number in its ring is also in its payload. Returns what commits it, or 0. */
static u64 reserve_one(void)
{
	u64 seq = FIRST_SEQ + offered++, token, *at;
	u32 nr = 2 + seq % (WORDS - 1), k;

	at = braid_ring_reserve(w, nr * 8, counter, &token);
	if (!at)
		return 0;
	for (k = 0; k < nr; k++) {
		u64 word = k ? mix(seq, k) : seq;

		memcpy(&at[k], &word, sizeof(word));
	}
	return token;
}

static void put(u64 events)
{
	while (events--) {
		u64 token = reserve_one();

		if (!token)
			continue;
		braid_ring_commit(w, token);
		braid_store_release(&committed_seq, FIRST_SEQ + offered);
	}
}

/* Events of a span, in [from_bytes, to_bytes). */
static u64 count_span(const struct braid_ring_map *map, const struct braid_span *span)
{
	u64 before;
	struct braid_cursor c;

	braid_cursor_init(&c, span->data, span->from_bytes, span->time_stamp, map->flags);
	before = braid_page_count(&c);
	braid_cursor_init(&c, span->data, span->to_bytes, span->time_stamp, map->flags);
	return braid_page_count(&c) - before;
}

static bool read_one(struct braid_reader *r)
{
	struct braid_span span;
	u64 events;

	if (braid_reader_next(r, &span) <= 0)
		return false;
	events = count_span(&ring, &span);
	braid_reader_done(r, &span, events);
	braid_store_release(&consumed_seq, r->next_seq);	/* a copy from here on has none of these */
	return true;
}

/* Copies ---------------------------------------------------------------------------------- */

static void check_event(const struct braid_event_view *view, u64 seq)
{
	u64 words[WORDS + 1] = { 0 };
	u32 nr = 2 + seq % (WORDS - 1), k;

	CHECK_EQ(view->payload_bytes, nr * 8);
	memcpy(words, view->payload, view->payload_bytes < sizeof(words) ? view->payload_bytes :
								      sizeof(words));
	CHECK_EQ(words[0], seq);
	for (k = 1; k < nr; k++)
		CHECK_EQ(words[k], mix(seq, k));
}

/* Reads a span's events; *next: the number that the next event must not be below. */
static u64 check_span(const struct braid_span *span, u64 *next)
{
	u64 seq = span->first_seq, events = 0;
	struct braid_event_view view;
	struct braid_cursor c;
	int ret;

	braid_cursor_init(&c, span->data, span->to_bytes, span->time_stamp, copy.flags);
	while ((ret = braid_page_next(&c, &view)) > 0) {
		if (view.type != BRAID_TYPE_DATA)
			continue;
		if (view.offset >= span->from_bytes) {
			CHECK((s64)(seq - *next) >= 0);
			check_event(&view, seq);
			wanted_found |= seq == wanted_seq;
			*next = seq + 1;
			events++;
		}
		seq++;
	}
	CHECK_EQ(ret, 0);
	return events;
}

/* Reads the copy to its end. @from, @upto: unread events between them are there, or lost. */
static void check_copy(u64 from, u64 upto, bool complete)
{
	struct braid_reader r;
	struct braid_span span;
	u64 began, lost, events = 0, next;
	int got;

	NEED(!braid_reader_attach(&r, &copy, INCARNATION));
	began = next = r.next_seq;
	lost = r.lost;
	CHECK((s64)(began - from) >= 0);
	CHECK_EQ(r.read + r.lost, began - FIRST_SEQ);
	while ((got = braid_reader_next(&r, &span)) > 0) {
		u64 found = check_span(&span, &next);

		braid_reader_done(&r, &span, found);
		events += found;
	}
	CHECK_EQ(got, 0);
	CHECK_EQ(events + r.lost - lost, r.next_seq - began);
	CHECK(!complete || (s64)(r.next_seq - upto) >= 0);
	CHECK(!wanted || wanted_found);
	nr_events += events;
	nr_lost += r.lost - lost;
}

static void copy_by(int (*copy_ring)(const struct braid_ring_map *to,
				     const struct braid_ring_map *from, u64 incarnation))
{
	u64 from = braid_load_acquire(&consumed_seq), upto = braid_load_acquire(&committed_seq);
	int ret;

	memset(copy.priv, 0xee, ring_bytes);	/* a former copy's bytes are not taken for this one's */
	memset(copy.priv, 0, (u8 *)copy.meta - (u8 *)copy.priv);
	ret = copy_ring(&copy, &ring, INCARNATION);
	if (ret == -EAGAIN) {
		nr_busy++;
		return;
	}
	CHECK(ret == 0 || ret == 1);
	nr_incomplete += ret == 1;
	if (ret >= 0)
		check_copy(from, upto, !ret);
}

static void copy_once(void)
{
	copy_by(braid_ring_copy);
}

/* Threads --------------------------------------------------------------------------------- */

static void *write_all(void *arg)
{
	(void)arg;
	while (!braid_load_acquire(&stop))
		put(64);
	return NULL;
}

static void *read_all(void *arg)
{
	struct braid_reader r;

	(void)arg;
	NEED(!braid_reader_attach(&r, &ring, INCARNATION));
	while (!braid_load_acquire(&stop))
		read_one(&r);
	CHECK_EQ(r.fault, BRAID_READER_OK);
	return NULL;
}

static void run(const struct shape *shape)
{
	pthread_t writer, reader;
	u64 copies = 0, moved = 0, at;

	begin(shape);
	NEED(!pthread_create(&writer, NULL, write_all, NULL));
	NEED(!shape->reader || !pthread_create(&reader, NULL, read_all, NULL));
	while (moved < COPIES && !check_failures) {
		at = braid_load(&committed_seq);
		copy_once();
		copies++;
		if (at != braid_load(&committed_seq))
			moved++;
		else
			sched_yield();
	}
	braid_store_release(&stop, 1);
	pthread_join(writer, NULL);
	if (shape->reader)
		pthread_join(reader, NULL);
	printf("   %u slots of %u bytes, flags %u, reader %d: %llu events, %llu lost; %llu copies, %llu incomplete, %llu busy\n",
	       shape->nr_slots, shape->subbuf_bytes, shape->flags, shape->reader,
	       (unsigned long long)nr_events, (unsigned long long)nr_lost, (unsigned long long)copies,
	       (unsigned long long)nr_incomplete, (unsigned long long)nr_busy);
	CHECK(nr_events > 0);
	CHECK(nr_incomplete + nr_busy < copies / 2);
	end();
}

static void while_the_writer_laps(void)
{
	run(&(struct shape){ 8, 256, BRAID_BUFFER_OVERWRITE, false });
	run(&(struct shape){ 64, 4096, BRAID_BUFFER_OVERWRITE, false });
	run(&(struct shape){ 16, 512, BRAID_BUFFER_OVERWRITE | BRAID_BUFFER_ABSOLUTE, false });
}

static void while_it_is_read(void)
{
	run(&(struct shape){ 8, 256, 0, true });
	run(&(struct shape){ 64, 4096, 0, true });
	run(&(struct shape){ 8, 256, BRAID_BUFFER_OVERWRITE, true });
	run(&(struct shape){ 64, 4096, BRAID_BUFFER_OVERWRITE, true });
}

/* A ring that stands still -------------------------------------------------------------------- */

static const struct shape still = { 4, 256, BRAID_BUFFER_OVERWRITE, false };

/* Copies, and expects that many events and losses. */
static void expect(u64 events, u64 lost)
{
	nr_events = nr_lost = 0;
	copy_once();
	CHECK_EQ(nr_events, events);
	CHECK_EQ(nr_lost, lost);
	CHECK_EQ(nr_incomplete + nr_busy, 0);
}

static void all_unread_events(void)
{
	u64 total = 0;
	struct braid_peek p;
	struct braid_span span;

	begin(&still);
	expect(0, 0);
	for (; total < 300; total++) {
		u64 left = 0;

		put(1);
		NEED(!braid_peek_begin(&p, &ring, INCARNATION));
		while (braid_peek_next(&p, &span) > 0)
			left += count_span(&ring, &span);
		expect(left, total + 1 - left);
	}
	CHECK(nr_lost > 0);
	end();
}

/* What is reserved, and what nests in it, is not in the copy; nothing of it is after the commit. */
static void uncommitted_events_are_not_copied(void)
{
	u64 outer, inner;
	u32 k;

	begin(&still);
	put(2);
	outer = reserve_one();
	expect(2, 0);
	inner = reserve_one();
	braid_ring_commit(w, inner);
	expect(2, 0);
	for (k = 0; k < 8; k++) {	/* into the next sub-buffer */
		inner = reserve_one();
		braid_ring_commit(w, inner);
	}
	expect(2, 0);
	braid_ring_commit(w, outer);
	committed_seq = FIRST_SEQ + offered;
	expect(12, 0);
	end();
}

static void only_what_the_reader_left(void)
{
	struct braid_reader r;
	u64 read = 0, total = 0;
	u32 k;

	begin(&(struct shape){ 4, 256, 0, false });
	NEED(!braid_reader_attach(&r, &ring, INCARNATION));
	for (k = 0; k < 200; k++) {
		put(k % 5);
		total += k % 5;
		if (k % 3 == 0)
			read_one(&r);
		read = r.read;
		nr_events = nr_lost = 0;
		copy_once();
		/* The ring is full at times: the last drops are not published yet. */
		CHECK(nr_events + nr_lost <= total - read - r.lost);
		CHECK_EQ(nr_incomplete + nr_busy, 0);
	}
	while (read_one(&r))
		;
	expect(0, 0);
	end();
}

/* A reader took a sub-buffer and died before it could record it. */
static void a_reader_that_died(void)
{
	struct braid_reader r;
	struct braid_span span;

	begin(&still);
	NEED(!braid_reader_attach(&r, &ring, INCARNATION));
	put(4);
	CHECK_EQ(braid_reader_next(&r, &span), 1);
	expect(4, 0);
	put(6);
	expect(10, 0);
	braid_reader_done(&r, &span, count_span(&ring, &span));
	CHECK_EQ(r.read, 4);
	expect(6, 0);
	end();
}

/* Steps of others, before any load --------------------------------------------------------- */

static struct braid_reader reader;
static u64 held;		/* a reservation that is not committed */
static void (*act)(void);
static u32 act_at, nr_loads;

static void others(void)
{
	if (nr_loads++ == act_at)
		act();
}

static void write_one(void)
{
	put(1);
}

static void write_some(void)
{
	put(9);
}

static void write_laps(void)
{
	put(90);
}

static void commit_held(void)
{
	if (held) {
		braid_ring_commit(w, held);
		committed_seq = FIRST_SEQ + offered;
	}
	held = 0;
	put(9);
}

static void commit_held_and_lap(void)
{
	commit_held();
	put(90);
}

static void read_one_span(void)
{
	read_one(&reader);
}

static void read_to_the_end(void)
{
	while (read_one(&reader))
		;
}

static void read_and_write(void)
{
	u32 k;

	for (k = 0; k < 20; k++) {
		put(5);
		read_one(&reader);
	}
}

/* The reader takes a sub-buffer, and before its next step the writer reuses what it gave back. */
static void take_and_write(void)
{
	struct braid_span span;

	if (braid_reader_next(&reader, &span) > 0 && !span.from_bytes) {
		wanted = true;
		wanted_seq = span.first_seq;
	}
	put(90);
}

/* As a guest that empties the ring in place. */
static void empty(void)
{
	struct braid_ring_past past;
	const struct braid_ring_identity who = {
		.incarnation = INCARNATION, .first_seq = FIRST_SEQ, .counter = counter(),
		.past = &past,
	};

	braid_writer_past(w, &past);
	braid_writer_init(w, &ring, &who);
	NEED(!braid_reader_attach(&reader, &ring, INCARNATION));
	put(7);
}

/* One copy, with others at its load @at. Return: whether there was such a load. */
static bool copy_while(u32 flags, u32 events, u32 taken, u32 at)
{
	begin(&(struct shape){ 4, 256, flags, false });
	NEED(!braid_reader_attach(&reader, &ring, INCARNATION));
	put(events);
	while (taken--)
		read_one(&reader);
	put(events / 2);
	held = act == commit_held || act == commit_held_and_lap ? reserve_one() : 0;
	wanted = wanted_found = false;
	act_at = at;
	nr_loads = 0;
	hooked_ring_copy_others = others;
	copy_by(hooked_ring_copy);
	CHECK_EQ(nr_busy + nr_incomplete, 0);
	if (check_failures)
		fprintf(stderr, "flags %u, %u events, load %u\n", flags, events, at);
	end();
	return nr_loads > at;
}

static void copies_while(void (*what)(void))
{
	static const u32 events[] = { 0, 1, 4, 7, 24, 60 };
	u32 flags, k, taken, at;

	act = what;
	for (flags = 0; flags <= BRAID_BUFFER_OVERWRITE; flags++)
		for (k = 0; k < sizeof(events) / sizeof(*events); k++)
			for (taken = 0; taken < 3; taken++)
				for (at = 0; !check_failures; at++)
					if (!copy_while(flags, events[k], taken, at))
						break;
}

static void while_one_is_written(void) { copies_while(write_one); }
static void while_some_are_written(void) { copies_while(write_some); }
static void while_all_is_overwritten(void) { copies_while(write_laps); }
static void while_one_is_committed(void) { copies_while(commit_held); }
static void while_all_after_it_is_overwritten(void) { copies_while(commit_held_and_lap); }
static void while_a_span_is_read(void) { copies_while(read_one_span); }
static void while_all_is_read(void) { copies_while(read_to_the_end); }
static void while_both_work(void) { copies_while(read_and_write); }
static void while_one_is_taken(void) { copies_while(take_and_write); }
static void while_it_is_emptied(void) { copies_while(empty); }

/* Any words: the copy ends, and stays in its memory. */
static void forged_rings(void)
{
	u64 seed = 1, *words;
	u32 turn, k, nr;
	int ret;

	begin(&still);
	words = (u64 *)ring.priv;
	nr = braid_ring_private_used(still.nr_slots) / 8;
	put(100);
	for (turn = 0; turn < 20000; turn++) {
		seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
		k = (seed >> 33) % nr;
		words[k] ^= turn % 3 ? 1ULL << (seed >> 58) : seed;
		memset(copy.priv, 0, ring_bytes);
		ret = braid_ring_copy(&copy, &ring, INCARNATION);
		CHECK(ret == 0 || ret == 1 || ret == -EAGAIN || ret == -EBADMSG);
		if (turn % 16 == 15) {	/* not all is invalid */
			end();
			begin(&still);
			words = (u64 *)ring.priv;
			put(turn % 100);
		}
	}
	end();
}

int main(void)
{
	RUN(all_unread_events);
	RUN(uncommitted_events_are_not_copied);
	RUN(only_what_the_reader_left);
	RUN(a_reader_that_died);
	RUN(forged_rings);
	RUN(while_one_is_written);
	RUN(while_some_are_written);
	RUN(while_all_is_overwritten);
	RUN(while_one_is_committed);
	RUN(while_all_after_it_is_overwritten);
	RUN(while_a_span_is_read);
	RUN(while_all_is_read);
	RUN(while_both_work);
	RUN(while_one_is_taken);
	RUN(while_it_is_emptied);
	RUN(while_the_writer_laps);
	RUN(while_it_is_read);
	return VERDICT();
}
