// SPDX-License-Identifier: GPL-2.0
/*
 * The ring as compiled for the kernel: sizes, modes, wraps, and interrupts that nest in a writer.
 */
#include <kunit/test.h>
#include <linux/hrtimer.h>
#include <linux/vmalloc.h>

#include "guest_driver/compat.h"
#include "guest_driver/core/counter.h"
#include "shared/ring.h"

#define NR_SLOTS	4
#define SUBBUF_BYTES	256
#define FIRST_POSITION	(BRAID_POS_MASK - 5)	/* wraps in most cases */
#define NESTED		(1ULL << 32)
#define EXTERNAL_NS	1700000000000000000ULL	/* at counter 0; each step is 1 ns */

struct ring {
	void *memory;
	struct braid_writer *w;
	struct braid_ring_map map;
	struct braid_reader r;
	struct braid_clock_latch external;
	u64 events, lost, last_time, last[2];
	u64 begun, stamps;	/* sub-buffers read from their start; stamps in them */
	u64 unpaired;		/* stamps without an external time: only after a jump */
	bool disorder;
};

static struct ring *start(struct kunit *test, u32 flags)
{
	struct ring *ring = test->priv;
	const struct braid_ring_identity who = {
		.incarnation = 7, .first_position = FIRST_POSITION, .first_seq = 0ULL - 20,
		.counter = braid_counter(), .external = &ring->external,
	};

	braid_ring_map_init(&ring->map, ring->memory, NR_SLOTS, SUBBUF_BYTES,
			    BRAID_PAGE_BYTES, flags);
	braid_writer_init(ring->w, &ring->map, &who);
	KUNIT_ASSERT_EQ(test, braid_reader_attach(&ring->r, &ring->map, 7), 0);
	return ring;
}

/* Another point of the same line; a mixture of two points would not be on it. */
static void renew_line(struct ring *ring)
{
	u64 now = braid_counter();
	const struct braid_clock_map map = {
		.ref_counter = now, .ref_ns = EXTERNAL_NS + now, .mult = 1ULL << BRAID_CLOCK_SHIFT,
	};

	braid_clock_latch_set(&ring->external, &map);
}

static bool put(struct ring *ring, u64 value, u32 bytes)
{
	u64 token;
	void *at = braid_ring_reserve(ring->w, bytes, braid_counter, &token);

	if (!at)
		return false;
	memcpy(at, &value, min_t(u32, bytes, sizeof(value)));
	braid_ring_commit(ring->w, token);
	return true;
}

static void take(struct kunit *test, struct ring *ring, const struct braid_event_view *view)
{
	u64 value = 0;
	bool nested;

	memcpy(&value, view->payload, min_t(u32, view->payload_bytes, sizeof(value)));
	nested = value >= NESTED;
	if (view->time < ring->last_time || value <= ring->last[nested])
		ring->disorder = true;
	ring->last_time = view->time;
	ring->last[nested] = value;
}

static void look_at_stamp(struct ring *ring, const struct braid_event_view *view)
{
	ring->stamps++;
	if (!view->external_ns)
		ring->unpaired++;
	else if (view->external_ns != EXTERNAL_NS + view->time)
		ring->disorder = true;
}

static void drain(struct kunit *test, struct ring *ring)
{
	struct braid_event_view view;
	struct braid_cursor c;
	struct braid_span span;
	u64 events;
	int got;

	while ((got = braid_reader_next(&ring->r, &span)) > 0) {
		braid_cursor_init(&c, span.data, span.to_bytes, span.time_stamp, ring->map.flags);
		ring->begun += !span.from_bytes;
		for (events = 0; braid_page_next(&c, &view) > 0;) {
			if (view.offset < span.from_bytes)
				continue;
			if (view.type != BRAID_TYPE_DATA) {
				look_at_stamp(ring, &view);
				continue;
			}
			take(test, ring, &view);
			events++;
		}
		ring->events += events;
		braid_reader_done(&ring->r, &span, events);
	}
	KUNIT_EXPECT_EQ(test, got, 0);
	KUNIT_EXPECT_FALSE(test, ring->disorder);
	ring->lost = ring->r.lost;
}

static void ring_keeps_up(struct kunit *test)
{
	const u32 modes[] = { 0, BRAID_BUFFER_OVERWRITE, BRAID_BUFFER_ABSOLUTE };
	unsigned int m;
	u64 k;

	for (m = 0; m < ARRAY_SIZE(modes); m++) {
		struct ring *ring = start(test, modes[m]);

		ring->events = ring->last_time = ring->last[0] = 0;
		for (k = 1; k <= 500; k++) {
			KUNIT_ASSERT_TRUE(test, put(ring, k, 16));
			if (k % 7 == 0)
				drain(test, ring);
		}
		drain(test, ring);
		KUNIT_EXPECT_EQ(test, ring->events, 500);
		KUNIT_EXPECT_EQ(test, ring->lost, 0);
	}
}

static void ring_full_keeps_oldest(struct kunit *test)
{
	struct ring *ring = start(test, 0);
	u64 k, dropped = 0;

	for (k = 1; k <= 300; k++)
		dropped += !put(ring, k, 16);
	KUNIT_EXPECT_GT(test, dropped, 0);
	drain(test, ring);
	KUNIT_EXPECT_EQ(test, ring->events + dropped, 300);
	KUNIT_EXPECT_EQ(test, ring->last[0], ring->events);
	KUNIT_EXPECT_TRUE(test, put(ring, 301, 16));
	drain(test, ring);
	KUNIT_EXPECT_EQ(test, ring->lost, dropped);
	KUNIT_EXPECT_EQ(test, braid_writer_written(ring->w), 301);
}

static void ring_lap_keeps_newest(struct kunit *test)
{
	struct ring *ring = start(test, BRAID_BUFFER_OVERWRITE);
	u64 k;

	for (k = 1; k <= 300; k++)
		KUNIT_ASSERT_TRUE(test, put(ring, k, 16));
	drain(test, ring);
	KUNIT_EXPECT_EQ(test, ring->last[0], 300);
	KUNIT_EXPECT_GT(test, ring->lost, 0);
	KUNIT_EXPECT_EQ(test, ring->events + ring->lost, 300);
}

/*
 * The document's two examples: an event with a payload of 7 bytes takes 12, one with 82 takes 92.
 */
static void ring_sizes(struct kunit *test)
{
	struct ring *ring = start(test, 0);

	KUNIT_EXPECT_TRUE(test, put(ring, 1, 7));
	KUNIT_EXPECT_EQ(test, braid_tail_offset(ring->w, ring->w->tail) * 4, 12);
	KUNIT_EXPECT_TRUE(test, put(ring, 2, 82));
	KUNIT_EXPECT_EQ(test, braid_tail_offset(ring->w, ring->w->tail) * 4, 12 + 92);
	KUNIT_EXPECT_FALSE(test, put(ring, 3, SUBBUF_BYTES));
	drain(test, ring);
	KUNIT_EXPECT_EQ(test, ring->events, 2);
}

/*
 * Once wall time is known, a sub-buffer begins with a pair if the first event leaves room for it.
 */
static void ring_pairs(struct kunit *test)
{
	const u32 modes[] = { 0, BRAID_BUFFER_OVERWRITE, BRAID_BUFFER_ABSOLUTE };
	const u32 room = SUBBUF_BYTES - BRAID_SUBBUF_HEADER_BYTES;
	unsigned int m;
	u64 k;

	for (m = 0; m < ARRAY_SIZE(modes); m++) {
		struct ring *ring = start(test, modes[m]);

		renew_line(ring);
		ring->events = ring->last_time = ring->last[0] = ring->begun = ring->stamps = 0;
		for (k = 1; k <= 200; k++) {
			KUNIT_ASSERT_TRUE(test, put(ring, k, 16));
			if (k % 7 == 0)
				drain(test, ring);
		}
		drain(test, ring);
		KUNIT_EXPECT_EQ(test, ring->events, 200);
		KUNIT_EXPECT_GT(test, ring->begun, 10);
		KUNIT_EXPECT_GE(test, ring->stamps, ring->begun);
		KUNIT_EXPECT_EQ(test, ring->unpaired, 0);
		ring = start(test, modes[m]);
		KUNIT_EXPECT_TRUE(test, put(ring, 201, room - 8));
		KUNIT_EXPECT_EQ(test, braid_tail_offset(ring->w, ring->w->tail) * 4, room);
	}
}

/* A counter that continues from a lower value: a test's own, or the real one. */
static u64 told_counter;

static u64 read_set_counter(void)
{
	return told_counter++;
}

static void put_at_counter(struct kunit *test, struct ring *ring, u64 value)
{
	u64 token, *at = braid_ring_reserve(ring->w, sizeof(value), read_set_counter, &token);

	KUNIT_ASSERT_NOT_NULL(test, at);
	memcpy(at, &value, sizeof(value));
	braid_ring_commit(ring->w, token);
}

static void ring_counter_jumps_back(struct kunit *test)
{
	const u32 modes[] = { 0, BRAID_BUFFER_OVERWRITE, BRAID_BUFFER_ABSOLUTE };
	unsigned int m;

	for (m = 0; m < ARRAY_SIZE(modes); m++) {
		struct ring *ring = start(test, modes[m]);
		u64 position = ring->w->position;

		renew_line(ring);
		ring->events = ring->last_time = ring->last[0] = ring->stamps = 0;
		told_counter = braid_counter() + (1ULL << 40);
		put_at_counter(test, ring, 1);
		told_counter -= BRAID_JUMP_STEPS - 1;	/* it wobbles */
		put_at_counter(test, ring, 2);
		drain(test, ring);
		KUNIT_EXPECT_EQ(test, ring->w->position, position);
		KUNIT_EXPECT_EQ(test, ring->stamps, 1);

		told_counter -= 1ULL << 38;
		put_at_counter(test, ring, 3);
		put_at_counter(test, ring, 4);
		KUNIT_EXPECT_EQ(test, ring->w->position, (position + 1) & BRAID_POS_MASK);
		/*
		 * A new sub-buffer with an absolute stamp, without an external time from the former
		 * line.
		 */
		ring->last_time = 0;
		ring->unpaired = 0;
		drain(test, ring);
		KUNIT_EXPECT_EQ(test, ring->events, 4);
		KUNIT_EXPECT_EQ(test, ring->unpaired, 1);
		KUNIT_EXPECT_EQ(test, ring->last_time, told_counter - 1);
	}
}

/* A nested event becomes readable with the outermost one. */
static void ring_nests(struct kunit *test)
{
	struct ring *ring = start(test, 0);
	u64 value = 1, token;
	void *at = braid_ring_reserve(ring->w, sizeof(value), braid_counter, &token);

	KUNIT_ASSERT_NOT_NULL(test, at);
	KUNIT_EXPECT_TRUE(test, put(ring, NESTED + 1, 16));
	drain(test, ring);
	KUNIT_EXPECT_EQ(test, ring->events, 0);
	memcpy(at, &value, sizeof(value));
	braid_ring_commit(ring->w, token);
	drain(test, ring);
	KUNIT_EXPECT_EQ(test, ring->events, 2);
}

/* A timer interrupt writes to the same ring as the task. */
struct nester {
	struct hrtimer timer;
	struct ring *ring;
	u64 written, dropped;
	u32 left;
};

static enum hrtimer_restart nest(struct hrtimer *timer)
{
	struct nester *n = container_of(timer, struct nester, timer);
	unsigned int k;

	for (k = 0; k < 3; k++) {
		n->written++;
		n->dropped += !put(n->ring, NESTED + n->written, 24);
	}
	if (!--n->left)
		return HRTIMER_NORESTART;
	hrtimer_forward_now(timer, ns_to_ktime(20000));
	return HRTIMER_RESTART;
}

static void ring_interrupts_nest(struct kunit *test)
{
	struct nester n = { .ring = start(test, BRAID_BUFFER_OVERWRITE), .left = 200 };
	u64 written = 0;

	renew_line(n.ring);
	braid_hrtimer_setup_on_stack(&n.timer, nest, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED);
	hrtimer_start(&n.timer, ns_to_ktime(20000), HRTIMER_MODE_REL_PINNED);
	while (READ_ONCE(n.left)) {
		renew_line(n.ring);	/* the interrupt may occur during this */
		preempt_disable();
		put(n.ring, ++written, 16);
		preempt_enable();
		if (written % 5 == 0)
			drain(test, n.ring);
		cond_resched();
	}
	hrtimer_cancel(&n.timer);
	destroy_hrtimer_on_stack(&n.timer);
	put(n.ring, ++written, 16);
	drain(test, n.ring);
	KUNIT_EXPECT_EQ(test, n.ring->events + n.ring->lost, written + n.written);
	KUNIT_EXPECT_GT(test, n.ring->begun, 0);
	KUNIT_EXPECT_GE(test, n.ring->stamps, n.ring->begun);
	KUNIT_EXPECT_EQ(test, n.ring->unpaired, 0);
	KUNIT_EXPECT_EQ(test, braid_writer_written(n.ring->w), written + n.written);
}

static int ring_init(struct kunit *test)
{
	struct ring *ring = kunit_kzalloc(test, sizeof(*ring), GFP_KERNEL);

	if (!ring)
		return -ENOMEM;
	ring->w = kunit_kzalloc(test, braid_writer_bytes(NR_SLOTS), GFP_KERNEL);
	ring->memory = vzalloc(braid_ring_bytes(NR_SLOTS, SUBBUF_BYTES, BRAID_PAGE_BYTES));
	test->priv = ring;
	return ring->w && ring->memory ? set_cpus_allowed_ptr(current, cpumask_of(0)) : -ENOMEM;
}

static void ring_exit(struct kunit *test)
{
	struct ring *ring = test->priv;

	if (ring)
		vfree(ring->memory);
}

static struct kunit_case ring_cases[] = {
	KUNIT_CASE(ring_keeps_up),
	KUNIT_CASE(ring_full_keeps_oldest),
	KUNIT_CASE(ring_lap_keeps_newest),
	KUNIT_CASE(ring_sizes),
	KUNIT_CASE(ring_pairs),
	KUNIT_CASE(ring_counter_jumps_back),
	KUNIT_CASE(ring_nests),
	KUNIT_CASE(ring_interrupts_nest),
	{}
};

static struct kunit_suite ring_suite = {
	.name = "ring",
	.init = ring_init,
	.exit = ring_exit,
	.test_cases = ring_cases,
};
kunit_test_suite(ring_suite);
