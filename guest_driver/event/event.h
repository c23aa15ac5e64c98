/* SPDX-License-Identifier: GPL-2.0 */
/* The registry of events: names, ids, formats, who wants them; and writing one. */
#ifndef BRAID_EVENT_EVENT_H
#define BRAID_EVENT_EVENT_H

#include <linux/list.h>

#include "guest_driver/core/buffer.h"
#include "guest_driver/core/symbol.h"

#define BRAID_MAX_RECORD_BYTES	1000u

struct braid_event;

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
	struct braid_buffer *buffer;	/* where it writes; NULL while no region is attached */
	u16 id;
	u32 flags;			/* BRAID_EVENT_* */
	u32 dir_offset;			/* of its entry in the region's directory */
	bool listed;			/* it has such an entry */
	const char *system;
	const char *name;
	const struct braid_event_ops *ops;
	const void *source;		/* the ops' own */
	struct dentry *dir;
};

/**
 * braid_event_reserve - begin one event
 * @ev: an event that is on
 * @slot: for braid_event_commit(), on the caller's stack
 * @bytes: of payload, struct braid_record included; more than BRAID_MAX_RECORD_BYTES
 *	are dropped and counted
 *
 * Context: any, NMI included; preemption is off until the commit.
 * Return: the payload with its struct braid_record filled, in memory that the host may
 * rewrite at any moment: write only. NULL: dropped and counted, or the buffer is disabled.
 */
static __always_inline void *braid_event_reserve(struct braid_event *ev, struct braid_slot *slot,
						 u32 bytes)
{
	if (unlikely(bytes > BRAID_MAX_RECORD_BYTES))
		bytes = BRAID_MAX_SUBBUF_BYTES;	/* what no ring takes, and each counts */
	return braid_buffer_reserve(ev->buffer, ev->id, bytes, slot);
}

static __always_inline void braid_event_commit(struct braid_slot *slot)
{
	braid_buffer_commit(slot);
}

/**
 * braid_event_add - make an event known
 * @ev: ops, system, name and source filled; the caller's until braid_event_remove_all()
 * @requested_id: an id, or 0 for any
 *
 * It is listed in the region's directory, now or when a region comes, and is off.
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
 * @id: any
 *
 * Context: any, with preemption off: the event stays until it is on again.
 * Return: the event or NULL.
 */
struct braid_event *braid_event_find(u16 id);

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
 * @system: a glob, "" or NULL for all
 * @name: likewise
 * @who: BRAID_EVENT_GUEST_ON or BRAID_EVENT_HOST_ON
 * @on: whether @who wants them
 * @matched: how many matched, set on success and on failure
 *
 * Return: 0 or the first error; it goes on behind one.
 */
int braid_event_set_matching(const char *system, const char *name, u32 who, bool on,
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

/**
 * braid_registry_attach - a region came: list all events in it
 * @buffer: where they write
 * @enable: globs "system:event,..." to turn on for the guest, or NULL
 */
void braid_registry_attach(struct braid_buffer *buffer, const char *enable);

/** braid_registry_detach - the region goes: all events off, no writer is inside on return */
void braid_registry_detach(void);

#endif /* BRAID_EVENT_EVENT_H */
