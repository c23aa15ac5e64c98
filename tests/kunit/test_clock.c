// SPDX-License-Identifier: GPL-2.0
/* The clock cells as a host sees them, and the time stamps in the pages. */
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/jiffies.h>
#include <linux/sched/signal.h>

#include "guest_driver/clock/pair.h"
#include "guest_driver/compat.h"
#include "guest_driver/core/counter.h"
#include "tests/kunit/rooms.h"

#define PATIENCE	(10 * HZ)
#define BURST_PATIENCE	(HZ / 2)
#define BEAT_NS		20000
#define PINGS		8

static struct braid_clock_cells *cells(void)
{
	const struct braid_superblock *sb = braid_fake_memory();

	return braid_fake_memory() + sb->sections[BRAID_SECTION_CLOCK].offset;
}

/* Waits until *word equals value, or with @other, until it differs from it. */
static bool await32(const u32 *word, u32 value, bool other)
{
	unsigned long end = jiffies + PATIENCE;

	while ((READ_ONCE(*word) != value) != other && time_before(jiffies, end))
		usleep_range(500, 1000);
	return (READ_ONCE(*word) == value) != other;
}

/* A copy of the last poll that began after this call. */
static struct braid_clock_cells await_look(struct kunit *test)
{
	u32 seq = (braid_load_acquire(&cells()->poll_seq) | 1) + 1, at;
	unsigned long end = jiffies + PATIENCE;
	struct braid_clock_cells copy;

	/* The next poll may have begun before this call; the one after it has not. */
	do {
		usleep_range(500, 1000);
		at = braid_load_acquire(&cells()->poll_seq);
		memcpy(&copy, cells(), sizeof(copy));
		braid_fence();
	} while ((at & 1 || (s32)(at - seq) < 2 || at != READ_ONCE(cells()->poll_seq)) &&
		 time_before(jiffies, end));
	KUNIT_EXPECT_GE(test, (s32)(at - seq), 2);
	return copy;
}

static void clock_polls(struct kunit *test)
{
	u64 before = braid_counter_ordered();
	struct braid_clock_cells found = await_look(test);

	KUNIT_EXPECT_EQ(test, found.poll_host_ns, 0);
	KUNIT_EXPECT_GE(test, found.poll_counter, before);
	KUNIT_EXPECT_LE(test, found.poll_counter, braid_counter_ordered());
	KUNIT_EXPECT_GE(test, found.poll_vcpu, 1);
	KUNIT_EXPECT_LE(test, found.poll_vcpu, nr_cpu_ids);
	before = braid_counter_ordered();
	braid_store_release(&cells()->host_ns, 0x123456789abcdefULL);
	found = await_look(test);
	KUNIT_EXPECT_EQ(test, found.poll_host_ns, 0x123456789abcdefULL);
	KUNIT_EXPECT_GE(test, found.poll_counter, before);
}

/* A host that sends pings from a timer interrupt, because the guest may spin on this CPU. */
struct player {
	struct hrtimer timer;
	u64 burst, pinged_at;
	u32 answers, of_others, lies;
	u32 wanted;		/* the requested vCPU, as in the cells */
};

static enum hrtimer_restart play(struct hrtimer *timer)
{
	struct player *p = container_of(timer, struct player, timer);
	struct braid_clock_cells *c = cells();

	if (braid_load_acquire(&c->ready) == p->burst && p->answers < PINGS) {
		u64 pong = braid_load_acquire(&c->pong);

		if (p->pinged_at && pong == READ_ONCE(c->ping)) {
			p->answers++;
			p->of_others += READ_ONCE(c->pong_vcpu) != p->wanted;
			p->lies += READ_ONCE(c->pong_counter) < p->pinged_at ||
				   READ_ONCE(c->pong_counter) > braid_counter_ordered();
		}
		if (!p->pinged_at || pong == READ_ONCE(c->ping)) {
			p->pinged_at = braid_counter_ordered();
			braid_store_release(&c->ping, c->ping + 1);
		}
	}
	hrtimer_forward_now(timer, ns_to_ktime(BEAT_NS));
	return HRTIMER_RESTART;
}

static void begin_burst(struct player *p)
{
	WRITE_ONCE(p->burst, cells()->burst + 1);
	p->pinged_at = 0;		/* pings of a former burst stay unanswered */
	braid_store_release(&cells()->burst, p->burst);
}

/* Requests a burst on one vCPU, and counts answers of vCPUs other than the expected one. */
static struct player play_burst(u32 asked, u32 expected)
{
	struct player p = { .wanted = expected };
	unsigned long end = jiffies + PATIENCE, again;

	braid_hrtimer_setup_on_stack(&p.timer, play, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED);
	braid_store(&cells()->burst_vcpu, asked);
	begin_burst(&p);
	again = jiffies + BURST_PATIENCE;
	hrtimer_start(&p.timer, ns_to_ktime(BEAT_NS), HRTIMER_MODE_REL_PINNED);
	while (READ_ONCE(p.answers) < PINGS && time_before(jiffies, end)) {
		usleep_range(500, 1000);
		if (time_before(jiffies, again))
			continue;
		/* The guest gives up after 10 ms; a slow machine needs several bursts. */
		begin_burst(&p);
		again = jiffies + BURST_PATIENCE;
	}
	hrtimer_cancel(&p.timer);
	destroy_hrtimer_on_stack(&p.timer);
	return p;
}

static void clock_burst_is_answered(struct kunit *test)
{
	struct player p;
	u32 cpu;

	for_each_online_cpu(cpu) {
		p = play_burst(cpu + 1, cpu + 1);
		KUNIT_EXPECT_EQ_MSG(test, p.answers, PINGS, "CPU %u", cpu);
		KUNIT_EXPECT_EQ_MSG(test, p.of_others, 0, "CPU %u", cpu);
		KUNIT_EXPECT_EQ(test, p.lies, 0);
	}
}

/* A vCPU that does not exist: the answer names the vCPU that answered, and the thread continues. */
static void clock_burst_for_missing_vcpu(struct kunit *test)
{
	const u32 asked[] = { 0, nr_cpu_ids + 1, nr_cpu_ids + 1000, 1u << 31, ~0u };
	struct player p;
	unsigned int k;

	for (k = 0; k < ARRAY_SIZE(asked); k++) {
		p = play_burst(asked[k], asked[k]);
		KUNIT_EXPECT_EQ_MSG(test, p.answers, PINGS, "vCPU word %#x", asked[k]);
		KUNIT_EXPECT_EQ(test, p.of_others, PINGS);
		KUNIT_EXPECT_GE(test, cells()->pong_vcpu, 1);
		KUNIT_EXPECT_LE(test, cells()->pong_vcpu, nr_cpu_ids);
	}
}

static bool poll_thread_is_on(const struct cpumask *cpus)
{
	struct task_struct *task;
	bool is = false;

	rcu_read_lock();
	for_each_process(task)
		if (!strcmp(task->comm, "tracebraid"))
			is = cpumask_equal(task->cpus_ptr, cpus);
	rcu_read_unlock();
	return is;
}

/* After a burst the thread may run on every CPU again. */
static void clock_burst_restores_affinity(struct kunit *test)
{
	unsigned long end = jiffies + PATIENCE;

	KUNIT_EXPECT_TRUE(test, poll_thread_is_on(cpu_possible_mask));
	KUNIT_EXPECT_EQ(test, play_burst(1, 1).answers, PINGS);
	while (!poll_thread_is_on(cpu_possible_mask) && time_before(jiffies, end))
		usleep_range(500, 1000);
	KUNIT_EXPECT_TRUE(test, poll_thread_is_on(cpu_possible_mask));
}

#ifdef CONFIG_HOTPLUG_CPU
/* The requested vCPU is offline, or goes offline and online during bursts. */
static void clock_burst_for_offline(struct kunit *test)
{
	u32 cpu = cpumask_last(cpu_online_mask), k;
	struct player p;

	if (!cpu)
		kunit_skip(test, "there is one CPU");
	KUNIT_ASSERT_EQ(test, remove_cpu(cpu), 0);
	p = play_burst(cpu + 1, cpu + 1);
	KUNIT_EXPECT_EQ(test, add_cpu(cpu), 0);
	KUNIT_EXPECT_EQ(test, p.answers, PINGS);
	KUNIT_EXPECT_EQ(test, p.of_others, PINGS);
	for (k = 0; k < 5; k++) {
		begin_burst(&p);
		KUNIT_EXPECT_EQ(test, remove_cpu(cpu), 0);
		begin_burst(&p);
		KUNIT_EXPECT_EQ(test, add_cpu(cpu), 0);
	}
	p = play_burst(cpu + 1, cpu + 1);
	KUNIT_EXPECT_EQ(test, p.answers, PINGS);
	KUNIT_EXPECT_EQ(test, p.of_others, 0);
}
#else
static void clock_burst_for_offline(struct kunit *test)
{
	kunit_skip(test, "CPUs stay");
}
#endif

static void clock_wall(struct kunit *test)
{
	struct braid_clock_cells *c = cells();
	u64 before = ktime_get_real_ns(), boot = ktime_get_boottime_ns();

	KUNIT_ASSERT_TRUE(test, await32(&c->wall_seq, 0, true));
	KUNIT_ASSERT_TRUE(test, await32(&c->wall_seq, READ_ONCE(c->wall_seq), true));
	KUNIT_EXPECT_EQ(test, c->wall_seq & 1, 0);
	KUNIT_EXPECT_EQ(test, c->wall_source, BRAID_PAIR_GUEST_REALTIME);
	KUNIT_EXPECT_GE(test, c->wall_realtime_ns, before - NSEC_PER_SEC);
	KUNIT_EXPECT_LE(test, c->wall_realtime_ns, ktime_get_real_ns());
	KUNIT_EXPECT_GE(test, c->wall_boottime_ns, boot - min_t(u64, boot, NSEC_PER_SEC));
	KUNIT_EXPECT_LE(test, c->wall_boottime_ns, ktime_get_boottime_ns());
	KUNIT_EXPECT_LE(test, c->wall_counter, braid_counter_ordered());
}

/* A hypervisor's answer is used if it is plausible. */
static void clock_uses_host_answer(struct kunit *test)
{
	const struct braid_pair own = {
		.counter = 1000000, .realtime_ns = 5, .boottime_ns = 70000,
		.source = BRAID_PAIR_GUEST_REALTIME,
	};
	const struct braid_pair_answer right = { 1700000000, 999999999, 1000100 };
	const struct braid_pair_answer wrong[] = {
		{ 0, 5, 1000100 }, { -1, 5, 1000100 }, { S64_MAX, 5, 1000100 },
		{ S64_MAX / NSEC_PER_SEC, 5, 1000100 }, { 1, -1, 1000100 },
		{ 1, NSEC_PER_SEC, 1000100 }, { 1, 5, 1000089 }, { 1, 5, 1000111 }, { 1, 5, 0 },
		{ 1, 5, ~0ULL },
	};
	const u64 mult = 2ULL << BRAID_CLOCK_SHIFT;
	struct braid_pair pair = own;
	unsigned int k;

	KUNIT_EXPECT_TRUE(test, braid_pair_use_answer(&pair, &right, 1000090, 1000110, mult));
	KUNIT_EXPECT_EQ(test, pair.counter, right.counter);
	KUNIT_EXPECT_EQ(test, pair.realtime_ns, 1700000000999999999ULL);
	KUNIT_EXPECT_EQ(test, pair.boottime_ns, 70200);
	KUNIT_EXPECT_EQ(test, pair.source, BRAID_PAIR_HOST_REALTIME);
	for (k = 0; k < ARRAY_SIZE(wrong); k++) {
		pair = own;
		KUNIT_EXPECT_FALSE_MSG(test, braid_pair_use_answer(&pair, &wrong[k], 1000090, 1000110,
								mult), "answer %u", k);
		KUNIT_EXPECT_EQ(test, pair.counter, own.counter);
		KUNIT_EXPECT_EQ(test, pair.realtime_ns, own.realtime_ns);
		KUNIT_EXPECT_EQ(test, pair.boottime_ns, own.boottime_ns);
		KUNIT_EXPECT_EQ(test, pair.source, own.source);
	}
}

/* Even the first events are in a sub-buffer whose stamp pairs its counter with wall time. */
static void clock_stamps_pages(struct kunit *test)
{
	struct braid_buffer *buffer = braid_case_alloc(test, "b", 16 << 10, BRAID_ALLOC_RAW, NULL);
	const struct braid_superblock *sb = braid_fake_memory();
	const struct braid_buffer_desc *desc = &sb->buffers[buffer->index];
	u64 value, from = ktime_get_real_ns(), to, stamps = 0;
	struct braid_event_view view;
	struct braid_ring_map map;
	struct braid_cursor c;
	struct braid_span span;
	struct braid_peek peek;

	for (value = 1; value <= 700; value++)
		KUNIT_ASSERT_EQ(test, braid_buffer_write(buffer, sizeof(value), &value), 0);
	to = ktime_get_real_ns();
	braid_region_ring(desc, braid_fake_memory(), 0, &map);
	KUNIT_ASSERT_EQ(test, braid_peek_begin(&peek, &map, sb->incarnation), 0);
	while (braid_peek_next(&peek, &span) > 0) {
		if (!span.to_bytes)
			continue;
		braid_cursor_init(&c, span.data, span.to_bytes, span.time_stamp, desc->flags);
		KUNIT_ASSERT_EQ(test, braid_page_next(&c, &view), 1);
		KUNIT_ASSERT_EQ(test, view.type, BRAID_TYPE_TIME_STAMP);
		KUNIT_EXPECT_EQ(test, view.time, span.time_stamp);
		/* The pair is up to a second old, and NTP may have adjusted the clock since. */
		KUNIT_EXPECT_GE(test, view.external_ns, from - NSEC_PER_MSEC);
		KUNIT_EXPECT_LE(test, view.external_ns, to + NSEC_PER_MSEC);
		stamps++;
	}
	KUNIT_EXPECT_GT(test, stamps, 2);
}

/* A ring that was reset continues to have pairs. */
static void clock_stamps_pages_after_reset(struct kunit *test)
{
	struct braid_buffer *buffer = braid_case_alloc(test, "b", 16 << 10, BRAID_ALLOC_RAW, NULL);
	const struct braid_writer *w = braid_buffer_writer(buffer, 0);
	u64 value = 1;

	KUNIT_EXPECT_EQ(test, braid_buffer_write(buffer, sizeof(value), &value), 0);
	KUNIT_EXPECT_EQ(test, braid_tail_offset(w, w->tail) * 4, BRAID_STAMP_BYTES + 12);
	KUNIT_ASSERT_EQ(test, braid_buffer_reset(buffer), 0);
	KUNIT_EXPECT_EQ(test, braid_buffer_write(buffer, sizeof(value), &value), 0);
	KUNIT_EXPECT_EQ(test, braid_tail_offset(w, w->tail) * 4, BRAID_STAMP_BYTES + 12);
	KUNIT_EXPECT_EQ(test, braid_buffer_entries(buffer), 1);
}

static struct kunit_case clock_cases[] = {
	KUNIT_CASE(clock_polls),
	KUNIT_CASE(clock_burst_is_answered),
	KUNIT_CASE(clock_burst_for_missing_vcpu),
	KUNIT_CASE(clock_burst_restores_affinity),
	KUNIT_CASE(clock_burst_for_offline),
	KUNIT_CASE(clock_wall),
	KUNIT_CASE(clock_uses_host_answer),
	KUNIT_CASE(clock_stamps_pages),
	KUNIT_CASE(clock_stamps_pages_after_reset),
	{}
};

static struct kunit_suite clock_suite = {
	.name = "clock",
	.init = braid_case_init,
	.exit = braid_case_exit,
	.test_cases = clock_cases,
};
kunit_test_suite(clock_suite);
