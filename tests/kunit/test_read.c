// SPDX-License-Identifier: GPL-2.0
/*
 * Reading in the guest: peek, consume, iterators, the reader role, and a host that corrupts the
 * ring.
 */
#include <linux/err.h>

#include "shared/ring.h"
#include "tests/kunit/rooms.h"

#define PAGE	BRAID_PAGE_BYTES

static struct braid_buffer *filled(struct kunit *test, u32 flags, u64 nr)
{
	struct braid_buffer *buffer = braid_case_alloc(test, "b", 4 * PAGE, BRAID_ALLOC_RAW | flags,
						       NULL);
	u64 k;

	for (k = 1; k <= nr; k++)
		KUNIT_ASSERT_EQ(test, braid_buffer_write(buffer, sizeof(k), &k), 0);
	return buffer;
}

static u64 value_of(const struct braid_item *item)
{
	u64 value;

	memcpy(&value, item->payload, sizeof(value));
	return value;
}

static void read_peek_consumes_nothing(struct kunit *test)
{
	struct braid_buffer *buffer = filled(test, 0, 3);
	struct braid_item item;
	u64 k, stamp = 0;

	for (k = 1; k <= 3; k++) {
		KUNIT_ASSERT_EQ(test, braid_buffer_peek(buffer, 0, &item), 1);
		KUNIT_EXPECT_EQ(test, value_of(&item), k);
		KUNIT_ASSERT_EQ(test, braid_buffer_peek(buffer, 0, &item), 1);
		KUNIT_EXPECT_EQ(test, value_of(&item), k);
		KUNIT_EXPECT_EQ(test, braid_buffer_entries(buffer), 4 - k);
		KUNIT_ASSERT_EQ(test, braid_buffer_consume(buffer, 0, &item), 1);
		KUNIT_EXPECT_EQ(test, value_of(&item), k);
		KUNIT_EXPECT_PTR_EQ(test, item.buffer, buffer);
		KUNIT_EXPECT_EQ(test, item.cpu, 0);
		KUNIT_EXPECT_EQ(test, item.lost_before, 0);
		KUNIT_EXPECT_GE(test, item.stamp, stamp);
		stamp = item.stamp;
	}
	KUNIT_EXPECT_EQ(test, braid_buffer_peek(buffer, 0, &item), 0);
	KUNIT_EXPECT_EQ(test, braid_buffer_consume(buffer, 0, &item), 0);
	KUNIT_EXPECT_TRUE(test, braid_buffer_empty(buffer));
	braid_buffer_read_done(buffer, 0);
	braid_buffer_read_done(buffer, 0);
}

/* A reader at the live end finds new events at its next call. */
static void read_follows_the_writer(struct kunit *test)
{
	struct braid_buffer *buffer = filled(test, 0, 0);
	struct braid_item item;
	u64 k;

	for (k = 1; k <= 3000; k++) {
		KUNIT_ASSERT_EQ(test, braid_buffer_write(buffer, sizeof(k), &k), 0);
		KUNIT_ASSERT_EQ(test, braid_buffer_consume(buffer, 0, &item), 1);
		KUNIT_ASSERT_EQ(test, value_of(&item), k);
		KUNIT_ASSERT_EQ(test, braid_buffer_consume(buffer, 0, &item), 0);
		if (k % 100 == 0)
			braid_buffer_read_done(buffer, 0);
	}
	braid_buffer_read_done(buffer, 0);
	KUNIT_EXPECT_EQ(test, braid_buffer_overruns(buffer), 0);
}

static void read_reports_losses(struct kunit *test)
{
	struct braid_buffer *buffer = filled(test, BRAID_ALLOC_OVERWRITE, 5000);
	u64 lost, events;
	struct braid_item item;

	KUNIT_ASSERT_EQ(test, braid_buffer_peek(buffer, 0, &item), 1);
	KUNIT_EXPECT_EQ(test, item.lost_before, value_of(&item) - 1);
	events = braid_case_drain(test, buffer, &lost);
	KUNIT_EXPECT_GT(test, lost, 0);
	KUNIT_EXPECT_EQ(test, events + lost, 5000);
}

static void read_iterates(struct kunit *test)
{
	struct braid_buffer *buffer = filled(test, 0, 1000);
	struct braid_buffer_iter *iter = braid_buffer_read_start(buffer, 0);
	u64 k = 1, round, lost;
	struct braid_item item;

	KUNIT_ASSERT_FALSE(test, IS_ERR(iter));
	for (round = 0; round < 2; round++) {
		for (k = 1; k <= 1000; k++) {
			KUNIT_EXPECT_FALSE(test, braid_buffer_iter_empty(iter));
			KUNIT_ASSERT_EQ(test, braid_buffer_iter_peek(iter, &item), 1);
			KUNIT_ASSERT_EQ(test, value_of(&item), k);
			KUNIT_ASSERT_EQ(test, braid_buffer_read(iter, &item), 1);
			KUNIT_ASSERT_EQ(test, value_of(&item), k);
		}
		KUNIT_EXPECT_TRUE(test, braid_buffer_iter_empty(iter));
		KUNIT_EXPECT_EQ(test, braid_buffer_read(iter, &item), 0);
		KUNIT_EXPECT_EQ(test, braid_buffer_iter_peek(iter, &item), 0);
		KUNIT_EXPECT_EQ(test, braid_buffer_iter_reset(iter), 0);
	}
	braid_buffer_read_finish(iter);
	KUNIT_EXPECT_EQ(test, braid_buffer_write(buffer, sizeof(k), &k), 0);
	KUNIT_EXPECT_EQ(test, braid_buffer_entries(buffer), 1001);
	KUNIT_EXPECT_EQ(test, braid_case_drain(test, buffer, &lost), 1001);
	KUNIT_EXPECT_EQ(test, lost, 0);
}

static void read_iterates_over_the_rest(struct kunit *test)
{
	struct braid_buffer *buffer = filled(test, 0, 600);
	struct braid_buffer_iter *iter;
	struct braid_item item;
	u64 k;

	for (k = 1; k <= 250; k++)
		KUNIT_ASSERT_EQ(test, braid_buffer_consume(buffer, 0, &item), 1);
	braid_buffer_read_done(buffer, 0);
	iter = braid_buffer_read_start(buffer, 0);
	KUNIT_ASSERT_FALSE(test, IS_ERR(iter));
	for (k = 251; k <= 600; k++) {
		KUNIT_ASSERT_EQ(test, braid_buffer_read(iter, &item), 1);
		KUNIT_ASSERT_EQ(test, value_of(&item), k);
	}
	KUNIT_EXPECT_EQ(test, braid_buffer_read(iter, &item), 0);
	braid_buffer_read_finish(iter);
}

static void read_iterators_nest(struct kunit *test)
{
	struct braid_buffer *buffer = filled(test, 0, 5);
	struct braid_buffer_iter *a = braid_buffer_read_start(buffer, 0);
	struct braid_buffer_iter *b = braid_buffer_read_start(buffer, 0);
	struct braid_item item;
	u64 value = 9;

	KUNIT_ASSERT_FALSE(test, IS_ERR(a));
	KUNIT_ASSERT_FALSE(test, IS_ERR(b));
	KUNIT_EXPECT_EQ(test, braid_buffer_read(a, &item), 1);
	KUNIT_EXPECT_EQ(test, braid_buffer_read(a, &item), 1);
	KUNIT_EXPECT_EQ(test, braid_buffer_read(b, &item), 1);
	KUNIT_EXPECT_EQ(test, value_of(&item), 1);
	KUNIT_EXPECT_EQ(test, braid_buffer_write(buffer, sizeof(value), &value), 0);
	braid_buffer_read_finish(a);
	braid_buffer_read_finish(b);
}

/* Nothing is off meanwhile: events before, while and after are all recorded, or counted as lost. */
static void read_iterates_while_recording(struct kunit *test)
{
	struct braid_buffer *buffer = filled(test, BRAID_ALLOC_OVERWRITE, 5);
	struct braid_buffer_iter *iter = braid_buffer_read_start(buffer, 0);
	u64 value, seen = 0, lost = 0, last = 0, turns = 0;
	struct braid_item item;
	int got;

	KUNIT_ASSERT_FALSE(test, IS_ERR(iter));
	for (value = 6; value <= 5000; value++)
		KUNIT_ASSERT_EQ(test, braid_buffer_write(buffer, sizeof(value), &value), 0);
	while ((got = braid_buffer_read(iter, &item)) > 0) {
		seen++;
		lost += item.lost_before;
		KUNIT_ASSERT_EQ(test, value_of(&item), seen + lost);
		last = value_of(&item);
		/* A writer that never rests does not keep the reader. */
		KUNIT_ASSERT_LT(test, ++turns, 20000);
		KUNIT_ASSERT_EQ(test, braid_buffer_write(buffer, sizeof(value), &value), 0);
		value++;
	}
	braid_buffer_read_finish(iter);
	KUNIT_EXPECT_EQ(test, got, 0);
	KUNIT_EXPECT_GT(test, lost, 0);
	KUNIT_EXPECT_EQ(test, seen + lost, last);
}

static void read_blocks_changes(struct kunit *test)
{
	struct braid_buffer *buffer = filled(test, 0, 5);
	struct braid_buffer *other = braid_case_alloc(test, "other", 4 * PAGE, BRAID_ALLOC_RAW, NULL);
	struct braid_item item;

	KUNIT_ASSERT_EQ(test, braid_buffer_consume(buffer, 0, &item), 1);
	KUNIT_EXPECT_EQ(test, braid_buffer_reset_cpu(buffer, 0), -EBUSY);
	KUNIT_EXPECT_EQ(test, braid_buffer_resize(buffer, PAGE), -EBUSY);
	KUNIT_EXPECT_EQ(test, braid_buffer_swap_cpu(buffer, other, 0), -EBUSY);
	KUNIT_EXPECT_EQ(test, braid_buffer_swap_cpu(other, buffer, 0), -EBUSY);
	braid_buffer_read_done(buffer, 0);
	KUNIT_EXPECT_EQ(test, braid_buffer_swap_cpu(buffer, other, 0), 0);
	KUNIT_EXPECT_EQ(test, braid_buffer_swap_cpu(buffer, other, 0), 0);
	KUNIT_EXPECT_EQ(test, braid_buffer_reset_cpu(buffer, 0), 0);
}

static const struct braid_ring_map *ring_of(const struct braid_buffer *buffer)
{
	return &buffer->cpus[0].writer->map;
}

/* The host's agent owns the ring while its heartbeat moves, and for some time after it stops. */
static void read_yields_to_an_agent(struct kunit *test)
{
	struct braid_mailbox *mailbox = braid_fake_memory() + BRAID_PAGE_BYTES;
	struct braid_buffer *buffer = filled(test, 0, 5);
	struct braid_item item;

	braid_store(&mailbox->agent_heartbeat, 1);
	KUNIT_ASSERT_TRUE(test, braid_reader_own(ring_of(buffer), BRAID_READER_HOST,
						 BRAID_READER_NONE));
	KUNIT_EXPECT_EQ(test, braid_buffer_peek(buffer, 0, &item), -EBUSY);
	KUNIT_EXPECT_EQ(test, braid_buffer_consume(buffer, 0, &item), -EBUSY);
	KUNIT_EXPECT_EQ(test, braid_buffer_reset(buffer), -EBUSY);
	braid_reader_disown(ring_of(buffer), BRAID_READER_HOST);
	KUNIT_EXPECT_EQ(test, braid_buffer_consume(buffer, 0, &item), 1);
	KUNIT_EXPECT_FALSE(test, braid_reader_own(ring_of(buffer), BRAID_READER_HOST,
						  BRAID_READER_NONE));
	braid_buffer_read_done(buffer, 0);
	KUNIT_EXPECT_TRUE(test, braid_reader_own(ring_of(buffer), BRAID_READER_HOST,
						 BRAID_READER_NONE));
	braid_reader_disown(ring_of(buffer), BRAID_READER_HOST);
	braid_store(&mailbox->agent_heartbeat, 0);
}

/* A host that writes random words causes errors and nothing else, which KASAN checks. */
static void read_survives_corruption(struct kunit *test)
{
	static const u64 nonsense[] = { 0, ~0ULL, 0x4141414141414141ULL, 1ULL << 63, 0xffff };
	struct braid_buffer *buffer = filled(test, 0, 0);
	const struct braid_ring_map *map = ring_of(buffer);
	struct braid_item item;
	unsigned int k, turns;
	u64 value = 1, slot;
	int got;

	for (k = 0; k < ARRAY_SIZE(nonsense); k++) {
		for (turns = 0; turns < 100; turns++)
			braid_buffer_write(buffer, sizeof(value), &value);
		for (slot = 0; slot < map->nr_slots; slot++) {
			braid_store(&map->slots[slot], nonsense[k]);
			braid_store(&map->states[slot].commit, nonsense[(k + 1) % 5]);
			braid_store(&map->states[slot].first_seq, nonsense[(k + 2) % 5]);
			braid_store(&map->states[slot].entries, nonsense[(k + 3) % 5]);
		}
		memset(map->subbufs, nonsense[k], (map->nr_slots + 1) * map->subbuf_bytes);
		memset(&map->priv->reader_block, nonsense[k], sizeof(map->priv->reader_block));
		got = 1;
		for (turns = 0; turns < 10000 && got > 0; turns++)
			got = braid_buffer_consume(buffer, 0, &item);
		KUNIT_EXPECT_LE(test, got, 0);
		braid_buffer_read_done(buffer, 0);
		braid_buffer_entries(buffer);
		braid_buffer_overruns(buffer);
		for (turns = 0; turns < 3000; turns++)
			braid_buffer_write(buffer, sizeof(value), &value);
		braid_store(&map->priv->reader_owner, nonsense[k]);
		braid_buffer_consume(buffer, 0, &item);
		braid_buffer_read_done(buffer, 0);
		braid_store(&map->priv->reader_owner, BRAID_READER_NONE);
		KUNIT_EXPECT_EQ(test, braid_buffer_reset(buffer), 0);
	}
	KUNIT_EXPECT_EQ(test, braid_buffer_write(buffer, sizeof(value), &value), 0);
	KUNIT_EXPECT_EQ(test, braid_buffer_consume(buffer, 0, &item), 1);
	braid_buffer_read_done(buffer, 0);
}

static void read_survives_unplugging(struct kunit *test)
{
	struct braid_buffer *buffer = filled(test, 0, 100);
	struct braid_buffer_iter *iter = braid_buffer_read_start(buffer, 0);
	struct braid_item item;
	u64 value = 5;
	int k, got = 1;

	KUNIT_ASSERT_FALSE(test, IS_ERR(iter));
	KUNIT_EXPECT_EQ(test, braid_buffer_read(iter, &item), 1);
	KUNIT_EXPECT_EQ(test, braid_buffer_consume(buffer, 0, &item), 1);
	braid_fake_unplug();
	KUNIT_EXPECT_EQ(test, braid_buffer_consume(buffer, 0, &item), -ENODEV);
	KUNIT_EXPECT_EQ(test, braid_buffer_peek(buffer, 0, &item), -ENODEV);
	KUNIT_EXPECT_EQ(test, PTR_ERR(braid_buffer_read_start(buffer, 0)), -ENODEV);
	for (k = 0; k < 200 && got > 0; k++)
		got = braid_buffer_read(iter, &item);
	KUNIT_EXPECT_LE(test, got, 0);
	braid_buffer_read_done(buffer, 0);
	KUNIT_ASSERT_EQ(test, braid_fake_plug(), 0);
	braid_buffer_read_finish(iter);
	KUNIT_EXPECT_EQ(test, braid_buffer_write(buffer, sizeof(value), &value), 0);
	KUNIT_EXPECT_EQ(test, braid_buffer_consume(buffer, 0, &item), 1);
	KUNIT_EXPECT_EQ(test, value_of(&item), 5);
	braid_buffer_read_done(buffer, 0);
}

static struct kunit_case read_cases[] = {
	KUNIT_CASE(read_peek_consumes_nothing),
	KUNIT_CASE(read_follows_the_writer),
	KUNIT_CASE(read_reports_losses),
	KUNIT_CASE(read_iterates),
	KUNIT_CASE(read_iterates_over_the_rest),
	KUNIT_CASE(read_iterators_nest),
	KUNIT_CASE(read_iterates_while_recording),
	KUNIT_CASE(read_blocks_changes),
	KUNIT_CASE(read_yields_to_an_agent),
	KUNIT_CASE(read_survives_corruption),
	KUNIT_CASE(read_survives_unplugging),
	{}
};

static struct kunit_suite read_suite = {
	.name = "read",
	.init = braid_case_init,
	.exit = braid_case_exit,
	.test_cases = read_cases,
};
kunit_test_suite(read_suite);
