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

#include "host_agent/transport/region_copy.h"
#include "tests/unit/check.h"
#include "tests/unit/hooked_ring_copy.h"
#include "tests/unit/need.h"
#include "tests/unit/ring_copies.h"

#define COPIES		20u	/* during which the writer wrote */

static u32 stop;		/* the threads */

static void copy_once(void)
{
	ring_copies_copy_by(braid_ring_copy);
}

/* Threads --------------------------------------------------------------------------------- */

static void *write_all(void *arg)
{
	(void)arg;
	while (!braid_load_acquire(&stop))
		ring_copies_put(64);
	return NULL;
}

static void *read_all(void *arg)
{
	struct braid_reader r;

	(void)arg;
	NEED(!braid_reader_attach(&r, &rc.ring, INCARNATION));
	while (!braid_load_acquire(&stop))
		ring_copies_read_one(&r);
	CHECK_EQ(r.fault, BRAID_READER_OK);
	return NULL;
}

static void run(const struct shape *shape)
{
	pthread_t writer, reader;
	u64 copies = 0, moved = 0, at;

	ring_copies_begin(shape);
	stop = 0;
	NEED(!pthread_create(&writer, NULL, write_all, NULL));
	NEED(!shape->reader || !pthread_create(&reader, NULL, read_all, NULL));
	while (moved < COPIES && !check_failures) {
		at = braid_load(&rc.committed_seq);
		copy_once();
		copies++;
		if (at != braid_load(&rc.committed_seq))
			moved++;
		else
			sched_yield();
	}
	braid_store_release(&stop, 1);
	pthread_join(writer, NULL);
	if (shape->reader)
		pthread_join(reader, NULL);
	printf("   %u slots of %u bytes, flags %u, reader %d: %llu events, %llu lost; %llu copies, %llu busy\n",
	       shape->nr_slots, shape->subbuf_bytes, shape->flags, shape->reader,
	       (unsigned long long)rc.nr_events, (unsigned long long)rc.nr_lost, (unsigned long long)copies,
	       (unsigned long long)rc.nr_busy);
	CHECK(rc.nr_events > 0);
	CHECK_EQ(rc.nr_invalid, 0);
	ring_copies_end();
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
	rc.nr_events = rc.nr_lost = 0;
	copy_once();
	CHECK_EQ(rc.nr_events, events);
	CHECK_EQ(rc.nr_lost, lost);
	CHECK_EQ(rc.nr_busy + rc.nr_invalid, 0);
}

static void all_unread_events(void)
{
	u64 total = 0;
	struct braid_peek p;
	struct braid_span span;

	ring_copies_begin(&still);
	expect(0, 0);
	for (; total < 300; total++) {
		u64 left = 0;

		ring_copies_put(1);
		NEED(!braid_peek_begin(&p, &rc.ring, INCARNATION));
		while (braid_peek_next(&p, &span) > 0)
			left += ring_copies_count_span(&rc.ring, &span);
		expect(left, total + 1 - left);
	}
	CHECK(rc.nr_lost > 0);
	ring_copies_end();
}

/* What is reserved, and what nests in it, is not in the copy; nothing of it is after the commit. */
static void uncommitted_events_are_not_copied(void)
{
	u64 outer, inner;
	u32 k;

	ring_copies_begin(&still);
	ring_copies_put(2);
	outer = ring_copies_reserve_one();
	expect(2, 0);
	inner = ring_copies_reserve_one();
	braid_ring_commit(rc.w, inner);
	expect(2, 0);
	for (k = 0; k < 8; k++) {	/* into the next sub-buffer */
		inner = ring_copies_reserve_one();
		braid_ring_commit(rc.w, inner);
	}
	expect(2, 0);
	braid_ring_commit(rc.w, outer);
	rc.committed_seq = FIRST_SEQ + rc.offered;
	expect(12, 0);
	ring_copies_end();
}

static void only_what_the_reader_left(void)
{
	struct braid_reader r;
	u64 read = 0, total = 0;
	u32 k;

	ring_copies_begin(&(struct shape){ 4, 256, 0, false });
	NEED(!braid_reader_attach(&r, &rc.ring, INCARNATION));
	for (k = 0; k < 200; k++) {
		ring_copies_put(k % 5);
		total += k % 5;
		if (k % 3 == 0)
			ring_copies_read_one(&r);
		read = r.read;
		rc.nr_events = rc.nr_lost = 0;
		copy_once();
		/* The ring is full at times: the last drops are not published yet. */
		CHECK(rc.nr_events + rc.nr_lost <= total - read - r.lost);
		CHECK_EQ(rc.nr_busy + rc.nr_invalid, 0);
	}
	while (ring_copies_read_one(&r))
		;
	expect(0, 0);
	ring_copies_end();
}

/* A reader took a sub-buffer and died before it could record it. */
static void a_reader_that_died(void)
{
	struct braid_reader r;
	struct braid_span span;

	ring_copies_begin(&still);
	NEED(!braid_reader_attach(&r, &rc.ring, INCARNATION));
	ring_copies_put(4);
	CHECK_EQ(braid_reader_next(&r, &span), 1);
	expect(4, 0);
	ring_copies_put(6);
	expect(10, 0);
	braid_reader_done(&r, &span, ring_copies_count_span(&rc.ring, &span));
	CHECK_EQ(r.read, 4);
	expect(6, 0);
	ring_copies_end();
}

/* Steps of others, before any load --------------------------------------------------------- */

static void empty(void);

static struct braid_reader reader;
static u64 held;		/* a reservation that is not committed */
static void (*act)(void);
static u32 act_at, nr_loads;
static bool restless;		/* a word changes all the time: the ring never stands still */
static u32 empty_at;		/* load before which a guest that is emptying the ring is done */

static void others(void)
{
	if (restless)
		rc.ring.priv->reserved2[0]++;
	if (nr_loads == act_at)
		act();
	else if (empty_at && nr_loads == empty_at)
		empty();
	nr_loads++;
}

static void write_one(void)
{
	ring_copies_put(1);
}

static void write_some(void)
{
	ring_copies_put(9);
}

static void write_laps(void)
{
	ring_copies_put(90);
}

static void commit_held(void)
{
	if (held) {
		braid_ring_commit(rc.w, held);
		rc.committed_seq = FIRST_SEQ + rc.offered;
	}
	held = 0;
	ring_copies_put(9);
}

static void commit_held_and_lap(void)
{
	commit_held();
	ring_copies_put(90);
}

static void read_one_span(void)
{
	ring_copies_read_one(&reader);
}

static void read_to_the_end(void)
{
	while (ring_copies_read_one(&reader))
		;
}

static void read_and_write(void)
{
	u32 k;

	for (k = 0; k < 20; k++) {
		ring_copies_put(5);
		ring_copies_read_one(&reader);
	}
}

/* The reader takes a sub-buffer, and before its next step the writer reuses what it gave back. */
static void take_and_write(void)
{
	struct braid_span span;

	if (braid_reader_next(&reader, &span) > 0 && !span.from_bytes) {
		rc.wanted = true;
		rc.wanted_seq = span.first_seq;
	}
	ring_copies_put(90);
}

/* As a guest that empties the ring in place ... */
static struct braid_ring_past past;

static void empty(void)
{
	const struct braid_ring_identity who = {
		.incarnation = INCARNATION, .first_seq = FIRST_SEQ,
		.counter = ring_copies_counter(),
		.past = &past,
	};

	if (!empty_at)
		braid_writer_past(rc.w, &past);
	braid_writer_init(rc.w, &rc.ring, &who);
	NEED(!braid_reader_attach(&reader, &rc.ring, INCARNATION));
	ring_copies_put(7);
}

/*
 * ... and stops for some time when the first words are zeros, or all are, or the first ones are
 * new.
 */
static void begin_to_empty(void)
{
	struct braid_ring_private *priv = rc.ring.priv;
	const struct braid_ring_private then = *priv;

	braid_writer_past(rc.w, &past);
	memset(priv, 0, offsetof(struct braid_ring_private, reader_owner));
	if (act_at % 3)
		memset(priv->reader_block, 0, (u8 *)rc.ring.meta - (u8 *)priv->reader_block);
	if (act_at % 3 == 2)
		memcpy(priv, &then, offsetof(struct braid_ring_private, written));
	empty_at = act_at + 2 + 7 * act_at % 100;
}

/* One copy, with others at its load @at. Return: whether there was such a load. */
static bool copy_while(u32 flags, u32 events, u32 taken, u32 at)
{
	ring_copies_begin(&(struct shape){ 4, 256, flags, false });
	NEED(!braid_reader_attach(&reader, &rc.ring, INCARNATION));
	ring_copies_put(events);
	while (taken--)
		ring_copies_read_one(&reader);
	ring_copies_put(events / 2);
	held = act == commit_held || act == commit_held_and_lap ? ring_copies_reserve_one() : 0;
	rc.wanted = rc.wanted_found = false;
	act_at = at;
	nr_loads = empty_at = 0;
	hooked_ring_copy_others = others;
	ring_copies_copy_by(hooked_ring_copy);
	CHECK(act == begin_to_empty || !(rc.nr_busy + rc.nr_invalid));
	if (check_failures)
		fprintf(stderr, "flags %u, %u events, load %u, restless %d\n", flags, events, at,
			restless);
	ring_copies_end();
	return nr_loads > at;
}

/*
 * At each load of a ring that stands still before, and at each later one of a ring that never does.
 */
static void copies_at_each_load(u32 flags, u32 events, u32 taken)
{
	u32 at = 0;

	restless = false;
	while (!check_failures && copy_while(flags, events, taken, at))
		at++;
	restless = true;
	at = braid_ring_private_used(rc.ring.nr_slots) / sizeof(u64);
	while (!check_failures && copy_while(flags, events, taken, at))
		at++;
	restless = false;
}

static void copies_while(void (*what)(void))
{
	static const u32 events[] = { 0, 1, 4, 7, 24, 60 };
	u32 flags, k, taken;

	act = what;
	for (flags = 0; flags <= BRAID_BUFFER_OVERWRITE; flags++)
		for (k = 0; k < sizeof(events) / sizeof(*events); k++)
			for (taken = 0; taken < 3; taken++)
				copies_at_each_load(flags, events[k], taken);
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
static void while_it_is_half_emptied(void) { copies_while(begin_to_empty); }

/* All that a ring holds that stands still is copied, and its reader finds what is wrong with it. */
static void damage_is_copied(void)
{
	struct braid_reader r;
	struct braid_span span;
	u32 id, found = 0;

	ring_copies_begin(&(struct shape){ 4, 256, 0, false });
	ring_copies_put(30);
	for (id = 0; id <= still.nr_slots; id++)
		if (braid_commit_position(rc.ring.states[id].commit) == FIRST_POSITION + 1)
			rc.ring.states[id].commit |= 2;	/* not a whole number of words */
	memset(rc.copy.priv, 0, rc.ring_bytes);
	CHECK_EQ(braid_ring_copy(&rc.copy, &rc.ring, INCARNATION), 0);
	NEED(!braid_reader_attach(&r, &rc.copy, INCARNATION));
	while (braid_reader_next(&r, &span) > 0) {
		braid_reader_done(&r, &span, ring_copies_count_span(&rc.copy, &span));
		found++;
	}
	CHECK_EQ(found, 1);
	CHECK_EQ(r.fault, BRAID_READER_BAD_COMMIT);
	ring_copies_end();
}

/* Any words: the copy ends, and stays in its memory. */
static void forged_rings(void)
{
	u64 seed = 1, *words;
	u32 turn, k, nr;
	int ret;

	ring_copies_begin(&still);
	words = (u64 *)rc.ring.priv;
	nr = braid_ring_private_used(still.nr_slots) / 8;
	ring_copies_put(100);
	for (turn = 0; turn < 20000; turn++) {
		seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
		k = (seed >> 33) % nr;
		words[k] ^= turn % 3 ? 1ULL << (seed >> 58) : seed;
		memset(rc.copy.priv, 0, rc.ring_bytes);
		ret = braid_ring_copy(&rc.copy, &rc.ring, INCARNATION);
		CHECK(!ret || ret == -EBADMSG);
		if (turn % 16 == 15) {	/* not all is invalid */
			ring_copies_end();
			ring_copies_begin(&still);
			words = (u64 *)rc.ring.priv;
			ring_copies_put(turn % 100);
		}
	}
	ring_copies_end();
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
	RUN(while_it_is_half_emptied);
	RUN(damage_is_copied);
	RUN(while_the_writer_laps);
	RUN(while_it_is_read);
	return VERDICT();
}
