// SPDX-License-Identifier: GPL-2.0
/* Sets the driver's rooms up before a case and tears them down after it. */
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/sched.h>
#include <linux/seq_file.h>

#include "guest_driver/attach.h"
#include "guest_driver/core/reader.h"
#include "guest_driver/event/debugfs.h"
#include "guest_driver/event/online.h"
#include "guest_driver/event/trigger.h"
#include "tests/kunit/rooms.h"

#define MAX_BUFFERS	8

/* Of the running case: one at a time. */
static struct braid_buffer *buffers[MAX_BUFFERS];
static unsigned int nr_buffers;
static u16 registered[8];		/* in the buffer "trace", which is never freed */
static unsigned int nr_registered;
static bool rooms_are_up;

/* Suites run while the module is loaded, when __init code is still present. */
int __ref braid_rooms_up(void)
{
	int err;

	braid_debugfs_init();
	err = braid_attach_init();
	if (err)
		goto err_debugfs;
	err = braid_online_init();
	if (err)
		goto err_attach;
	err = braid_trigger_init();
	if (err)
		goto err_online;
	err = braid_fake_ops.init(&braid_attach_client);
	if (err)
		goto err_trigger;
	return 0;

err_trigger:
	braid_trigger_exit();
err_online:
	braid_online_exit();
err_attach:
	braid_attach_exit();
err_debugfs:
	braid_debugfs_exit();
	return err;
}

void braid_rooms_down(void)
{
	braid_fake_ops.exit();
	braid_trigger_exit();
	braid_online_exit();
	braid_attach_exit();
	braid_debugfs_exit();
}

int braid_case_init_unplugged(struct kunit *test)
{
	int err = set_cpus_allowed_ptr(current, cpumask_of(0));

	if (!err)
		err = braid_rooms_up();
	rooms_are_up = !err;
	nr_buffers = 0;
	nr_registered = 0;
	return err;
}

int braid_case_init(struct kunit *test)
{
	int err = braid_case_init_unplugged(test);

	if (!err)
		err = braid_fake_make(BRAID_TEST_BYTES);
	/* braid_case_print() and others read the driver's own buffer as modules read theirs. */
	return err ?: braid_reader_prepare(braid_trace_buffer()) ?: braid_fake_plug();
}

void braid_case_exit(struct kunit *test)
{
	if (!rooms_are_up)
		return;
	while (nr_registered)
		braid_unregister_event(NULL, registered[--nr_registered]);
	while (nr_buffers) {
		struct braid_buffer *buffer = buffers[--nr_buffers];

		if (braid_buffer_free(buffer))
			pr_warn("WARNING: a buffer of %s is still in use\n", test->name);
	}
	braid_rooms_down();
	rooms_are_up = false;
}

struct braid_buffer *braid_case_alloc(struct kunit *test, const char *name, u64 size, u32 flags,
				      struct braid_buffer *events_of)
{
	struct braid_buffer *buffer = braid_buffer_alloc(name, size, flags, events_of);

	KUNIT_ASSERT_FALSE_MSG(test, IS_ERR(buffer), "buffer %s: %ld", name, PTR_ERR(buffer));
	if (nr_buffers == MAX_BUFFERS) {
		braid_buffer_free(buffer);
		KUNIT_ASSERT_LT(test, nr_buffers, MAX_BUFFERS);
	}
	buffers[nr_buffers++] = buffer;
	return buffer;
}

void braid_case_free(struct kunit *test, struct braid_buffer *buffer)
{
	unsigned int k = 0;

	KUNIT_ASSERT_EQ(test, braid_buffer_free(buffer), 0);
	while (buffers[k] != buffer)
		k++;
	memmove(&buffers[k], &buffers[k + 1], (--nr_buffers - k) * sizeof(buffers[0]));
}

void braid_case_turn(struct kunit *test, struct braid_buffer *buffer, u16 id, bool on)
{
	struct braid_event *ev;

	rcu_read_lock();
	ev = braid_event_find(buffer ?: braid_trace_buffer(), id);
	rcu_read_unlock();		/* owned by the case */
	KUNIT_ASSERT_NOT_NULL(test, ev);
	KUNIT_ASSERT_EQ(test, braid_event_set(ev, BRAID_EVENT_GUEST_ON, on), 0);
}

u16 braid_case_register(struct kunit *test, struct braid_buffer *buffer, const char *name,
			const struct braid_outputs *outputs)
{
	struct braid_event_desc desc = { .system = "kunit", .name = name };
	int id;

	if (outputs)
		desc.outputs = *outputs;
	id = braid_register_event(buffer, 0, &desc);
	KUNIT_ASSERT_GT(test, id, 0);
	if (!buffer) {
		KUNIT_ASSERT_LT(test, nr_registered, ARRAY_SIZE(registered));
		registered[nr_registered++] = id;
	}
	braid_case_turn(test, buffer, id, true);
	return id;
}

u64 braid_case_drain(struct kunit *test, struct braid_buffer *buffer, u64 *lost)
{
	struct braid_item item;
	u64 events = 0;
	int got;

	*lost = 0;
	while ((got = braid_buffer_consume(buffer, 0, &item)) > 0) {
		events++;
		*lost += item.lost_before;
	}
	KUNIT_EXPECT_EQ(test, got, 0);
	braid_buffer_read_done(buffer, 0);
	return events;
}

const char *braid_case_print(struct kunit *test, u16 id, u32 bytes, const void *payload,
			     enum braid_output kind)
{
	static char text[1024];
	struct seq_file out = { .buf = text, .size = sizeof(text) - 1 };
	struct braid_item item;

	KUNIT_ASSERT_EQ(test, braid_record_event(NULL, id, bytes, payload), 0);
	KUNIT_ASSERT_EQ(test, braid_buffer_consume(braid_trace_buffer(), 0, &item), 1);
	braid_output_item(&out, &item, kind);
	braid_buffer_read_done(braid_trace_buffer(), 0);
	KUNIT_ASSERT_LT(test, out.count, sizeof(text));
	text[out.count] = 0;
	return text;
}

u32 braid_case_send(u32 code, u64 arg0, const char *event)
{
	struct braid_mailbox *mailbox = braid_fake_memory() + BRAID_PAGE_BYTES;
	u32 seq = mailbox->command_seq + 1;

	mailbox->command = code;
	mailbox->arg0 = arg0;
	strscpy_pad(mailbox->system, "kunit", sizeof(mailbox->system));
	strscpy_pad(mailbox->event, event, sizeof(mailbox->event));
	braid_store_release(&mailbox->command_seq, seq);
	return seq;
}

int braid_case_answer(struct kunit *test, u32 seq, u32 *matched)
{
	struct braid_mailbox *mailbox = braid_fake_memory() + BRAID_PAGE_BYTES;
	int k;

	/* The limit catches a guest that never answers. */
	for (k = 0; k < 30000 && braid_load_acquire(&mailbox->done_seq) != seq; k++)
		msleep(1);
	KUNIT_ASSERT_EQ(test, braid_load_acquire(&mailbox->done_seq), seq);
	*matched = mailbox->matched;
	return mailbox->result;
}

int braid_case_command(struct kunit *test, u32 code, u64 arg0, const char *event, u32 *matched)
{
	return braid_case_answer(test, braid_case_send(code, arg0, event), matched);
}
