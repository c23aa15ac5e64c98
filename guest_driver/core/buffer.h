/* SPDX-License-Identifier: GPL-2.0 */
/* A buffer: one ring for each possible vCPU, and the writers' private state. */
#ifndef BRAID_CORE_BUFFER_H
#define BRAID_CORE_BUFFER_H

#include <linux/sched.h>
#include <linux/smp.h>

#include "guest_driver/core/counter.h"
#include "guest_driver/core/region.h"
#include "shared/ring.h"

struct braid_buffer {
	struct braid_guest_region *region;
	u32 index;			/* in the superblock */
	u32 nr_rings;
	u32 disabled;			/* S0 record_disable: takes nothing, counts nothing */
	char name[BRAID_NAME_BYTES];
	struct braid_writer *writers[];	/* by CPU number */
};

/* An event on its way: on the stack of who writes it. */
struct braid_slot {
	struct braid_writer *writer;
	u64 token;
};

/**
 * braid_buffer_create - place a buffer in a region that is planned
 * @region: planned, not started
 * @params: the shape
 *
 * Context: may sleep.
 * Return: the buffer, or an ERR_PTR: -ENOSPC (a message names the size needed),
 * -EINVAL (shape), -ENFILE, -ENOMEM.
 */
struct braid_buffer *braid_buffer_create(struct braid_guest_region *region,
					 const struct braid_buffer_params *params);

/**
 * braid_buffer_start - begin its rings
 * @buffer: of a region in BRAID_STATE_INIT
 */
void braid_buffer_start(struct braid_buffer *buffer);

/**
 * braid_buffer_destroy - free the writers; the rings stay as they are
 * @buffer: nobody writes any more
 */
void braid_buffer_destroy(struct braid_buffer *buffer);

/* The values of enum trace_flag_type, which the trace tools know. */
static __always_inline u8 braid_context_flags(unsigned long pc)
{
	u8 flags = irqs_disabled() ? 0x01 : 0;

	if (test_thread_flag(TIF_NEED_RESCHED))
		flags |= 0x04;
	if (test_preempt_need_resched())
		flags |= 0x20;
	if ((pc & SOFTIRQ_MASK) >> (SOFTIRQ_SHIFT + 1))
		flags |= 0x80;
	if (pc & HARDIRQ_MASK)
		flags |= 0x08;
	if (pc & SOFTIRQ_OFFSET)
		flags |= 0x10;
	if (pc & NMI_MASK)
		flags |= 0x40;
	return flags;
}

/* What the traced code had; the tracepoint's own preempt_disable() is not its doing. */
static __always_inline u8 braid_preempt_depth(unsigned long pc)
{
	u32 depth = pc & PREEMPT_MASK;

	if (IS_ENABLED(CONFIG_PREEMPTION) && depth)
		depth--;
	return depth < 0xf ? depth : 0xf;
}

/**
 * braid_buffer_reserve - begin an event of this CPU
 * @buffer: the buffer
 * @id: the event's
 * @bytes: of payload, struct braid_record included
 * @slot: for braid_buffer_commit()
 *
 * Context: any, NMI included; preemption is off until the commit.
 * Return: the payload, its struct braid_record filled; NULL: dropped and counted, or
 * the buffer is disabled.
 */
static __always_inline void *braid_buffer_reserve(struct braid_buffer *buffer, u16 id, u32 bytes,
						  struct braid_slot *slot)
{
	struct braid_writer *w = buffer->writers[raw_smp_processor_id()];
	unsigned long pc = preempt_count();
	struct braid_record *record;

	if (unlikely(READ_ONCE(buffer->disabled)))
		return NULL;
	record = braid_ring_reserve(w, bytes, braid_counter, &slot->token);
	if (unlikely(!record))
		return NULL;
	slot->writer = w;
	record->common_type = id;
	record->common_flags = braid_context_flags(pc);
	record->common_preempt_count = braid_preempt_depth(pc);
	record->common_pid = current->pid;
	return record;
}

static __always_inline void braid_buffer_commit(struct braid_slot *slot)
{
	braid_ring_commit(slot->writer, slot->token);
}

#endif /* BRAID_CORE_BUFFER_H */
