// SPDX-License-Identifier: GPL-2.0
/*
 * Filters of the host: what they keep out of a ring, their accounts, and whom they do not concern.
 */
#include "tests/kunit/rooms.h"

#define PAGE	BRAID_PAGE_BYTES

static const struct braid_event_desc plain = { .system = "kunit", .name = "plain" };

static struct braid_buffer *buffer_of(struct kunit *test)
{
	return braid_case_alloc(test, "b", 4 * PAGE, 0, NULL);
}

/* A program: the first byte after struct braid_record is at most @most. */
static void put_program(u8 most)
{
	struct braid_mailbox *mailbox = braid_fake_memory() + BRAID_PAGE_BYTES;

	mailbox->program = (struct braid_filter_program){
		.version = BRAID_FILTER_VERSION,
		.record_bytes = sizeof(struct braid_record) + 1,
		.nr_insns = 3,
		.insns = {
			{ .op = BRAID_FILTER_U8, .if_false = 1, .range = most,
			  .offset = sizeof(struct braid_record) },
			{ .op = BRAID_FILTER_ACCEPT },
			{ .op = BRAID_FILTER_REJECT },
		},
	};
}

static void expect_account(struct kunit *test, u64 offered, u64 filtered, u64 lost, u64 unjudged)
{
	const struct braid_mailbox *mailbox = braid_fake_memory() + BRAID_PAGE_BYTES;
	const struct braid_filter_account *account = &mailbox->account;
	u32 matched;

	KUNIT_EXPECT_EQ(test, braid_case_command(test, BRAID_CMD_ACCOUNT, BRAID_ANY_BUFFER, "pl*", &matched),
			0);
	KUNIT_EXPECT_EQ(test, matched, 1);
	KUNIT_EXPECT_EQ(test, account->offered, offered);
	KUNIT_EXPECT_EQ(test, account->filtered, filtered);
	KUNIT_EXPECT_EQ(test, account->written, offered - filtered - lost);
	KUNIT_EXPECT_EQ(test, account->lost, lost);
	KUNIT_EXPECT_EQ(test, account->unjudged, unjudged);
}

/* Records whose first byte is 0 to 9, and one without. */
static void record_ten(struct kunit *test, struct braid_buffer *buffer, int id)
{
	u8 k;

	for (k = 0; k < 10; k++)
		KUNIT_EXPECT_EQ(test, braid_record_event(buffer, id, 1, &k), 0);
	KUNIT_EXPECT_EQ(test, braid_record_event(buffer, id, 0, NULL), 0);
}

static void filter_decides(struct kunit *test)
{
	struct braid_buffer *buffer = buffer_of(test);
	struct braid_mailbox *mailbox = braid_fake_memory() + BRAID_PAGE_BYTES;
	int id = braid_register_event(buffer, 0, &plain);
	u32 matched;

	put_program(2);
	KUNIT_EXPECT_EQ(test, braid_case_command(test, BRAID_CMD_FILTER, buffer->index, "pl*", &matched), 0);
	KUNIT_EXPECT_EQ(test, matched, 1);
	KUNIT_EXPECT_EQ(test, braid_case_command(test, BRAID_CMD_ENABLE, BRAID_KEEP_FILTERS, "", &matched), 0);
	record_ten(test, buffer, id);
	KUNIT_EXPECT_EQ(test, braid_buffer_entries(buffer), 4);
	expect_account(test, 11, 7, 0, 1);
	/* The same program changes nothing; another one begins a new account. */
	KUNIT_EXPECT_EQ(test, braid_case_command(test, BRAID_CMD_FILTER, buffer->index, "pl*", &matched), 0);
	expect_account(test, 11, 7, 0, 1);
	/* What the guest's user wants is not filtered away. */
	braid_case_turn(test, buffer, id, true);
	record_ten(test, buffer, id);
	braid_case_turn(test, buffer, id, false);
	KUNIT_EXPECT_EQ(test, braid_buffer_entries(buffer), 15);
	expect_account(test, 11, 7, 0, 1);
	put_program(4);
	KUNIT_EXPECT_EQ(test, braid_case_command(test, BRAID_CMD_FILTER, buffer->index, "pl*", &matched), 0);
	record_ten(test, buffer, id);
	KUNIT_EXPECT_EQ(test, braid_buffer_entries(buffer), 21);
	KUNIT_EXPECT_EQ(test, braid_case_command(test, BRAID_CMD_DISABLE, 0, "", &matched), 0);
	expect_account(test, 11, 5, 0, 1);
	/* An agent that knows no filters. */
	KUNIT_EXPECT_EQ(test, braid_case_command(test, BRAID_CMD_ENABLE, 0, "", &matched), 0);
	record_ten(test, buffer, id);
	KUNIT_EXPECT_EQ(test, braid_buffer_entries(buffer), 32);
	/* No program; no such version; one that reads outside. */
	mailbox->program.record_bytes = 8;
	KUNIT_EXPECT_EQ(test, braid_case_command(test, BRAID_CMD_FILTER, 0, "", &matched), -EINVAL);
	mailbox->program.version++;
	KUNIT_EXPECT_EQ(test, braid_case_command(test, BRAID_CMD_FILTER, 0, "", &matched), -EOPNOTSUPP);
	record_ten(test, buffer, id);
	KUNIT_EXPECT_EQ(test, braid_buffer_entries(buffer), 43);
}

/* An event with a filter that goes while its filter is in effect. */
static void filter_goes_with_its_event(struct kunit *test)
{
	struct braid_buffer *buffer = buffer_of(test);
	u32 matched;
	int id, k;

	for (k = 0; k < 5; k++) {
		id = braid_register_event(buffer, 0, &plain);
		put_program(k);
		KUNIT_EXPECT_EQ(test, braid_case_command(test, BRAID_CMD_FILTER, BRAID_ANY_BUFFER, "", &matched),
				0);
		KUNIT_EXPECT_EQ(test, matched, 1);
		KUNIT_EXPECT_EQ(test, braid_case_command(test, BRAID_CMD_ENABLE, BRAID_KEEP_FILTERS, "",
					      &matched), 0);
		record_ten(test, buffer, id);
		KUNIT_EXPECT_EQ(test, braid_unregister_event(buffer, id), 0);
	}
	KUNIT_EXPECT_EQ(test, braid_buffer_entries(buffer), 1 + 2 + 3 + 4 + 5 + 5);
}

static struct kunit_case filter_cases[] = {
	KUNIT_CASE(filter_decides),
	KUNIT_CASE(filter_goes_with_its_event),
	{}
};

static struct kunit_suite filter_suite = {
	.name = "filter",
	.init = braid_case_init,
	.exit = braid_case_exit,
	.test_cases = filter_cases,
};
kunit_test_suite(filter_suite);
