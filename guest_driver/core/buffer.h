/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Buffers: one ring for each possible vCPU, and the writers' private state.
 *
 * Invariants:
 * - Writers take no lock and never wait. They run in any context, NMI included, with preemption off
 *   from the lookup of the ring to the commit.
 * - So a ring is removed or emptied only after its ->open is NULL and braid_synchronize_writers()
 *   has returned.
 * - Lock order: braid_buffers_lock(), buffer->lock, the locks of reader*.c. Two buffers' locks are
 *   held only under braid_buffers_lock().
 * - A buffer's region, index and writers change under both locks; its flags and nr_slots under
 *   braid_buffers_lock().
 * - Addresses and sizes come from region->layout and the writers, which are private. A shared word
 *   becomes an address or a length only after shared/ has checked it.
 * - Only braid_region_start() and braid_buffer_displace() wait for the host: for an agent whose
 *   heartbeat moves, for a second at most, in a context that may sleep; or, for a host that only
 *   reads, for BRAID_BEACON_LINGER_MS.
 */
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

/* A ring's counts when the guest began to count it: made, or emptied by a reset. */
struct braid_ring_base {
	u64 incarnation;	/* of the region; of another one, it is void */
	u64 read;
	u64 lost;		/* the dropped ones included */
	u64 dropped;
};

/*
 * How often and how long a ring was off. Any context of any CPU changes it, NMIs included; the poll
 * thread and whoever lays out the ring publish it, under the buffer's lock.
 */
struct braid_off_count {
	atomic_t switches;	/* that are off: the buffer's calls, its user's, the ring's calls */
	atomic_t times;		/* that the first of them was switched off */
	atomic64_t steps;	/* of the counter: ends less starts; while it is off, plus now */
	atomic_t begun, ended;	/* changes of these words; equal: none is underway */
	u32 seq;		/* as published: of the words in the ring ... */
	u32 seen;		/* ... and ended */
	bool was_off;
};

/* One CPU's part of a buffer. */
struct braid_cpu_ring {
	struct braid_writer *open;	/* for recording; NULL: record nothing */
	struct braid_writer *writer;	/* the same while there is a ring, else NULL. Changes under
					   the buffer's lock while no writer is inside; its ring is
					   laid out later: braid_buffer_writer() */
	atomic_t disabled;		/* braid_buffer_record_disable_cpu() calls */
	u32 inside;			/* braid_buffer_reserve() calls without a commit yet; this
					   CPU's */
	struct braid_guest_reader *reader;	/* core/reader.c's; NULL: never read in the guest */
	struct braid_ring_base base;	/* of writer's ring */
	struct braid_off_count off;	/* core/switch.c's */
	u64 pad[3];			/* the size is a power of two: an index is shifted */
};
static_assert(sizeof(struct braid_cpu_ring) == 128);

/* In braid_buffer.disabled: the user's switch, buffers/enabled; and those of triggers. */
#define BRAID_BUFFER_OFF	(1 << 20)
#define BRAID_BUFFER_FROZEN	(1 << 21)
#define BRAID_BUFFER_COUNTED	(1 << 22)	/* not off: each record is counted down */

/*
 * A buffer lives from braid_buffer_make() to braid_buffer_destroy(), with or without shared memory
 * for its rings.
 */
struct braid_buffer {
	struct list_head list;		/* of all buffers; core/buffer.c's */
	struct braid_lock lock;		/* held while rings are added, removed, swapped, reset or
					   read */
	char name[BRAID_NAME_BYTES];
	u32 flags;			/* BRAID_BUFFER_* */
	u32 subbuf_bytes;
	u32 nr_slots;			/* as requested; 0: as many as fit in max_bytes */
	u64 max_bytes;
	struct braid_buffer *events_of;	/* the buffer whose events it uses: itself or another */
	u32 nr_backups;			/* other buffers with this one as events_of */
	struct braid_guest_region *region;	/* the region with its rings; NULL: none */
	u32 index;			/* there */
	/* braid_buffer_record_disable() calls, and the bits of other switches */
	atomic_t disabled;
	bool dying;			/* being freed: gets no new rings */
	struct braid_event_space *events;	/* owned by event/; NULL: RAW, or uses another's */
	struct braid_buffer_files *files;	/* owned by debugfs.c; NULL: none */
	u32 nr_cpus;			/* possible ones */
	struct braid_cpu_ring cpus[];	/* by CPU number */
};

struct braid_aside;

/* A reserved event: on the writer's stack. */
struct braid_slot {
	struct braid_writer *writer;	/* NULL: the record is set aside, to be judged first */
	union {
		u64 token;
		struct braid_aside *aside;
	};
};

/* The requested shape of a buffer. */
struct braid_buffer_shape {
	const char *name;
	u32 flags;			/* BRAID_BUFFER_OVERWRITE, _ABSOLUTE, _RAW */
	u32 subbuf_bytes;
	u32 nr_slots;			/* 0: as many as max_bytes hold */
	u64 max_bytes;			/* of all its rings, when nr_slots is 0 */
	struct braid_buffer *events_of;	/* NULL: its own */
};

/**
 * braid_buffer_make - create a buffer; it has no rings yet
 * @shape: its parameters
 *
 * Must hold braid_buffers_lock().
 * Return: the buffer or an ERR_PTR: -EINVAL, -EEXIST, -ENOMEM.
 */
struct braid_buffer *braid_buffer_make(const struct braid_buffer_shape *shape);

/**
 * braid_buffer_destroy - destroy a buffer without rings
 * @buffer: without users
 *
 * Must hold braid_buffers_lock().
 */
void braid_buffer_destroy(struct braid_buffer *buffer);

/**
 * braid_buffer_place - give a buffer rings in a region
 * @buffer: without rings
 * @region: planned: then braid_buffers_start() starts them; or live: then the host is notified
 *
 * Must hold braid_buffers_lock().
 * Return: 0; -ENOSPC, -ENFILE (a message gives the size needed), -EINVAL (shape), -ENOMEM.
 */
int braid_buffer_place(struct braid_buffer *buffer, struct braid_guest_region *region);

/**
 * braid_buffers_start - initialize the rings of all buffers that were placed before the region
 * started
 */
void braid_buffers_start(struct braid_guest_region *region);

/* Why a buffer's rings are removed. */
enum braid_displace {
	BRAID_DISPLACE_REGION,	/* their memory is removed too */
	BRAID_DISPLACE_FREE,	/* their memory will be reused; readers find no rings from then
				   on */
	BRAID_DISPLACE_RESHAPE,	/* likewise, but refused while a guest reader is active */
};

/**
 * braid_buffer_displace - remove a buffer's rings; no writer or reader is active on return
 * @buffer: with rings; without them this has no effect
 * @why: if their memory will be reused while the region is live, an agent is notified and gets a
 *	short time to drain them
 *
 * Rings that were swapped are swapped back first. Must hold braid_buffers_lock(). May sleep, for at
 * most one second.
 * Return: 0, or -EBUSY when reshaping: one is mapped or being read.
 */
int braid_buffer_displace(struct braid_buffer *buffer, enum braid_displace why);

/**
 * braid_buffer_reshape - give a buffer new, empty rings
 * @buffer: the buffer
 * @nr_slots: of each ring; 0: unchanged
 * @set: flags to set, of BRAID_BUFFER_OVERWRITE and _ABSOLUTE
 * @clear: flags to clear, likewise
 *
 * Context: may sleep, for at most one second. Return: 0, -EBUSY (mapped, being read, or swapped),
 * -ENOSPC (it is unchanged), -EINVAL, -ENOMEM.
 */
int braid_buffer_reshape(struct braid_buffer *buffer, u32 nr_slots, u32 set, u32 clear);

/**
 * braid_buffer_reshape_at - the same, as the host asks
 * @index: of the buffer in the region
 * @shape: a private copy, not yet checked
 *
 * Context: likewise. Return: likewise; -EINVAL also: no such buffer.
 */
int braid_buffer_reshape_at(u64 index, const struct braid_reshape *shape);

/**
 * braid_buffers_lock - keep buffers from being created, destroyed, placed or displaced. May sleep
 */
void braid_buffers_lock(void);
void braid_buffers_unlock(void);

/**
 * braid_buffers_lock_any - the same for a short time, from any context. Return: false: the lock is
 * taken
 */
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
 * braid_buffer_open_close - admit writers to existing rings, and to no others
 * @buffer: after a ring changed
 *
 * Must hold buffer->lock. Writers kept out have left on return. The on/off switches, which writers
 * check themselves, are not considered.
 */
void braid_buffer_open_close(struct braid_buffer *buffer);

/**
 * braid_buffer_writer - the writer of a ring
 * @buffer: must hold its lock
 * @cpu: the ring's
 *
 * Return: its writer; NULL: no ring, or not laid out yet.
 */
static inline struct braid_writer *braid_buffer_writer(const struct braid_buffer *buffer, int cpu)
{
	struct braid_writer *w = buffer->cpus[cpu].writer;

	return w && w->map.meta ? w : NULL;
}

/**
 * braid_buffer_shut - keep all writers out of a ring, independent of the switches
 * @buffer: the buffer
 * @cpu: the ring, or -1 for all
 *
 * Must hold buffer->lock; braid_buffer_open_close() undoes it. They have left on return.
 */
void braid_buffer_shut(struct braid_buffer *buffer, int cpu);

/**
 * braid_buffer_is_swapped - whether a ring was swapped with another buffer's. Must hold
 * braid_buffers_lock()
 */
bool braid_buffer_is_swapped(const struct braid_buffer *buffer);

/**
 * braid_buffer_exchange - swap two buffers' rings of a CPU
 * @a: a buffer
 * @b: another
 * @cpu: its writers are shut out, its readers detached. Must hold both locks
 */
void braid_buffer_exchange(struct braid_buffer *a, struct braid_buffer *b, int cpu);

/**
 * braid_buffer_count_anew - set the guest's counts of a ring to zero; the host's continue
 * @buffer: must hold its lock
 * @cpu: the ring's, which is empty
 * @past: what it continues after; NULL: nothing
 */
void braid_buffer_count_anew(struct braid_buffer *buffer, int cpu,
			     const struct braid_ring_past *past);

/**
 * braid_buffer_set_on - the user's switch, buffers/enabled: not counted
 *
 * Off: no writer is inside on return. Context: may sleep.
 */
void braid_buffer_set_on(struct braid_buffer *buffer, bool on);

/**
 * braid_buffers_freeze - stop the writing of all rings
 * @after: so many more records are written before; 0: none
 *
 * Context: any, with preemption off. Callers serialize. Writers that have begun may still be active
 * on return.
 */
void braid_buffers_freeze(u64 after);

/** braid_buffers_thaw - undo that. Callers serialize. Context: may sleep */
void braid_buffers_thaw(void);

/** braid_buffers_are_frozen - whether the records of braid_buffers_freeze() are all written */
bool braid_buffers_are_frozen(void);

/* What switch.c does to one buffer. */
void braid_switch_freeze(struct braid_buffer *buffer);
void braid_switch_thaw(struct braid_buffer *buffer);

static inline bool braid_buffer_is_on(const struct braid_buffer *buffer)
{
	return !(atomic_read(&buffer->disabled) & BRAID_BUFFER_OFF);
}

/** braid_switch_changes - how often rings were switched off or on. Context: any */
u32 braid_switch_changes(void);

/**
 * braid_switch_publish - store how long a ring was off, for the host
 * @count: the ring's; callers serialize
 * @priv: the ring's
 * @again: store it even if nothing changed: the ring was laid out again
 *
 * Return: whether there is more to store at the next poll.
 */
bool braid_switch_publish(struct braid_off_count *count, struct braid_ring_private *priv,
			  bool again);

/** braid_buffer_publish_off - the same, if the buffer has its own ring. Must hold its lock */
bool braid_buffer_publish_off(struct braid_buffer *buffer, u32 cpu, bool again);

/**
 * braid_buffers_publish_off - the same for all rings, if any is off or was switched since
 *
 * Takes no lock otherwise, and waits for none. Context: may sleep.
 */
void braid_buffers_publish_off(void);

/* braid_buffer_open_writer(), where a switch is set. */
struct braid_writer *braid_buffer_counted_writer(const struct braid_buffer *buffer);

/** braid_buffer_is_open - whether braid_buffer_open_writer() would return a writer now */
static inline bool braid_buffer_is_open(const struct braid_buffer *buffer)
{
	const struct braid_cpu_ring *ring = &buffer->cpus[raw_smp_processor_id()];

	return !((atomic_read(&buffer->disabled) & ~BRAID_BUFFER_COUNTED) |
		 atomic_read(&ring->disabled)) && READ_ONCE(ring->open);
}

/**
 * braid_buffer_try_writer - the fast path of braid_buffer_open_writer()
 * @buffer: as there
 * @w: set on success, to what that returns
 *
 * Context: as there. Return: true: done; false: a switch is set, call that.
 */
static __always_inline bool braid_buffer_try_writer(const struct braid_buffer *buffer,
						    struct braid_writer **w)
{
	const struct braid_cpu_ring *ring = &buffer->cpus[raw_smp_processor_id()];

	if (unlikely(atomic_read(&buffer->disabled) | atomic_read(&ring->disabled)))
		return false;
	*w = READ_ONCE(ring->open);
	return true;
}

/**
 * braid_buffer_open_writer - the writer of this CPU's ring, for one record
 * @buffer: the buffer; preemption is off
 *
 * Context: any. Return: the writer; NULL: record nothing.
 */
static __always_inline struct braid_writer *
braid_buffer_open_writer(const struct braid_buffer *buffer)
{
	struct braid_writer *w;

	return likely(braid_buffer_try_writer(buffer, &w)) ? w :
	       braid_buffer_counted_writer(buffer);
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
 * The traced code's state: preemption's depth, at most 15, and migration's in the upper half.
 * @pc: before our own changes; @tracepoint: a tracepoint called us, and its own disabling is not
 * part of the traced code's state.
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

/* The largest payload of an event: alone in a sub-buffer, after its header and length. */
static inline u32 braid_buffer_longest(const struct braid_buffer *buffer)
{
	return buffer->subbuf_bytes - BRAID_SUBBUF_HEADER_BYTES - 2 * sizeof(u32);
}

static __always_inline void braid_record_head(struct braid_record *record, u16 id, unsigned long pc,
					      bool tracepoint)
{
	record->common_type = id;
	record->common_flags = braid_context_flags(pc);
	record->common_preempt_count = braid_context_depth(pc, tracepoint);
	record->common_pid = current->pid;
}

/**
 * braid_record_reserve - begin a record on this CPU
 * @buffer: not RAW
 * @id: the event's
 * @bytes: of payload, struct braid_record included
 * @pc: preempt_count() before the caller turned preemption off
 * @tracepoint: the caller is a tracepoint, which disables preemption or migration itself
 * @slot: for braid_record_commit()
 *
 * Context: any, NMI included; preemption is off until the commit.
 * Return: the payload, its struct braid_record filled; NULL: dropped and counted, or, with no
 * writer in @slot, recording is off.
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
	braid_record_head(record, id, pc, tracepoint);
	return record;
}

static __always_inline void braid_record_commit(struct braid_slot *slot)
{
	braid_ring_commit(slot->writer, slot->token);
}

/**
 * braid_trace_buffer - the buffer "trace", where tracepoints and a NULL buffer write
 *
 * Exists from the driver's init to its exit.
 */
struct braid_buffer *braid_trace_buffer(void);

/** braid_set_trace_buffer - set the buffer "trace"; NULL: none */
void braid_set_trace_buffer(struct braid_buffer *buffer);

#endif /* BRAID_CORE_BUFFER_H */
