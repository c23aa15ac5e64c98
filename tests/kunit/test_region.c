// SPDX-License-Identifier: GPL-2.0
/*
 * Memory that is added and removed: what is refused, what is kept, and what the host finds in it.
 */
#include <linux/err.h>

#include "guest_driver/core/stack.h"
#include "shared/region.h"
#include "shared/stack.h"
#include "tests/kunit/rooms.h"

#define PAGE	BRAID_PAGE_BYTES

static const struct braid_superblock *superblock(void)
{
	return braid_fake_memory();
}

static void make(struct kunit *test, u64 bytes)
{
	KUNIT_ASSERT_EQ(test, braid_fake_make(bytes), 0);
}

static void region_is_valid(struct kunit *test)
{
	const char *wrong;
	u64 incarnation;

	make(test, BRAID_TEST_BYTES);
	KUNIT_ASSERT_EQ(test, braid_fake_plug(), 0);
	wrong = braid_region_check(superblock(), BRAID_TEST_BYTES);
	KUNIT_EXPECT_NULL_MSG(test, wrong, "%s", wrong);
	KUNIT_EXPECT_EQ(test, superblock()->state, BRAID_STATE_LIVE);
	KUNIT_EXPECT_NE(test, superblock()->incarnation, 0);
	KUNIT_EXPECT_GT(test, superblock()->counter_hz, 0);
	KUNIT_EXPECT_STREQ(test, superblock()->buffers[0].name, "trace");
	incarnation = superblock()->incarnation;
	braid_fake_unplug();
	KUNIT_EXPECT_EQ(test, superblock()->state, BRAID_STATE_DOWN);
	KUNIT_ASSERT_EQ(test, braid_fake_plug(), 0);
	KUNIT_EXPECT_EQ(test, superblock()->state, BRAID_STATE_LIVE);
	KUNIT_EXPECT_NE(test, superblock()->incarnation, incarnation);
}

static void region_too_small(struct kunit *test)
{
	static const u64 sizes[] = { PAGE, 64 << 10, 1 << 20 };
	unsigned int k;

	for (k = 0; k < ARRAY_SIZE(sizes); k++) {
		make(test, sizes[k]);
		KUNIT_EXPECT_EQ_MSG(test, braid_fake_plug(), -ENOSPC, "%llu bytes", sizes[k]);
		KUNIT_EXPECT_EQ(test, superblock()->magic, 0);
		braid_fake_free();
	}
}

static void region_with_other_data(struct kunit *test)
{
	make(test, BRAID_TEST_BYTES);
	*((u8 *)braid_fake_memory() + 100) = 1;
	KUNIT_EXPECT_EQ(test, braid_fake_plug(), -EBUSY);
	KUNIT_EXPECT_EQ(test, superblock()->magic, 0);
	*((u8 *)braid_fake_memory() + 100) = 0;
	KUNIT_EXPECT_EQ(test, braid_fake_plug(), 0);
}

/*
 * Blank memory may belong to another device: it is used only with the host's mark or by the user's
 * parameter.
 */
static void region_without_a_mark(struct kunit *test)
{
	u64 mark = BRAID_MARK;

	make(test, BRAID_TEST_BYTES);
	braid_fake_unmark();
	KUNIT_EXPECT_EQ(test, braid_fake_plug(), -ENODEV);
	KUNIT_EXPECT_EQ(test, superblock()->magic, 0);
	KUNIT_EXPECT_NULL(test, memchr_inv(braid_fake_memory(), 0, BRAID_TEST_BYTES));
	memcpy(braid_fake_memory(), &mark, sizeof(mark));
	KUNIT_ASSERT_EQ(test, braid_fake_plug(), 0);
	KUNIT_EXPECT_EQ(test, superblock()->magic, BRAID_MAGIC);
	braid_fake_unplug();
	/* The magic number of a former region is as valid as the mark. */
	KUNIT_ASSERT_EQ(test, braid_fake_plug(), 0);
	braid_fake_free();
	make(test, BRAID_TEST_BYTES);
	KUNIT_EXPECT_EQ(test, braid_fake_plug(), 0);
}

static void region_second_is_refused(struct kunit *test)
{
	make(test, BRAID_TEST_BYTES);
	KUNIT_ASSERT_EQ(test, braid_fake_plug(), 0);
	KUNIT_EXPECT_EQ(test, braid_fake_plug(), -ENODEV);
	KUNIT_EXPECT_EQ(test, superblock()->state, BRAID_STATE_LIVE);
}

/* Without memory everything can be set up, and nothing is recorded. */
static void region_attached_late(struct kunit *test)
{
	struct braid_buffer *buffer = braid_case_alloc(test, "b", 4 * PAGE, 0, NULL);
	const struct braid_event_desc desc = { .system = "kunit", .name = "late" };
	int id = braid_register_event(buffer, 0, &desc);
	struct braid_item item;

	KUNIT_ASSERT_GT(test, id, 0);
	KUNIT_EXPECT_EQ(test, braid_buffer_size(buffer), 0);
	KUNIT_EXPECT_EQ(test, braid_record_event(buffer, id, 0, NULL), -EAGAIN);
	KUNIT_EXPECT_EQ(test, braid_buffer_reset(buffer), -ENODEV);
	KUNIT_EXPECT_EQ(test, braid_buffer_consume(buffer, 0, &item), -ENODEV);
	KUNIT_EXPECT_EQ(test, PTR_ERR(braid_buffer_read_start(buffer, 0)), -ENODEV);
	KUNIT_EXPECT_TRUE(test, braid_buffer_empty(buffer));
	KUNIT_EXPECT_EQ(test, braid_buffer_entries(buffer), 0);
	KUNIT_EXPECT_EQ(test, braid_buffer_resize(buffer, 8 * PAGE), 0);
	make(test, BRAID_TEST_BYTES);
	KUNIT_ASSERT_EQ(test, braid_fake_plug(), 0);
	KUNIT_EXPECT_EQ(test, braid_buffer_size(buffer), 8 * PAGE);
	braid_case_turn(test, buffer, id, true);
	KUNIT_EXPECT_EQ(test, braid_record_event(buffer, id, 0, NULL), 0);
	KUNIT_EXPECT_EQ(test, braid_buffer_entries(buffer), 1);
}

static void region_detached_and_attached(struct kunit *test)
{
	struct braid_buffer *buffer;
	unsigned int k;
	u64 value = 1;

	make(test, BRAID_TEST_BYTES);
	KUNIT_ASSERT_EQ(test, braid_fake_plug(), 0);
	buffer = braid_case_alloc(test, "b", 4 * PAGE, BRAID_ALLOC_RAW, NULL);
	for (k = 0; k < 5; k++) {
		KUNIT_EXPECT_EQ(test, braid_buffer_write(buffer, sizeof(value), &value), 0);
		KUNIT_EXPECT_EQ(test, braid_buffer_entries(buffer), 1);
		braid_fake_unplug();
		KUNIT_EXPECT_EQ(test, braid_buffer_write(buffer, sizeof(value), &value), -EAGAIN);
		KUNIT_EXPECT_EQ(test, braid_buffer_size(buffer), 0);
		KUNIT_ASSERT_EQ(test, braid_fake_plug(), 0);
		KUNIT_EXPECT_EQ(test, braid_buffer_size(buffer), 4 * PAGE);
	}
	braid_fake_unplug();
	braid_case_free(test, buffer);
	KUNIT_ASSERT_EQ(test, braid_fake_plug(), 0);
}

/* The host alone can read committed events after the guest has detached. */
static void region_is_read_by_the_host(struct kunit *test)
{
	const struct braid_buffer_desc *desc;
	struct braid_buffer *buffer;
	struct braid_event_view view;
	struct braid_ring_map map;
	struct braid_cursor c;
	struct braid_span span;
	struct braid_reader r;
	u64 value, seen = 0;

	make(test, BRAID_TEST_BYTES);
	KUNIT_ASSERT_EQ(test, braid_fake_plug(), 0);
	buffer = braid_case_alloc(test, "b", 4 * PAGE, BRAID_ALLOC_RAW, NULL);
	for (value = 1; value <= 700; value++)
		KUNIT_ASSERT_EQ(test, braid_buffer_write(buffer, sizeof(value), &value), 0);
	desc = &superblock()->buffers[buffer->index];
	KUNIT_EXPECT_STREQ(test, desc->name, "b");
	KUNIT_EXPECT_EQ(test, desc->flags, BRAID_BUFFER_RAW);
	braid_fake_unplug();
	braid_region_ring(desc, braid_fake_memory(), 0, &map);
	KUNIT_ASSERT_EQ(test, braid_reader_attach(&r, &map, superblock()->incarnation), 0);
	while (braid_reader_next(&r, &span) > 0) {
		braid_cursor_init(&c, span.data, span.to_bytes, span.time_stamp, desc->flags);
		while (braid_page_next(&c, &view) > 0) {
			if (view.type != BRAID_TYPE_DATA)
				continue;
			memcpy(&value, view.payload, sizeof(value));
			KUNIT_ASSERT_EQ(test, value, ++seen);
		}
		braid_reader_done(&r, &span, 0);
	}
	KUNIT_EXPECT_EQ(test, seen, 700);
}

/*
 * The table holds as many names as it has room for. Names without room are counted, addresses
 * without a name are not.
 */
static void region_counts_symbols(struct kunit *test)
{
	enum { ROOM = 64, NOTED = 100 };
	struct braid_symbol_table *table;
	struct braid_guest_region *region = kunit_kzalloc(test, sizeof(*region), GFP_KERNEL);
	unsigned int k;

	table = kunit_kzalloc(test, struct_size(table, entries, ROOM), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, region);
	KUNIT_ASSERT_NOT_NULL(test, table);
	region->symbols = table;
	region->nr_symbols = ROOM;
	KUNIT_ASSERT_EQ(test, braid_symbol_start(region), 0);
	preempt_disable();
	for (k = 0; k < 3 * NOTED; k++)
		braid_symbol_note((unsigned long)region_counts_symbols + k % NOTED);
	braid_symbol_note(1);
	preempt_enable();
	braid_symbol_flush();
	KUNIT_EXPECT_EQ(test, table->nr_used, ROOM);
	KUNIT_EXPECT_EQ(test, table->missed, NOTED - ROOM);
	braid_symbol_stop();
	braid_symbol_note((unsigned long)region_counts_symbols);
	KUNIT_EXPECT_EQ(test, table->nr_used, ROOM);
}

static bool stack_is_there(const struct braid_stack_table *table, u64 bytes, u32 slot, u32 id)
{
	const struct braid_stack_shape shape = braid_stack_load_shape(table, bytes);
	struct braid_stack_copy copy;

	return braid_stack_load(&copy, table, &shape, slot) && copy.id == id;
}

/* Each distinct stack is stored once; a full table counts, and is emptied when it is half full. */
static void region_stores_stacks(struct kunit *test)
{
	enum { ROOM = 16, DEPTH = 4 };
	struct braid_guest_region *region = kunit_kzalloc(test, sizeof(*region), GFP_KERNEL);
	u64 bytes = braid_stack_bytes(ROOM, DEPTH), frames[DEPTH + 1] = { 1, 2, 3, 4, 5 };
	struct braid_stack_table *table = kunit_kzalloc(test, bytes, GFP_KERNEL);
	bool fresh;
	u32 k;

	KUNIT_ASSERT_NOT_NULL(test, region);
	KUNIT_ASSERT_NOT_NULL(test, table);
	region->stacks = table;
	table->nr_slots = region->nr_stacks = ROOM;
	table->nr_frames = region->stack_frames = DEPTH;
	table->first = 1;
	KUNIT_EXPECT_EQ(test, braid_stack_store(frames, DEPTH, &fresh), 0);
	KUNIT_ASSERT_EQ(test, braid_stack_start(region), 0);
	preempt_disable();
	for (k = 0; k < 3 * ROOM; k++) {
		frames[DEPTH - 1] = k % ROOM;
		KUNIT_EXPECT_EQ(test, braid_stack_store(frames, DEPTH + 1, &fresh), 1 + k % ROOM);
		KUNIT_EXPECT_EQ(test, fresh, k < ROOM);
	}
	KUNIT_EXPECT_EQ(test, braid_stack_store(frames, DEPTH - 1, &fresh), 0);
	KUNIT_EXPECT_EQ(test, braid_stack_store(frames, 0, &fresh), 0);
	preempt_enable();
	for (k = 0; k < ROOM; k++)
		KUNIT_EXPECT_TRUE(test, stack_is_there(table, bytes, k, 1 + k));
	braid_stack_flush();
	KUNIT_EXPECT_EQ(test, table->nr_used, ROOM);
	KUNIT_EXPECT_EQ(test, table->missed, 1);
	braid_stack_renew();
	KUNIT_EXPECT_EQ(test, table->first, 1 + ROOM);
	KUNIT_EXPECT_EQ(test, table->nr_used, 0);
	KUNIT_EXPECT_FALSE(test, stack_is_there(table, bytes, 0, 1));
	preempt_disable();
	KUNIT_EXPECT_EQ(test, braid_stack_store(frames, 1, &fresh), 1 + ROOM);
	preempt_enable();
	KUNIT_EXPECT_TRUE(test, stack_is_there(table, bytes, 0, 1 + ROOM));
	braid_stack_renew();
	KUNIT_EXPECT_EQ(test, table->nr_used, 1);
	braid_stack_stop();
}

/* Replug, suspend and hibernation detach the memory and attach it again. */
static void region_restores_events(struct kunit *test)
{
	u16 on, off;
	u64 payload = 0;

	KUNIT_ASSERT_EQ(test, braid_fake_make(BRAID_TEST_BYTES), 0);
	KUNIT_ASSERT_EQ(test, braid_fake_plug(), 0);
	on = braid_case_register(test, NULL, "on", NULL);
	off = braid_case_register(test, NULL, "off", NULL);
	braid_fake_unplug();
	KUNIT_EXPECT_EQ(test, braid_record_event(NULL, on, sizeof(payload), &payload), -EAGAIN);
	braid_case_turn(test, NULL, off, false);	/* meanwhile */
	KUNIT_ASSERT_EQ(test, braid_fake_plug(), 0);
	KUNIT_EXPECT_EQ(test, braid_record_event(NULL, on, sizeof(payload), &payload), 0);
	KUNIT_EXPECT_EQ(test, braid_record_event(NULL, off, sizeof(payload), &payload), -EAGAIN);
	/* Also a second time, and what was turned off while there was memory stays off. */
	braid_case_turn(test, NULL, off, true);
	braid_case_turn(test, NULL, on, false);
	braid_fake_unplug();
	KUNIT_ASSERT_EQ(test, braid_fake_plug(), 0);
	KUNIT_EXPECT_EQ(test, braid_record_event(NULL, on, sizeof(payload), &payload), -EAGAIN);
	KUNIT_EXPECT_EQ(test, braid_record_event(NULL, off, sizeof(payload), &payload), 0);
}

static struct kunit_case region_cases[] = {
	KUNIT_CASE(region_is_valid),
	KUNIT_CASE(region_too_small),
	KUNIT_CASE(region_with_other_data),
	KUNIT_CASE(region_without_a_mark),
	KUNIT_CASE(region_second_is_refused),
	KUNIT_CASE(region_attached_late),
	KUNIT_CASE(region_detached_and_attached),
	KUNIT_CASE(region_is_read_by_the_host),
	KUNIT_CASE(region_counts_symbols),
	KUNIT_CASE(region_stores_stacks),
	KUNIT_CASE(region_restores_events),
	{}
};

static struct kunit_suite region_suite = {
	.name = "region",
	.init = braid_case_init_unplugged,
	.exit = braid_case_exit,
	.test_cases = region_cases,
};
kunit_test_suite(region_suite);
