// SPDX-License-Identifier: GPL-2.0
/* A buffer's counts while interrupts write to it. */
#include <linux/hrtimer.h>

#include "guest_driver/compat.h"
#include "guest_driver/core/reader.h"
#include "tests/kunit/rooms.h"

#define PAGE		BRAID_PAGE_BYTES
#define TICK_NS		20000
#define BURST		3

/* A timer interrupt that writes to the buffer at any point of the task's work. */
struct writer {
	struct hrtimer timer;
	struct braid_buffer *buffer;
	u64 offered;
	u32 left;		/* ticks */
};

static enum hrtimer_restart write_burst(struct hrtimer *timer)
{
	struct writer *w = container_of(timer, struct writer, timer);
	int k;

	for (k = 0; k < BURST; k++) {
		w->offered++;
		braid_buffer_write(w->buffer, sizeof(w->offered), &w->offered);
	}
	WRITE_ONCE(w->left, w->left - 1);
	if (!w->left)
		return HRTIMER_NORESTART;
	hrtimer_forward_now(timer, ns_to_ktime(TICK_NS));
	return HRTIMER_RESTART;
}

/* Counts until the timer has finished. Return: how many counts were interrupted. */
static u32 count_during_interrupts(struct kunit *test, struct writer *w, bool drops, bool overruns)
{
	struct braid_ring_counts counts;
	u32 interrupted = 0;

	braid_hrtimer_setup_on_stack(&w->timer, write_burst, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED);
	hrtimer_start(&w->timer, ns_to_ktime(TICK_NS), HRTIMER_MODE_REL_PINNED);
	while (READ_ONCE(w->left)) {
		u64 before = READ_ONCE(w->offered), after;

		KUNIT_EXPECT_EQ(test, braid_reader_counts(w->buffer, 0, &counts), 0);
		after = READ_ONCE(w->offered);
		interrupted += before != after;
		KUNIT_EXPECT_GE(test, counts.written, before);
		KUNIT_EXPECT_LE(test, counts.written, after);
		KUNIT_EXPECT_EQ(test, counts.written, counts.read + counts.entries +
						      counts.overruns + counts.dropped);
		if (!drops)
			KUNIT_EXPECT_EQ(test, counts.dropped, 0);
		if (!overruns)
			KUNIT_EXPECT_EQ(test, counts.overruns, 0);
		cond_resched();
	}
	hrtimer_cancel(&w->timer);
	destroy_hrtimer_on_stack(&w->timer);
	KUNIT_EXPECT_EQ(test, braid_reader_counts(w->buffer, 0, &counts), 0);
	KUNIT_EXPECT_EQ(test, counts.written, w->offered);
	KUNIT_EXPECT_EQ(test, counts.dropped > 0, drops);
	KUNIT_EXPECT_EQ(test, counts.overruns > 0, overruns);
	return interrupted;
}

/* A buffer with room loses nothing, and every count agrees. */
static void count_with_room(struct kunit *test)
{
	struct writer w = { .buffer = braid_case_alloc(test, "b", 64 * PAGE, BRAID_ALLOC_RAW, NULL) };
	u32 interrupted = 0;

	while (interrupted < 20 && w.offered < 12000) {
		w.left = 200;
		interrupted += count_during_interrupts(test, &w, false, false);
	}
	KUNIT_EXPECT_GT(test, interrupted, 0);
}

/* A full buffer drops events and overwrites none. */
static void count_when_full(struct kunit *test)
{
	struct writer w = { .buffer = braid_case_alloc(test, "b", 4 * PAGE, BRAID_ALLOC_RAW, NULL),
			    .left = 1000 };

	KUNIT_EXPECT_GT(test, count_during_interrupts(test, &w, true, false), 0);
}

static void count_when_overwritten(struct kunit *test)
{
	struct writer w = { .buffer = braid_case_alloc(test, "b", 4 * PAGE, BRAID_ALLOC_RAW |
						       BRAID_ALLOC_OVERWRITE, NULL),
			    .left = 1000 };

	KUNIT_EXPECT_GT(test, count_during_interrupts(test, &w, false, true), 0);
}

static struct kunit_case count_cases[] = {
	KUNIT_CASE(count_with_room),
	KUNIT_CASE(count_when_full),
	KUNIT_CASE(count_when_overwritten),
	{}
};

static struct kunit_suite count_suite = {
	.name = "count",
	.init = braid_case_init,
	.exit = braid_case_exit,
	.test_cases = count_cases,
};
kunit_test_suite(count_suite);
