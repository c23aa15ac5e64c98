// SPDX-License-Identifier: GPL-2.0
/* Commands of the guest's own user: what they do, and what a host may do then. */
#include <linux/prandom.h>
#include <linux/slab.h>

#include "guest_driver/event/mailbox.h"
#include "tests/kunit/rooms.h"

#define NR_RANDOM	3000

static const struct braid_event_desc plain = { .system = "kunit", .name = "plain" };

static struct braid_mailbox *box_of(struct kunit *test, u32 code, const char *event)
{
	struct braid_mailbox *box = kunit_kzalloc(test, sizeof(*box), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, box);
	box->command_seq = 7;
	box->command = code;
	strscpy(box->system, "kunit", sizeof(box->system));
	strscpy(box->event, event, sizeof(box->event));
	return box;
}

static int ask(struct kunit *test, u32 code, const char *event)
{
	struct braid_mailbox *box = box_of(test, code, event);

	KUNIT_EXPECT_EQ(test, braid_mailbox_ask(box), 0);
	KUNIT_EXPECT_EQ(test, box->done_seq, 7);
	return box->result;
}

static void ask_to_reset(struct kunit *test)
{
	struct braid_mailbox *box = box_of(test, BRAID_CMD_DISABLE, "");

	box->system[0] = 0;
	KUNIT_EXPECT_EQ(test, braid_mailbox_ask(box), 0);
	KUNIT_EXPECT_EQ(test, box->result, 0);
}

static void select_holds(struct kunit *test)
{
	struct braid_buffer *buffer = braid_case_alloc(test, "b", 4 * BRAID_PAGE_BYTES, 0, NULL);
	int id = braid_register_event(buffer, 0, &plain);
	u32 matched;

	KUNIT_EXPECT_EQ(test, braid_record_event(buffer, id, 0, NULL), -EAGAIN);
	KUNIT_EXPECT_EQ(test, ask(test, BRAID_CMD_NONE, ""), 0);
	KUNIT_EXPECT_FALSE(test, braid_mailbox_tidy(false));
	KUNIT_EXPECT_EQ(test, ask(test, BRAID_CMD_ENABLE, "pl*"), 0);
	KUNIT_EXPECT_TRUE(test, braid_mailbox_tidy(false));
	KUNIT_EXPECT_EQ(test, braid_record_event(buffer, id, 0, NULL), 0);
	/* A host changes nothing of it. */
	KUNIT_EXPECT_EQ(test, braid_case_command(test, BRAID_CMD_DISABLE, 0, "", &matched), -EBUSY);
	KUNIT_EXPECT_EQ(test, braid_case_command(test, BRAID_CMD_ENABLE, 0, "", &matched), -EBUSY);
	KUNIT_EXPECT_EQ(test, braid_case_command(test, BRAID_CMD_RESHAPE, buffer->index, "", &matched), -EBUSY);
	KUNIT_EXPECT_EQ(test, braid_case_command(test, BRAID_CMD_ACCOUNT, BRAID_ANY_BUFFER, "", &matched), 0);
	KUNIT_EXPECT_EQ(test, braid_record_event(buffer, id, 0, NULL), 0);
	ask_to_reset(test);
	KUNIT_EXPECT_FALSE(test, braid_mailbox_tidy(false));
	KUNIT_EXPECT_EQ(test, braid_record_event(buffer, id, 0, NULL), -EAGAIN);
	KUNIT_EXPECT_EQ(test, braid_case_command(test, BRAID_CMD_ENABLE, 0, "", &matched), 0);
	KUNIT_EXPECT_EQ(test, braid_case_command(test, BRAID_CMD_DISABLE, 0, "", &matched), 0);
}

/* The selection ends with the region; without one nothing is asked. */
static void select_ends_with_region(struct kunit *test)
{
	struct braid_mailbox *box = box_of(test, BRAID_CMD_ENABLE, "");

	KUNIT_EXPECT_EQ(test, ask(test, BRAID_CMD_SAMPLE, "none"), 0);
	KUNIT_EXPECT_TRUE(test, braid_mailbox_tidy(false));
	braid_mailbox_close();
	KUNIT_EXPECT_FALSE(test, braid_mailbox_tidy(false));
	KUNIT_EXPECT_EQ(test, braid_mailbox_ask(box), -ENODEV);
	KUNIT_EXPECT_EQ(test, braid_mailbox_copy_tables(box, sizeof(*box), 0, box), -ENODEV);
}

/* The region up to its rings, with another mailbox; however it is cut into pieces. */
static void select_reads_tables(struct kunit *test)
{
	struct braid_mailbox *box = box_of(test, BRAID_CMD_NONE, "");
	const struct braid_superblock *sb = braid_fake_memory();
	u64 end = sb->sections[BRAID_SECTION_RINGS].offset;
	u64 at, place = sb->sections[BRAID_SECTION_MAILBOX].offset;
	u8 *copy = kunit_kmalloc(test, end + 1000, GFP_KERNEL);
	ssize_t got;

	KUNIT_ASSERT_NOT_NULL(test, copy);
	memset(box, 0x5a, sizeof(*box));
	for (at = 0; (got = braid_mailbox_copy_tables(copy + at, 999, at, box)) > 0; at += got)
		;
	KUNIT_EXPECT_EQ(test, got, 0);
	KUNIT_EXPECT_EQ(test, at, end);
	KUNIT_EXPECT_EQ(test, memcmp(copy, sb, sizeof(*sb)), 0);
	KUNIT_EXPECT_EQ(test, memcmp(copy + place, box, sizeof(*box)), 0);
	KUNIT_EXPECT_NE(test, copy[place + sizeof(*box)], 0x5a);
	KUNIT_EXPECT_EQ(test, braid_mailbox_copy_tables(copy, 999, ~0ULL, box), 0);
}

/* Whatever is written, it gets an answer, and a reset undoes it. */
static void select_takes_anything(struct kunit *test)
{
	struct braid_buffer *buffer = braid_case_alloc(test, "b", 4 * BRAID_PAGE_BYTES, 0, NULL);
	int id = braid_register_event(buffer, 0, &plain);
	struct braid_mailbox *box = box_of(test, 0, "");
	struct rnd_state state;
	u32 k;

	prandom_seed_state(&state, 42);
	for (k = 0; k < NR_RANDOM; k++) {
		prandom_bytes_state(&state, box, sizeof(*box));
		box->command %= BRAID_CMD_STACKS + 3;
		if (k & 1)
			box->arg0 = BRAID_ANY_BUFFER;
		if (k & 2)
			strscpy(box->system, "kunit", sizeof(box->system));
		if (k & 4) {
			strscpy(box->event, "*", sizeof(box->event));
			box->program.version = BRAID_FILTER_VERSION;
			box->program.nr_insns %= BRAID_FILTER_INSNS + 1;
		}
		KUNIT_ASSERT_EQ(test, braid_mailbox_ask(box), 0);
		KUNIT_ASSERT_LE(test, box->result, 0);
		braid_record_event(buffer, id, 0, NULL);
	}
	ask_to_reset(test);
	KUNIT_EXPECT_EQ(test, ask(test, BRAID_CMD_ENABLE, "plain"), 0);
	ask_to_reset(test);
}

static struct kunit_case select_cases[] = {
	KUNIT_CASE(select_holds),
	KUNIT_CASE(select_ends_with_region),
	KUNIT_CASE(select_reads_tables),
	KUNIT_CASE(select_takes_anything),
	{}
};

static struct kunit_suite select_suite = {
	.name = "select",
	.init = braid_case_init,
	.exit = braid_case_exit,
	.test_cases = select_cases,
};

kunit_test_suite(select_suite);
