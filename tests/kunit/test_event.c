// SPDX-License-Identifier: GPL-2.0
/*
 * The registry: ids, masters, records, the directory, and events removed while they are recorded.
 */
#include <linux/cpu.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/kthread.h>

#include "guest_driver/event/online.h"
#include "shared/region.h"
#include "tests/kunit/rooms.h"

#define PAGE	BRAID_PAGE_BYTES

static const struct braid_event_desc plain = { .system = "kunit", .name = "plain" };

static struct braid_buffer *buffer_of(struct kunit *test)
{
	return braid_case_alloc(test, "b", 4 * PAGE, 0, NULL);
}

/* The entry of an event in the directory, as the host sees it. */
static const struct braid_dir_entry *listed(struct braid_buffer *buffer, u16 id, bool gone)
{
	const struct braid_superblock *sb = braid_fake_memory();
	const struct braid_directory *dir = braid_fake_memory() +
					    sb->sections[BRAID_SECTION_DIRECTORY].offset;
	u32 at = 0;

	while (at < dir->bytes_used) {
		const struct braid_dir_entry *entry = (const void *)dir->data + at;

		if (entry->id == id && entry->buffer == buffer->index &&
		    !(entry->flags & BRAID_EVENT_GONE) == !gone)
			return entry;
		at += entry->bytes;
	}
	return NULL;
}

static void event_ids(struct kunit *test)
{
	const struct braid_event_desc other = { .system = "kunit", .name = "other" };
	struct braid_buffer *buffer = buffer_of(test);
	int a = braid_register_event(buffer, 0, &plain), b;

	KUNIT_EXPECT_GT(test, a, 0);
	KUNIT_EXPECT_EQ(test, braid_register_event(buffer, 1234, &plain), 1234);
	KUNIT_EXPECT_EQ(test, braid_register_event(buffer, 1234, &plain), -EBUSY);
	KUNIT_EXPECT_EQ(test, braid_register_event(buffer, a, &plain), -EBUSY);
	KUNIT_EXPECT_EQ(test, braid_register_event(buffer, U16_MAX, &plain), U16_MAX);
	/* A freed id is not reused soon: a capture may have records with it. */
	KUNIT_EXPECT_EQ(test, braid_unregister_event(buffer, a), 0);
	b = braid_register_event(buffer, 0, &other);
	KUNIT_EXPECT_GT(test, b, 0);
	KUNIT_EXPECT_NE(test, a, b);
	KUNIT_EXPECT_EQ(test, braid_register_event(buffer, 0, &plain), a);
	KUNIT_EXPECT_EQ(test, braid_unregister_event(buffer, a), 0);
	KUNIT_EXPECT_EQ(test, braid_register_event(buffer, a, &plain), a);
	KUNIT_EXPECT_EQ(test, braid_unregister_event(buffer, 77), -ENOENT);
	KUNIT_EXPECT_EQ(test, braid_unregister_event(buffer, 0), -ENOENT);
	KUNIT_EXPECT_EQ(test, braid_unregister_event(buffer, 1234), 0);
	KUNIT_EXPECT_EQ(test, braid_unregister_event(buffer, 1234), -ENOENT);
}

/* Each buffer has its own ids. */
static void event_ids_of_two_buffers(struct kunit *test)
{
	struct braid_buffer *a = buffer_of(test);
	struct braid_buffer *b = braid_case_alloc(test, "c", PAGE, 0, NULL);

	KUNIT_EXPECT_EQ(test, braid_register_event(a, 5, &plain), 5);
	KUNIT_EXPECT_EQ(test, braid_register_event(b, 5, &plain), 5);
	KUNIT_EXPECT_EQ(test, braid_unregister_event(a, 5), 0);
	KUNIT_EXPECT_EQ(test, braid_record_event(a, 5, 0, NULL), -ENOENT);
	KUNIT_EXPECT_EQ(test, braid_record_event(b, 5, 0, NULL), -EAGAIN);
}

static void event_bad_descriptions(struct kunit *test)
{
	const struct braid_event_desc no_system = { .name = "x" }, no_name = { .system = "x" };
	const struct braid_event_desc no_print = { .system = "x", .name = "x", .fields = "" };
	struct braid_buffer *buffer = buffer_of(test);
	struct braid_buffer *raw = braid_case_alloc(test, "raw", PAGE, BRAID_ALLOC_RAW, NULL);
	struct braid_buffer *back = braid_case_alloc(test, "back", 4 * PAGE, 0, buffer);

	KUNIT_EXPECT_EQ(test, braid_register_event(buffer, 0, &no_system), -EINVAL);
	KUNIT_EXPECT_EQ(test, braid_register_event(buffer, 0, &no_name), -EINVAL);
	KUNIT_EXPECT_EQ(test, braid_register_event(buffer, 0, &no_print), -EINVAL);
	KUNIT_EXPECT_EQ(test, braid_register_event(raw, 0, &plain), -EINVAL);
	KUNIT_EXPECT_EQ(test, braid_register_event(back, 0, &plain), -EINVAL);
}

static void event_records(struct kunit *test)
{
	/*
	 * The payload follows the sub-buffer's header, the event's head and length, and the
	 * record's head.
	 */
	const u32 most = PAGE - BRAID_SUBBUF_HEADER_BYTES - 8 - sizeof(struct braid_record);
	static u8 payload[PAGE];
	struct braid_buffer *buffer = buffer_of(test);
	u16 id = braid_case_register(test, buffer, "one", NULL);
	const u32 lengths[] = { 0, 1, 7, 8, 82, 992, 993, most - 3, 1, most };
	const struct braid_record *record;
	struct braid_item item;
	unsigned int k;

	memset(payload, 0x5a, sizeof(payload));
	for (k = 0; k < ARRAY_SIZE(lengths); k++) {
		KUNIT_ASSERT_EQ(test, braid_record_event(buffer, id, lengths[k], payload), 0);
		KUNIT_ASSERT_EQ(test, braid_buffer_consume(buffer, 0, &item), 1);
		record = item.payload;
		KUNIT_EXPECT_EQ(test, record->common_type, id);
		KUNIT_EXPECT_EQ(test, record->common_pid, current->pid);
		KUNIT_EXPECT_EQ(test, item.payload_bytes, round_up(8 + lengths[k], 4U));
		KUNIT_EXPECT_EQ(test, memcmp(record + 1, payload, lengths[k]), 0);
	}
	braid_buffer_read_done(buffer, 0);
	KUNIT_EXPECT_EQ(test, braid_record_event(buffer, id, most + 1, payload), -EMSGSIZE);
	KUNIT_EXPECT_EQ(test, braid_record_event(buffer, id, U32_MAX, payload), -EMSGSIZE);
	KUNIT_EXPECT_EQ(test, braid_record_event(buffer, id + 1, 4, payload), -ENOENT);
	KUNIT_EXPECT_EQ(test, braid_record_event(buffer, 0, 4, payload), -ENOENT);
	KUNIT_EXPECT_EQ(test, braid_buffer_dropped(buffer), 0);
}

static void event_is_off_at_first(struct kunit *test)
{
	struct braid_buffer *buffer = buffer_of(test);
	int id = braid_register_event(buffer, 0, &plain);

	KUNIT_ASSERT_GT(test, id, 0);
	KUNIT_EXPECT_EQ(test, braid_record_event(buffer, id, 0, NULL), -EAGAIN);
	braid_case_turn(test, buffer, id, true);
	KUNIT_EXPECT_EQ(test, braid_record_event(buffer, id, 0, NULL), 0);
	braid_buffer_record_disable(buffer);
	KUNIT_EXPECT_EQ(test, braid_record_event(buffer, id, 0, NULL), -EAGAIN);
	braid_buffer_record_enable(buffer);
	braid_case_turn(test, buffer, id, false);
	KUNIT_EXPECT_EQ(test, braid_record_event(buffer, id, 0, NULL), -EAGAIN);
	KUNIT_EXPECT_EQ(test, braid_buffer_entries(buffer), 1);
}

static void event_full_is_counted(struct kunit *test)
{
	struct braid_buffer *buffer = buffer_of(test);
	u16 id = braid_case_register(test, buffer, "one", NULL);
	u64 taken = 0, offered;
	int err = 0;

	for (offered = 0; offered < 5000; offered++) {
		err = braid_record_event(buffer, id, sizeof(offered), &offered);
		taken += !err;
	}
	KUNIT_EXPECT_EQ(test, err, -ENOSPC);
	KUNIT_EXPECT_EQ(test, braid_buffer_entries(buffer), taken);
	KUNIT_EXPECT_EQ(test, braid_buffer_dropped(buffer), 5000 - taken);
}

static void event_default_buffer(struct kunit *test)
{
	u16 id = braid_case_register(test, NULL, "one", NULL);
	u64 before = braid_buffer_entries(braid_trace_buffer());

	KUNIT_EXPECT_EQ(test, braid_record_event(NULL, id, 4, "abc"), 0);
	KUNIT_EXPECT_EQ(test, braid_record_event(braid_trace_buffer(), id, 4, "abc"), 0);
	KUNIT_EXPECT_EQ(test, braid_buffer_entries(braid_trace_buffer()), before + 2);
	KUNIT_EXPECT_EQ(test, braid_unregister_event(braid_trace_buffer(), id), 0);
	KUNIT_EXPECT_EQ(test, braid_record_event(NULL, id, 4, "abc"), -ENOENT);
}

static void event_patterns(struct kunit *test)
{
	struct braid_buffer *buffer = buffer_of(test);
	u16 one = braid_case_register(test, buffer, "one", NULL);
	u16 two = braid_case_register(test, buffer, "two", NULL);
	u32 matched;

	KUNIT_EXPECT_EQ(test, braid_event_set_matching(buffer, "kun?t", "o*",
						       BRAID_EVENT_GUEST_ON, false, NULL,
						       &matched), 0);
	KUNIT_EXPECT_EQ(test, matched, 1);
	KUNIT_EXPECT_EQ(test, braid_record_event(buffer, one, 0, NULL), -EAGAIN);
	KUNIT_EXPECT_EQ(test, braid_record_event(buffer, two, 0, NULL), 0);
	KUNIT_EXPECT_EQ(test, braid_event_set_matching(buffer, "", NULL, BRAID_EVENT_GUEST_ON,
						       false, NULL, &matched), 0);
	KUNIT_EXPECT_EQ(test, matched, 2);
	KUNIT_EXPECT_EQ(test, braid_event_set_matching(buffer, "[", "", BRAID_EVENT_GUEST_ON, true,
						       NULL, &matched), 0);
	KUNIT_EXPECT_EQ(test, matched, 0);
}

static void event_directory(struct kunit *test)
{
	const struct braid_event_desc desc = {
		.system = "kunit", .name = "listed",
		.fields = "\tfield:u64 n;\toffset:8;\tsize:8;\tsigned:0;\n",
		.print_fmt = "\"n=%llu\", REC->n",
	};
	struct braid_buffer *buffer = buffer_of(test);
	int id = braid_register_event(buffer, 0, &desc);
	const struct braid_dir_entry *entry;

	KUNIT_ASSERT_GT(test, id, 0);
	entry = listed(buffer, id, false);
	KUNIT_ASSERT_NOT_NULL(test, entry);
	KUNIT_EXPECT_STREQ(test, entry->strings, "kunit");
	KUNIT_EXPECT_STREQ(test, entry->strings + entry->system_bytes, "listed");
	KUNIT_EXPECT_EQ(test, entry->flags, 0);
	KUNIT_EXPECT_NOT_NULL(test, strstr(entry->strings + entry->system_bytes +
					   entry->name_bytes, desc.fields));
	braid_case_turn(test, buffer, id, true);
	KUNIT_EXPECT_EQ(test, entry->flags, BRAID_EVENT_GUEST_ON);
	KUNIT_EXPECT_EQ(test, braid_unregister_event(buffer, id), 0);
	KUNIT_EXPECT_EQ(test, entry->flags, BRAID_EVENT_GONE);
	KUNIT_EXPECT_PTR_EQ(test, listed(buffer, id, true), entry);
}

/* A text is an entry, but no reader takes it for an event. */
static void event_directory_texts(struct kunit *test)
{
	const struct braid_dir_entry *entry = listed(braid_trace_buffer(), BRAID_TEXT_ID, true);
	const char *name;

	KUNIT_ASSERT_NOT_NULL(test, entry);
	KUNIT_EXPECT_STREQ(test, entry->strings, "");
	name = entry->strings + entry->system_bytes;
	KUNIT_EXPECT_STREQ(test, name, "printk_formats");
	KUNIT_EXPECT_STREQ(test, name + entry->name_bytes, BRAID_FAKE_TEXTS);
	KUNIT_EXPECT_EQ(test, entry->buffer, 0);
}

static struct braid_directory *directory(void)
{
	const struct braid_superblock *sb = braid_fake_memory();

	return braid_fake_memory() + sb->sections[BRAID_SECTION_DIRECTORY].offset;
}

/* An event that is registered again reuses its entry; another event of its name or id does not. */
static void event_reuses_its_entry(struct kunit *test)
{
	const struct braid_subevent parts[] = { { .number = 1, .name = "one" },
						{ .number = 2, .name = "two" } };
	const struct braid_subevent_table table = { .subevents = parts,
						    .nr = 2,
						    .number_bytes = 4 };
	const struct braid_event_desc same_name = { .system = "kunit", .name = "plain",
						    .fields = "", .print_fmt = "\"\"" };
	struct braid_buffer *buffer = buffer_of(test);
	int id = braid_register_event(buffer, 0, &plain), k, other;
	const struct braid_dir_entry *entry = listed(buffer, id, false);
	u32 used, reused;

	KUNIT_ASSERT_NOT_NULL(test, entry);
	KUNIT_ASSERT_EQ(test, braid_register_subevents(buffer, id, &table), 0);
	used = directory()->bytes_used;
	for (k = 0; k < 100; k++) {	/* each waits for RCU */
		KUNIT_ASSERT_EQ(test, braid_unregister_event(buffer, id), 0);
		KUNIT_ASSERT_EQ(test, braid_register_event(buffer, k & 1 ? id : 0, &plain), id);
		KUNIT_ASSERT_EQ(test, braid_register_subevents(buffer, id, &table), 0);
	}
	KUNIT_EXPECT_EQ(test, directory()->bytes_used, used);
	KUNIT_EXPECT_EQ(test, directory()->nr_reused, 300);
	KUNIT_EXPECT_PTR_EQ(test, listed(buffer, id, false), entry);
	KUNIT_EXPECT_EQ(test, entry->flags, 0);

	/* A reader uses the last entry of an id, so after this the first one is obsolete. */
	KUNIT_ASSERT_EQ(test, braid_unregister_event(buffer, id), 0);
	other = braid_register_event(buffer, 0, &same_name);
	KUNIT_EXPECT_NE(test, other, id);
	KUNIT_ASSERT_EQ(test, braid_register_event(buffer, id, &same_name), id);
	KUNIT_ASSERT_EQ(test, braid_unregister_event(buffer, id), 0);
	reused = directory()->nr_reused;
	KUNIT_ASSERT_EQ(test, braid_register_event(buffer, id, &plain), id);
	KUNIT_EXPECT_EQ(test, directory()->nr_reused, reused);
	KUNIT_EXPECT_GT(test, directory()->bytes_used, used);
	KUNIT_EXPECT_EQ(test, entry->flags, BRAID_EVENT_GONE);
}

static int enable_seen(struct kunit *test, u64 seen, u32 *matched)
{
	return braid_case_command(test, BRAID_CMD_ENABLE,
				  seen << BRAID_SEEN_SHIFT | BRAID_ONLY_SEEN, "pl*", matched);
}

static void event_host_commands(struct kunit *test)
{
	struct braid_buffer *buffer = buffer_of(test);
	int id = braid_register_event(buffer, 0, &plain);
	u32 matched;

	KUNIT_ASSERT_GT(test, id, 0);
	KUNIT_EXPECT_EQ(test, braid_case_command(test, BRAID_CMD_ENABLE, 0, "pl*", &matched), 0);
	KUNIT_EXPECT_EQ(test, matched, 1);
	KUNIT_EXPECT_EQ(test, listed(buffer, id, false)->flags, BRAID_EVENT_HOST_ON);
	KUNIT_EXPECT_EQ(test, braid_record_event(buffer, id, 0, NULL), 0);
	/* The two masters are independent. */
	braid_case_turn(test, buffer, id, true);
	braid_case_turn(test, buffer, id, false);
	KUNIT_EXPECT_EQ(test, braid_record_event(buffer, id, 0, NULL), 0);
	KUNIT_EXPECT_EQ(test, braid_case_command(test, BRAID_CMD_RECORD_OFF, buffer->index, "", &matched), 0);
	KUNIT_EXPECT_EQ(test, braid_record_event(buffer, id, 0, NULL), -EAGAIN);
	KUNIT_EXPECT_EQ(test, braid_case_command(test, BRAID_CMD_RECORD_ON, buffer->index, "", &matched), 0);
	KUNIT_EXPECT_EQ(test, braid_record_event(buffer, id, 0, NULL), 0);
	KUNIT_EXPECT_EQ(test, braid_case_command(test, BRAID_CMD_DISABLE, 0, "", &matched), 0);
	KUNIT_EXPECT_EQ(test, braid_record_event(buffer, id, 0, NULL), -EAGAIN);
	KUNIT_EXPECT_EQ(test, braid_case_command(test, BRAID_CMD_RECORD_OFF, U64_MAX, "", &matched), -EINVAL);
	KUNIT_EXPECT_EQ(test, braid_case_command(test, 4711, 0, "", &matched), -EOPNOTSUPP);
}

/* An event is enabled only for a host that has read that it is listed, or listed again. */
static void event_unseen(struct kunit *test)
{
	const struct braid_mailbox *mailbox = braid_fake_memory() + BRAID_PAGE_BYTES;
	static const struct braid_event_desc late = { .system = "kunit", .name = "plate" };
	struct braid_buffer *buffer = buffer_of(test);
	int id = braid_register_event(buffer, 0, &plain), new;
	u64 seen = directory()->generation;
	u32 matched;

	KUNIT_ASSERT_GT(test, id, 0);
	new = braid_register_event(buffer, 0, &late);
	KUNIT_ASSERT_GT(test, new, 0);
	KUNIT_EXPECT_EQ(test, enable_seen(test, seen, &matched), 0);
	KUNIT_EXPECT_EQ(test, matched, 1);
	KUNIT_EXPECT_EQ(test, mailbox->unseen, 1);
	KUNIT_EXPECT_EQ(test, braid_record_event(buffer, id, 0, NULL), 0);
	KUNIT_EXPECT_EQ(test, braid_record_event(buffer, new, 0, NULL), -EAGAIN);
	/* Changes of flags make none new. */
	seen = directory()->generation;
	braid_case_turn(test, buffer, new, true);
	braid_case_turn(test, buffer, new, false);
	KUNIT_EXPECT_EQ(test, enable_seen(test, seen, &matched), 0);
	KUNIT_EXPECT_EQ(test, matched, 2);
	KUNIT_EXPECT_EQ(test, mailbox->unseen, 0);
	KUNIT_EXPECT_EQ(test, braid_record_event(buffer, new, 0, NULL), 0);
	/* In its former entry it is new. */
	seen = directory()->generation;
	KUNIT_ASSERT_EQ(test, braid_unregister_event(buffer, new), 0);
	KUNIT_ASSERT_EQ(test, braid_register_event(buffer, 0, &late), new);
	KUNIT_EXPECT_EQ(test, enable_seen(test, seen, &matched), 0);
	KUNIT_EXPECT_EQ(test, mailbox->unseen, 1);
	KUNIT_EXPECT_EQ(test, braid_record_event(buffer, new, 0, NULL), -EAGAIN);
	/* Numbers that no directory had. */
	KUNIT_EXPECT_EQ(test, enable_seen(test, 0, &matched), 0);
	KUNIT_EXPECT_EQ(test, mailbox->unseen, 2);
	KUNIT_EXPECT_EQ(test, enable_seen(test, U64_MAX, &matched), 0);
	KUNIT_EXPECT_EQ(test, matched, 2);
	KUNIT_EXPECT_EQ(test, mailbox->unseen, 0);
	/* An agent that does not say what it has seen. */
	KUNIT_EXPECT_EQ(test, braid_case_command(test, BRAID_CMD_DISABLE, 0, "", &matched), 0);
	KUNIT_ASSERT_EQ(test, braid_unregister_event(buffer, new), 0);
	KUNIT_ASSERT_EQ(test, braid_register_event(buffer, 0, &late), new);
	KUNIT_EXPECT_EQ(test, braid_case_command(test, BRAID_CMD_ENABLE, 0, "pl*", &matched), 0);
	KUNIT_EXPECT_EQ(test, matched, 2);
	KUNIT_EXPECT_EQ(test, mailbox->unseen, 0);
	KUNIT_EXPECT_EQ(test, braid_record_event(buffer, new, 0, NULL), 0);
}

/* A command whose answer waits for the formats is executed at once, and answered in any case. */
static void event_late_answer(struct kunit *test)
{
	const struct braid_mailbox *mailbox = braid_fake_memory() + BRAID_PAGE_BYTES;
	struct braid_buffer *buffer = buffer_of(test);
	int id = braid_register_event(buffer, 0, &plain), k;
	unsigned long sent;
	u32 seq, matched;

	KUNIT_ASSERT_GT(test, id, 0);
	KUNIT_EXPECT_EQ(test, braid_case_command(test, BRAID_CMD_ENABLE, 0, "pl*", &matched), 0);
	WRITE_ONCE(braid_fake_looks_up, true);
	KUNIT_EXPECT_EQ(test, braid_case_command(test, BRAID_CMD_NONE, 0, "", &matched), 0);
	seq = braid_case_send(BRAID_CMD_DISABLE, BRAID_CONFIRM_TABLES, "");
	for (k = 0; k < 30000 && !braid_record_event(buffer, id, 0, NULL); k++)
		msleep(1);
	KUNIT_EXPECT_EQ(test, braid_record_event(buffer, id, 0, NULL), -EAGAIN);
	msleep(5 * BRAID_POLL_MS);
	KUNIT_EXPECT_NE(test, braid_load_acquire(&mailbox->done_seq), seq);
	WRITE_ONCE(braid_fake_looks_up, false);
	KUNIT_EXPECT_EQ(test, braid_case_answer(test, seq, &matched), 0);
	KUNIT_EXPECT_EQ(test, matched, 1);

	/* Formats that never come; then an agent that did not wait for the answer. */
	WRITE_ONCE(braid_fake_looks_up, true);
	sent = jiffies;
	KUNIT_EXPECT_EQ(test, braid_case_command(test, BRAID_CMD_NONE, BRAID_CONFIRM_TABLES, "", &matched), 0);
	KUNIT_EXPECT_TRUE(test, time_after_eq(jiffies, sent + msecs_to_jiffies(BRAID_CONFIRM_MS)));
	braid_case_send(BRAID_CMD_NONE, BRAID_CONFIRM_TABLES, "");
	msleep(5 * BRAID_POLL_MS);
	KUNIT_EXPECT_EQ(test, braid_case_command(test, BRAID_CMD_ENABLE, 0, "pl*", &matched), 0);
	KUNIT_EXPECT_EQ(test, matched, 1);
	WRITE_ONCE(braid_fake_looks_up, false);
}

/* Records without pause while the event changes. */
struct recorder {
	struct braid_buffer *buffer;
	u16 id;
	u64 recorded;
	int odd;		/* unexpected results */
};

static int record_on(void *arg)
{
	struct recorder *r = arg;

	while (!kthread_should_stop()) {
		int err = braid_record_event(r->buffer, r->id, sizeof(r->id), &r->id);

		if (!err)
			WRITE_ONCE(r->recorded, r->recorded + 1);
		else if (err != -ENOENT && err != -EAGAIN)
			r->odd = err;
		cond_resched();
	}
	return 0;
}

static void event_removed_while_recorded(struct kunit *test)
{
	struct braid_buffer *buffer = braid_case_alloc(test, "b", 4 * PAGE, BRAID_ALLOC_OVERWRITE,
						       NULL);
	struct recorder r = { .buffer = buffer, .id = 100 };
	struct task_struct *thread = kthread_run(record_on, &r, "recorder");
	u64 before;
	int round;

	KUNIT_ASSERT_FALSE(test, IS_ERR(thread));
	for (round = 0; round < 20; round++) {
		before = READ_ONCE(r.recorded);
		if (braid_register_event(buffer, 100, &plain) != 100)
			break;
		braid_case_turn(test, buffer, 100, true);
		while (READ_ONCE(r.recorded) == before)
			cond_resched();
		if (braid_unregister_event(buffer, 100))
			break;
	}
	kthread_stop(thread);
	KUNIT_EXPECT_EQ(test, round, 20);
	KUNIT_EXPECT_EQ(test, r.odd, 0);
	KUNIT_EXPECT_EQ(test, braid_buffer_entries(buffer) + braid_buffer_overruns(buffer),
			r.recorded);
}

/* The same, while the buffer's rings change. */
static void event_rings_change_while_recorded(struct kunit *test)
{
	struct braid_buffer *buffer = braid_case_alloc(test, "b", 4 * PAGE, BRAID_ALLOC_OVERWRITE,
						       NULL);
	struct braid_buffer *back = braid_case_alloc(test, "back", 4 * PAGE, BRAID_ALLOC_OVERWRITE,
						     buffer);
	struct recorder r = { .buffer = buffer, .id = braid_case_register(test, buffer, "x", NULL) };
	struct task_struct *thread = kthread_run(record_on, &r, "recorder");
	int round, err = 0;
	u64 before;

	KUNIT_ASSERT_FALSE(test, IS_ERR(thread));
	for (round = 0; round < 20 && !err; round++) {
		before = READ_ONCE(r.recorded);
		while (READ_ONCE(r.recorded) == before)
			cond_resched();
		switch (round % 4) {
		case 0: err = braid_buffer_reset(buffer); break;
		case 1: err = braid_buffer_resize(buffer, (round % 3 + 1) * PAGE); break;
		case 2: err = braid_buffer_resize(buffer, 4 * PAGE); break;
		case 3: err = braid_buffer_swap_cpu(buffer, back, 0) ?:
			      braid_buffer_swap_cpu(back, buffer, 0); break;
		}
	}
	kthread_stop(thread);
	KUNIT_EXPECT_EQ(test, err, 0);
	KUNIT_EXPECT_EQ(test, r.odd, 0);
	KUNIT_EXPECT_EQ(test, braid_buffer_dropped(buffer), 0);
}

#ifdef CONFIG_HOTPLUG_CPU
/*
 * Nobody enables it. An agent is told again of what is offline; without one, nothing is recorded.
 */
static void event_online(struct kunit *test)
{
	struct braid_buffer *buffer = braid_trace_buffer();
	u32 cpu = cpumask_last(cpu_online_mask);
	u64 lost;

	if (!cpu)
		kunit_skip(test, "there is one CPU");
	KUNIT_EXPECT_EQ(test, braid_buffer_entries(buffer), 0);
	KUNIT_ASSERT_EQ(test, remove_cpu(cpu), 0);
	KUNIT_EXPECT_EQ(test, braid_buffer_entries(buffer), 1);
	braid_online_poll(false);
	KUNIT_EXPECT_EQ(test, braid_buffer_entries(buffer), 1);
	braid_online_poll(true);
	KUNIT_EXPECT_EQ(test, braid_case_drain(test, buffer, &lost), 1);
	KUNIT_ASSERT_EQ(test, add_cpu(cpu), 0);
	KUNIT_EXPECT_EQ(test, braid_buffer_entries(buffer), 2);
	braid_online_poll(true);
	KUNIT_EXPECT_EQ(test, braid_buffer_entries(buffer), 2);
}
#else
static void event_online(struct kunit *test)
{
	kunit_skip(test, "CPUs stay");
}
#endif

static struct kunit_case event_cases[] = {
	KUNIT_CASE(event_ids),
	KUNIT_CASE(event_ids_of_two_buffers),
	KUNIT_CASE(event_bad_descriptions),
	KUNIT_CASE(event_records),
	KUNIT_CASE(event_is_off_at_first),
	KUNIT_CASE(event_full_is_counted),
	KUNIT_CASE(event_default_buffer),
	KUNIT_CASE(event_patterns),
	KUNIT_CASE(event_directory),
	KUNIT_CASE(event_directory_texts),
	KUNIT_CASE(event_reuses_its_entry),
	KUNIT_CASE(event_online),
	KUNIT_CASE(event_host_commands),
	KUNIT_CASE(event_unseen),
	KUNIT_CASE(event_late_answer),
	KUNIT_CASE(event_removed_while_recorded),
	KUNIT_CASE(event_rings_change_while_recorded),
	{}
};

static struct kunit_suite event_suite = {
	.name = "event",
	.init = braid_case_init,
	.exit = braid_case_exit,
	.test_cases = event_cases,
};
kunit_test_suite(event_suite);
