// SPDX-License-Identifier: GPL-2.0
/* Doorbells: the guest rings the host on request, and polls when the host rings. */
#include <linux/delay.h>
#include <linux/irqflags.h>
#include <linux/jiffies.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>

#include "tests/kunit/rooms.h"

#define PATIENCE	(10 * HZ)
#define WAKES		200
#define DOORBELL	0x30007

static struct braid_mailbox *mailbox(void)
{
	const struct braid_superblock *sb = braid_fake_memory();

	return braid_fake_memory() + sb->sections[BRAID_SECTION_MAILBOX].offset;
}

static void ask(u32 permille, u32 doorbell)
{
	braid_store(&mailbox()->wake_permille, permille);
	braid_store(&mailbox()->wake_doorbell, doorbell);
	braid_store_release(&mailbox()->wake_seq, mailbox()->wake_seq + 1);
}

/* Fills at least this many sub-buffers; interrupts are off half of the time. */
static void fill(struct kunit *test, u16 id, u32 subbufs)
{
	char payload[400] = "";
	unsigned long flags;
	u32 k;

	for (k = 0; k < subbufs * 10; k++) {
		local_irq_save(flags);
		KUNIT_EXPECT_EQ(test, braid_record_event(NULL, id, sizeof(payload), payload), 0);
		local_irq_restore(flags);
	}
}

/* All queued doorbells have rung on return; without a self-interrupt, at the next tick. */
static int rings(void)
{
	u32 value;
	int times;

	schedule_timeout_uninterruptible(2);
	times = braid_fake_rung(&value);
	return !times || value == DOORBELL ? times : -EBADMSG;
}

static void wake_rings(struct kunit *test)
{
	u16 id = braid_case_register(test, NULL, "loud", NULL);

	fill(test, id, 3);
	ask(1, 0);
	fill(test, id, 3);
	KUNIT_EXPECT_EQ(test, rings(), 0);
	ask(1, DOORBELL);
	fill(test, id, 3);
	KUNIT_EXPECT_EQ(test, rings(), 1);
	fill(test, id, 3);
	KUNIT_EXPECT_EQ(test, rings(), 1);
	ask(1, DOORBELL);
	fill(test, id, 3);
	KUNIT_EXPECT_EQ(test, rings(), 2);
}

/* A reset ring does not answer a request twice. */
static void wake_reset(struct kunit *test)
{
	u16 id = braid_case_register(test, NULL, "loud", NULL);

	ask(1, DOORBELL);
	fill(test, id, 3);
	KUNIT_EXPECT_EQ(test, rings(), 1);
	KUNIT_EXPECT_EQ(test, braid_buffer_reset(braid_trace_buffer()), 0);
	fill(test, id, 3);
	KUNIT_EXPECT_EQ(test, rings(), 1);
	ask(1, DOORBELL);
	fill(test, id, 3);
	KUNIT_EXPECT_EQ(test, rings(), 2);
}

/* More polls than the thread makes by itself in this time, however long it is. */
static void wake_polls(struct kunit *test)
{
	unsigned long begin = jiffies, end = begin + PATIENCE, flags;
	u32 k, took;

	for (k = 0; k < WAKES; k++) {
		u64 before = READ_ONCE(mailbox()->guest_heartbeat);

		local_irq_save(flags);
		braid_fake_ring();
		local_irq_restore(flags);
		while (READ_ONCE(mailbox()->guest_heartbeat) == before && time_before(jiffies, end))
			usleep_range(50, 100);
	}
	took = jiffies_to_msecs(jiffies - begin);
	KUNIT_EXPECT_LT_MSG(test, took / BRAID_POLL_MS, WAKES / 2, "%u wakeups took %u ms", WAKES, took);
}

static int policy_of_thread(void)
{
	struct task_struct *task;
	int policy = -ESRCH;

	rcu_read_lock();
	for_each_process(task)
		if (task->flags & PF_KTHREAD && !strcmp(task->comm, "tracebraid"))
			policy = READ_ONCE(task->policy);
	rcu_read_unlock();
	return policy;
}

/* Whether the thread gets a policy, while an agent's heart beats or not. */
static bool becomes(int policy, bool beats)
{
	unsigned long end = jiffies + PATIENCE;

	while (policy_of_thread() != policy && time_before(jiffies, end)) {
		if (beats)
			braid_store(&mailbox()->agent_heartbeat, mailbox()->agent_heartbeat + 1);
		schedule_timeout_uninterruptible(2);
	}
	return policy_of_thread() == policy;
}

/* Only while an agent is there does the thread come before the guest's own work. */
static void wake_is_urgent_for_an_agent(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, becomes(SCHED_NORMAL, false));
	KUNIT_EXPECT_TRUE(test, becomes(SCHED_FIFO, true));
	KUNIT_EXPECT_TRUE(test, becomes(SCHED_NORMAL, false));
}

/*
 * A transport's interrupt may occur without a thread: before the memory is attached, and after it
 * is released.
 */
static void wake_without_thread(struct kunit *test)
{
	braid_fake_unplug();
	braid_fake_ring();
	KUNIT_ASSERT_EQ(test, braid_fake_plug(), 0);
	braid_fake_ring();
	braid_fake_unplug();
	braid_fake_ring();
}

static struct kunit_case wake_cases[] = {
	KUNIT_CASE(wake_rings),
	KUNIT_CASE(wake_reset),
	KUNIT_CASE(wake_polls),
	KUNIT_CASE(wake_is_urgent_for_an_agent),
	KUNIT_CASE(wake_without_thread),
	{}
};

static struct kunit_suite wake_suite = {
	.name = "wake",
	.init = braid_case_init,
	.exit = braid_case_exit,
	.test_cases = wake_cases,
};
kunit_test_suite(wake_suite);
