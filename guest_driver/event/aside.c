// SPDX-License-Identifier: GPL-2.0
/* Records of events with filters, triggers or stacks: set aside, judged, written, tested. */
#include <linux/percpu.h>

#include "guest_driver/core/stack.h"
#include "guest_driver/event/filter.h"
#include "guest_driver/event/stacks.h"
#include "guest_driver/event/trigger.h"
#include "guest_driver/event/who.h"

static struct braid_filter_record braid_filter_see(const void *bytes, u32 nr_bytes)
{
	BUILD_BUG_ON(sizeof(current->comm) < BRAID_COMM_BYTES);
	return (struct braid_filter_record){
		.bytes = bytes,
		.nr_bytes = nr_bytes,
		.cpu = raw_smp_processor_id(),
		.comm = current->comm,
		.tasks = &braid_who_tasks,
	};
}

/* A record that passes without having been assembled. */
static void *braid_filter_reserve(const struct braid_event_filter *filter, struct braid_event *ev,
				  struct braid_buffer *buffer, struct braid_slot *slot, u32 bytes,
				  unsigned long pc, bool held)
{
	void *record = braid_record_reserve(buffer, ev->id, bytes, pc, held, slot);

	braid_filter_count(filter, record);
	return record;
}

/* Who and where: that needs no record. */
static bool braid_filter_is_early(const struct braid_event_filter *filter)
{
	return filter && filter->program.record_bytes <= sizeof(struct braid_record);
}

notrace void *braid_event_set_aside(struct braid_event *ev, struct braid_buffer *buffer,
				    struct braid_slot *slot, u32 bytes, unsigned long pc, bool held)
{
	const struct braid_event_filter *filter = READ_ONCE(ev->filter), *passed = NULL;
	const struct braid_trigger_test *tests = READ_ONCE(ev->tests);
	struct braid_filter_record seen;
	struct braid_record head;
	u8 stacks = READ_ONCE(ev->stacks);
	struct braid_aside *aside;

	if (!filter && !tests && !stacks)
		return braid_record_reserve(buffer, ev->id, bytes, pc, held, slot);
	slot->writer = NULL;
	if (!braid_buffer_is_open(buffer))
		return NULL;
	if (filter)
		this_cpu_inc(filter->account->offered);
	if (braid_filter_is_early(filter)) {
		braid_record_head(&head, ev->id, pc, held);
		seen = braid_filter_see(&head, sizeof(head));
		if (!braid_filter_judge(filter, &seen))
			return NULL;
		if (!tests && !stacks)
			return braid_filter_reserve(filter, ev, buffer, slot, bytes, pc, held);
		passed = filter;
		filter = NULL;
	}
	aside = braid_filter_take_aside(bytes);
	if (unlikely(!aside)) {
		if (filter)
			this_cpu_inc(filter->account->unjudged);
		braid_trigger_pass(tests);
		if (stacks)
			braid_stack_miss();
		return braid_filter_reserve(filter ?: passed, ev, buffer, slot, bytes, pc, held);
	}
	aside->filter = filter;
	aside->passed = passed;
	aside->tests = tests;
	aside->buffer = buffer;
	aside->bytes = bytes;
	aside->id = ev->id;
	aside->stacks = stacks;
	braid_record_head((struct braid_record *)aside->record, ev->id, pc, held);
	slot->aside = aside;
	return aside->record;
}

static bool braid_filter_write(const struct braid_aside *aside)
{
	struct braid_writer *w = braid_buffer_open_writer(aside->buffer);
	u8 *to = NULL;
	u64 token;

	if (likely(w))
		to = braid_ring_reserve(w, aside->bytes, braid_counter, &token);
	if (unlikely(!to))
		return false;
	if (aside->bytes & 3)		/* the ring rounds up */
		*(u32 *)(to + (aside->bytes & ~3u)) = 0;
	memcpy(to, aside->record, aside->bytes);
	braid_ring_commit(w, token);
	return true;
}

notrace void braid_event_judge(struct braid_slot *slot)
{
	const struct braid_aside *aside = slot->aside;
	const struct braid_filter_record seen = braid_filter_see(aside->record, aside->bytes);
	bool written;

	if (!aside->filter || braid_filter_judge(aside->filter, &seen)) {
		written = braid_filter_write(aside);
		braid_filter_count(aside->filter ?: aside->passed, written);
		if (written && aside->stacks)	/* before a trigger stops all writing */
			braid_stacks_write(aside->id, aside->stacks, _RET_IP_);
		braid_trigger_test(aside->tests, &seen);
	}
	braid_filter_give_aside();
}
