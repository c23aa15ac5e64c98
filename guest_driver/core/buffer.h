/* SPDX-License-Identifier: GPL-2.0 */
/* Buffers: one ring for each possible vCPU, and the writers' private state. */
#ifndef BRAID_CORE_BUFFER_H
#define BRAID_CORE_BUFFER_H

#include <linux/list.h>
#include <linux/sched.h>
#include <linux/smp.h>

#include "guest_driver/compat.h"
#include "guest_driver/core/counter.h"
#include "guest_driver/core/lock.h"
#include "guest_driver/core/region.h"
#include "shared/ring.h"

/* What one CPU has of a buffer. */
struct braid_cpu_ring {
	struct braid_writer *open;	/* for who records; NULL: record nothing */
	struct braid_writer *writer;	/* the same while there is a ring, else NULL. Changes under
					 * the buffer's lock, while nobody is inside; its ring is
					 * laid out later: braid_buffer_writer() */
	atomic_t disabled;		/* braid_buffer_record_disable_cpu() calls */
	u32 inside;			/* braid_buffer_reserve() calls without a commit yet; this CPU's */
	struct braid_guest_reader *reader;	/* core/reader.c's; NULL: never read in the guest */
};

/* In braid_buffer.disabled: the user's switch, buffers/enabled. */
#define BRAID_BUFFER_OFF	(1 << 20)

/*
 * A buffer lives from braid_buffer_make() to braid_buffer_destroy(), whether or not there
 * is shared memory to place its rings in.
 */
struct braid_buffer {
	struct list_head list;		/* of all buffers; core/buffer.c's */
	struct braid_lock lock;		/* held while rings come, go, are swapped, reset or read */
	char name[BRAID_NAME_BYTES];
	u32 flags;			/* BRAID_BUFFER_* */
	u32 subbuf_bytes;
	u32 nr_slots;			/* as wanted; 0: as many as max_bytes hold */
	u64 max_bytes;
	struct braid_buffer *events_of;	/* whose events it takes: itself, or another */
	u32 nr_backups;			/* buffers whose events_of this is, besides itself */
	struct braid_guest_region *region;	/* where its rings are; NULL: nowhere */
	u32 index;			/* there */
	atomic_t disabled;		/* braid_buffer_record_disable() calls, and BRAID_BUFFER_OFF */
	bool dying;			/* being freed: gets no rings again */
	struct braid_event_space *events;	/* the event room's; NULL: RAW, or another's */
	struct braid_buffer_files *files;	/* debugfs's; NULL: none */
	u32 nr_cpus;			/* possible ones */
	struct braid_cpu_ring cpus[];	/* by CPU number */
};

/* An event on its way: on the stack of who writes it. */
struct braid_slot {
	struct braid_writer *writer;
	u64 token;
};

/* How a buffer is to be. */
struct braid_buffer_shape {
	const char *name;
	u32 flags;			/* BRAID_BUFFER_OVERWRITE, _ABSOLUTE, _RAW */
	u32 subbuf_bytes;
	u32 nr_slots;			/* 0: as many as max_bytes hold */
	u64 max_bytes;			/* of all its rings, when nr_slots is 0 */
	struct braid_buffer *events_of;	/* NULL: its own */
};

/**
 * braid_buffer_make - make a buffer; it has no rings yet
 * @shape: how it is to be
 *
 * Must hold braid_buffers_lock().
 * Return: the buffer or an ERR_PTR: -EINVAL, -EEXIST, -ENOMEM.
 */
struct braid_buffer *braid_buffer_make(const struct braid_buffer_shape *shape);

/**
 * braid_buffer_destroy - unmake a buffer without rings
 * @buffer: nobody knows it any more
 *
 * Must hold braid_buffers_lock().
 */
void braid_buffer_destroy(struct braid_buffer *buffer);

/**
 * braid_buffer_place - give a buffer rings in a region
 * @buffer: without rings
 * @region: planned: then braid_buffers_start() begins them; or live: then the host is told
 *
 * Must hold braid_buffers_lock().
 * Return: 0; -ENOSPC, -ENFILE (a message says what is needed), -EINVAL (shape), -ENOMEM.
 */
int braid_buffer_place(struct braid_buffer *buffer, struct braid_guest_region *region);

/** braid_buffers_start - begin the rings of all that were placed before the region started */
void braid_buffers_start(struct braid_guest_region *region);

/* Why a buffer's rings go. */
enum braid_displace {
	BRAID_DISPLACE_REGION,	/* so does the memory they are in */
	BRAID_DISPLACE_FREE,	/* their memory is used again; readers find no rings from then on */
	BRAID_DISPLACE_RESHAPE,	/* likewise; but not while somebody in the guest reads */
};

/**
 * braid_buffer_displace - take a buffer's rings away; nobody records or reads on return
 * @buffer: with rings, or without: then nothing happens
 * @why: if their memory is used again while the region is live, an agent is told, and gets a
 *	moment to empty them
 *
 * Rings that were swapped are swapped back first.
 * Must hold braid_buffers_lock(). May sleep, for a second at most.
 * Return: 0, or -EBUSY when reshaping: one is mapped or being read.
 */
int braid_buffer_displace(struct braid_buffer *buffer, enum braid_displace why);

/**
 * braid_buffer_reshape - the same buffer with other rings, empty
 * @buffer: the buffer
 * @nr_slots: of each ring; 0 leaves it
 * @set: flags to set, of BRAID_BUFFER_OVERWRITE and _ABSOLUTE
 * @clear: flags to clear, likewise
 *
 * Context: may sleep, for a second at most. Return: 0, -EBUSY (mapped, being read, or swapped),
 * -ENOSPC (it stays as it was), -EINVAL, -ENOMEM.
 */
int braid_buffer_reshape(struct braid_buffer *buffer, u32 nr_slots, u32 set, u32 clear);

/** braid_slots_of - the nr_slots that hold @size bytes in sub-buffers of @subbuf_bytes; 0: none do */
u32 braid_slots_of(u64 size, u32 subbuf_bytes);

/** braid_buffers_lock - nobody makes, unmakes, places or displaces a buffer meanwhile. May sleep */
void braid_buffers_lock(void);
void braid_buffers_unlock(void);

/** braid_buffers_lock_any - the same for a moment, from any context. Return: false: it is taken */
bool braid_buffers_lock_any(void);
void braid_buffers_unlock_any(void);

/**
 * braid_buffer_next - all buffers, in the order they were made
 * @prev: the one before, or NULL
 *
 * Must hold braid_buffers_lock(). Return: the buffer or NULL.
 */
struct braid_buffer *braid_buffer_next(struct braid_buffer *prev);

/**
 * braid_buffer_open_close - let writers into the rings that there are, and into no others
 * @buffer: after a ring changed
 *
 * Must hold buffer->lock. Those kept out are out on return. The switches, which writers look at
 * themselves, are not asked.
 */
void braid_buffer_open_close(struct braid_buffer *buffer);

/**
 * braid_buffer_writer - who writes a ring
 * @buffer: must hold its lock
 * @cpu: the ring's
 *
 * Return: its writer; NULL: there is no ring, or it is not laid out yet.
 */
static inline struct braid_writer *braid_buffer_writer(const struct braid_buffer *buffer, int cpu)
{
	struct braid_writer *w = buffer->cpus[cpu].writer;

	return w && w->map.meta ? w : NULL;
}

/**
 * braid_buffer_shut - keep all writers of a ring out, whatever the switches say
 * @buffer: the buffer
 * @cpu: the ring, or -1 for all
 *
 * Must hold buffer->lock; braid_buffer_open_close() undoes it. They are out on return.
 */
void braid_buffer_shut(struct braid_buffer *buffer, int cpu);

/** braid_buffer_is_swapped - whether a ring of another buffer stands in. Must hold braid_buffers_lock() */
bool braid_buffer_is_swapped(const struct braid_buffer *buffer);

/**
 * braid_buffer_exchange - let two buffers have each other's ring of a CPU
 * @a: a buffer
 * @b: another
 * @cpu: whose writers are shut, and whose readers forgot it. Must hold both locks
 */
void braid_buffer_exchange(struct braid_buffer *a, struct braid_buffer *b, int cpu);

/**
 * braid_buffer_set_on - the user's switch, buffers/enabled: not counted
 *
 * Off: no writer is inside on return. Context: may sleep.
 */
void braid_buffer_set_on(struct braid_buffer *buffer, bool on);

static inline bool braid_buffer_is_on(const struct braid_buffer *buffer)
{
	return !(atomic_read(&buffer->disabled) & BRAID_BUFFER_OFF);
}

/**
 * braid_buffer_open_writer - who records on this CPU
 * @buffer: the buffer; preemption is off
 *
 * Context: any. Return: the writer; NULL: record nothing.
 */
static __always_inline struct braid_writer *
braid_buffer_open_writer(const struct braid_buffer *buffer)
{
	const struct braid_cpu_ring *ring = &buffer->cpus[raw_smp_processor_id()];

	if (unlikely(atomic_read(&buffer->disabled) | atomic_read(&ring->disabled)))
		return NULL;
	return READ_ONCE(ring->open);
}

/*
 * As the kernel's tracing_gen_ctx() has it, which modules can't call. The values are those
 * of enum trace_flag_type, which the trace tools know.
 */
static __always_inline u8 braid_context_flags(unsigned long pc)
{
	u8 flags = irqs_disabled() ? 0x01 : 0;

	if (braid_need_resched_lazy())
		flags |= 0x02;
	if (test_thread_flag(TIF_NEED_RESCHED))
		flags |= 0x04;
	if (test_preempt_need_resched())
		flags |= 0x20;
	/* With PREEMPT_RT these are the task's, not in preempt_count(). */
	if (softirq_count() >> (SOFTIRQ_SHIFT + 1))
		flags |= 0x80;
	if (in_serving_softirq())
		flags |= 0x10;
	if (pc & HARDIRQ_MASK)
		flags |= 0x08;
	if (pc & NMI_MASK)
		flags |= 0x40;
	return flags;
}

/*
 * What the traced code had: preemption's depth, at most 15, and migration's in the upper half.
 * @pc: before anything of ours changed it; @tracepoint: a tracepoint called us, and what it
 * holds is not the traced code's doing.
 */
static __always_inline u8 braid_context_depth(unsigned long pc, bool tracepoint)
{
	u32 depth = min_t(u32, pc & PREEMPT_MASK, 0xf);
	u32 migration = min_t(u32, braid_migration_depth(), 0xf);

	if (tracepoint && depth)
		depth -= BRAID_TRACEPOINT_PREEMPTION;
	if (tracepoint && migration)
		migration -= BRAID_TRACEPOINT_MIGRATION;
	return depth | migration << 4;
}

/* The most payload that an event can have: alone in a sub-buffer, behind its head and length. */
static inline u32 braid_buffer_longest(const struct braid_buffer *buffer)
{
	return buffer->subbuf_bytes - BRAID_SUBBUF_HEADER_BYTES - 2 * sizeof(u32);
}

/**
 * braid_record_reserve - begin a record of this CPU
 * @buffer: not RAW
 * @id: the event's
 * @bytes: of payload, struct braid_record included
 * @pc: preempt_count() before the caller turned preemption off
 * @tracepoint: a tracepoint called, and holds preemption or migration off itself
 * @slot: for braid_record_commit()
 *
 * Context: any, NMI included; preemption is off until the commit.
 * Return: the payload, its struct braid_record filled; NULL: dropped and counted, or, with
 * no writer in @slot, nothing is to be recorded.
 */
static __always_inline void *braid_record_reserve(struct braid_buffer *buffer, u16 id, u32 bytes,
						  unsigned long pc, bool tracepoint,
						  struct braid_slot *slot)
{
	struct braid_writer *w = braid_buffer_open_writer(buffer);
	struct braid_record *record;

	slot->writer = w;
	if (unlikely(!w))
		return NULL;
	record = braid_ring_reserve(w, bytes, braid_counter, &slot->token);
	if (unlikely(!record))
		return NULL;
	record->common_type = id;
	record->common_flags = braid_context_flags(pc);
	record->common_preempt_count = braid_context_depth(pc, tracepoint);
	record->common_pid = current->pid;
	return record;
}

static __always_inline void braid_record_commit(struct braid_slot *slot)
{
	braid_ring_commit(slot->writer, slot->token);
}

/**
 * braid_trace_buffer - the buffer "trace", where tracepoints and a NULL buffer write
 *
 * There from the driver's init to its exit.
 */
struct braid_buffer *braid_trace_buffer(void);

/** braid_set_trace_buffer - say which it is; NULL: none any more */
void braid_set_trace_buffer(struct braid_buffer *buffer);

#endif /* BRAID_CORE_BUFFER_H */
