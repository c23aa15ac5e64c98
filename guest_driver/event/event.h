/* SPDX-License-Identifier: GPL-2.0 */
/* The registry of events: names, ids, formats, who wants them; and writing one. */
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

struct braid_event;
struct braid_subevents;

/* How an event's source is turned on and off. */
struct braid_event_ops {
	/* May sleep. 0 or -errno. Events may come before it returns. */
	int (*enable)(struct braid_event *ev);
	/* May sleep. Events may still come until synchronize() returned. */
	void (*disable)(struct braid_event *ev);
	/* May sleep; waits until no probe disabled before is running. */
	void (*synchronize)(void);
	/* Writes the format text for @id: its length, or -ENOSPC. */
	int (*format)(const struct braid_event *ev, u16 id, char *text, size_t bytes);
};

struct braid_event {
	struct list_head list;
	struct braid_buffer *buffer;	/* whose event it is, and where it writes */
	u16 id;
	u32 flags;			/* BRAID_EVENT_* */
	u32 dir_offset;			/* of its entry in the region's directory, ... */
	u32 dir_bytes;			/* ... and how long that is */
	bool listed;			/* it has such an entry */
	const char *system;
	const char *name;
	const struct braid_event_ops *ops;
	const void *source;		/* the ops' own */
	const struct braid_outputs *outputs;	/* NULL: defaults */
	struct braid_subevents __rcu *subevents;	/* subevent.c's; NULL: none */
	struct dentry *dir;
};

/**
 * braid_event_reserve - begin one event
 * @ev: an event that is on
 * @slot: for braid_event_commit(), on the caller's stack
 * @bytes: of payload, struct braid_record included; what is longer than a sub-buffer's data
 *	is dropped and counted
 * @pc: preempt_count() before the caller turned preemption off
 * @held: the tracepoint that called holds preemption or migration off itself
 *
 * Context: any, NMI included; preemption is off until the commit.
 * Return: the payload with its struct braid_record filled, in memory that the host may
 * rewrite at any moment: write only. NULL: dropped and counted, or the buffer is disabled.
 */
static __always_inline void *braid_event_reserve(struct braid_event *ev, struct braid_slot *slot,
						 u32 bytes, unsigned long pc, bool held)
{
	if (unlikely(bytes > BRAID_MAX_SUBBUF_BYTES))
		bytes = BRAID_MAX_SUBBUF_BYTES;	/* what no ring takes, and each counts */
	return braid_record_reserve(ev->buffer, ev->id, bytes, pc, held, slot);
}

static __always_inline void braid_event_commit(struct braid_slot *slot)
{
	braid_record_commit(slot);
}

/**
 * braid_event_add - make an event known
 * @ev: buffer, ops, system, name, source and outputs filled; the caller's until
 *	braid_event_remove_all()
 * @requested_id: an id, or 0 for any
 *
 * It is listed in the region's directory, now or when a region comes, and is off. An event
 * that was removed and is added again gets its former entry and, for 0, its former id.
 *
 * Context: may sleep. Return: its id, -EBUSY (id in use), -ENOSPC (no id left, or no
 * room in the directory), -ENOMEM.
 */
int braid_event_add(struct braid_event *ev, u16 requested_id);

/**
 * braid_event_remove_all - make events unknown again
 * @evs: added before, all with the same ops; off afterwards, no writer is inside on return
 * @nr: of them
 */
void braid_event_remove_all(struct braid_event *evs, unsigned int nr);

/**
 * braid_event_find - the event behind an id
 * @buffer: any; the ids are its events_of's
 * @id: any
 *
 * Context: any, with preemption off: the event stays until it is on again.
 * Return: the event or NULL.
 */
struct braid_event *braid_event_find(const struct braid_buffer *buffer, u16 id);

/**
 * braid_event_set - turn an event on or off for one of its two masters
 * @ev: the event
 * @who: BRAID_EVENT_GUEST_ON or BRAID_EVENT_HOST_ON
 * @on: whether @who wants it
 *
 * Context: may sleep. Return: 0, -ENODEV (no region attached), or what enabling said.
 */
int braid_event_set(struct braid_event *ev, u32 who, bool on);

/**
 * braid_event_set_matching - braid_event_set() for all that match
 * @buffer: whose events; NULL: of all buffers
 * @system: a glob, "" or NULL for all
 * @name: likewise
 * @who: BRAID_EVENT_GUEST_ON or BRAID_EVENT_HOST_ON
 * @on: whether @who wants them
 * @matched: how many matched, set on success and on failure
 *
 * Return: 0 or the first error; it goes on behind one.
 */
int braid_event_set_matching(struct braid_buffer *buffer, const char *system, const char *name, u32 who, bool on,
			     u32 *matched);

/**
 * braid_event_format_text - an event's format file
 * @ev: the event
 * @text: room
 * @bytes: of it
 *
 * Return: length, or -ENOSPC.
 */
int braid_event_format_text(const struct braid_event *ev, char *text, size_t bytes);

/* Who shows events to users. Both may sleep, and hold no lock of the registry's. */
struct braid_event_listener {
	void (*added)(struct braid_event *ev);
	void (*removing)(struct braid_event *ev);	/* no user is inside on return */
};

/** braid_registry_listen - say who; before the first event is added */
void braid_registry_listen(const struct braid_event_listener *listener);

/** braid_registry_lock - no event comes, goes, is switched or listed meanwhile. May sleep */
void braid_registry_lock(void);
void braid_registry_unlock(void);

/**
 * braid_event_list_more - append one more entry to the directory for an event: a sub-event
 * @ev: the event, listed
 * @entry: number, name, flags (BRAID_EVENT_SUB and where the number lies) and format filled;
 *	the rest is set here
 *
 * Must hold braid_registry_lock(). Return: 0; -ENODEV (no region now), -ENOSPC.
 */
int braid_event_list_more(struct braid_event *ev, struct braid_schema_event *entry);

/**
 * braid_event_set_gone - flag such an entry BRAID_EVENT_GONE
 * @ev: as listed; if it is no more, nothing happens
 * @entry: as listed
 *
 * Must hold braid_registry_lock().
 */
void braid_event_set_gone(struct braid_event *ev, const struct braid_schema_event *entry);

/**
 * braid_registry_new_buffer - make a buffer, with an id space; debugfs is the caller's
 * @shape: how it is to be
 *
 * Must hold braid_buffers_lock(). Return: as braid_buffer_make().
 */
struct braid_buffer *braid_registry_new_buffer(const struct braid_buffer_shape *shape);

/**
 * braid_registry_free_buffer - unmake it
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
 * braid_registry_next - a buffer's events, one after another
 * @buffer: with an id space
 * @prev: the one before, or NULL
 *
 * Return: the event or NULL. The caller knows that none is added or removed.
 */
struct braid_event *braid_registry_next(struct braid_buffer *buffer, struct braid_event *prev);

/**
 * braid_registry_attach - a region came: list all events of all buffers that got rings
 * @region: not live yet
 */
void braid_registry_attach(struct braid_guest_region *region);

/** braid_registry_detach - the region goes: all events off, no writer is inside on return */
void braid_registry_detach(void);

#endif /* BRAID_EVENT_EVENT_H */
