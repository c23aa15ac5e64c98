// SPDX-License-Identifier: GPL-2.0-or-later
/* When a writer wakes the host: once per request, from the mark on, and never without a request. */
#include "shared/ring.h"
#include "tests/unit/check.h"

#define N		8
#define SUBBUF		256
#define FIRST_POS	(BRAID_POS_MASK - 3)	/* wraps during each test */

static _Alignas(4096) u8 memory[1 << 16];
static struct braid_ring_map map;
static struct braid_writer *w;
static struct braid_reader r;
static struct braid_mailbox mailbox;
static u64 now;
static int calls, nest_left;

static void call(const struct braid_wake *wake)
{
	CHECK(wake->mailbox == &mailbox);
	calls++;
}

static const struct braid_wake wake = { .mailbox = &mailbox, .call = call };
static const struct braid_ring_identity first_identity = {
	.incarnation = 99, .first_position = FIRST_POS, .wake = &wake,
};

static u64 tick(void);

static bool put(void)
{
	u64 token;
	void *at = braid_ring_reserve(w, 16, tick, &token);

	if (at)
		braid_ring_commit(w, token);
	return at;
}

/* The counter: a nested event may occur, and be the one that opens a sub-buffer. */
static u64 tick(void)
{
	u64 mine = ++now;

	if (nest_left) {
		nest_left--;
		put();
	}
	return mine;
}

static void start(u32 flags)
{
	free(w);
	w = malloc(braid_writer_bytes(N));
	braid_ring_map_init(&map, memory, N, SUBBUF, BRAID_PAGE_BYTES, flags);
	braid_writer_init(w, &map, &first_identity);
	CHECK_EQ(braid_reader_attach(&r, &map, 99), 0);
	memset(&mailbox, 0, sizeof(mailbox));
	calls = 0;
}

static void ask(u32 permille, u32 doorbell)
{
	mailbox.wake_permille = permille;
	mailbox.wake_doorbell = doorbell;
	mailbox.wake_seq++;
}

static u64 opened(void)
{
	return braid_position_diff(w->position, FIRST_POS);
}

/* Until this many sub-buffers are full; false: no space. */
static bool fill(u64 full)
{
	u64 goal = opened() + full;

	while (opened() < goal)
		if (!put())
			return false;
	return true;
}

static void drain(void)
{
	struct braid_span span;

	while (braid_reader_next(&r, &span) > 0)
		braid_reader_done(&r, &span, span.to_bytes / 20);
}

static void not_requested(void)
{
	start(0);
	CHECK(!fill(2 * N));
	CHECK_EQ(calls, 0);
	start(BRAID_BUFFER_OVERWRITE);
	mailbox.wake_permille = 1;
	mailbox.wake_doorbell = 1;
	CHECK(fill(2 * N));
	CHECK_EQ(calls, 0);		/* wake_seq has not moved */
}

static void doorbell_off(void)
{
	start(BRAID_BUFFER_OVERWRITE);
	ask(500, 0);
	CHECK(fill(2 * N));
	CHECK_EQ(calls, 0);
	mailbox.wake_doorbell = 1;	/* late: the request still stands */
	CHECK(fill(1));
	CHECK_EQ(calls, 1);
}

static void from_the_mark_on(u32 permille, u64 full)
{
	start(0);
	ask(permille, 1);
	CHECK(fill(full - 1));
	CHECK_EQ(calls, 0);
	CHECK(fill(1));
	CHECK_EQ(calls, 1);
}

static void marks(void)
{
	from_the_mark_on(0, 1);		/* at least one */
	from_the_mark_on(1, 1);
	from_the_mark_on(250, 2);
	from_the_mark_on(500, 4);
	from_the_mark_on(999, 7);
	from_the_mark_on(1000, 7);	/* before it is too late */
	from_the_mark_on(0xffffffffu, 7);
}

static void once_a_request(u32 flags)
{
	start(flags);
	ask(250, 1);
	CHECK_EQ(fill(3 * N), !!flags);	/* or full, and events dropped */
	CHECK(put() == !!flags);
	CHECK_EQ(calls, 1);
	ask(250, 1);
	drain();
	CHECK(fill(3));
	CHECK_EQ(calls, 2);
	CHECK(fill(2));
	CHECK_EQ(calls, 2);
}

static void once_consumer(void) { once_a_request(0); }
static void once_overwrite(void) { once_a_request(BRAID_BUFFER_OVERWRITE); }

/* A late request is served by an event that does not fit. */
static void asked_when_full(void)
{
	start(0);
	CHECK(!fill(2 * N));
	ask(500, 1);
	CHECK(!put());
	CHECK_EQ(calls, 1);
	CHECK(!put());
	CHECK_EQ(calls, 1);
}

static void reader_keeps_up(void)
{
	u64 k;

	start(0);
	ask(250, 1);
	for (k = 0; k < 5 * N; k++) {
		CHECK(fill(1));
		drain();
	}
	CHECK_EQ(calls, 0);
}

static void nested(void)
{
	u64 k;

	start(BRAID_BUFFER_OVERWRITE);
	ask(250, 1);
	for (k = 0; k < 400; k++) {
		nest_left = k % 5;
		put();
	}
	CHECK_EQ(calls, 1);
	CHECK_EQ(w->nest, 0);
}

/* A recreated ring does not answer old requests again. */
static void recreated(void)
{
	struct braid_ring_past past;
	struct braid_ring_identity who = first_identity;

	start(0);
	ask(250, 1);
	CHECK(fill(3));
	CHECK_EQ(calls, 1);
	braid_writer_past(w, &past);
	who.past = &past;
	braid_writer_init(w, &map, &who);
	CHECK(fill(3));
	CHECK_EQ(calls, 1);
	ask(250, 1);
	CHECK(fill(1));
	CHECK_EQ(calls, 2);
}

/* Slot words that no reader writes keep it silent or break the ring, but do no other harm. */
static void forged_slots(void)
{
	u64 k, j;

	for (k = 0; k < 200; k++) {
		start(BRAID_BUFFER_OVERWRITE);
		ask(k * 5, 1);
		for (j = 0; j < N; j++)
			map.slots[j] ^= 0x9e3779b97f4a7c15ULL * (k + 1) >> j;
		for (j = 0; j < 100; j++)
			put();
		CHECK(calls <= 1);
	}
}

int main(void)
{
	now = 1000;
	RUN(not_requested);
	RUN(doorbell_off);
	RUN(marks);
	RUN(once_consumer);
	RUN(once_overwrite);
	RUN(asked_when_full);
	RUN(reader_keeps_up);
	RUN(nested);
	RUN(recreated);
	RUN(forged_slots);
	free(w);
	return VERDICT();
}
