// SPDX-License-Identifier: GPL-2.0
/* The virtio driver, before a device that obeys, one that does not, and some that are none. */
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/sched.h>

#include "guest_driver/attach.h"
#include "tests/kunit/fake_virtio.h"
#include "tests/kunit/rooms.h"

#define PATIENCE	(10 * HZ)

static struct braid_fake_virtio *fake = &braid_fake_virtio;

static int virtio_case_init(struct kunit *test)
{
	int err = braid_case_init_unplugged(test);

	memset(fake, 0, sizeof(*fake));
	fake->config.region_bytes = BRAID_TEST_BYTES;
	fake->config.chunks_max = BRAID_FAKE_CHUNKS;
	fake->result_bytes = sizeof(struct braid_virtio_status);
	return err ?: braid_virtio_ops.init(&braid_attach_client);
}

static void virtio_case_exit(struct kunit *test)
{
	braid_fake_virtio_unplug();
	braid_virtio_ops.exit();
	braid_case_exit(test);
}

static struct braid_superblock *superblock(void)
{
	return braid_fake_virtio_region();
}

static struct braid_mailbox *mailbox(void)
{
	return (void *)superblock() + superblock()->sections[BRAID_SECTION_MAILBOX].offset;
}

/* Of what was announced; each chunk as it must be. */
static u64 announced_bytes(struct kunit *test)
{
	u64 bytes = 0;
	u32 k;

	for (k = 0; k < fake->nr_chunks; k++) {
		KUNIT_EXPECT_EQ(test, fake->chunks[k].address % BRAID_PAGE_BYTES, 0);
		KUNIT_EXPECT_EQ(test, fake->chunks[k].bytes % BRAID_PAGE_BYTES, 0);
		KUNIT_EXPECT_GT(test, fake->chunks[k].bytes, 0);
		bytes += fake->chunks[k].bytes;
	}
	return bytes;
}

static void virtio_shares(struct kunit *test)
{
	int turn;

	for (turn = 1; turn <= 2; turn++) {
		KUNIT_ASSERT_TRUE(test, braid_fake_virtio_plug());
		KUNIT_EXPECT_EQ(test, fake->announced, turn);
		KUNIT_EXPECT_EQ(test, announced_bytes(test), BRAID_TEST_BYTES);
		KUNIT_EXPECT_EQ(test, superblock()->magic, BRAID_MAGIC);
		KUNIT_EXPECT_EQ(test, superblock()->state, BRAID_STATE_LIVE);
		KUNIT_EXPECT_EQ(test, superblock()->region_bytes, BRAID_TEST_BYTES);
		braid_fake_virtio_unplug();
		KUNIT_EXPECT_EQ(test, fake->revoked, turn);
		KUNIT_EXPECT_EQ(test, fake->state_at_revoke, BRAID_STATE_DOWN);
	}
}

/* Whoever does not give the pages back keeps them: they are nobody else's afterwards. */
static void free_lost_pages(struct kunit *test)
{
	u32 k;

	KUNIT_EXPECT_EQ(test, superblock()->state, BRAID_STATE_DOWN);
	for (k = 0; k < fake->nr_chunks; k++) {
		struct page *page = pfn_to_page(PHYS_PFN(fake->chunks[k].address));

		KUNIT_ASSERT_EQ(test, page_count(page), 1);
		__free_pages(page, get_order(fake->chunks[k].bytes));
	}
}

static void virtio_deaf(struct kunit *test)
{
	fake->deaf = true;
	KUNIT_ASSERT_TRUE(test, braid_fake_virtio_plug());
	braid_fake_virtio_unplug();
	KUNIT_EXPECT_EQ(test, fake->revoked, 1);
	free_lost_pages(test);
}

static void virtio_sleeps(struct kunit *test)
{
	int turn;

	KUNIT_ASSERT_TRUE(test, braid_fake_virtio_plug());
	for (turn = 1; turn <= 2; turn++) {
		KUNIT_ASSERT_EQ(test, braid_fake_virtio_freeze(), 0);
		KUNIT_EXPECT_EQ(test, fake->revoked, turn);
		KUNIT_EXPECT_EQ(test, fake->state_at_revoke, BRAID_STATE_DOWN);
		KUNIT_ASSERT_EQ(test, braid_fake_virtio_restore(), 0);
		KUNIT_EXPECT_EQ(test, fake->announced, turn + 1);
		KUNIT_EXPECT_EQ(test, superblock()->state, BRAID_STATE_LIVE);
	}
}

/* It goes while it sleeps: its queues are gone, and with them what it has not answered. */
static void virtio_deaf_sleeps(struct kunit *test)
{
	fake->deaf = true;
	KUNIT_ASSERT_TRUE(test, braid_fake_virtio_plug());
	KUNIT_ASSERT_EQ(test, braid_fake_virtio_freeze(), 0);
	braid_fake_virtio_unplug();
	KUNIT_EXPECT_EQ(test, fake->revoked, 1);
	free_lost_pages(test);
}

/* It does not wake: the driver stays with it, and shares nothing. */
static void virtio_does_not_wake(struct kunit *test)
{
	KUNIT_ASSERT_TRUE(test, braid_fake_virtio_plug());
	KUNIT_ASSERT_EQ(test, braid_fake_virtio_freeze(), 0);
	fake->no_queues = true;
	KUNIT_EXPECT_EQ(test, braid_fake_virtio_restore(), -ENOENT);
	KUNIT_EXPECT_EQ(test, braid_fake_virtio_freeze(), 0);
	KUNIT_EXPECT_EQ(test, fake->announced, 1);
	fake->no_queues = false;
	KUNIT_EXPECT_EQ(test, braid_fake_virtio_restore(), 0);
	KUNIT_EXPECT_EQ(test, fake->announced, 2);
	KUNIT_EXPECT_EQ(test, superblock()->state, BRAID_STATE_LIVE);
	KUNIT_EXPECT_EQ(test, braid_fake_virtio_freeze(), 0);
	fake->no_queues = true;
	KUNIT_EXPECT_EQ(test, braid_fake_virtio_restore(), -ENOENT);
	braid_fake_virtio_unplug();
	KUNIT_EXPECT_EQ(test, fake->revoked, 2);
}

/* The memory that another transport delivers is taken as soon as the device's is let go. */
static int await_freedom(void)
{
	unsigned long end = jiffies + PATIENCE;
	int err;

	while ((err = braid_fake_plug()) && time_before(jiffies, end))
		usleep_range(5000, 10000);
	return err;
}

static void refused_with(struct kunit *test, u32 result, u32 bytes)
{
	fake->refuse = true;
	fake->result = result;
	fake->result_bytes = bytes;
	KUNIT_ASSERT_TRUE(test, braid_fake_virtio_plug());
	KUNIT_ASSERT_EQ(test, braid_fake_make(BRAID_TEST_BYTES), 0);
	KUNIT_EXPECT_EQ(test, await_freedom(), 0);
	braid_fake_free();
	braid_fake_virtio_unplug();
	KUNIT_EXPECT_EQ(test, fake->revoked, 0);
}

static void virtio_refused(struct kunit *test)
{
	u32 result;

	for (result = BRAID_VIRTIO_OK; result <= BRAID_VIRTIO_REFUSED + 1; result++)
		refused_with(test, result, sizeof(struct braid_virtio_status));
	refused_with(test, ~0u, 1000);
	refused_with(test, 0, 0);
}

/* One range is in use: the device's pages are asked back, and its driver steps back. */
static void virtio_second(struct kunit *test)
{
	KUNIT_ASSERT_EQ(test, braid_fake_make(BRAID_TEST_BYTES), 0);
	KUNIT_ASSERT_EQ(test, braid_fake_plug(), 0);
	KUNIT_EXPECT_FALSE(test, braid_fake_virtio_plug());
	KUNIT_EXPECT_EQ(test, fake->announced, 1);
	KUNIT_EXPECT_EQ(test, fake->revoked, 1);
}

static void none(struct kunit *test)
{
	KUNIT_EXPECT_FALSE(test, braid_fake_virtio_plug());
	KUNIT_EXPECT_EQ(test, fake->announced, 0);
	braid_fake_virtio_unplug();
}

static void virtio_configs(struct kunit *test)
{
	fake->legacy = true;
	none(test);
	fake->legacy = false;
	fake->config.chunks_max = 0;
	none(test);
	fake->config.chunks_max = BRAID_FAKE_CHUNKS;
	fake->config.region_bytes_max = BRAID_TEST_BYTES - 1;
	none(test);

	/* What it does not want is not announced, however much was asked for. */
	fake->config = (struct braid_virtio_config){ .region_bytes = ~0ULL, .chunks_max = 1 };
	KUNIT_ASSERT_TRUE(test, braid_fake_virtio_plug());
	KUNIT_EXPECT_EQ(test, fake->nr_chunks, 1);
	braid_fake_virtio_unplug();
	fake->config = (struct braid_virtio_config){
		.region_bytes_max = BRAID_TEST_BYTES + 4097, .chunks_max = ~0u,
	};
	KUNIT_ASSERT_TRUE(test, braid_fake_virtio_plug());
	KUNIT_EXPECT_EQ(test, announced_bytes(test), BRAID_TEST_BYTES + 4096);
	braid_fake_virtio_unplug();
}

/* Fills some sub-buffers; what was to be rung has rung on return. */
static void make_noise(struct kunit *test, u16 id)
{
	char payload[400] = "";
	u32 k;

	for (k = 0; k < 30; k++)
		KUNIT_EXPECT_EQ(test, braid_record_event(NULL, id, sizeof(payload), payload), 0);
	schedule_timeout_uninterruptible(2);
}

static void virtio_rings(struct kunit *test)
{
	u16 id;

	KUNIT_ASSERT_TRUE(test, braid_fake_virtio_plug());
	id = braid_case_register(test, NULL, "loud", NULL);
	make_noise(test, id);
	KUNIT_EXPECT_EQ(test, braid_fake_virtio_notified(), 0);
	mailbox()->wake_permille = 1;
	mailbox()->wake_doorbell = 1;
	braid_store_release(&mailbox()->wake_seq, 1);
	make_noise(test, id);
	make_noise(test, id);
	KUNIT_EXPECT_EQ(test, braid_fake_virtio_notified(), 1);
}

/* Buffers come back however often they are used, whatever is in them, and nobody is notified of it. */
static void virtio_looks(struct kunit *test)
{
	unsigned long begin, end;
	u32 offered, k;

	KUNIT_ASSERT_TRUE(test, braid_fake_virtio_plug());
	offered = braid_fake_virtio_offered();
	KUNIT_ASSERT_GT(test, offered, 0);
	for (k = 0; k < 1000; k++) {
		KUNIT_ASSERT_TRUE(test, braid_fake_virtio_notice(k % 7, k % 9));
		KUNIT_ASSERT_EQ(test, braid_fake_virtio_offered(), offered);
	}
	begin = jiffies;
	end = begin + PATIENCE;
	for (k = 0; k < 200; k++) {
		u64 before = READ_ONCE(mailbox()->guest_heartbeat);

		KUNIT_ASSERT_TRUE(test, braid_fake_virtio_notice(BRAID_VIRTIO_LOOK, 4));
		while (READ_ONCE(mailbox()->guest_heartbeat) == before && time_before(jiffies, end))
			usleep_range(50, 100);
	}
	/* More than its own polls would be in as long. */
	KUNIT_EXPECT_LT(test, jiffies_to_msecs(jiffies - begin) / BRAID_POLL_MS, 100u);
	KUNIT_EXPECT_EQ(test, braid_fake_virtio_notified(), 0);
}

static struct kunit_case virtio_cases[] = {
	KUNIT_CASE(virtio_shares),
	KUNIT_CASE(virtio_deaf),
	KUNIT_CASE(virtio_sleeps),
	KUNIT_CASE(virtio_deaf_sleeps),
	KUNIT_CASE(virtio_does_not_wake),
	KUNIT_CASE(virtio_refused),
	KUNIT_CASE(virtio_second),
	KUNIT_CASE(virtio_configs),
	KUNIT_CASE(virtio_rings),
	KUNIT_CASE(virtio_looks),
	{}
};

static struct kunit_suite virtio_suite = {
	.name = "virtio",
	.init = virtio_case_init,
	.exit = virtio_case_exit,
	.test_cases = virtio_cases,
};
kunit_test_suite(virtio_suite);
