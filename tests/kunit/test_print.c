// SPDX-License-Identifier: GPL-2.0
/*
 * Printing in the guest: the five outputs, their fallbacks, and hex for events without functions.
 */
#include <linux/seq_file.h>

#include "tests/kunit/rooms.h"

static const u8 payload[] = { 0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef };

static int print_trace(struct seq_file *out, const struct braid_item *item)
{
	const struct braid_record *record = item->payload;

	seq_printf(out, "trace %u", record->common_type);
	return 0;
}

static int print_latency(struct seq_file *out, const struct braid_item *item)
{
	seq_puts(out, "latency");
	return 0;
}

static int print_raw(struct seq_file *out, const struct braid_item *item)
{
	seq_puts(out, "raw");
	return 0;
}

static int print_hex(struct seq_file *out, const struct braid_item *item)
{
	seq_puts(out, "hex");
	return 0;
}

static int print_binary(struct seq_file *out, const struct braid_item *item)
{
	seq_puts(out, "binary");
	return 0;
}

static int print_half(struct seq_file *out, const struct braid_item *item)
{
	seq_puts(out, "half of");
	return -EINVAL;
}

static const char *print(struct kunit *test, u16 id, enum braid_output kind)
{
	return braid_case_print(test, id, sizeof(payload), payload, kind);
}

static void print_defaults(struct kunit *test)
{
	u16 id = braid_case_register(test, NULL, "bare", NULL);
	const struct braid_record *record;
	char want[64];

	KUNIT_EXPECT_STREQ(test, print(test, id, BRAID_OUTPUT_TRACE),
			   "bare: 01 23 45 67 89 ab cd ef");
	KUNIT_EXPECT_STREQ(test, print(test, id, BRAID_OUTPUT_LATENCY),
			   "bare: 01 23 45 67 89 ab cd ef");
	/* These include the record's head. */
	KUNIT_EXPECT_NOT_NULL(test, strstr(print(test, id, BRAID_OUTPUT_RAW), "67452301 efcdab89"));
	snprintf(want, sizeof(want), "%02x %02x ", id & 0xff, id >> 8);
	KUNIT_EXPECT_EQ(test, strncmp(print(test, id, BRAID_OUTPUT_HEX), want, strlen(want)), 0);
	record = (const void *)print(test, id, BRAID_OUTPUT_BINARY);
	KUNIT_EXPECT_EQ(test, record->common_type, id);
	KUNIT_EXPECT_EQ(test, memcmp(record + 1, payload, sizeof(payload)), 0);
}

static void print_functions(struct kunit *test)
{
	const struct braid_outputs outputs = { print_trace, print_latency, print_raw, print_hex,
					       print_binary };
	u16 id = braid_case_register(test, NULL, "able", &outputs);
	char want[16];

	snprintf(want, sizeof(want), "trace %u", id);
	KUNIT_EXPECT_STREQ(test, print(test, id, BRAID_OUTPUT_TRACE), want);
	KUNIT_EXPECT_STREQ(test, print(test, id, BRAID_OUTPUT_LATENCY), "latency");
	KUNIT_EXPECT_STREQ(test, print(test, id, BRAID_OUTPUT_RAW), "raw");
	KUNIT_EXPECT_STREQ(test, print(test, id, BRAID_OUTPUT_HEX), "hex");
	KUNIT_EXPECT_STREQ(test, print(test, id, BRAID_OUTPUT_BINARY), "binary");
}

static void print_latency_falls_back_to_trace(struct kunit *test)
{
	const struct braid_outputs outputs = { .trace = print_trace };
	u16 id = braid_case_register(test, NULL, "traced", &outputs);
	char want[16];

	snprintf(want, sizeof(want), "trace %u", id);
	KUNIT_EXPECT_STREQ(test, print(test, id, BRAID_OUTPUT_LATENCY), want);
}

static void print_failure_is_undone(struct kunit *test)
{
	const struct braid_outputs outputs = { .trace = print_half };
	u16 id = braid_case_register(test, NULL, "half", &outputs);

	KUNIT_EXPECT_STREQ(test, print(test, id, BRAID_OUTPUT_TRACE),
			   "half: 01 23 45 67 89 ab cd ef");
}

/* Records remain after their event is removed. */
static void print_unknown_event(struct kunit *test)
{
	u16 id = braid_case_register(test, NULL, "gone", NULL);
	static char text[256];
	struct seq_file out = { .buf = text, .size = sizeof(text) - 1 };
	struct braid_item item;
	char want[64];

	KUNIT_ASSERT_EQ(test, braid_record_event(NULL, id, sizeof(payload), payload), 0);
	KUNIT_ASSERT_EQ(test, braid_unregister_event(NULL, id), 0);
	KUNIT_ASSERT_EQ(test, braid_buffer_consume(braid_trace_buffer(), 0, &item), 1);
	braid_output_item(&out, &item, BRAID_OUTPUT_TRACE);
	text[out.count] = 0;
	snprintf(want, sizeof(want), "event %u: 01 23 45 67 89 ab cd ef", id);
	KUNIT_EXPECT_STREQ(test, text, want);
	braid_buffer_read_done(braid_trace_buffer(), 0);
}

/* No line exceeds its space. */
static void print_overflows(struct kunit *test)
{
	static u8 big[900];
	u16 id = braid_case_register(test, NULL, "big", NULL);
	char text[40];
	struct seq_file out = { .buf = text, .size = sizeof(text) };
	struct braid_item item;

	KUNIT_ASSERT_EQ(test, braid_record_event(NULL, id, sizeof(big), big), 0);
	KUNIT_ASSERT_EQ(test, braid_buffer_consume(braid_trace_buffer(), 0, &item), 1);
	braid_output_item(&out, &item, BRAID_OUTPUT_TRACE);
	KUNIT_EXPECT_TRUE(test, seq_has_overflowed(&out));
	braid_buffer_read_done(braid_trace_buffer(), 0);
}

static struct kunit_case print_cases[] = {
	KUNIT_CASE(print_defaults),
	KUNIT_CASE(print_functions),
	KUNIT_CASE(print_latency_falls_back_to_trace),
	KUNIT_CASE(print_failure_is_undone),
	KUNIT_CASE(print_unknown_event),
	KUNIT_CASE(print_overflows),
	{}
};

static struct kunit_suite print_suite = {
	.name = "print",
	.init = braid_case_init,
	.exit = braid_case_exit,
	.test_cases = print_cases,
};
kunit_test_suite(print_suite);
