/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The registry of events: names, ids, formats, who enabled them; and recording an event.
 *
 * Invariants:
 * - braid_registry_lock() guards ids, lists, flags and the directory. It is taken inside
 *   braid_buffers_lock().
 * - An event belongs to one buffer, and has an id from 1 to 65535 that is unique there.
 * - An event is on only while the directory of an attached region lists it. The ops enable it when
 *   guest or host is the first to want it, and disable it when neither does.
 * - When a region is detached all events are off, and no probe of theirs is running.
 * - Recording works in any context; registering, switching and printing may sleep.
 * - The poll thread executes the host's commands, from a private copy of the mailbox. Recording
 *   never waits for it.
 * - Printing holds braid_output_lock(), so no event and no sub-event is freed meanwhile.
 */
#ifndef BRAID_EVENT_EVENT_H
#define BRAID_EVENT_EVENT_H

#include <linux/list.h>

#include "guest_driver/core/buffer.h"
#include "guest_driver/core/symbol.h"
#include "shared/schema.h"
#include "tracebraid/event.h"

/* The lines of a format text for struct braid_record. */
#define BRAID_COMMON_FIELDS							\
	"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"	\
	"\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"	\
	"\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n" \
	"\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"

/* The word of a __data_loc field. */
static inline u32 braid_data_loc(u32 offset, u32 bytes)
{
	return bytes << 16 | offset;
}

struct braid_event;
struct braid_event_filter;
struct braid_subevents;
struct braid_trigger_test;

/* How an event's source is turned on and off. */
struct braid_event_ops {
	/* NULL, or: may sleep. 0 or -errno. Events may occur before it returns. */
	int (*enable)(struct braid_event *ev);
	/* NULL, or: may sleep. Events may still occur until synchronize() returns. */
	void (*disable)(struct braid_event *ev);
	/* May sleep; waits until no probe disabled before is running. */
	void (*synchronize)(void);
	/* Writes the format text for @id: its length, or -ENOSPC. */
	int (*format)(const struct braid_event *ev, u16 id, char *text, size_t bytes);
	bool filters;			/* its records are reserved by braid_event_reserve() */
	bool of_host;			/* the host made it, which was allowed then */
	/*
	 * NULL, or: how the host wants it to sample, by arg0 of BRAID_CMD_SAMPLE; until it is off.
	 * 0, or -EBUSY: it is on, and samples otherwise; -EOPNOTSUPP: unknown version; -EINVAL.
	 */
	int (*set_sampling)(struct braid_event *ev, u64 arg0);
};

struct braid_event {
	struct list_head list;
	struct braid_buffer *buffer;	/* the buffer that owns the event, and that it writes to */
	u16 id;
	u32 flags;			/* BRAID_EVENT_* */
	bool diverted;			/* it has a filter in effect, tests, or stacks */
	struct braid_event_filter *filter;	/* in effect; NULL: none */
	struct braid_event_filter *host_filter;	/* the host's, in effect or not */
	struct braid_trigger_test *tests;	/* of triggers; NULL: none */
	u8 stacks;			/* BRAID_STACKS_*: which its records have */
	bool again;			/* the guest's user had it on when the region went */
	u32 dir_offset;			/* of its entry in the region's directory, ... */
	u32 dir_bytes;			/* ... and how long that is */
	bool listed;			/* it has such an entry, ... */
	u64 listed_at;			/* ... since this generation of the directory */
	const char *system;
	const char *name;
	const struct braid_event_ops *ops;
	const void *source;		/* the ops' own */
	const struct braid_outputs *outputs;	/* NULL: defaults */
	struct braid_subevents __rcu *subevents;	/* subevent.c's; NULL: none */
	struct dentry *dir;
};

/* aside.c: what braid_event_reserve() and _commit() do for such an event. */
void *braid_event_set_aside(struct braid_event *ev, struct braid_buffer *buffer,
			    struct braid_slot *slot, u32 bytes, unsigned long pc, bool held);
void braid_event_judge(struct braid_slot *slot);

/**
 * braid_event_reserve_in - begin one event
 * @ev: an enabled event
 * @buffer: ev->buffer, or another one with its events
 * @slot: for braid_event_commit(), on the caller's stack
 * @bytes: of payload, struct braid_record included; larger than a sub-buffer's data: dropped and
 *	counted
 * @pc: preempt_count() before the caller turned preemption off
 * @held: the calling tracepoint disables preemption or migration itself
 *
 * Context: any, NMI included; preemption is off until the commit.
 * Return: the payload with its struct braid_record filled, in memory that the host may
 * rewrite at any moment: write only. NULL: dropped and counted, or the buffer is disabled (with no
 * writer in @slot).
 */
static __always_inline void *braid_event_reserve_in(struct braid_event *ev,
						    struct braid_buffer *buffer,
						    struct braid_slot *slot, u32 bytes,
						    unsigned long pc, bool held)
{
	if (unlikely(bytes > BRAID_MAX_SUBBUF_BYTES))
		bytes = BRAID_MAX_SUBBUF_BYTES;	/* each ring drops and counts it */
	if (unlikely(READ_ONCE(ev->diverted)))
		return braid_event_set_aside(ev, buffer, slot, bytes, pc, held);
	return braid_record_reserve(buffer, ev->id, bytes, pc, held, slot);
}

/** braid_event_reserve - the same, in the event's own buffer */
static __always_inline void *braid_event_reserve(struct braid_event *ev, struct braid_slot *slot,
						 u32 bytes, unsigned long pc, bool held)
{
	return braid_event_reserve_in(ev, ev->buffer, slot, bytes, pc, held);
}

static __always_inline void braid_event_commit(struct braid_slot *slot)
{
	if (likely(slot->writer))
		braid_record_commit(slot);
	else
		braid_event_judge(slot);
}

/**
 * braid_event_add - register an event
 * @ev: buffer, ops, system, name, source and outputs filled; the caller's until
 *	braid_event_remove_all() or braid_event_release_all()
 * @requested_id: an id, or 0 for any
 *
 * It is listed in the region's directory, now or when a region is attached, and is off. An event
 * that is removed and added again gets its former entry and, for 0, its former id.
 *
 * Context: may sleep. Return: its id, -EBUSY (id in use), -ENOSPC (no free id, or the directory is
 * full), -ENOMEM.
 */
int braid_event_add(struct braid_event *ev, u16 requested_id);

/**
 * braid_event_withdraw - unregister an event; the first half of its removal
 * @ev: registered; off afterwards, but a writer may still be inside
 * @withdrawn: a list of withdrawn events, all with the same ops, to which it is moved
 *
 * Context: may sleep, without waiting for writers.
 */
void braid_event_withdraw(struct braid_event *ev, struct list_head *withdrawn);

/**
 * braid_event_release_all - end the removal of events, with one wait for all of them
 * @withdrawn: by braid_event_withdraw(); they are the caller's on return, no writer is inside
 *
 * Context: may sleep.
 */
void braid_event_release_all(struct list_head *withdrawn);

/**
 * braid_event_remove_all - unregister events
 * @evs: registered, all with the same ops; off afterwards, no writer is inside on return
 * @nr: of them
 */
void braid_event_remove_all(struct braid_event *evs, unsigned int nr);

/**
 * braid_event_find - the event of an id
 * @buffer: any; the ids are its events_of's
 * @id: any
 *
 * Context: any, with preemption off: the event stays until it is on again.
 * Return: the event or NULL.
 */
struct braid_event *braid_event_find(const struct braid_buffer *buffer, u16 id);

/**
 * braid_event_set - enable or disable an event for the guest or the host
 * @ev: the event
 * @who: BRAID_EVENT_GUEST_ON or BRAID_EVENT_HOST_ON
 * @on: whether @who enables it
 *
 * Context: may sleep. Return: 0, -ENODEV (no region attached), or the error of enabling it.
 */
int braid_event_set(struct braid_event *ev, u32 who, bool on);

/**
 * braid_event_set_matching - braid_event_set() for all that match
 * @buffer: whose events; NULL: of all buffers
 * @system: a glob, "" or NULL for all
 * @name: likewise
 * @who: BRAID_EVENT_GUEST_ON or BRAID_EVENT_HOST_ON
 * @on: whether @who enables them
 * @progress: NULL, or: called after each event, of which one may take long
 * @matched: how many matched, set on success and on failure. What the host may not enable does not
 *	match: policy.h
 *
 * Return: 0 or the first error; it continues after one.
 */
int braid_event_set_matching(struct braid_buffer *buffer, const char *system, const char *name,
			     u32 who, bool on, void (*progress)(void), u32 *matched);

/**
 * braid_event_enable_seen - enable those matching events for the host that it has seen
 * @system: a glob, "" for all
 * @name: likewise
 * @seen: the directory's generation when the host read it: events that were listed later, or
 *	again, stay as they are; U64_MAX: it has seen all
 * @progress: as above
 * @matched: as above, without those
 * @unseen: how many those are
 *
 * Return: as above.
 */
int braid_event_enable_seen(const char *system, const char *name, u64 seen,
			    void (*progress)(void), u32 *matched, u32 *unseen);

/** braid_event_count_refused - events that match, but that the host may not enable. May sleep */
u32 braid_event_count_refused(const char *system, const char *name);
/**
 * braid_event_sample_matching - how matching events, those that sample, are to sample
 * @system: a glob, "" or NULL for all
 * @name: likewise
 * @arg0: of BRAID_CMD_SAMPLE
 * @matched: how many there are, set on success and on failure
 *
 * Return: 0 or the first error, as of ops->set_sampling().
 */
int braid_event_sample_matching(const char *system, const char *name, u64 arg0, u32 *matched);

/** braid_event_matches - whether an event matches two globs, "" or NULL for all */
bool braid_event_matches(const struct braid_event *ev, const char *system, const char *name);

/**
 * braid_event_format_text - an event's format file
 * @ev: the event
 * @text: the output
 * @bytes: of it
 *
 * Return: length, or -ENOSPC.
 */
int braid_event_format_text(const struct braid_event *ev, char *text, size_t bytes);

/* Callbacks that show events to users. Both may sleep; the registry's locks are not held. */
struct braid_event_listener {
	void (*added)(struct braid_event *ev);
	void (*removing)(struct braid_event *ev);	/* no user is inside on return */
};

/** braid_registry_listen - set the callbacks; before the first event is added */
void braid_registry_listen(const struct braid_event_listener *listener);

/** braid_registry_lock - keep events from being added, removed, switched or listed. May sleep */
void braid_registry_lock(void);
void braid_registry_unlock(void);

/**
 * braid_event_list_more - append one more entry to the directory for an event: a sub-event
 * @ev: the event, listed
 * @entry: number, name, flags (BRAID_EVENT_SUB and the number's place) and format filled; the rest
 *	is set here
 *
 * Must hold braid_registry_lock(). Return: 0; -ENODEV (no region now), -ENOSPC.
 */
int braid_event_list_more(struct braid_event *ev, struct braid_schema_event *entry);

/**
 * braid_event_set_gone - flag such an entry BRAID_EVENT_GONE
 * @ev: as listed; no effect if it is listed no more
 * @entry: as listed
 *
 * Must hold braid_registry_lock().
 */
void braid_event_set_gone(struct braid_event *ev, const struct braid_schema_event *entry);

/**
 * braid_directory_put_text - add a text of the kernel to the directory
 * @name: BRAID_TEXT_*_NAME
 * @text: the text
 *
 * Return: 0; -ENODEV (no region now), -ENOSPC.
 */
int braid_directory_put_text(const char *name, const char *text);

/**
 * braid_registry_new_buffer - make a buffer, with an id space; debugfs is the caller's
 * @shape: its parameters
 *
 * Must hold braid_buffers_lock(). Return: as braid_buffer_make().
 */
struct braid_buffer *braid_registry_new_buffer(const struct braid_buffer_shape *shape);

/**
 * braid_registry_free_buffer - destroy it
 * @buffer: dying, without rings, events and files
 *
 * Context: may sleep.
 */
void braid_registry_free_buffer(struct braid_buffer *buffer);

/**
 * braid_registry_list_buffer - list a buffer's events in the region that it got
 * @buffer: with rings
 *
 * Must hold braid_buffers_lock().
 */
void braid_registry_list_buffer(struct braid_buffer *buffer);

/**
 * braid_registry_next - iterate over a buffer's events
 * @buffer: with an id space
 * @prev: the one before, or NULL
 *
 * Return: the event or NULL. The caller ensures that none is added or removed.
 */
struct braid_event *braid_registry_next(struct braid_buffer *buffer, struct braid_event *prev);

/**
 * braid_registry_attach - a region is attached: list all events of all buffers with rings
 * @region: not live yet
 */
void braid_registry_attach(struct braid_guest_region *region);

/** braid_registry_detach - the region is detached: all events off; no writer is inside on return */
void braid_registry_detach(void);

/**
 * braid_registry_restore - enable what the guest's user had enabled when the region was detached
 *
 * For a device that is plugged in again, and after suspend and hibernation. A region is live.
 */
void braid_registry_restore(void);

#endif /* BRAID_EVENT_EVENT_H */
