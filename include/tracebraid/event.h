/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The API for kernel modules of the guest: buffers, events in them, sub-events. Three documents of
 * 2008 and 2009 specify it, and name its parts below: "unified trace buffer", "unified tracing
 * buffer", "tracer's private events". docs/api.md maps these names to theirs.
 *
 * Functions that take events accept NULL as @buffer: it selects the buffer "trace".
 */
#ifndef TRACEBRAID_EVENT_H
#define TRACEBRAID_EVENT_H

#include "tracebraid/types.h"

struct seq_file;
struct braid_buffer;
struct braid_buffer_iter;

/* One event in a sub-buffer, beginning with its header: never dereferenced by callers. */
struct braid_ring_event;

/* Buffers: "unified trace buffer" ------------------------------------------------------- */

/* flags of braid_buffer_alloc(); without any: producer/consumer, deltas, records */
#define BRAID_ALLOC_OVERWRITE	(1u << 0)	/* the newest events stay, not the oldest */
#define BRAID_ALLOC_ABSOLUTE	(1u << 1)	/* stamps are the counter's low bits, not deltas */
#define BRAID_ALLOC_RAW		(1u << 2)	/* payloads are opaque bytes; such a buffer has no
						   events */

/**
 * braid_buffer_alloc - make a buffer
 * @name: 1 to 31 bytes of [A-Za-z0-9_.-], not beginning with '.': its debugfs directory
 * @size: bytes of sub-buffers for each vCPU; rounded up to a power of two of pages
 * @flags: BRAID_ALLOC_*
 * @events_of: NULL, or the buffer whose events it uses: a spare to swap with. Must be freed before
 *	that one
 *
 * Its rings are in memory shared by the host. If none is shared yet, the rings are created when it
 * is, and nothing is recorded until then.
 *
 * Context: may sleep, for at most one second.
 * Return: the buffer, or an ERR_PTR: -EINVAL (name, size, flags), -EEXIST (name), -ENOSPC (no free
 * range of the shared memory is large enough; a kernel message gives the largest), -ENFILE (32
 * names were used since the driver took the memory), -ENOMEM.
 */
struct braid_buffer *braid_buffer_alloc(const char *name, u64 size, u32 flags,
					struct braid_buffer *events_of);

/**
 * braid_buffer_free - unregister its events and free it
 * @buffer: not in use by other calls; recording into it has ended on return
 *
 * An agent that records it gets a short time to drain it. Open files in the guest have no rings
 * afterwards, and accesses to mappings raise SIGBUS: a module's exit never waits for users.
 * Context: may sleep, for at most one second.
 * Return: 0, or -EBUSY (it is the events_of of another buffer).
 */
int braid_buffer_free(struct braid_buffer *buffer);

/**
 * braid_buffer_resize - give each vCPU's ring another size
 * @buffer: not in use by other calls except recording, which loses events during the resize
 * @size: as in braid_buffer_alloc()
 *
 * It is empty afterwards; events that no agent or reader consumed count as overrun.
 * Context: may sleep, for at most one second.
 * Return: 0, -EBUSY (mapped or being read), -ENOSPC (it keeps its size), -EINVAL, -ENOMEM. If the
 * former layout cannot be restored either, for lack of memory, the buffer is left without rings and
 * off, and the kernel log reports it.
 */
int braid_buffer_resize(struct braid_buffer *buffer, u64 size);

/* Room for one event. */
struct braid_reservation {
	void *payload;		/* NULL: none */
	u64 token;
};

/**
 * braid_buffer_reserve - reserve space for one event (its lock_reserve: there is no lock)
 * @buffer: of BRAID_ALLOC_RAW; others take records, by braid_record_event()
 * @length: bytes of payload
 *
 * Context: any, NMI included; preemption is off until the commit.
 * Return: the payload's place, in memory that the host may write: fill it, never read it back
 * (hence, unlike in the document, no event is returned). NULL: dropped and counted, or recording
 * is off, or @buffer is not RAW; there is nothing to commit.
 */
struct braid_reservation braid_buffer_reserve(struct braid_buffer *buffer, u32 length);

/**
 * braid_buffer_commit - make a reserved event readable (its unlock_commit)
 * @buffer: as reserved
 * @res: likewise
 */
void braid_buffer_commit(struct braid_buffer *buffer, struct braid_reservation res);

/**
 * braid_buffer_write - reserve, copy, commit
 * @buffer: of BRAID_ALLOC_RAW
 * @length: bytes of @data
 * @data: copied
 *
 * Context: any, NMI included.
 * Return: 0, -EAGAIN (recording is off), -ENOSPC (dropped and counted), -EINVAL (not RAW).
 */
int braid_buffer_write(struct braid_buffer *buffer, u32 length, const void *data);

/**
 * braid_ring_event_length - memory that an event takes, header and padding included
 * @event: of a struct braid_item
 *
 * Return: bytes: 12 for 7 of payload, 92 for 82.
 */
u32 braid_ring_event_length(const struct braid_ring_event *event);

/** braid_ring_event_time_delta - its time_delta field, for debugging alone */
u32 braid_ring_event_time_delta(const struct braid_ring_event *event);

/** braid_ring_event_data - its payload */
void *braid_ring_event_data(struct braid_ring_event *event);

/** braid_buffer_size - bytes of data that each vCPU's ring holds; 0: it has no rings now */
u64 braid_buffer_size(const struct braid_buffer *buffer);

/**
 * braid_buffer_reset_cpu - empty one ring, and set the guest's counts of it to zero
 * @buffer: the buffer
 * @cpu: a possible one
 *
 * Context: may sleep. Return: 0, -EBUSY (mapped, being read, or an agent records it),
 * -EINVAL (cpu), -ENODEV (no rings now).
 */
int braid_buffer_reset_cpu(struct braid_buffer *buffer, int cpu);

/** braid_buffer_reset - the same for all rings; continues after an error, returns the first */
int braid_buffer_reset(struct braid_buffer *buffer);

/**
 * braid_buffer_swap_cpu - swap the rings that two buffers have for one CPU
 * @a: a buffer
 * @b: another of the same size and flags, one the other's events_of, or both RAW
 * @cpu: a possible one
 *
 * For a snapshot: @b gets @a's former ring, to be read at any time, and @a continues in @b's former
 * ring.
 *
 * Context: any, NMI included: never waits. On @cpu itself; one that can be moved has -EBUSY when
 * it was.
 * Return: 0, -EINVAL (incompatible buffers, cpu), -EBUSY (one is mapped, being read, recorded by
 * an agent, or in use by another call; or @cpu was interrupted while it recorded, or is not the
 * caller's), -ENODEV (no rings now).
 */
int braid_buffer_swap_cpu(struct braid_buffer *a, struct braid_buffer *b, int cpu);

/** braid_buffer_empty - whether no ring has an unread event. May sleep */
bool braid_buffer_empty(struct braid_buffer *buffer);

/** braid_buffer_empty_cpu - whether one ring has none, or is of no possible CPU. May sleep */
bool braid_buffer_empty_cpu(struct braid_buffer *buffer, int cpu);

/**
 * braid_buffer_record_disable - record nothing, count nothing
 * @buffer: the buffer
 *
 * Nests: each disable needs one enable. After return no event begins on any CPU; for those that
 * began before, call synchronize_rcu(). The host sees how often, and how long, recording was off.
 * Context: any, NMI included.
 */
void braid_buffer_record_disable(struct braid_buffer *buffer);

/** braid_buffer_record_enable - undo one braid_buffer_record_disable(). Any context */
void braid_buffer_record_enable(struct braid_buffer *buffer);

/** braid_buffer_record_disable_cpu - the same for one ring. Return: 0 or -EINVAL (cpu) */
int braid_buffer_record_disable_cpu(struct braid_buffer *buffer, int cpu);

/** braid_buffer_record_enable_cpu - undo one braid_buffer_record_disable_cpu() */
int braid_buffer_record_enable_cpu(struct braid_buffer *buffer, int cpu);

/** braid_buffer_entries - unread events at one moment of each ring. May sleep */
u64 braid_buffer_entries(struct braid_buffer *buffer);

/** braid_buffer_overruns - events overwritten, or discarded unread by resize. May sleep */
u64 braid_buffer_overruns(struct braid_buffer *buffer);

/** braid_buffer_dropped - events dropped for lack of space. May sleep */
u64 braid_buffer_dropped(struct braid_buffer *buffer);

/** braid_buffer_time_stamp - what an event recorded now would be stamped with. Any context */
u64 braid_buffer_time_stamp(struct braid_buffer *buffer, int cpu);

/** braid_buffer_normalize_time_stamp - turn such a stamp into ns since the counter was 0. Any context */
void braid_buffer_normalize_time_stamp(struct braid_buffer *buffer, int cpu, u64 *stamp);

/* Reading in the guest: "unified trace buffer" ------------------------------------------ */

/* One event that was read. All pointers are into the reader's private copy. */
struct braid_item {
	struct braid_buffer *buffer;
	int cpu;
	u64 stamp;		/* as braid_buffer_time_stamp() */
	u64 lost_before;	/* events lost between it and its predecessor */
	struct braid_ring_event *event;
	const void *payload;	/* begins with struct braid_record, except in RAW; padded with
				   zeros */
	u32 payload_bytes;	/* rounded up to 4, as recorded */
};

/**
 * braid_buffer_peek - look at the next event of a ring
 * @buffer: the buffer
 * @cpu: a possible one
 * @item: filled; good until the next peek or consume of that ring
 *
 * Peek and consume take the ring's reader role, until braid_buffer_read_done(). All readers of one
 * ring in the guest compete: each event goes to one of them.
 *
 * Context: any, an oops handler and NMIs included: neither waits nor allocates.
 * Return: 1, 0 (empty), -EBUSY (an agent on the host reads it, or another call uses the buffer),
 * -ENODEV (no rings now), -EINVAL (cpu), -EBADMSG (the host broke the ring).
 */
int braid_buffer_peek(struct braid_buffer *buffer, int cpu, struct braid_item *item);

/** braid_buffer_consume - the same, and advance past it */
int braid_buffer_consume(struct braid_buffer *buffer, int cpu, struct braid_item *item);

/**
 * braid_buffer_read_done - give the reader role of a ring back, if peek or consume took it
 *
 * Context: any. While another call uses the buffer, the driver returns the role within 50 ms.
 */
void braid_buffer_read_done(struct braid_buffer *buffer, int cpu);

/**
 * braid_buffer_read_start - begin to iterate over what a ring holds, without taking it
 * @buffer: the buffer
 * @cpu: a possible one
 *
 * The CPU goes on recording. The iterator visits each sub-buffer that the ring has room for once:
 * it ends, however much is recorded meanwhile. What is overwritten before it gets there counts in
 * lost_before. An agent on the host may still consume events; the iterator does not see those.
 *
 * Context: may sleep. Return: the iterator or an ERR_PTR: -EINVAL (cpu), -ENODEV, -EBADMSG,
 * -ENOMEM.
 */
struct braid_buffer_iter *braid_buffer_read_start(struct braid_buffer *buffer, int cpu);

/** braid_buffer_iter_peek - the iterator's next event: 1, 0 at the end, -EBADMSG. May sleep */
int braid_buffer_iter_peek(struct braid_buffer_iter *iter, struct braid_item *item);

/** braid_buffer_read - the same, and advance past it. May sleep */
int braid_buffer_read(struct braid_buffer_iter *iter, struct braid_item *item);

/** braid_buffer_iter_reset - back to the oldest event still there: 0 or -EBADMSG. May sleep */
int braid_buffer_iter_reset(struct braid_buffer_iter *iter);

/** braid_buffer_iter_empty - whether the iterator is at the end. May sleep */
bool braid_buffer_iter_empty(struct braid_buffer_iter *iter);

/** braid_buffer_read_finish - end it. May sleep */
void braid_buffer_read_finish(struct braid_buffer_iter *iter);

/* Events: "unified tracing buffer" ------------------------------------------------------ */

/**
 * braid_print_fn - print one event
 * @out: for seq_printf() and related functions
 * @item: the event; its payload is private, but came from memory that the host can write: check
 *	indexes and pointers
 *
 * Context: may sleep. Return: 0, or -errno: the default is printed instead.
 */
typedef int (*braid_print_fn)(struct seq_file *out, const struct braid_item *item);

/* The five outputs of an event. Those that are NULL have defaults. */
struct braid_outputs {
	braid_print_fn trace;	/* a line of text; default: hex */
	braid_print_fn latency;	/* the same under the latency layout; default: trace */
	braid_print_fn raw;	/* numbers, undecoded; default: hex words */
	braid_print_fn hex;	/* default: hex bytes */
	braid_print_fn binary;	/* default: the payload */
};

/* What an event is. Strings and functions are the caller's until it is unregistered. */
struct braid_event_desc {
	const char *system;	/* a name; groups events */
	const char *name;
	/*
	 * The lines of a tracefs format file for the payload, with offsets from 8 on, where
	 * it begins: "\tfield:u64 n;\toffset:8;\tsize:8;\tsigned:0;\n". NULL: printed as hex.
	 */
	const char *fields;
	const char *print_fmt;	/* "\"n=%llu\", REC->n"; NULL only with fields NULL. For the host */
	struct braid_outputs outputs;	/* in the guest */
};

/**
 * braid_register_event - make an event known
 * @buffer: the buffer it is recorded in, not RAW, nor one with events_of
 * @event_id: the id to use; or 0: the former id of the same event (system, name, format) in this
 *	buffer, else any free one
 * @desc: what it is
 *
 * It is disabled at first; the guest's user or the host enables it.
 *
 * Context: may sleep.
 * Return: its id; -EBUSY (the id is taken), -ENOSPC (no free id, or the directory is full), -EINVAL
 * (a name is missing, or the buffer takes no events), -ENOMEM.
 */
int braid_register_event(struct braid_buffer *buffer, u16 event_id,
			 const struct braid_event_desc *desc);

/**
 * braid_unregister_event - remove an event and its sub-events
 * @buffer: as registered
 * @event_id: its id
 *
 * Other contexts may be recording it: none is still inside on return.
 *
 * Context: may sleep. Return: 0 or -ENOENT.
 */
int braid_unregister_event(struct braid_buffer *buffer, u16 event_id);

/**
 * braid_record_event - record one event
 * @buffer: as registered
 * @event_id: its id
 * @length: bytes of @payload, from 0 to the size of a sub-buffer less its headers: 4064 of 4096
 * @payload: copied
 *
 * Context: any, NMI included.
 * Return: 0; -EAGAIN (the event or its buffer is off, or it was filtered), -ENOENT (no such event),
 * -EMSGSIZE (too long, not counted), -ENOSPC (dropped and counted).
 */
int braid_record_event(struct braid_buffer *buffer, u16 event_id, u32 length,
		       const void *payload);

/* Sub-events: "tracer's private events" ------------------------------------------------- */

/* One sub-event. The caller's until braid_unregister_subevents(). */
struct braid_subevent {
	u32 number;		/* any, unique in its table */
	const char *name;
	const char *fields;	/* as in struct braid_event_desc; NULL: hex on the host */
	const char *print_fmt;
	struct braid_outputs outputs;
};

/**
 * braid_subevent_finder - find the number of a record's sub-event
 * @item: the event
 *
 * Context: may sleep; may be called while the table is being unregistered. Return: the number;
 * negative: the record belongs to the event itself.
 */
typedef s64 (*braid_subevent_finder)(const struct braid_item *item);

struct braid_subevent_table {
	const struct braid_subevent *subevents;
	u32 nr;
	/*
	 * Where the number is in a record, little endian, so that the host finds it too.
	 * number_bytes 0: only @find can determine it, and the host uses the event's own format.
	 */
	u16 number_offset;	/* from the payload that was recorded: 0 is its first byte */
	u16 number_bytes;	/* 1, 2, 4 or 8 */
	braid_subevent_finder find;	/* NULL: read at number_offset */
};

/**
 * braid_register_subevents - split an event into sub-events
 * @buffer: of the event
 * @event_id: registered, by braid_register_event(), with no sub-events yet
 * @table: copied; what it points to stays the caller's
 *
 * May race with printing and recording: a record is printed by one or the other.
 *
 * Context: may sleep.
 * Return: 0; -ENOENT (no such event), -EINVAL (no finder, a missing name, a duplicate number),
 * -EBUSY (it already has sub-events), -ENOSPC (directory), -ENOMEM.
 */
int braid_register_subevents(struct braid_buffer *buffer, u16 event_id,
			     const struct braid_subevent_table *table);

/**
 * braid_unregister_subevents - merge them back into the event; no print function runs on return
 * @buffer: of the event
 * @event_id: its id
 *
 * Context: may sleep. Return: 0 or -ENOENT.
 */
int braid_unregister_subevents(struct braid_buffer *buffer, u16 event_id);

#endif /* TRACEBRAID_EVENT_H */
