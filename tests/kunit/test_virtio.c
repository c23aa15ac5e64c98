// SPDX-License-Identifier: GPL-2.0
/* The virtio driver with a correct device, with faulty ones, and with devices of other kinds. */
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
	fake->config.region_bytes = cpu_to_le64(BRAID_TEST_BYTES);
	fake->config.chunks_max = cpu_to_le32(BRAID_FAKE_CHUNKS);
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

/* Of all announced chunks; checks each one. */
static u64 announced_bytes(struct kunit *test)
{
	u64 bytes = 0;
	u32 k;

	for (k = 0; k < fake->nr_chunks; k++) {
		KUNIT_EXPECT_EQ(test, le64_to_cpu(fake->chunks[k].address) % BRAID_PAGE_BYTES, 0);
		KUNIT_EXPECT_EQ(test, le64_to_cpu(fake->chunks[k].bytes) % BRAID_PAGE_BYTES, 0);
		KUNIT_EXPECT_GT(test, le64_to_cpu(fake->chunks[k].bytes), 0);
		bytes += le64_to_cpu(fake->chunks[k].bytes);
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

static struct page *page_of(const struct braid_virtio_chunk *chunk, u64 k)
{
	return pfn_to_page(PHYS_PFN(le64_to_cpu(chunk->address)) + k);
}

static u64 nr_pages(const struct braid_virtio_chunk *chunk)
{
	return le64_to_cpu(chunk->bytes) >> PAGE_SHIFT;
}

/* The driver holds each page by itself, and nobody else does. */
static void each_page_is_held(struct kunit *test)
{
	u64 k;
	u32 chunk;

	for (chunk = 0; chunk < fake->nr_chunks; chunk++)
		for (k = 0; k < nr_pages(&fake->chunks[chunk]); k++)
			KUNIT_ASSERT_EQ(test, page_count(page_of(&fake->chunks[chunk], k)), 1);
}

/* A page that a user of a mapping holds is not freed with the others. */
static void virtio_page_outlives(struct kunit *test)
{
	struct page *page;

	KUNIT_ASSERT_TRUE(test, braid_fake_virtio_plug());
	each_page_is_held(test);
	KUNIT_ASSERT_GT(test, nr_pages(&fake->chunks[0]), 1);
	page = page_of(&fake->chunks[0], 1);
	get_page(page);
	braid_fake_virtio_unplug();
	KUNIT_EXPECT_EQ(test, fake->revoked, 1);
	KUNIT_EXPECT_EQ(test, page_count(page), 1);
	put_page(page);
}

/* Pages that the device does not return stay allocated: the driver does not free them. */
static void free_lost_pages(struct kunit *test)
{
	u64 k;
	u32 chunk;

	KUNIT_EXPECT_EQ(test, superblock()->state, BRAID_STATE_DOWN);
	each_page_is_held(test);
	for (chunk = 0; chunk < fake->nr_chunks; chunk++)
		for (k = 0; k < nr_pages(&fake->chunks[chunk]); k++)
			__free_page(page_of(&fake->chunks[chunk], k));
}

static void virtio_unanswered(struct kunit *test)
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

/* Removed while asleep: its queues no longer exist, nor do unanswered requests. */
static void virtio_unanswered_sleeps(struct kunit *test)
{
	fake->deaf = true;
	KUNIT_ASSERT_TRUE(test, braid_fake_virtio_plug());
	KUNIT_ASSERT_EQ(test, braid_fake_virtio_freeze(), 0);
	braid_fake_virtio_unplug();
	KUNIT_EXPECT_EQ(test, fake->revoked, 1);
	free_lost_pages(test);
}

/* The device does not wake: the driver stays bound and shares nothing. */
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

/* Memory of another transport is accepted as soon as the device's memory is released. */
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

/* Another range is in use: the driver requests the device's pages back and does not bind. */
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

/* Pages that the device could not read, or not by these addresses, are not announced. */
static void virtio_unreadable(struct kunit *test)
{
	fake->translated = true;
	none(test);
	fake->encrypted = true;
	none(test);
	fake->translated = false;
	none(test);
	fake->encrypted = false;
	KUNIT_EXPECT_TRUE(test, braid_fake_virtio_plug());
	KUNIT_EXPECT_EQ(test, fake->announced, 1);
}

static void virtio_configs(struct kunit *test)
{
	fake->legacy = true;
	none(test);
	fake->legacy = false;
	fake->config.chunks_max = 0;
	none(test);
	fake->config.chunks_max = cpu_to_le32(BRAID_FAKE_CHUNKS);
	fake->config.region_bytes_max = cpu_to_le64(BRAID_TEST_BYTES - 1);
	none(test);

	/* The driver announces no more than it wants, whatever size the device requests. */
	fake->config = (struct braid_virtio_config){
		.region_bytes = cpu_to_le64(~0ULL), .chunks_max = cpu_to_le32(1),
	};
	KUNIT_ASSERT_TRUE(test, braid_fake_virtio_plug());
	KUNIT_EXPECT_EQ(test, fake->nr_chunks, 1);
	braid_fake_virtio_unplug();
	fake->config = (struct braid_virtio_config){
		.region_bytes_max = cpu_to_le64(BRAID_TEST_BYTES + 4097),
		.chunks_max = cpu_to_le32(~0u),
	};
	KUNIT_ASSERT_TRUE(test, braid_fake_virtio_plug());
	KUNIT_EXPECT_EQ(test, announced_bytes(test), BRAID_TEST_BYTES + 4096);
	braid_fake_virtio_unplug();
}

/* Fills some sub-buffers; all queued doorbells have rung on return. */
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

/* Buffers are offered again after each use, whatever they contain, without a notification. */
static void virtio_notices(struct kunit *test)
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

		KUNIT_ASSERT_TRUE(test, braid_fake_virtio_notice(BRAID_VIRTIO_WAKE, 4));
		while (READ_ONCE(mailbox()->guest_heartbeat) == before && time_before(jiffies, end))
			usleep_range(50, 100);
	}
	/* More than the thread's own polls in this time. */
	KUNIT_EXPECT_LT(test, jiffies_to_msecs(jiffies - begin) / BRAID_POLL_MS, 100u);
	KUNIT_EXPECT_EQ(test, braid_fake_virtio_notified(), 0);
}

static struct kunit_case virtio_cases[] = {
	KUNIT_CASE(virtio_shares),
	KUNIT_CASE(virtio_page_outlives),
	KUNIT_CASE(virtio_unanswered),
	KUNIT_CASE(virtio_sleeps),
	KUNIT_CASE(virtio_unanswered_sleeps),
	KUNIT_CASE(virtio_does_not_wake),
	KUNIT_CASE(virtio_refused),
	KUNIT_CASE(virtio_second),
	KUNIT_CASE(virtio_unreadable),
	KUNIT_CASE(virtio_configs),
	KUNIT_CASE(virtio_rings),
	KUNIT_CASE(virtio_notices),
	{}
};

static struct kunit_suite virtio_suite = {
	.name = "virtio",
	.init = virtio_case_init,
	.exit = virtio_case_exit,
	.test_cases = virtio_cases,
};
kunit_test_suite(virtio_suite);
