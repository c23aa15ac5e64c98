/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reading rings in the guest. What takes events works on a private copy, under the
 * buffer's lock, and only while the guest owns the ring's reader role. Never touches
 * user memory under that lock.
 */
#ifndef BRAID_CORE_READER_H
#define BRAID_CORE_READER_H

#include <linux/wait.h>

#include "guest_driver/core/buffer.h"

struct vm_area_struct;

/* Zeros behind an item's payload: an offset of 16 bits and a length of 16 bits stay inside. */
#define BRAID_ITEM_PAD	(128u << 10)

/**
 * braid_reader_busy - whether a ring is mapped, or the guest owns its reader role
 * @buffer: must hold its lock
 * @cpu: the ring's, or -1 for any
 */
bool braid_reader_busy(struct braid_buffer *buffer, int cpu);

/**
 * braid_reader_forget - a ring goes: its readers find no ring from now on
 * @buffer: must hold its lock; its memory is still there
 * @cpu: the ring's
 *
 * Gives the role back, takes the ring out of user mappings (SIGBUS from then on), and
 * wakes who waits.
 */
void braid_reader_forget(struct braid_buffer *buffer, int cpu);

/**
 * braid_reader_moved - another ring stands in for one that nobody reads
 * @buffer: must hold its lock; braid_reader_busy() is false
 * @cpu: the ring's
 *
 * Context: any. Who waits is woken by braid_reader_poll().
 */
void braid_reader_moved(struct braid_buffer *buffer, int cpu);

/**
 * braid_reader_free - free what reading needed
 * @buffer: without rings; nobody uses it any more, but files may still wait or be mapped
 */
void braid_reader_free(struct braid_buffer *buffer);

/**
 * braid_reader_poll - wake those who wait for events that came
 *
 * The write path wakes nobody, so the poll thread looks for those who wait.
 * Context: may sleep, never for a buffer's lock. Return: whether anyone waits.
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

/** braid_reader_queue - where those wait who found nothing */
wait_queue_head_t *braid_reader_queue(struct braid_guest_reader *r);

/**
 * braid_reader_wakes - a number that moves with each wake-up
 *
 * Taken before a look that finds nothing; who waits goes on when it has moved.
 */
u32 braid_reader_wakes(const struct braid_guest_reader *r);

/** braid_reader_wake - wake all who wait for a ring's events */
void braid_reader_wake(struct braid_guest_reader *r);

/**
 * braid_reader_read_page - take events as tracefs gives them
 * @r: the reader
 * @hold: the user's
 * @page: room for one of the ring's sub-buffers; filled to its end
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
 * braid_reader_ready - whether there is an event to take
 *
 * Takes the role, as reading does. Return: 1, 0, else as braid_buffer_peek().
 */
int braid_reader_ready(struct braid_guest_reader *r, struct braid_reader_hold *hold);

/** braid_reader_let_go - give a user's share in the role back, if it has one */
void braid_reader_let_go(struct braid_guest_reader *r, struct braid_reader_hold *hold);

/**
 * braid_reader_subbuf_bytes - size of a ring's sub-buffer now
 *
 * Return: bytes, or -ENODEV.
 */
int braid_reader_subbuf_bytes(struct braid_guest_reader *r);

/**
 * braid_reader_map - let user space look at a ring
 * @r: the reader
 * @vma: from mmap(): page 0 is the meta page, sub-buffers follow by ascending id
 *
 * Holds the role until the last mapping goes.
 * Return: 0; -EPERM (not shared, or writable), -EINVAL (beyond the ring, or it is not made of
 * whole pages), else as braid_buffer_peek().
 */
int braid_reader_map(struct braid_guest_reader *r, struct vm_area_struct *vma);

/**
 * braid_reader_advance - take all that the mapped sub-buffer has, or else the next one's
 *
 * Updates the meta page, if there was anything.
 * Return: 1, 0 (nothing there), -ENODEV (not mapped, or no ring), else as braid_buffer_peek().
 */
int braid_reader_advance(struct braid_guest_reader *r);

/* Numbers -------------------------------------------------------------------------- */

/* What a ring had seen at one moment: written = read + entries + overruns + dropped. */
struct braid_ring_counts {
	u64 written;		/* committed or dropped */
	u64 read;
	u64 entries;		/* unread */
	u64 bytes;		/* of these */
	u64 overruns;		/* overwritten or emptied, unread */
	u64 dropped;		/* found no room */
	u64 oldest;		/* stamp of the sub-buffer that the oldest unread event is in; 0: none */
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
