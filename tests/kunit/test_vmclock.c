// SPDX-License-Identifier: GPL-2.0
/* vmclock pages, right and wrong ones, and what of them the host sees. */
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/ktime.h>

#include "guest_driver/clock/vmclock.h"
#include "guest_driver/core/counter.h"
#include "tests/kunit/rooms.h"

#define PATIENCE	(10 * HZ)
#define GHZ_PERIOD	18446744074ULL	/* of 1 GHz, in s / 2^64, rounded up */

/* What a hypervisor provides. */
static struct braid_vmclock_page page;

static const struct braid_vmclock_page right = {
	.magic = BRAID_VMCLOCK_MAGIC, .size = sizeof(page), .version = BRAID_VMCLOCK_VERSION,
	.counter_id = BRAID_VMCLOCK_TSC, .time_type = BRAID_VM_TAI, .seq_count = 6,
	.disruption_marker = 41, .clock_status = BRAID_VM_SYNCHRONIZED,
	.flags = BRAID_VMCLOCK_TIME_MAXERROR | BRAID_VMCLOCK_PERIOD_MAXERROR |
		 BRAID_VMCLOCK_GENERATION,
	.counter_value = 5000, .period = GHZ_PERIOD, .period_maxerror = GHZ_PERIOD / 1000,
	.time_sec = 1700000000, .time_frac = 1ULL << 63, .time_maxerror_ns = 100, .generation = 9,
};

static struct braid_clock_cells *cells(void)
{
	const struct braid_superblock *sb = braid_fake_memory();

	return braid_fake_memory() + sb->sections[BRAID_SECTION_CLOCK].offset;
}

/* A copy of the cells after two polls that began after this call. */
static struct braid_clock_cells await_polls(struct kunit *test)
{
	u32 seq = (braid_load_acquire(&cells()->poll_seq) | 1) + 1, at;
	unsigned long end = jiffies + PATIENCE;
	struct braid_clock_cells copy;

	do {
		usleep_range(500, 1000);
		at = braid_load_acquire(&cells()->poll_seq);
		memcpy(&copy, cells(), sizeof(copy));
		braid_fence();
	} while ((at & 1 || (s32)(at - seq) < 4 || at != READ_ONCE(cells()->poll_seq)) &&
		 time_before(jiffies, end));
	KUNIT_EXPECT_GE(test, (s32)(at - seq), 4);
	return copy;
}

static int vmclock_case_init(struct kunit *test)
{
	page = right;
	return braid_case_init(test);
}

static void vmclock_case_exit(struct kunit *test)
{
	braid_case_exit(test);		/* ends the thread that reads the page */
	braid_vmclock_use(NULL, 0);
}

static void vmclock_refuses_pages(struct kunit *test)
{
	struct braid_vmclock now;

	KUNIT_EXPECT_EQ(test, braid_vmclock_use(NULL, 0), 0);
	KUNIT_EXPECT_FALSE(test, braid_vmclock_is_there());
	KUNIT_EXPECT_FALSE(test, braid_vmclock_take(&now));
	KUNIT_EXPECT_EQ(test, braid_vmclock_use(&page, 103), -EINVAL);
	KUNIT_EXPECT_EQ(test, braid_vmclock_use(&page, sizeof(page) - 1), -EINVAL);
	page.magic++;
	KUNIT_EXPECT_EQ(test, braid_vmclock_use(&page, sizeof(page)), -EINVAL);
	page = right;
	page.version = 2;
	KUNIT_EXPECT_EQ(test, braid_vmclock_use(&page, sizeof(page)), -EINVAL);
	page = right;
	page.size = 103;
	KUNIT_EXPECT_EQ(test, braid_vmclock_use(&page, sizeof(page)), -EINVAL);
	page.size = ~0u;
	KUNIT_EXPECT_EQ(test, braid_vmclock_use(&page, sizeof(page)), -EINVAL);
	KUNIT_EXPECT_FALSE(test, braid_vmclock_is_there());
	KUNIT_EXPECT_FALSE(test, braid_vmclock_take(&now));
	page = right;
	KUNIT_EXPECT_EQ(test, braid_vmclock_use(&page, sizeof(page)), 0);
	KUNIT_EXPECT_TRUE(test, braid_vmclock_is_there());
}

/* An edition that ends before the generation, whatever its flags say. */
static void vmclock_takes_first_edition(struct kunit *test)
{
	struct braid_vmclock now;

	page.size = 104;
	KUNIT_ASSERT_EQ(test, braid_vmclock_use(&page, 104), 0);
	KUNIT_ASSERT_TRUE(test, braid_vmclock_take(&now));
	KUNIT_EXPECT_EQ(test, now.marker, 41);
	KUNIT_EXPECT_EQ(test, now.flags & BRAID_VM_GENERATION, 0);
	KUNIT_EXPECT_EQ(test, now.generation, 0);
}

static void vmclock_evaluates(struct kunit *test)
{
	struct braid_vmclock now;

	braid_vmclock_evaluate(&right, BRAID_VMCLOCK_TSC, 5000 + 750 * (u64)NSEC_PER_MSEC, &now);
	KUNIT_EXPECT_EQ(test, now.flags, BRAID_VM_TIME | BRAID_VM_BOUND | BRAID_VM_GENERATION);
	KUNIT_EXPECT_EQ(test, now.time_ns, 1700000001ULL * NSEC_PER_SEC + 250 * NSEC_PER_MSEC);
	/* A thousandth of 750 ms, and what the pair itself may be off. */
	KUNIT_EXPECT_GE(test, now.bound_ns, 750100);
	KUNIT_EXPECT_LE(test, now.bound_ns, 750103);
	KUNIT_EXPECT_EQ(test, now.marker, 41);
	KUNIT_EXPECT_EQ(test, now.generation, 9);
	KUNIT_EXPECT_EQ(test, now.time_type, BRAID_VM_TAI);
	KUNIT_EXPECT_EQ(test, now.status, BRAID_VM_SYNCHRONIZED);
	page.period <<= 20;
	page.period_maxerror <<= 20;
	page.period_shift = 20;
	braid_vmclock_evaluate(&page, BRAID_VMCLOCK_TSC, 5000 + 750 * (u64)NSEC_PER_MSEC, &now);
	KUNIT_EXPECT_EQ(test, now.time_ns, 1700000001ULL * NSEC_PER_SEC + 250 * NSEC_PER_MSEC);
	KUNIT_EXPECT_LE(test, now.bound_ns, 750103);
}

#define EXPECT_FLAGS(wanted, counter, change)						\
	do {										\
		page = right;								\
		change;									\
		braid_vmclock_evaluate(&page, BRAID_VMCLOCK_TSC, counter, &now);	\
		KUNIT_EXPECT_EQ_MSG(test, now.flags & ~BRAID_VM_GENERATION, wanted, #change); \
		KUNIT_EXPECT_EQ(test, now.marker, 41);					\
	} while (0)

/* The marker is there whatever the page says of time; a time or a bound only where it holds. */
static void vmclock_doubts_times(struct kunit *test)
{
	const u64 soon = 5000 + NSEC_PER_SEC;
	struct braid_vmclock now;

	EXPECT_FLAGS(0, soon, page.counter_id = BRAID_VMCLOCK_NONE);	/* QEMU 11 */
	EXPECT_FLAGS(0, soon, page.counter_id = BRAID_VMCLOCK_CNTVCT);
	EXPECT_FLAGS(0, soon, page.time_type = 3);		/* smeared */
	EXPECT_FLAGS(0, soon, page.time_type = 255);
	EXPECT_FLAGS(0, soon, page.clock_status = BRAID_VM_INITIALIZING);
	EXPECT_FLAGS(0, soon, page.clock_status = BRAID_VM_UNRELIABLE);
	EXPECT_FLAGS(0, soon, page.clock_status = 200);
	EXPECT_FLAGS(0, soon, page.period = 0);
	EXPECT_FLAGS(0, soon, page.period_shift = 64);
	EXPECT_FLAGS(0, soon, page.period_shift = 255);
	EXPECT_FLAGS(0, soon, page.time_sec = ~0ULL);
	EXPECT_FLAGS(0, soon, page.time_sec = S64_MAX / NSEC_PER_SEC);
	EXPECT_FLAGS(0, 4999, page.time_sec++);			/* before the pair */
	EXPECT_FLAGS(0, ~0ULL >> 1, page.period = ~0ULL);
	EXPECT_FLAGS(BRAID_VM_TIME, soon, page.flags &= ~BRAID_VMCLOCK_TIME_MAXERROR);
	EXPECT_FLAGS(BRAID_VM_TIME, soon, page.flags &= ~BRAID_VMCLOCK_PERIOD_MAXERROR);
	EXPECT_FLAGS(BRAID_VM_TIME, soon, page.time_maxerror_ns = ~0ULL);
	EXPECT_FLAGS(BRAID_VM_TIME, ~0ULL >> 2, page.period_maxerror = ~0ULL);
	EXPECT_FLAGS(BRAID_VM_TIME | BRAID_VM_BOUND, soon, page.clock_status = BRAID_VM_UNKNOWN);
	EXPECT_FLAGS(BRAID_VM_TIME | BRAID_VM_BOUND, soon,
		     page.clock_status = BRAID_VM_FREERUNNING);
	page = right;
	braid_vmclock_evaluate(&page, BRAID_VMCLOCK_NONE, soon, &now);
	KUNIT_EXPECT_EQ(test, now.flags, BRAID_VM_GENERATION);
}

/* A hypervisor that never finishes a change: polls go on, without a marker. */
static void vmclock_never_stable(struct kunit *test)
{
	struct braid_clock_cells found;
	struct braid_vmclock now;
	u64 marker;
	u32 seq;

	page.seq_count = 7;
	KUNIT_ASSERT_EQ(test, braid_vmclock_use(&page, sizeof(page)), 0);
	KUNIT_EXPECT_FALSE(test, braid_vmclock_begin(&seq, &marker));
	KUNIT_EXPECT_FALSE(test, braid_vmclock_take(&now));
	found = await_polls(test);
	KUNIT_EXPECT_EQ(test, found.poll_flags, 0);
	KUNIT_EXPECT_EQ(test, found.poll_marker, 0);
	KUNIT_EXPECT_EQ(test, found.vm_seq, 0);
	WRITE_ONCE(page.seq_count, 8);
	KUNIT_EXPECT_TRUE(test, braid_vmclock_begin(&seq, &marker));
	KUNIT_EXPECT_TRUE(test, braid_vmclock_held(seq));
	WRITE_ONCE(page.seq_count, 9);
	KUNIT_EXPECT_FALSE(test, braid_vmclock_held(seq));
	WRITE_ONCE(page.seq_count, 10);
	KUNIT_EXPECT_FALSE(test, braid_vmclock_held(seq));
}

/* Each poll has the marker; a change is counted, and published at once. */
static void vmclock_in_cells(struct kunit *test)
{
	struct braid_clock_cells found = await_polls(test);
	u64 before;

	KUNIT_EXPECT_EQ(test, found.poll_flags, 0);
	KUNIT_ASSERT_EQ(test, braid_vmclock_use(&page, sizeof(page)), 0);
	found = await_polls(test);
	KUNIT_EXPECT_EQ(test, found.poll_flags, BRAID_POLL_MARKER);
	KUNIT_EXPECT_EQ(test, found.poll_marker, 41);
	before = braid_counter_ordered();
	WRITE_ONCE(page.seq_count, 7);
	WRITE_ONCE(page.disruption_marker, 42);
	braid_store_release(&page.seq_count, 8);
	found = await_polls(test);
	KUNIT_EXPECT_EQ(test, found.poll_flags, BRAID_POLL_MARKER);
	KUNIT_EXPECT_EQ(test, found.poll_marker, 42);
	KUNIT_EXPECT_EQ(test, found.vm_marker, 42);
	KUNIT_EXPECT_EQ(test, found.vm_changes, 1);
	KUNIT_EXPECT_GE(test, found.vm_counter, before);
	KUNIT_EXPECT_EQ(test, found.vm_seq & 1, 0);
	KUNIT_EXPECT_EQ(test, found.vm_flags & BRAID_VM_GENERATION, BRAID_VM_GENERATION);
	KUNIT_EXPECT_EQ(test, found.vm_generation, 9);
	KUNIT_EXPECT_EQ(test, found.vm_time_type, BRAID_VM_TAI);
	KUNIT_EXPECT_EQ(test, found.vm_status, BRAID_VM_SYNCHRONIZED);
}

static struct kunit_case vmclock_cases[] = {
	KUNIT_CASE(vmclock_refuses_pages),
	KUNIT_CASE(vmclock_takes_first_edition),
	KUNIT_CASE(vmclock_evaluates),
	KUNIT_CASE(vmclock_doubts_times),
	KUNIT_CASE(vmclock_never_stable),
	KUNIT_CASE(vmclock_in_cells),
	{}
};

static struct kunit_suite vmclock_suite = {
	.name = "vmclock",
	.init = vmclock_case_init,
	.exit = vmclock_case_exit,
	.test_cases = vmclock_cases,
};
kunit_test_suite(vmclock_suite);
