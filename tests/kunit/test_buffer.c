// SPDX-License-Identifier: GPL-2.0
/* Buffers: allocation, sizes, filling, switches, reset, swap, freeing. */
#include <linux/err.h>

#include "tests/kunit/rooms.h"

#define PAGE	BRAID_PAGE_BYTES

static long failed_alloc(const char *name, u64 size, u32 flags, struct braid_buffer *events_of)
{
	struct braid_buffer *buffer = braid_buffer_alloc(name, size, flags, events_of);

	if (!IS_ERR(buffer)) {
		braid_buffer_free(buffer);
		return 0;
	}
	return PTR_ERR(buffer);
}

static int put(struct braid_buffer *buffer, u64 value)
{
	return braid_buffer_write(buffer, sizeof(value), &value);
}

/* Writes @nr values, from @from on. Return: how many were recorded. */
static u64 put_many(struct braid_buffer *buffer, u64 from, u64 nr)
{
	u64 k, taken = 0;

	for (k = 0; k < nr; k++)
		taken += !put(buffer, from + k);
	return taken;
}

/* The next value, which must exist. */
static u64 get(struct kunit *test, struct braid_buffer *buffer)
{
	struct braid_item item;
	u64 value;

	KUNIT_ASSERT_EQ(test, braid_buffer_consume(buffer, 0, &item), 1);
	KUNIT_ASSERT_EQ(test, item.payload_bytes, sizeof(value));
	memcpy(&value, item.payload, sizeof(value));
	return value;
}

static void buffer_names(struct kunit *test)
{
	static const char *const bad[] = { "", ".", ".x", "a/b", "a b", "a\n", "..", "%",
					   "12345678901234567890123456789012" };
	unsigned int k;

	for (k = 0; k < ARRAY_SIZE(bad); k++)
		KUNIT_EXPECT_EQ_MSG(test, failed_alloc(bad[k], PAGE, 0, NULL), -EINVAL, "\"%s\"",
				    bad[k]);
	braid_case_alloc(test, "1234567890123456789012345678901", PAGE, 0, NULL);
	braid_case_alloc(test, "a.b-c_D", PAGE, BRAID_ALLOC_RAW, NULL);
	KUNIT_EXPECT_EQ(test, failed_alloc("a.b-c_D", PAGE, 0, NULL), -EEXIST);
	KUNIT_EXPECT_EQ(test, failed_alloc("trace", PAGE, 0, NULL), -EEXIST);
}

static void buffer_bad_shapes(struct kunit *test)
{
	struct braid_buffer *other = braid_case_alloc(test, "other", PAGE, 0, NULL);

	KUNIT_EXPECT_EQ(test, failed_alloc("b", 0, 0, NULL), -EINVAL);
	KUNIT_EXPECT_EQ(test, failed_alloc("b", U64_MAX, 0, NULL), -EINVAL);
	KUNIT_EXPECT_EQ(test, failed_alloc("b", PAGE, 1u << 3, NULL), -EINVAL);
	KUNIT_EXPECT_EQ(test, failed_alloc("b", PAGE, BRAID_ALLOC_RAW, other), -EINVAL);
	KUNIT_EXPECT_EQ(test, failed_alloc("b", BRAID_TEST_BYTES, 0, NULL), -ENOSPC);
	/* Failed calls leave no buffer. */
	KUNIT_EXPECT_EQ(test, failed_alloc("b", PAGE, 0, NULL), 0);
}

static void buffer_sizes_round_up(struct kunit *test)
{
	struct braid_buffer *one = braid_case_alloc(test, "one", 1, 0, NULL);
	struct braid_buffer *three = braid_case_alloc(test, "three", 3 * PAGE, 0, NULL);

	KUNIT_EXPECT_EQ(test, braid_buffer_size(one), BRAID_MIN_SLOTS * PAGE);
	KUNIT_EXPECT_EQ(test, braid_buffer_size(three), 4 * PAGE);
	KUNIT_EXPECT_EQ(test, braid_buffer_resize(three, 5 * PAGE), 0);
	KUNIT_EXPECT_EQ(test, braid_buffer_size(three), 8 * PAGE);
}

/* The document's examples: an event with a payload of 7 bytes takes 12, one with 82 takes 92. */
static void buffer_event_lengths(struct kunit *test)
{
	static const u32 lengths[][2] = { { 7, 12 }, { 82, 92 }, { 0, 8 }, { 1, 8 }, { 4, 8 },
					  { 28, 32 }, { 29, 40 }, { 1000, 1008 } };
	struct braid_buffer *buffer = braid_case_alloc(test, "b", 4 * PAGE, BRAID_ALLOC_RAW, NULL);
	struct braid_reservation res;
	struct braid_item item;
	unsigned int k;

	for (k = 0; k < ARRAY_SIZE(lengths); k++) {
		u32 bytes = lengths[k][0];

		res = braid_buffer_reserve(buffer, bytes);
		KUNIT_ASSERT_NOT_NULL(test, res.payload);
		memset(res.payload, 0x40 + k, bytes);
		braid_buffer_commit(buffer, res);
	}
	for (k = 0; k < ARRAY_SIZE(lengths); k++) {
		u32 bytes = lengths[k][0], padded = max(4U, round_up(bytes, 4U));

		KUNIT_ASSERT_EQ(test, braid_buffer_consume(buffer, 0, &item), 1);
		KUNIT_EXPECT_EQ(test, braid_ring_event_length(item.event), lengths[k][1]);
		KUNIT_EXPECT_PTR_EQ(test, braid_ring_event_data(item.event), (void *)item.payload);
		KUNIT_EXPECT_EQ(test, item.payload_bytes, padded);
		KUNIT_EXPECT_NULL(test, memchr_inv(item.payload, 0x40 + k, bytes));
		KUNIT_EXPECT_NULL(test, memchr_inv(item.payload + bytes, 0, padded - bytes));
	}
	braid_buffer_read_done(buffer, 0);
}

static void buffer_refuses_wrong_writes(struct kunit *test)
{
	struct braid_buffer *raw = braid_case_alloc(test, "raw", PAGE, BRAID_ALLOC_RAW, NULL);
	struct braid_buffer *records = braid_case_alloc(test, "records", PAGE, 0, NULL);

	KUNIT_EXPECT_EQ(test, put(records, 1), -EINVAL);
	KUNIT_EXPECT_NULL(test, braid_buffer_reserve(records, 8).payload);
	KUNIT_EXPECT_EQ(test, braid_buffer_write(raw, 2 * PAGE, NULL), -ENOSPC);
	KUNIT_EXPECT_NULL(test, braid_buffer_reserve(raw, U32_MAX).payload);
	KUNIT_EXPECT_EQ(test, braid_buffer_dropped(raw), 2);
	KUNIT_EXPECT_TRUE(test, braid_buffer_empty(raw));
	KUNIT_EXPECT_TRUE(test, braid_buffer_empty(records));
}

static void buffer_full_keeps_oldest(struct kunit *test)
{
	struct braid_buffer *buffer = braid_case_alloc(test, "b", 2 * PAGE, BRAID_ALLOC_RAW, NULL);
	u64 taken = put_many(buffer, 1, 2000), k;

	KUNIT_EXPECT_GT(test, taken, 0);
	KUNIT_EXPECT_LT(test, taken, 2000);
	KUNIT_EXPECT_EQ(test, braid_buffer_entries(buffer), taken);
	KUNIT_EXPECT_EQ(test, braid_buffer_dropped(buffer), 2000 - taken);
	KUNIT_EXPECT_EQ(test, braid_buffer_overruns(buffer), 0);
	for (k = 1; k <= taken; k++)
		KUNIT_ASSERT_EQ(test, get(test, buffer), k);
	KUNIT_EXPECT_TRUE(test, braid_buffer_empty(buffer));
	braid_buffer_read_done(buffer, 0);
}

static void buffer_overwrite_keeps_newest(struct kunit *test)
{
	struct braid_buffer *buffer = braid_case_alloc(test, "b", 2 * PAGE, BRAID_ALLOC_RAW |
						       BRAID_ALLOC_OVERWRITE, NULL);
	u64 left, k;

	KUNIT_EXPECT_EQ(test, put_many(buffer, 1, 2000), 2000);
	left = braid_buffer_entries(buffer);
	KUNIT_EXPECT_GT(test, left, 0);
	KUNIT_EXPECT_EQ(test, braid_buffer_overruns(buffer), 2000 - left);
	KUNIT_EXPECT_EQ(test, braid_buffer_dropped(buffer), 0);
	for (k = 2000 - left + 1; k <= 2000; k++)
		KUNIT_ASSERT_EQ(test, get(test, buffer), k);
	KUNIT_EXPECT_EQ(test, braid_buffer_overruns(buffer), 2000 - left);
	braid_buffer_read_done(buffer, 0);
}

static void buffer_switches_nest(struct kunit *test)
{
	struct braid_buffer *buffer = braid_case_alloc(test, "b", PAGE, BRAID_ALLOC_RAW, NULL);

	braid_buffer_record_disable(buffer);
	braid_buffer_record_disable(buffer);
	KUNIT_EXPECT_EQ(test, put(buffer, 1), -EAGAIN);
	braid_buffer_record_enable(buffer);
	KUNIT_EXPECT_EQ(test, put(buffer, 1), -EAGAIN);
	KUNIT_EXPECT_EQ(test, braid_buffer_record_disable_cpu(buffer, 0), 0);
	braid_buffer_record_enable(buffer);
	KUNIT_EXPECT_EQ(test, put(buffer, 1), -EAGAIN);
	KUNIT_EXPECT_EQ(test, braid_buffer_record_enable_cpu(buffer, 0), 0);
	KUNIT_EXPECT_EQ(test, put(buffer, 1), 0);
	/* The user's switch is separate, and does not nest. */
	braid_buffer_set_on(buffer, false);
	braid_buffer_set_on(buffer, false);
	KUNIT_EXPECT_EQ(test, put(buffer, 1), -EAGAIN);
	braid_buffer_set_on(buffer, true);
	KUNIT_EXPECT_EQ(test, put(buffer, 2), 0);
	KUNIT_EXPECT_EQ(test, braid_buffer_entries(buffer), 2);
	KUNIT_EXPECT_EQ(test, braid_buffer_dropped(buffer), 0);
	/* A surplus enable has no effect. */
	braid_buffer_record_enable(buffer);
	braid_buffer_record_disable(buffer);
	KUNIT_EXPECT_EQ(test, put(buffer, 3), -EAGAIN);
}

/* What the host finds in CPU 0's ring after a poll, the thread's own or this one. */
static const struct braid_ring_private *published(struct kunit *test, struct braid_buffer *buffer)
{
	const struct braid_ring_private *priv = buffer->cpus[0].writer->map.priv;

	braid_buffers_publish_off();
	KUNIT_EXPECT_NE(test, priv->off_seq, 0);
	KUNIT_EXPECT_EQ(test, priv->off_seq & 1, 0);
	return priv;
}

/* Off from the first switch to the last, whichever they are: counted once. */
static void buffer_off_is_counted(struct kunit *test)
{
	struct braid_buffer *buffer = braid_case_alloc(test, "b", PAGE, BRAID_ALLOC_RAW, NULL);
	u64 begin, steps, least;

	KUNIT_EXPECT_NE(test, buffer->cpus[0].writer->map.priv->off_seq, 0);
	KUNIT_EXPECT_EQ(test, published(test, buffer)->off_times, 0);
	KUNIT_EXPECT_EQ(test, published(test, buffer)->off_steps, 0);
	begin = braid_counter();
	braid_buffer_record_disable(buffer);
	least = braid_counter();
	KUNIT_EXPECT_EQ(test, published(test, buffer)->off_now, 1);
	braid_buffer_record_disable(buffer);
	KUNIT_EXPECT_EQ(test, braid_buffer_record_disable_cpu(buffer, 0), 0);
	braid_buffer_set_on(buffer, false);
	braid_buffer_record_enable(buffer);
	braid_buffer_record_enable(buffer);
	braid_buffer_record_enable(buffer);
	braid_buffer_set_on(buffer, true);
	braid_buffer_set_on(buffer, true);
	steps = published(test, buffer)->off_steps;
	KUNIT_EXPECT_GT(test, published(test, buffer)->off_steps, steps);
	least = braid_counter() - least;
	KUNIT_EXPECT_EQ(test, braid_buffer_record_enable_cpu(buffer, 0), 0);
	steps = braid_counter() - begin;
	KUNIT_EXPECT_EQ(test, published(test, buffer)->off_now, 0);
	KUNIT_EXPECT_EQ(test, published(test, buffer)->off_times, 1);
	KUNIT_EXPECT_GE(test, published(test, buffer)->off_steps, least);
	KUNIT_EXPECT_LE(test, published(test, buffer)->off_steps, steps);
	/* A ring that moves keeps its counts, and one that is emptied; both are off meanwhile. */
	steps = published(test, buffer)->off_steps;
	KUNIT_EXPECT_EQ(test, braid_buffer_resize(buffer, 4 * PAGE), 0);
	KUNIT_EXPECT_EQ(test, buffer->cpus[0].writer->map.priv->off_times, 2);
	KUNIT_EXPECT_GT(test, published(test, buffer)->off_steps, steps);
	steps = published(test, buffer)->off_steps;
	KUNIT_EXPECT_EQ(test, braid_buffer_reset(buffer), 0);
	KUNIT_EXPECT_GT(test, published(test, buffer)->off_steps, steps);
	KUNIT_EXPECT_EQ(test, published(test, buffer)->off_times, 3);
	KUNIT_EXPECT_EQ(test, published(test, buffer)->off_now, 0);
	braid_buffer_set_on(buffer, false);
	KUNIT_EXPECT_EQ(test, published(test, buffer)->off_times, 4);
	/* Other buffers are on. */
	KUNIT_EXPECT_EQ(test, published(test, braid_trace_buffer())->off_times, 0);
}

static void buffer_bad_cpus(struct kunit *test)
{
	struct braid_buffer *a = braid_case_alloc(test, "a", PAGE, BRAID_ALLOC_RAW, NULL);
	struct braid_buffer *b = braid_case_alloc(test, "b", PAGE, BRAID_ALLOC_RAW, NULL);
	const int bad[] = { -1, INT_MIN, INT_MAX, nr_cpu_ids };
	struct braid_item item;
	unsigned int k;

	for (k = 0; k < ARRAY_SIZE(bad); k++) {
		KUNIT_EXPECT_EQ(test, braid_buffer_record_disable_cpu(a, bad[k]), -EINVAL);
		KUNIT_EXPECT_EQ(test, braid_buffer_record_enable_cpu(a, bad[k]), -EINVAL);
		KUNIT_EXPECT_EQ(test, braid_buffer_reset_cpu(a, bad[k]), -EINVAL);
		KUNIT_EXPECT_EQ(test, braid_buffer_swap_cpu(a, b, bad[k]), -EINVAL);
		KUNIT_EXPECT_EQ(test, braid_buffer_peek(a, bad[k], &item), -EINVAL);
		KUNIT_EXPECT_EQ(test, braid_buffer_consume(a, bad[k], &item), -EINVAL);
		KUNIT_EXPECT_EQ(test, PTR_ERR(braid_buffer_read_start(a, bad[k])), -EINVAL);
		KUNIT_EXPECT_TRUE(test, braid_buffer_empty_cpu(a, bad[k]));
		braid_buffer_read_done(a, bad[k]);
	}
}

static void expect_counts(struct kunit *test, struct braid_buffer *buffer, u64 read, u64 entries,
			  u64 overruns, u64 dropped)
{
	struct braid_ring_counts counts;

	KUNIT_ASSERT_EQ(test, braid_reader_counts(buffer, 0, &counts), 0);
	KUNIT_EXPECT_EQ(test, counts.read, read);
	KUNIT_EXPECT_EQ(test, counts.entries, entries);
	KUNIT_EXPECT_EQ(test, counts.overruns, overruns);
	KUNIT_EXPECT_EQ(test, counts.dropped, dropped);
	KUNIT_EXPECT_EQ(test, counts.written, read + entries + overruns + dropped);
	KUNIT_EXPECT_EQ(test, braid_buffer_overruns(buffer), overruns);
	KUNIT_EXPECT_EQ(test, braid_buffer_dropped(buffer), dropped);
}

static void buffer_reset_empties(struct kunit *test)
{
	struct braid_buffer *buffer = braid_case_alloc(test, "b", 4 * PAGE, BRAID_ALLOC_RAW, NULL);
	struct braid_item item;

	KUNIT_EXPECT_EQ(test, put_many(buffer, 1, 600), 600);
	KUNIT_EXPECT_FALSE(test, braid_buffer_empty(buffer));
	KUNIT_EXPECT_EQ(test, braid_buffer_reset_cpu(buffer, 0), 0);
	KUNIT_EXPECT_TRUE(test, braid_buffer_empty_cpu(buffer, 0));
	expect_counts(test, buffer, 0, 0, 0, 0);
	KUNIT_EXPECT_EQ(test, put(buffer, 77), 0);
	KUNIT_EXPECT_EQ(test, put(buffer, 78), 0);
	/* What the reset discarded is no loss before the first event after it. */
	KUNIT_ASSERT_EQ(test, braid_buffer_consume(buffer, 0, &item), 1);
	KUNIT_EXPECT_EQ(test, *(const u64 *)item.payload, 77);
	KUNIT_EXPECT_EQ(test, item.lost_before, 0);
	expect_counts(test, buffer, 1, 1, 0, 0);
	braid_buffer_read_done(buffer, 0);
	KUNIT_EXPECT_EQ(test, braid_buffer_reset(buffer), 0);
	expect_counts(test, buffer, 0, 0, 0, 0);
	/* For the host the ring goes on. */
	KUNIT_EXPECT_EQ(test, braid_writer_written(buffer->cpus[0].writer), 602);
}

/* Counts are zero after a reset, and in a buffer that takes a former one's name. */
static void buffer_counts_begin_anew(struct kunit *test)
{
	struct braid_buffer *buffer = braid_case_alloc(test, "b", 2 * PAGE, BRAID_ALLOC_RAW, NULL);
	struct braid_buffer *spare = braid_case_alloc(test, "s", 2 * PAGE, BRAID_ALLOC_RAW, NULL);
	u64 taken;

	put_many(buffer, 1, 2000);
	KUNIT_EXPECT_EQ(test, braid_buffer_reset(buffer), 0);
	taken = put_many(buffer, 1, 2000);
	expect_counts(test, buffer, 0, taken, 0, 2000 - taken);
	/* They belong to the ring, so they move with it. */
	KUNIT_EXPECT_EQ(test, put(spare, 1), 0);
	KUNIT_EXPECT_EQ(test, braid_buffer_swap_cpu(buffer, spare, 0), 0);
	expect_counts(test, buffer, 0, 1, 0, 0);
	expect_counts(test, spare, 0, taken, 0, 2000 - taken);
	KUNIT_EXPECT_EQ(test, braid_buffer_swap_cpu(buffer, spare, 0), 0);
	/* A resize is no reset. */
	KUNIT_EXPECT_EQ(test, braid_buffer_resize(buffer, 4 * PAGE), 0);
	expect_counts(test, buffer, 0, 0, taken, 2000 - taken);
	braid_case_free(test, buffer);
	buffer = braid_case_alloc(test, "b", 2 * PAGE, BRAID_ALLOC_RAW, NULL);
	expect_counts(test, buffer, 0, 0, 0, 0);
	KUNIT_EXPECT_EQ(test, put(buffer, 1), 0);
	KUNIT_EXPECT_EQ(test, get(test, buffer), 1);
	expect_counts(test, buffer, 1, 0, 0, 0);
	braid_buffer_read_done(buffer, 0);
}

static void buffer_resize_empties(struct kunit *test)
{
	struct braid_buffer *buffer = braid_case_alloc(test, "b", 4 * PAGE, BRAID_ALLOC_RAW, NULL);

	KUNIT_EXPECT_EQ(test, put_many(buffer, 1, 100), 100);
	KUNIT_EXPECT_EQ(test, get(test, buffer), 1);
	braid_buffer_read_done(buffer, 0);
	KUNIT_EXPECT_EQ(test, braid_buffer_resize(buffer, 16 * PAGE), 0);
	KUNIT_EXPECT_EQ(test, braid_buffer_size(buffer), 16 * PAGE);
	KUNIT_EXPECT_EQ(test, braid_buffer_entries(buffer), 0);
	KUNIT_EXPECT_EQ(test, braid_buffer_overruns(buffer), 99);
	KUNIT_EXPECT_EQ(test, put_many(buffer, 200, 10), 10);
	KUNIT_EXPECT_EQ(test, get(test, buffer), 200);
	braid_buffer_read_done(buffer, 0);
	/* A failed resize leaves the buffer unchanged. */
	KUNIT_EXPECT_EQ(test, braid_buffer_resize(buffer, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, braid_buffer_resize(buffer, U64_MAX), -EINVAL);
	KUNIT_EXPECT_EQ(test, braid_buffer_resize(buffer, BRAID_TEST_BYTES), -ENOSPC);
	KUNIT_EXPECT_EQ(test, braid_buffer_size(buffer), 16 * PAGE);
	KUNIT_EXPECT_EQ(test, put(buffer, 300), 0);
	KUNIT_EXPECT_EQ(test, braid_buffer_resize(buffer, PAGE), 0);
	KUNIT_EXPECT_EQ(test, braid_buffer_size(buffer), 2 * PAGE);
}

static void buffer_swaps(struct kunit *test)
{
	struct braid_buffer *a = braid_case_alloc(test, "a", 4 * PAGE, BRAID_ALLOC_RAW, NULL);
	struct braid_buffer *b = braid_case_alloc(test, "b", 4 * PAGE, BRAID_ALLOC_RAW, NULL);

	KUNIT_EXPECT_EQ(test, put_many(a, 1, 10), 10);
	KUNIT_EXPECT_EQ(test, braid_buffer_swap_cpu(a, b, 0), 0);
	KUNIT_EXPECT_TRUE(test, braid_buffer_empty(a));
	KUNIT_EXPECT_EQ(test, braid_buffer_entries(b), 10);
	KUNIT_EXPECT_EQ(test, put(a, 11), 0);
	KUNIT_EXPECT_EQ(test, get(test, b), 1);
	KUNIT_EXPECT_EQ(test, get(test, a), 11);
	braid_buffer_read_done(a, 0);
	braid_buffer_read_done(b, 0);
	KUNIT_EXPECT_EQ(test, braid_buffer_swap_cpu(a, b, 0), 0);
	KUNIT_EXPECT_EQ(test, get(test, a), 2);
	braid_buffer_read_done(a, 0);
	/* Freed while swapped: the other buffer continues to work. */
	KUNIT_EXPECT_EQ(test, braid_buffer_swap_cpu(b, a, 0), 0);
	braid_case_free(test, a);
	KUNIT_EXPECT_EQ(test, braid_buffer_reset(b), 0);
	KUNIT_EXPECT_EQ(test, put(b, 12), 0);
	KUNIT_EXPECT_EQ(test, get(test, b), 12);
	braid_buffer_read_done(b, 0);
}

static void buffer_swap_needs_same_shape(struct kunit *test)
{
	struct braid_buffer *raw = braid_case_alloc(test, "raw", PAGE, BRAID_ALLOC_RAW, NULL);
	struct braid_buffer *big = braid_case_alloc(test, "big", 9 * PAGE, BRAID_ALLOC_RAW, NULL);
	struct braid_buffer *over = braid_case_alloc(test, "over", PAGE, BRAID_ALLOC_RAW |
						     BRAID_ALLOC_OVERWRITE, NULL);
	struct braid_buffer *main = braid_case_alloc(test, "main", PAGE, 0, NULL);
	struct braid_buffer *back = braid_case_alloc(test, "back", PAGE, 0, main);
	struct braid_buffer *else_ = braid_case_alloc(test, "else", PAGE, 0, NULL);

	KUNIT_EXPECT_EQ(test, braid_buffer_swap_cpu(raw, raw, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, braid_buffer_swap_cpu(raw, big, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, braid_buffer_swap_cpu(raw, over, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, braid_buffer_swap_cpu(raw, main, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, braid_buffer_swap_cpu(main, else_, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, braid_buffer_swap_cpu(main, back, 0), 0);
	KUNIT_EXPECT_EQ(test, braid_buffer_swap_cpu(back, main, 0), 0);
}

static void buffer_free_waits_for_backup(struct kunit *test)
{
	struct braid_buffer *main = braid_case_alloc(test, "main", PAGE, 0, NULL);
	struct braid_buffer *back = braid_case_alloc(test, "back", PAGE, 0, main);

	KUNIT_EXPECT_EQ(test, braid_buffer_free(main), -EBUSY);
	KUNIT_EXPECT_GT(test, braid_buffer_size(main), 0);
	braid_case_free(test, back);
	braid_case_free(test, main);
}

static void buffer_frees_its_space(struct kunit *test)
{
	const u32 sizes[] = { 1, 7, 32, 2, 16 };
	struct braid_buffer *large;
	unsigned int k;

	for (k = 0; k < 100; k++) {
		struct braid_buffer *a = braid_case_alloc(test, "a", sizes[k % 5] * PAGE,
							  BRAID_ALLOC_RAW, NULL);
		struct braid_buffer *b = braid_case_alloc(test, "b", sizes[(k + 2) % 5] * PAGE,
							  0, NULL);

		KUNIT_EXPECT_EQ(test, put_many(a, 1, 20), 20);
		braid_case_free(test, k & 1 ? a : b);
		braid_case_free(test, k & 1 ? b : a);
	}
	large = braid_case_alloc(test, "large", 64 * PAGE, BRAID_ALLOC_RAW, NULL);
	KUNIT_EXPECT_EQ(test, put_many(large, 1, 20000), 20000);
}

/* A name keeps its entry in the region. */
static void buffer_names_run_out(struct kunit *test)
{
	char name[8];
	long err = 0;
	int k;

	for (k = 0; k < BRAID_MAX_BUFFERS && !err; k++) {
		snprintf(name, sizeof(name), "n%d", k);
		err = failed_alloc(name, PAGE, BRAID_ALLOC_RAW, NULL);
	}
	KUNIT_EXPECT_EQ(test, err, -ENFILE);
	KUNIT_EXPECT_EQ(test, failed_alloc("n0", PAGE, BRAID_ALLOC_RAW, NULL), 0);
}

static void buffer_stamps(struct kunit *test)
{
	struct braid_buffer *buffer = braid_case_alloc(test, "b", PAGE, BRAID_ALLOC_RAW, NULL);
	u64 before = braid_buffer_time_stamp(buffer, 0), after, ns[2];
	struct braid_item item;

	KUNIT_EXPECT_EQ(test, put(buffer, 1), 0);
	after = braid_buffer_time_stamp(buffer, 0);
	KUNIT_ASSERT_EQ(test, braid_buffer_consume(buffer, 0, &item), 1);
	KUNIT_EXPECT_LE(test, before, item.stamp);
	KUNIT_EXPECT_LE(test, item.stamp, after);
	ns[0] = before;
	ns[1] = before + 1000000;
	braid_buffer_normalize_time_stamp(buffer, 0, &ns[0]);
	braid_buffer_normalize_time_stamp(buffer, 0, &ns[1]);
	KUNIT_EXPECT_GT(test, ns[1], ns[0]);
	braid_buffer_read_done(buffer, 0);
}

/*
 * The new shape does not fit and the former one is refused: the buffer is left without rings, and
 * disabled.
 */
static void buffer_reshape_fails_twice(struct kunit *test)
{
	struct braid_buffer *buffer = braid_case_alloc(test, "twice", 8 * PAGE, 0, NULL);
	u16 id = braid_case_register(test, buffer, "one", NULL);
	const struct braid_superblock *sb = braid_fake_memory();
	struct braid_item item;

	KUNIT_ASSERT_EQ(test, braid_record_event(buffer, id, 0, NULL), 0);
	buffer->nr_slots = BRAID_MIN_SLOTS + 1;
	KUNIT_EXPECT_EQ(test, braid_buffer_resize(buffer, BRAID_TEST_BYTES), -ENOSPC);
	KUNIT_EXPECT_NULL(test, buffer->region);
	KUNIT_EXPECT_EQ(test, sb->buffers[buffer->index].nr_rings, 0);
	KUNIT_EXPECT_FALSE(test, braid_buffer_is_on(buffer));
	KUNIT_EXPECT_EQ(test, braid_record_event(buffer, id, 0, NULL), -EAGAIN);
	KUNIT_EXPECT_EQ(test, braid_buffer_size(buffer), 0);
	KUNIT_EXPECT_EQ(test, braid_buffer_peek(buffer, 0, &item), -ENODEV);
	KUNIT_EXPECT_EQ(test, braid_buffer_reset_cpu(buffer, 0), -ENODEV);
	/* Its name and its space can be used again. */
	braid_case_free(test, buffer);
	KUNIT_EXPECT_EQ(test, failed_alloc("twice", 8 * PAGE, 0, NULL), 0);
}

static struct kunit_case buffer_cases[] = {
	KUNIT_CASE(buffer_names),
	KUNIT_CASE(buffer_bad_shapes),
	KUNIT_CASE(buffer_sizes_round_up),
	KUNIT_CASE(buffer_event_lengths),
	KUNIT_CASE(buffer_refuses_wrong_writes),
	KUNIT_CASE(buffer_full_keeps_oldest),
	KUNIT_CASE(buffer_overwrite_keeps_newest),
	KUNIT_CASE(buffer_switches_nest),
	KUNIT_CASE(buffer_off_is_counted),
	KUNIT_CASE(buffer_bad_cpus),
	KUNIT_CASE(buffer_reset_empties),
	KUNIT_CASE(buffer_counts_begin_anew),
	KUNIT_CASE(buffer_resize_empties),
	KUNIT_CASE(buffer_reshape_fails_twice),
	KUNIT_CASE(buffer_swaps),
	KUNIT_CASE(buffer_swap_needs_same_shape),
	KUNIT_CASE(buffer_free_waits_for_backup),
	KUNIT_CASE(buffer_frees_its_space),
	KUNIT_CASE(buffer_names_run_out),
	KUNIT_CASE(buffer_stamps),
	{}
};

static struct kunit_suite buffer_suite = {
	.name = "buffer",
	.init = braid_case_init,
	.exit = braid_case_exit,
	.test_cases = buffer_cases,
};
kunit_test_suite(buffer_suite);
