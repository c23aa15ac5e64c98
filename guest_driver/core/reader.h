/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reading rings in the guest. Consuming works on a private copy, under the buffer's lock, and only
 * while the guest owns the ring's reader role. Never touches user memory under that lock.
 */
#ifndef BRAID_CORE_READER_H
#define BRAID_CORE_READER_H

#include <linux/wait.h>

#include "guest_driver/core/buffer.h"

struct vm_area_struct;

/* Zeros after an item's payload: an offset of 16 bits and a length of 16 bits stay inside. */
#define BRAID_ITEM_PAD	(128u << 10)

/**
 * braid_reader_busy - whether a ring is mapped, or the guest owns its reader role
 * @buffer: must hold its lock
 * @cpu: the ring's, or -1 for any
 */
bool braid_reader_busy(struct braid_buffer *buffer, int cpu);

/**
 * braid_reader_prepare - allocate what braid_buffer_peek() and braid_buffer_consume() need
 * @buffer: the buffer
 *
 * They allocate nothing. Context: may sleep. Return: 0 or -ENOMEM; braid_reader_free() frees it.
 */
int braid_reader_prepare(struct braid_buffer *buffer);

/**
 * braid_reader_forget - a ring is removed: its readers find no ring from now on
 * @buffer: must hold its lock; its memory is still valid
 * @cpu: the ring's
 *
 * Gives the role back, takes the ring out of user mappings (SIGBUS from then on), and wakes waiting
 * readers.
 */
void braid_reader_forget(struct braid_buffer *buffer, int cpu);

/**
 * braid_reader_moved - another ring replaces one that has no reader
 * @buffer: must hold its lock; braid_reader_busy() is false
 * @cpu: the ring's
 *
 * Context: any. braid_reader_poll() wakes the waiting readers.
 */
void braid_reader_moved(struct braid_buffer *buffer, int cpu);

/**
 * braid_reader_free - free a buffer's readers
 * @buffer: without rings and users, but files may still wait or be mapped
 */
void braid_reader_free(struct braid_buffer *buffer);

/**
 * braid_reader_poll - wake readers that wait for events
 *
 * The write path never wakes readers, so the poll thread checks for waiting ones.
 * Context: may sleep, never for a buffer's lock. Return: whether any reader waits.
 */
bool braid_reader_poll(void);

/* For files ----------------------------------------------------------------------- */

/* One user's share in a ring's reader role. Zeroed at first. */
struct braid_reader_hold {
	u32 generation;		/* of the ring it was taken for */
	bool held;
};

/**
 * braid_reader_get - the reader of a ring
 * @buffer: the buffer
 * @cpu: a possible one
 *
 * Context: may sleep. Return: it, until braid_reader_put(); NULL: no memory.
 */
struct braid_guest_reader *braid_reader_get(struct braid_buffer *buffer, int cpu);
void braid_reader_put(struct braid_guest_reader *r);

/** braid_reader_queue - wait queue of readers that found no event */
wait_queue_head_t *braid_reader_queue(struct braid_guest_reader *r);

/**
 * braid_reader_wakes - count of wake-ups
 *
 * Read before checking for events; a waiting reader continues when the count has changed.
 */
u32 braid_reader_wakes(const struct braid_guest_reader *r);

/** braid_reader_wake - wake all readers that wait for a ring's events */
void braid_reader_wake(struct braid_guest_reader *r);

/**
 * braid_reader_read_page - consume events in tracefs' page format
 * @r: the reader
 * @hold: the user's
 * @page: large enough for one of the ring's sub-buffers; filled to its end
 * @bytes: of @page that may be used for header and events
 * @subbuf_bytes: set to the size of the sub-buffer
 *
 * Whole events, of one sub-buffer, with a stamp that the first one's delta counts from.
 * Return: 1, 0 (empty), -ENOSPC (the next event is larger than @bytes), else as
 * braid_buffer_peek().
 */
int braid_reader_read_page(struct braid_guest_reader *r, struct braid_reader_hold *hold,
			   void *page, u32 bytes, u32 *subbuf_bytes);

/**
 * braid_reader_ready - whether there is an event to read
 *
 * Takes the reader role, as reading does. Return: 1, 0, else as braid_buffer_peek().
 */
int braid_reader_ready(struct braid_guest_reader *r, struct braid_reader_hold *hold);

/** braid_reader_let_go - drop a user's share of the role, if any */
void braid_reader_let_go(struct braid_guest_reader *r, struct braid_reader_hold *hold);

/**
 * braid_reader_subbuf_bytes - size of a ring's sub-buffer now
 *
 * Return: bytes, or -ENODEV.
 */
int braid_reader_subbuf_bytes(struct braid_guest_reader *r);

/**
 * braid_reader_map - map a ring into user space
 * @r: the reader
 * @vma: from mmap(): page 0 is the meta page, sub-buffers follow by ascending id
 *
 * Holds the role until the last mapping is removed.
 * Return: 0; -EPERM (not shared, or writable), -EINVAL (beyond the ring, or it is not made of
 * whole pages), else as braid_buffer_peek().
 */
int braid_reader_map(struct braid_guest_reader *r, struct vm_area_struct *vma);

/**
 * braid_reader_advance - consume the rest of the mapped sub-buffer, else of the next one
 *
 * Updates the meta page if any event was consumed.
 * Return: 1, 0 (no events), -ENODEV (not mapped, or no ring), else as braid_buffer_peek().
 */
int braid_reader_advance(struct braid_guest_reader *r);

/* Numbers -------------------------------------------------------------------------- */

/*
 * A ring's counts at one moment, since it was made or last emptied by a reset:
 * written = read + entries + overruns + dropped.
 */
struct braid_ring_counts {
	u64 written;		/* committed or dropped */
	u64 read;
	u64 entries;		/* unread */
	u64 bytes;		/* of these */
	u64 overruns;		/* overwritten, or emptied by a resize, unread */
	u64 dropped;		/* dropped for lack of space */
	u64 oldest;		/* stamp of the sub-buffer that the oldest unread event is in; 0:
				   none */
	u32 owner;		/* enum braid_reader_owner */
	bool broken;		/* by the host */
};

/**
 * braid_reader_counts - count a ring's events
 * @buffer: the buffer
 * @cpu: its number
 * @counts: filled on success; owner and broken with -EBADMSG, too
 *
 * Context: may sleep. Return: 0, -EINVAL (cpu), -ENODEV, -EBADMSG, -ENOMEM.
 */
int braid_reader_counts(struct braid_buffer *buffer, int cpu, struct braid_ring_counts *counts);

#endif /* BRAID_CORE_READER_H */
