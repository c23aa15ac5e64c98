// SPDX-License-Identifier: GPL-2.0
/* Triggers of the host: when they freeze the rings, what is told of it, and that all is undone. */
#include <linux/delay.h>

#include "guest_driver/event/duration.h"
#include "guest_driver/event/trigger.h"
#include "tests/kunit/rooms.h"

#define PAGE	BRAID_PAGE_BYTES

static const struct braid_event_desc plain = { .system = "kunit", .name = "plain" };

static struct braid_mailbox *mailbox(void)
{
	return braid_fake_memory() + BRAID_PAGE_BYTES;
}

/* A living agent, whose heartbeat moves with each command. */
static int command(struct kunit *test, u32 code, u64 arg0, u32 *matched)
{
	braid_store(&mailbox()->agent_heartbeat, braid_load(&mailbox()->agent_heartbeat) + 1);
	return braid_case_command(test, code, arg0, "", matched);
}

/* Puts a test: the first byte of the record is @value. */
static int put_test(struct kunit *test, u32 index, u32 role, u8 value, u64 after)
{
	struct braid_mailbox *to = mailbox();
	u32 matched;
	int err;

	to->program = (struct braid_filter_program){
		.version = BRAID_FILTER_VERSION,
		.record_bytes = sizeof(struct braid_record) + 1,
		.nr_insns = 3,
		.insns = {
			{ .op = BRAID_FILTER_U8, .if_false = 1, .low = value,
			  .offset = sizeof(struct braid_record) },
			{ .op = BRAID_FILTER_ACCEPT },
			{ .op = BRAID_FILTER_REJECT },
		},
	};
	to->trigger = (struct braid_trigger){ .index = index, .role = role, .after = after };
	err = command(test, BRAID_CMD_TRIGGER, BRAID_ANY_BUFFER, &matched);
	if (!err)
		KUNIT_EXPECT_EQ(test, matched, 1);
	return err;
}

static int record(struct braid_buffer *buffer, int id, u8 value)
{
	return braid_record_event(buffer, id, 1, &value);
}

static void expect_state(struct kunit *test, u32 state)
{
	u32 matched;

	KUNIT_EXPECT_EQ(test, command(test, BRAID_CMD_NONE, 0, &matched), 0);
	msleep(2 * BRAID_POLL_MS);	/* it is published by the turn after the answer */
	KUNIT_EXPECT_EQ(test, braid_load_acquire(&mailbox()->trigger_state), state);
}

static void trigger_freezes(struct kunit *test)
{
	struct braid_buffer *buffer = braid_case_alloc(test, "b", 4 * PAGE, 0, NULL);
	int id = braid_register_event(buffer, 0, &plain);
	u32 matched;

	KUNIT_EXPECT_EQ(test, put_test(test, BRAID_TRIGGERS, BRAID_TRIGGER_AT, 3, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, put_test(test, 0, BRAID_TRIGGER_ROLES, 3, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, put_test(test, 1, BRAID_TRIGGER_AT, 3, 0), 0);
	KUNIT_EXPECT_EQ(test, command(test, BRAID_CMD_ENABLE, 0, &matched), 0);
	KUNIT_EXPECT_EQ(test, record(buffer, id, 2), 0);
	KUNIT_EXPECT_EQ(test, record(buffer, id, 3), 0);
	KUNIT_EXPECT_EQ(test, record(buffer, id, 2), -EAGAIN);
	KUNIT_EXPECT_EQ(test, braid_buffer_entries(buffer), 2);
	expect_state(test, BRAID_TRIGGER_FROZEN);
	KUNIT_EXPECT_EQ(test, mailbox()->trigger_last, 1);
	KUNIT_EXPECT_EQ(test, mailbox()->trigger_counts[1].fired, 1);

	/* Held: it is met, and does not fire. Armed: it does. */
	KUNIT_EXPECT_EQ(test, command(test, BRAID_CMD_RESUME, 0, &matched), 0);
	KUNIT_EXPECT_EQ(test, record(buffer, id, 3), 0);
	KUNIT_EXPECT_EQ(test, record(buffer, id, 3), 0);
	expect_state(test, BRAID_TRIGGER_HELD);
	KUNIT_EXPECT_EQ(test, mailbox()->trigger_counts[1].met, 3);
	KUNIT_EXPECT_EQ(test, mailbox()->trigger_counts[1].fired, 1);
	KUNIT_EXPECT_EQ(test, command(test, BRAID_CMD_RESUME, BRAID_TRIGGER_ARM, &matched), 0);
	KUNIT_EXPECT_EQ(test, record(buffer, id, 3), 0);
	KUNIT_EXPECT_EQ(test, record(buffer, id, 3), -EAGAIN);

	/* Some events off: that changes nothing. All: nothing is frozen, and nothing fires. */
	KUNIT_EXPECT_EQ(test, command(test, BRAID_CMD_DISABLE, 0, &matched), 0);
	expect_state(test, BRAID_TRIGGER_FROZEN);
	braid_trigger_clear();
	expect_state(test, BRAID_TRIGGER_NONE);
	braid_case_turn(test, buffer, id, true);
	KUNIT_EXPECT_EQ(test, record(buffer, id, 3), 0);
	KUNIT_EXPECT_EQ(test, record(buffer, id, 3), 0);
}

/* So many more records are written, of all events; and no agent is there any more. */
static void trigger_counts_down(struct kunit *test)
{
	struct braid_buffer *buffer = braid_case_alloc(test, "b", 4 * PAGE, 0, NULL);
	int id = braid_register_event(buffer, 0, &plain), k;
	unsigned long end = jiffies + 10 * HZ;
	u32 matched;

	KUNIT_EXPECT_EQ(test, put_test(test, 0, BRAID_TRIGGER_AT, 3, 5), 0);
	KUNIT_EXPECT_EQ(test, command(test, BRAID_CMD_ENABLE, 0, &matched), 0);
	KUNIT_EXPECT_EQ(test, record(buffer, id, 3), 0);
	expect_state(test, BRAID_TRIGGER_COUNTING);
	for (k = 0; k < 5; k++)
		KUNIT_EXPECT_EQ(test, record(buffer, id, 2), 0);
	KUNIT_EXPECT_EQ(test, record(buffer, id, 2), -EAGAIN);
	KUNIT_EXPECT_EQ(test, braid_buffer_entries(buffer), 6);
	expect_state(test, BRAID_TRIGGER_FROZEN);
	while (record(buffer, id, 3) == -EAGAIN && time_before(jiffies, end))
		msleep(BRAID_POLL_MS);
	KUNIT_EXPECT_EQ(test, record(buffer, id, 3), 0);
	KUNIT_EXPECT_EQ(test, braid_unregister_event(buffer, id), 0);
}

/* A buffer that is made meanwhile is not written either, until the others are. */
static void trigger_freezes_new_buffers(struct kunit *test)
{
	struct braid_buffer *buffer = braid_case_alloc(test, "b", 4 * PAGE, 0, NULL), *later;
	int id = braid_register_event(buffer, 0, &plain), other;
	u32 matched;

	KUNIT_EXPECT_EQ(test, put_test(test, 0, BRAID_TRIGGER_AT, 3, 0), 0);
	KUNIT_EXPECT_EQ(test, command(test, BRAID_CMD_ENABLE, 0, &matched), 0);
	KUNIT_EXPECT_EQ(test, record(buffer, id, 3), 0);
	later = braid_case_alloc(test, "later", 4 * PAGE, 0, NULL);
	other = braid_register_event(later, 0, &plain);
	braid_case_turn(test, later, other, true);
	KUNIT_EXPECT_EQ(test, record(later, other, 2), -EAGAIN);
	KUNIT_EXPECT_EQ(test, command(test, BRAID_CMD_RESUME, BRAID_TRIGGER_ARM, &matched), 0);
	KUNIT_EXPECT_EQ(test, record(later, other, 2), 0);
	KUNIT_EXPECT_EQ(test, braid_buffer_entries(later), 1);
}

static void trigger_pairs(struct kunit *test)
{
	struct braid_buffer *buffer = braid_case_alloc(test, "b", 4 * PAGE, 0, NULL);
	int id = braid_register_event(buffer, 0, &plain);
	u32 matched;

	KUNIT_EXPECT_EQ(test, put_test(test, 2, BRAID_TRIGGER_BEGIN, 1, 0), 0);
	KUNIT_EXPECT_EQ(test, put_test(test, 2, BRAID_TRIGGER_END, 2, 0), 0);
	KUNIT_EXPECT_EQ(test, command(test, BRAID_CMD_ENABLE, 0, &matched), 0);
	KUNIT_EXPECT_EQ(test, record(buffer, id, 2), 0);	/* ends nothing */
	KUNIT_EXPECT_EQ(test, record(buffer, id, 1), 0);
	KUNIT_EXPECT_EQ(test, record(buffer, id, 2), 0);
	KUNIT_EXPECT_EQ(test, record(buffer, id, 2), -EAGAIN);
	expect_state(test, BRAID_TRIGGER_FROZEN);
	KUNIT_EXPECT_EQ(test, mailbox()->trigger_counts[2].unpaired, 1);
	KUNIT_EXPECT_EQ(test, mailbox()->trigger_counts[2].fired, 1);
	KUNIT_EXPECT_GT(test, mailbox()->trigger_counts[2].steps, 0);
	KUNIT_EXPECT_EQ(test, command(test, BRAID_CMD_DISABLE, 0, &matched), 0);
}

static void durations_are_bounded(struct kunit *test)
{
	struct braid_durations *d = braid_durations_make();
	u64 key, kept = 0, found = 0;

	KUNIT_ASSERT_NOT_NULL(test, d);
	for (key = 1; key <= 4096; key++)
		kept += braid_duration_begin(d, key, key + 7);
	KUNIT_EXPECT_GT(test, kept, 512);
	KUNIT_EXPECT_LE(test, kept, 1024);
	for (key = 1; key <= 4096; key++) {
		u64 began = braid_duration_end(d, key);

		found += !!began;
		KUNIT_EXPECT_TRUE(test, !began || began == key + 7);
		KUNIT_EXPECT_EQ(test, braid_duration_end(d, key), 0);
	}
	KUNIT_EXPECT_EQ(test, found, kept);
	KUNIT_EXPECT_TRUE(test, braid_duration_begin(d, 5, 1));
	KUNIT_EXPECT_TRUE(test, braid_duration_begin(d, 5, 2));
	KUNIT_EXPECT_EQ(test, braid_duration_end(d, 5), 2);
	braid_durations_free(d);
}

static struct kunit_case trigger_cases[] = {
	KUNIT_CASE(trigger_freezes),
	KUNIT_CASE(trigger_counts_down),
	KUNIT_CASE(trigger_freezes_new_buffers),
	KUNIT_CASE(trigger_pairs),
	KUNIT_CASE(durations_are_bounded),
	{}
};

static struct kunit_suite trigger_suite = {
	.name = "trigger",
	.init = braid_case_init,
	.exit = braid_case_exit,
	.test_cases = trigger_cases,
};
kunit_test_suite(trigger_suite);
