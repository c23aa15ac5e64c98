// SPDX-License-Identifier: GPL-2.0
/* A region in the guest's own pages: its beacons, and who takes the place of whom. */
#include <linux/err.h>
#include <linux/io.h>
#include <linux/log2.h>
#include <linux/mm.h>

#include "guest_driver/attach.h"
#include "tests/kunit/fake_memory.h"
#include "tests/kunit/rooms.h"
#include "tracebraid/beacon.h"

#define MEMORY_MB	4
#define NR_CHUNKS	((MEMORY_MB << 20) / BRAID_BEACON_STEP)
#define SMALLEST_MB	(BRAID_BEACON_CHUNKS * BRAID_BEACON_MIN_PAGES * PAGE_SIZE >> 20)

static struct braid_fake_guest_memory *fake = &braid_fake_guest_memory;
static bool started;

static int memory_case_init(struct kunit *test)
{
	*fake = (struct braid_fake_guest_memory){ .most_chunks = ~0u, .most_order = ~0u };
	braid_fake_set_memory_mb(MEMORY_MB);
	started = false;
	return braid_case_init_unplugged(test);
}

static int start(bool until_device)
{
	int err = braid_memory_init(&braid_attach_client, until_device);

	started = !err;
	return err;
}

static void stop(void)
{
	if (started)
		braid_memory_exit();
	started = false;
}

static void memory_case_exit(struct kunit *test)
{
	braid_fake_unplug();
	stop();
	braid_case_exit(test);
}

static const struct braid_superblock *superblock(void)
{
	return braid_fake_memory_region();
}

static const struct braid_beacon *beacon(u32 chunk)
{
	return page_address(braid_fake_chunk(chunk));
}

/* As a host does. */
static void check_beacon(struct kunit *test, u32 k)
{
	const struct braid_beacon *b = beacon(k), *list = beacon(0);

	KUNIT_EXPECT_EQ(test, b->magic, BRAID_BEACON_MAGIC);
	KUNIT_EXPECT_EQ(test, b->version_major, BRAID_BEACON_VERSION_MAJOR);
	KUNIT_EXPECT_EQ(test, b->page_bytes, PAGE_SIZE);
	KUNIT_EXPECT_NE(test, b->nonce, 0);
	KUNIT_EXPECT_EQ(test, b->nonce, list->nonce);
	KUNIT_EXPECT_EQ(test, b->index, k);
	KUNIT_EXPECT_EQ(test, b->nr_chunks, braid_fake_nr_chunks());
	KUNIT_EXPECT_EQ(test, b->address, page_to_phys(braid_fake_chunk(k)));
	KUNIT_EXPECT_EQ(test, b->address % b->bytes, 0);
	KUNIT_EXPECT_TRUE(test, is_power_of_2(b->bytes));
	KUNIT_EXPECT_EQ(test, b->region_bytes, superblock()->region_bytes);
	KUNIT_EXPECT_EQ(test, list->chunks[k].address, b->address);
	KUNIT_EXPECT_EQ(test, list->chunks[k].bytes, b->bytes);
	KUNIT_EXPECT_TRUE(test, !k || !b->chunks[0].bytes);
}

/* Also that the region's pages are those behind the beacons, in order. */
static void check_region(struct kunit *test)
{
	const void *base = superblock();
	const char *wrong = braid_region_check(base, superblock()->region_bytes);
	u64 at = 0;
	u32 k, page;

	KUNIT_EXPECT_NULL_MSG(test, wrong, "%s", wrong);
	KUNIT_EXPECT_EQ(test, superblock()->state, BRAID_STATE_LIVE);
	for (k = 0; k < braid_fake_nr_chunks(); k++) {
		check_beacon(test, k);
		for (page = 1; page < beacon(k)->bytes >> PAGE_SHIFT; page++, at += PAGE_SIZE) {
			struct page *wanted = braid_fake_chunk(k) + page;

			KUNIT_ASSERT_PTR_EQ(test, vmalloc_to_page(base + at), wanted);
			KUNIT_ASSERT_EQ(test, page_count(wanted), 1);
		}
	}
	KUNIT_EXPECT_EQ(test, superblock()->region_bytes, at);
}

static u16 record(struct kunit *test, const char *name, u32 times)
{
	u16 id = braid_case_register(test, NULL, name, NULL);
	char payload[400] = "";

	while (times--)
		KUNIT_ASSERT_EQ(test, braid_record_event(NULL, id, sizeof(payload), payload), 0);
	return id;
}

static void memory_is_laid_out(struct kunit *test)
{
	u64 nonce = 0;
	int turn;

	for (turn = 0; turn < 2; turn++) {
		KUNIT_ASSERT_EQ(test, start(false), 0);
		KUNIT_EXPECT_EQ(test, braid_fake_nr_chunks(), NR_CHUNKS);
		check_region(test);
		KUNIT_EXPECT_NE(test, beacon(0)->nonce, nonce);
		nonce = beacon(0)->nonce;
		stop();
		KUNIT_EXPECT_EQ(test, braid_fake_nr_chunks(), 0);
	}
}

/* Nothing is taken out of a ring: a full one goes on, whatever the parameter says. */
static void memory_overwrites(struct kunit *test)
{
	const struct braid_buffer_desc *desc;

	KUNIT_ASSERT_EQ(test, start(false), 0);
	desc = &superblock()->buffers[braid_trace_buffer()->index];
	KUNIT_EXPECT_EQ(test, desc->flags, BRAID_BUFFER_OVERWRITE);
	record(test, "much", 2 * desc->nr_slots * desc->subbuf_bytes / 400);
}

/* Pieces of 2 MiB are used up. */
static void memory_in_small_chunks(struct kunit *test)
{
	u32 k;

	fake->most_order = get_order(BRAID_BEACON_STEP) - 1;
	KUNIT_ASSERT_EQ(test, start(false), 0);
	KUNIT_EXPECT_EQ(test, beacon(0)->bytes, BRAID_BEACON_STEP);
	KUNIT_EXPECT_EQ(test, braid_fake_nr_chunks(), 3);
	for (k = 1; k < braid_fake_nr_chunks(); k++)
		KUNIT_EXPECT_EQ(test, beacon(k)->bytes, BRAID_BEACON_STEP / 2);
	check_region(test);
	stop();
	fake->nr_allocated = 0;
	fake->most_order = ilog2(BRAID_BEACON_MIN_PAGES);
	KUNIT_ASSERT_EQ(test, start(false), 0);
	KUNIT_EXPECT_GT(test, braid_fake_nr_chunks(), 3);
	check_region(test);
}

static void memory_not_to_be_had(struct kunit *test)
{
	static const u32 chunks[] = { 0, 1, 5 };
	u32 k;

	fake->most_order = ilog2(BRAID_BEACON_MIN_PAGES);
	for (k = 0; k < ARRAY_SIZE(chunks); k++) {
		fake->most_chunks = chunks[k];
		fake->nr_allocated = 0;
		KUNIT_EXPECT_EQ(test, start(false), -ENOMEM);
		KUNIT_EXPECT_EQ(test, start(true), -ENOMEM);
		KUNIT_EXPECT_EQ(test, braid_fake_nr_chunks(), 0);
	}
	/* Too many of the smallest chunks: their list ends. */
	fake->most_chunks = ~0u;
	fake->nr_allocated = 0;
	braid_fake_set_memory_mb(SMALLEST_MB + 3);
	KUNIT_EXPECT_EQ(test, start(false), -ENOMEM);
	KUNIT_EXPECT_EQ(test, braid_fake_nr_chunks(), 0);
	fake->most_order = ~0u;
	braid_fake_set_memory_mb(1 << 20);
	KUNIT_EXPECT_EQ(test, start(false), -ENOMEM);
	KUNIT_EXPECT_FALSE(test, braid_attach_client.in_use());
}

static void memory_encrypted(struct kunit *test)
{
	fake->encrypted = true;
	KUNIT_EXPECT_EQ(test, start(false), -ENODEV);
	KUNIT_EXPECT_EQ(test, fake->nr_allocated, 0);
	KUNIT_EXPECT_EQ(test, start(true), 0);
	KUNIT_EXPECT_EQ(test, fake->nr_allocated, 0);
	KUNIT_EXPECT_FALSE(test, braid_attach_client.in_use());
}

/* A device's memory takes over, with the events that are enabled; what was the guest's is freed. */
static void memory_gives_way(struct kunit *test)
{
	const struct braid_superblock *there;
	struct page *page;
	u16 id;

	KUNIT_ASSERT_EQ(test, start(true), 0);
	id = record(test, "on", 1);
	page = braid_fake_chunk(0);
	get_page(page);			/* to look at its beacon when it was freed */
	KUNIT_ASSERT_EQ(test, braid_fake_make(BRAID_TEST_BYTES), 0);
	KUNIT_ASSERT_EQ(test, braid_fake_plug(), 0);
	there = braid_fake_memory();
	KUNIT_EXPECT_EQ(test, there->state, BRAID_STATE_LIVE);
	KUNIT_EXPECT_EQ(test, there->buffers[braid_trace_buffer()->index].flags, 0);
	KUNIT_EXPECT_EQ(test, braid_record_event(NULL, id, 0, NULL), 0);
	braid_fake_settle();
	KUNIT_EXPECT_EQ(test, braid_fake_nr_chunks(), 0);
	KUNIT_EXPECT_EQ(test, ((struct braid_beacon *)page_address(page))->magic, 0);
	put_page(page);
	/* It takes over once only. */
	braid_fake_unplug();
	braid_fake_sleep(true);
	braid_fake_sleep(false);
	KUNIT_EXPECT_FALSE(test, braid_attach_client.in_use());
	KUNIT_ASSERT_EQ(test, braid_fake_plug(), 0);
	stop();
	KUNIT_EXPECT_EQ(test, there->state, BRAID_STATE_LIVE);
}

/* A device that can't be used takes nothing over. */
static void memory_keeps_its_place(struct kunit *test)
{
	u64 incarnation;

	KUNIT_ASSERT_EQ(test, start(true), 0);
	incarnation = superblock()->incarnation;
	KUNIT_ASSERT_EQ(test, braid_fake_make(1 << 20), 0);
	KUNIT_EXPECT_EQ(test, braid_fake_plug(), -ENOSPC);
	braid_fake_free();
	KUNIT_ASSERT_EQ(test, braid_fake_make(BRAID_TEST_BYTES), 0);
	braid_fake_unmark();
	KUNIT_EXPECT_EQ(test, braid_fake_plug(), -ENODEV);
	braid_fake_free();
	KUNIT_EXPECT_EQ(test, superblock()->incarnation, incarnation);
	check_region(test);
	stop();
	/* Nor does a usable one, if only this memory is wanted. */
	KUNIT_ASSERT_EQ(test, start(false), 0);
	KUNIT_ASSERT_EQ(test, braid_fake_make(BRAID_TEST_BYTES), 0);
	KUNIT_EXPECT_EQ(test, braid_fake_plug(), -ENODEV);
	check_region(test);
}

static void memory_reboots(struct kunit *test)
{
	u64 written;

	KUNIT_ASSERT_EQ(test, start(false), 0);
	record(test, "last", 10);
	written = braid_buffer_entries(braid_trace_buffer());
	KUNIT_EXPECT_EQ(test, written, 10);
	braid_fake_reboot();
	KUNIT_EXPECT_EQ(test, superblock()->state, BRAID_STATE_DOWN);
	KUNIT_EXPECT_FALSE(test, braid_attach_client.in_use());
	check_beacon(test, 0);
	braid_fake_reboot();
}

static void memory_sleeps(struct kunit *test)
{
	u64 nonce, incarnation;
	u16 id;

	KUNIT_ASSERT_EQ(test, start(false), 0);
	id = record(test, "on", 1);
	nonce = beacon(0)->nonce;
	incarnation = superblock()->incarnation;
	braid_fake_sleep(true);
	KUNIT_EXPECT_EQ(test, superblock()->state, BRAID_STATE_DOWN);
	check_beacon(test, 0);
	KUNIT_EXPECT_EQ(test, braid_record_event(NULL, id, 0, NULL), -EAGAIN);
	braid_fake_sleep(false);
	check_region(test);
	KUNIT_EXPECT_EQ(test, beacon(0)->nonce, nonce);
	KUNIT_EXPECT_NE(test, superblock()->incarnation, incarnation);
	KUNIT_EXPECT_EQ(test, braid_record_event(NULL, id, 0, NULL), 0);
}

static struct kunit_case memory_cases[] = {
	KUNIT_CASE(memory_is_laid_out),
	KUNIT_CASE(memory_overwrites),
	KUNIT_CASE(memory_in_small_chunks),
	KUNIT_CASE(memory_not_to_be_had),
	KUNIT_CASE(memory_encrypted),
	KUNIT_CASE(memory_gives_way),
	KUNIT_CASE(memory_keeps_its_place),
	KUNIT_CASE(memory_reboots),
	KUNIT_CASE(memory_sleeps),
	{}
};

static struct kunit_suite memory_suite = {
	.name = "memory",
	.init = memory_case_init,
	.exit = memory_case_exit,
	.test_cases = memory_cases,
};
kunit_test_suite(memory_suite);
