// SPDX-License-Identifier: GPL-2.0
/*
 * Sub-events: sparse numbers, found by offset or by function, printed, unregistered, racing.
 */
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/seq_file.h>

#include "tests/kunit/rooms.h"

static int print_first(struct seq_file *out, const struct braid_item *item)
{
	seq_puts(out, "the first");
	return 0;
}

static int print_last(struct seq_file *out, const struct braid_item *item)
{
	seq_puts(out, "the last");
	return 0;
}

static int print_whole(struct seq_file *out, const struct braid_item *item)
{
	seq_puts(out, "whole");
	return 0;
}

static const struct braid_subevent sparse[] = {
	{ .number = 0, .name = "first", .outputs.trace = print_first },
	{ .number = 4096, .name = "bare" },
	{ .number = U32_MAX, .name = "last", .outputs.trace = print_last },
};
static const struct braid_subevent_table by_place = {
	.subevents = sparse, .nr = ARRAY_SIZE(sparse), .number_offset = 0, .number_bytes = 4,
};
static const struct braid_outputs whole = { .trace = print_whole };

static const char *print(struct kunit *test, u16 id, u32 number)
{
	return braid_case_print(test, id, sizeof(number), &number, BRAID_OUTPUT_TRACE);
}

static void subevent_sparse_numbers(struct kunit *test)
{
	u16 id = braid_case_register(test, NULL, "call", NULL);

	KUNIT_ASSERT_EQ(test, braid_register_subevents(NULL, id, &by_place), 0);
	KUNIT_EXPECT_STREQ(test, print(test, id, 0), "the first");
	KUNIT_EXPECT_STREQ(test, print(test, id, U32_MAX), "the last");
	/* One without a function, and an unknown number. */
	KUNIT_EXPECT_STREQ(test, print(test, id, 4096), "bare: 00 10 00 00");
	KUNIT_EXPECT_STREQ(test, print(test, id, 1), "call: 01 00 00 00");
	/* A record too short for a number is printed by the event. */
	KUNIT_EXPECT_STREQ(test, braid_case_print(test, id, 0, NULL, BRAID_OUTPUT_TRACE), "call: ");
	KUNIT_EXPECT_EQ(test, braid_unregister_subevents(NULL, id), 0);
	KUNIT_EXPECT_STREQ(test, print(test, id, 0), "call: 00 00 00 00");
	KUNIT_EXPECT_EQ(test, braid_unregister_subevents(NULL, id), -ENOENT);
}

/*
 * A sub-event without a function has a default of its own; an unknown number is printed by the
 * event.
 */
static void subevent_has_its_own_default(struct kunit *test)
{
	u16 id = braid_case_register(test, NULL, "call", &whole);

	KUNIT_ASSERT_EQ(test, braid_register_subevents(NULL, id, &by_place), 0);
	KUNIT_EXPECT_STREQ(test, print(test, id, 0), "the first");
	KUNIT_EXPECT_STREQ(test, print(test, id, 4096), "bare: 00 10 00 00");
	KUNIT_EXPECT_STREQ(test, print(test, id, 77), "whole");
	KUNIT_EXPECT_EQ(test, braid_unregister_event(NULL, id), 0);	/* with its sub-events */
}

static s64 find_odd(const struct braid_item *item)
{
	const u8 *at = item->payload + sizeof(struct braid_record);

	return at[3] & 1 ? U32_MAX : at[3] == 2 ? S64_MAX : -1;
}

static void subevent_found_by_function(struct kunit *test)
{
	const struct braid_subevent_table table = {
		.subevents = sparse, .nr = ARRAY_SIZE(sparse), .find = find_odd,
	};
	u16 id = braid_case_register(test, NULL, "call", &whole);

	KUNIT_ASSERT_EQ(test, braid_register_subevents(NULL, id, &table), 0);
	KUNIT_EXPECT_STREQ(test, print(test, id, 0x01000000), "the last");
	KUNIT_EXPECT_STREQ(test, print(test, id, 0x02000000), "whole");
	KUNIT_EXPECT_STREQ(test, print(test, id, 0), "whole");
}

static void subevent_numbers_of_each_size(struct kunit *test)
{
	static const u8 record[12] = { 0, 0, 0, 0, 0x34, 0x12, 0, 0, 0, 0, 0, 0 };
	static const struct braid_subevent subs[] = {
		{ .number = 0x34, .name = "one" }, { .number = 0x1234, .name = "more" },
	};
	struct braid_subevent_table table = { .subevents = subs, .nr = 2, .number_offset = 4 };
	u16 id = braid_case_register(test, NULL, "call", NULL);
	const char *text;

	for (table.number_bytes = 1; table.number_bytes <= 8; table.number_bytes *= 2) {
		KUNIT_ASSERT_EQ(test, braid_register_subevents(NULL, id, &table), 0);
		text = braid_case_print(test, id, sizeof(record), record, BRAID_OUTPUT_TRACE);
		KUNIT_EXPECT_EQ_MSG(test, strncmp(text, table.number_bytes == 1 ? "one: " : "more: ", 5),
				    0, "%u: %s", table.number_bytes, text);
		KUNIT_ASSERT_EQ(test, braid_unregister_subevents(NULL, id), 0);
	}
}

static void subevent_bad_tables(struct kunit *test)
{
	static const struct braid_subevent twice[] = {
		{ .number = 1, .name = "a" }, { .number = 1, .name = "b" },
	};
	static const struct braid_subevent nameless = { .number = 1 };
	const struct braid_subevent_table bad[] = {
		{ .subevents = sparse, .nr = 3 },			/* nothing finds it */
		{ .subevents = sparse, .nr = 3, .number_bytes = 3 },
		{ .subevents = sparse, .nr = 3, .number_bytes = 16 },
		{ .subevents = sparse, .nr = 0, .number_bytes = 4 },
		{ .nr = 3, .number_bytes = 4 },
		{ .subevents = twice, .nr = 2, .number_bytes = 4 },
		{ .subevents = &nameless, .nr = 1, .number_bytes = 4 },
		{ .subevents = sparse, .nr = 3, .number_bytes = 4, .number_offset = U16_MAX },
	};
	u16 id = braid_case_register(test, NULL, "call", NULL);
	unsigned int k;

	for (k = 0; k < ARRAY_SIZE(bad); k++)
		KUNIT_EXPECT_EQ_MSG(test, braid_register_subevents(NULL, id, &bad[k]), -EINVAL,
				    "table %u", k);
	KUNIT_EXPECT_EQ(test, braid_register_subevents(NULL, id + 1, &by_place), -ENOENT);
	KUNIT_EXPECT_EQ(test, braid_unregister_subevents(NULL, id + 1), -ENOENT);
	KUNIT_EXPECT_EQ(test, braid_register_subevents(NULL, id, &by_place), 0);
	KUNIT_EXPECT_EQ(test, braid_register_subevents(NULL, id, &by_place), -EBUSY);
}

/* The directory lists them for the host, and lists them again after the memory was replaced. */
static unsigned int listed(u16 id, bool gone)
{
	const struct braid_superblock *sb = braid_fake_memory();
	const struct braid_directory *dir = braid_fake_memory() +
					    sb->sections[BRAID_SECTION_DIRECTORY].offset;
	unsigned int nr = 0;
	u32 at = 0;

	while (at < dir->bytes_used) {
		const struct braid_dir_entry *entry = (const void *)dir->data + at;

		nr += entry->id == id && entry->flags & BRAID_EVENT_SUB &&
		      !(entry->flags & BRAID_EVENT_GONE) == !gone;
		at += entry->bytes;
	}
	return nr;
}

static void subevent_directory(struct kunit *test)
{
	u16 id = braid_case_register(test, NULL, "call", NULL);

	KUNIT_ASSERT_EQ(test, braid_register_subevents(NULL, id, &by_place), 0);
	KUNIT_EXPECT_EQ(test, listed(id, false), 3);
	braid_fake_unplug();
	KUNIT_ASSERT_EQ(test, braid_fake_plug(), 0);
	KUNIT_EXPECT_EQ(test, listed(id, false), 3);
	KUNIT_EXPECT_EQ(test, braid_unregister_subevents(NULL, id), 0);
	KUNIT_EXPECT_EQ(test, listed(id, false), 0);
	KUNIT_EXPECT_EQ(test, listed(id, true), 3);
}

/* Prints records while the event's sub-events are registered and unregistered. */
struct printer {
	struct braid_item item;
	u64 printed;
	bool odd;
};

static int print_on(void *arg)
{
	struct printer *p = arg;

	while (!kthread_should_stop()) {
		char text[64];
		struct seq_file out = { .buf = text, .size = sizeof(text) - 1 };

		braid_output_item(&out, &p->item, BRAID_OUTPUT_TRACE);
		text[out.count] = 0;
		if (strcmp(text, "the first") && strcmp(text, "whole"))
			p->odd = true;
		WRITE_ONCE(p->printed, p->printed + 1);
		cond_resched();
	}
	return 0;
}

static void subevent_removed_while_printed(struct kunit *test)
{
	struct printer *p = kunit_kzalloc(test, sizeof(*p), GFP_KERNEL);
	u16 id = braid_case_register(test, NULL, "call", &whole);
	struct task_struct *thread;
	u32 number = 0;
	int round, err = 0;
	u64 before;

	KUNIT_ASSERT_NOT_NULL(test, p);
	KUNIT_ASSERT_EQ(test, braid_record_event(NULL, id, sizeof(number), &number), 0);
	KUNIT_ASSERT_EQ(test, braid_buffer_peek(braid_trace_buffer(), 0, &p->item), 1);
	thread = kthread_run(print_on, p, "printer");
	KUNIT_ASSERT_FALSE(test, IS_ERR(thread));
	for (round = 0; round < 50 && !err; round++) {
		err = braid_register_subevents(NULL, id, &by_place);
		before = READ_ONCE(p->printed);
		while (READ_ONCE(p->printed) == before)
			cond_resched();
		err = err ?: braid_unregister_subevents(NULL, id);
	}
	kthread_stop(thread);
	braid_buffer_read_done(braid_trace_buffer(), 0);
	KUNIT_EXPECT_EQ(test, err, 0);
	KUNIT_EXPECT_FALSE(test, p->odd);
}

static struct kunit_case subevent_cases[] = {
	KUNIT_CASE(subevent_sparse_numbers),
	KUNIT_CASE(subevent_has_its_own_default),
	KUNIT_CASE(subevent_found_by_function),
	KUNIT_CASE(subevent_numbers_of_each_size),
	KUNIT_CASE(subevent_bad_tables),
	KUNIT_CASE(subevent_directory),
	KUNIT_CASE(subevent_removed_while_printed),
	{}
};

static struct kunit_suite subevent_suite = {
	.name = "subevent",
	.init = braid_case_init,
	.exit = braid_case_exit,
	.test_cases = subevent_cases,
};
kunit_test_suite(subevent_suite);
