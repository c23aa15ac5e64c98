// SPDX-License-Identifier: GPL-2.0
/*
 * Calls in contexts that cannot sleep: switches, swap, peek and consume in interrupts, NMIs, an
 * oops, a read-side section of RCU and under a spinlock. lockdep watches.
 */
#include <linux/irqflags.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/spinlock.h>

#include "guest_driver/core/buffer.h"
#include "tests/kunit/rooms.h"

#define PAGE	BRAID_PAGE_BYTES

/* The context of a case's calls. */
enum where {
	IRQS_OFF,
	IN_HARDIRQ,
	IN_NMI,
	IN_OOPS,	/* of a task, with interrupts enabled */
	IN_RCU,		/* the same; no kernel can tell by looking at the context ... */
	IN_SPINLOCK,	/* ... nor this one with PREEMPT_RT */
	NR_WHERES,
};

static DEFINE_SPINLOCK(spin);
static const u32 offsets[NR_WHERES] = { 0, HARDIRQ_OFFSET, NMI_OFFSET + HARDIRQ_OFFSET };

static unsigned long begin(enum where where)
{
	unsigned long flags;

	switch (where) {
	case IN_OOPS:
		oops_in_progress = 1;
		return 0;
	case IN_RCU:
		rcu_read_lock();
		return 0;
	case IN_SPINLOCK:
		spin_lock(&spin);
		return 0;
	default:
		break;
	}
	local_irq_save(flags);
	if (offsets[where])	/* a debug kernel warns of 0 */
		preempt_count_add(offsets[where]);
	return flags;
}

static void end(enum where where, unsigned long flags)
{
	switch (where) {
	case IN_OOPS:
		oops_in_progress = 0;
		return;
	case IN_RCU:
		rcu_read_unlock();
		return;
	case IN_SPINLOCK:
		spin_unlock(&spin);
		return;
	default:
		break;
	}
	if (offsets[where])
		preempt_count_sub(offsets[where]);
	local_irq_restore(flags);
}

static int put(struct braid_buffer *buffer, u64 value)
{
	return braid_buffer_write(buffer, sizeof(value), &value);
}

static void context_switches(struct kunit *test)
{
	struct braid_buffer *buffer = braid_case_alloc(test, "b", PAGE, BRAID_ALLOC_RAW, NULL);
	enum where where;

	for (where = 0; where < NR_WHERES; where++) {
		unsigned long flags = begin(where);
		int off, cpu_off, on;

		braid_buffer_record_disable(buffer);
		off = put(buffer, 1);
		braid_buffer_record_disable_cpu(buffer, 0);
		braid_buffer_record_enable(buffer);
		cpu_off = put(buffer, 2);
		braid_buffer_record_enable_cpu(buffer, 0);
		on = put(buffer, 3);
		end(where, flags);
		KUNIT_EXPECT_EQ(test, off, -EAGAIN);
		KUNIT_EXPECT_EQ(test, cpu_off, -EAGAIN);
		KUNIT_EXPECT_EQ(test, on, 0);
	}
	KUNIT_EXPECT_EQ(test, braid_buffer_entries(buffer), NR_WHERES);
}

/* They do not wait for the buffer's lock. */
static void context_switches_while_locked(struct kunit *test)
{
	struct braid_buffer *buffer = braid_case_alloc(test, "b", PAGE, BRAID_ALLOC_RAW, NULL);
	unsigned long flags;
	int off;

	braid_lock(&buffer->lock);
	flags = begin(IN_NMI);
	braid_buffer_record_disable(buffer);
	off = put(buffer, 1);
	braid_buffer_record_enable(buffer);
	end(IN_NMI, flags);
	braid_unlock(&buffer->lock);
	KUNIT_EXPECT_EQ(test, off, -EAGAIN);
	KUNIT_EXPECT_EQ(test, put(buffer, 1), 0);
}

static void context_swaps(struct kunit *test)
{
	struct braid_buffer *a = braid_case_alloc(test, "a", 4 * PAGE, BRAID_ALLOC_RAW, NULL);
	struct braid_buffer *b = braid_case_alloc(test, "b", 4 * PAGE, BRAID_ALLOC_RAW, NULL);
	enum where where;
	u64 put_in_a = 0, put_in_b = 0;

	for (where = 0; where < NR_WHERES; where++) {
		unsigned long flags;
		int err, taken;

		KUNIT_EXPECT_EQ(test, put(a, where), 0);
		flags = begin(where);
		err = braid_buffer_swap_cpu(a, b, 0);
		taken = put(a, where);
		end(where, flags);
		KUNIT_EXPECT_EQ(test, err, 0);
		KUNIT_EXPECT_EQ(test, taken, 0);
		swap(put_in_a, put_in_b);
		put_in_b++;
		put_in_a++;
		KUNIT_EXPECT_EQ(test, braid_buffer_entries(a), put_in_a);
		KUNIT_EXPECT_EQ(test, braid_buffer_entries(b), put_in_b);
	}
}

/* A swap in an interrupt detects the event that it interrupted, and does not touch the rings. */
static void context_swap_meets_writer(struct kunit *test)
{
	struct braid_buffer *a = braid_case_alloc(test, "a", 4 * PAGE, BRAID_ALLOC_RAW, NULL);
	struct braid_buffer *b = braid_case_alloc(test, "b", 4 * PAGE, BRAID_ALLOC_RAW, NULL);
	struct braid_reservation one = braid_buffer_reserve(a, 8);
	unsigned long flags = begin(IN_HARDIRQ);
	int inside = braid_buffer_swap_cpu(a, b, 0), reversed = braid_buffer_swap_cpu(b, a, 0), after;

	end(IN_HARDIRQ, flags);
	if (one.payload) {
		memset(one.payload, 7, 8);
		braid_buffer_commit(a, one);
	}
	flags = begin(IN_HARDIRQ);
	after = braid_buffer_swap_cpu(a, b, 0);
	end(IN_HARDIRQ, flags);
	KUNIT_EXPECT_NOT_NULL(test, one.payload);
	KUNIT_EXPECT_EQ(test, inside, -EBUSY);
	KUNIT_EXPECT_EQ(test, reversed, -EBUSY);
	KUNIT_EXPECT_EQ(test, after, 0);
	KUNIT_EXPECT_EQ(test, braid_buffer_entries(b), 1);
	KUNIT_EXPECT_EQ(test, braid_buffer_entries(a), 0);
}

static void context_busy(struct kunit *test)
{
	struct braid_buffer *a = braid_case_alloc(test, "a", PAGE, BRAID_ALLOC_RAW, NULL);
	struct braid_buffer *b = braid_case_alloc(test, "b", PAGE, BRAID_ALLOC_RAW, NULL);
	int swapped[3], peeked, consumed;
	struct braid_item item;
	unsigned long flags;

	KUNIT_EXPECT_EQ(test, braid_buffer_peek(a, 0, &item), 0);
	braid_buffer_read_done(a, 0);
	braid_lock(&a->lock);
	flags = begin(IN_NMI);
	swapped[0] = braid_buffer_swap_cpu(a, b, 0);
	swapped[1] = braid_buffer_swap_cpu(b, a, 0);
	peeked = braid_buffer_peek(a, 0, &item);
	consumed = braid_buffer_consume(a, 0, &item);
	braid_buffer_read_done(a, 0);
	end(IN_NMI, flags);
	braid_unlock(&a->lock);
	braid_buffers_lock();
	flags = begin(IN_NMI);
	swapped[2] = braid_buffer_swap_cpu(a, b, 0);
	end(IN_NMI, flags);
	braid_buffers_unlock();
	KUNIT_EXPECT_EQ(test, swapped[0], -EBUSY);
	KUNIT_EXPECT_EQ(test, swapped[1], -EBUSY);
	KUNIT_EXPECT_EQ(test, swapped[2], -EBUSY);
	KUNIT_EXPECT_EQ(test, peeked, -EBUSY);
	KUNIT_EXPECT_EQ(test, consumed, -EBUSY);
	KUNIT_EXPECT_EQ(test, braid_buffer_swap_cpu(a, b, 0), 0);
}

static void context_reads(struct kunit *test)
{
	struct braid_buffer *buffer = braid_case_alloc(test, "b", PAGE, BRAID_ALLOC_RAW, NULL);
	struct braid_item item;
	unsigned long flags;
	enum where where;
	int ret[4];
	u64 value;

	/* The first call needs no other before it. */
	flags = begin(IN_NMI);
	ret[0] = braid_buffer_peek(buffer, 0, &item);
	braid_buffer_read_done(buffer, 0);
	end(IN_NMI, flags);
	KUNIT_EXPECT_EQ(test, ret[0], 0);
	for (where = 0; where < NR_WHERES; where++) {
		flags = begin(where);
		put(buffer, 100 + where);
		ret[0] = braid_buffer_peek(buffer, 0, &item);
		ret[1] = braid_buffer_consume(buffer, 0, &item);
		memcpy(&value, item.payload, sizeof(value));
		ret[2] = braid_buffer_consume(buffer, 0, &item);
		braid_buffer_read_done(buffer, 0);
		ret[3] = braid_buffer_swap_cpu(buffer, buffer, 0);
		end(where, flags);
		KUNIT_EXPECT_EQ(test, ret[0], 1);
		KUNIT_EXPECT_EQ(test, ret[1], 1);
		KUNIT_EXPECT_EQ(test, value, 100 + where);
		KUNIT_EXPECT_EQ(test, ret[2], 0);
		KUNIT_EXPECT_EQ(test, ret[3], -EINVAL);
	}
	/* The reader role was returned: a ring with a reader cannot be reset. */
	KUNIT_EXPECT_EQ(test, braid_buffer_reset_cpu(buffer, 0), 0);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(context_switches),
	KUNIT_CASE(context_switches_while_locked),
	KUNIT_CASE(context_swaps),
	KUNIT_CASE(context_swap_meets_writer),
	KUNIT_CASE(context_busy),
	KUNIT_CASE(context_reads),
	{ }
};

static struct kunit_suite suite = {
	.name = "context",
	.init = braid_case_init,
	.exit = braid_case_exit,
	.test_cases = cases,
};
kunit_test_suite(suite);
