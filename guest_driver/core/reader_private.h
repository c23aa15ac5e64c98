/* SPDX-License-Identifier: GPL-2.0 */
/* Shared among the files of the guest's reader. */
#ifndef BRAID_CORE_READER_PRIVATE_H
#define BRAID_CORE_READER_PRIVATE_H

#include <linux/kref.h>
#include <linux/mm.h>

#include "guest_driver/core/reader.h"
#include "tracebraid/event.h"

/* A private copy of a sub-buffer's data, and a walk over it. */
struct braid_page_copy {
	u8 *data;
	u32 allocated_bytes;
	bool valid;		/* cursor walks over the sub-buffer at position */
	u64 position;
	struct braid_cursor cursor;
};

/* A copy of one event, so that zeros follow it. */
struct braid_event_copy {
	u8 *bytes;
	u32 allocated_bytes;	/* without the zeros after them */
	u32 used;
};

/* Reads one ring for all its readers in the guest. Outlives the buffer while files refer to it. */
struct braid_guest_reader {
	struct list_head list;		/* of all; under its lock, as buffer is */
	struct kref kref;
	struct braid_buffer *buffer;	/* NULL: gone */
	int cpu;
	wait_queue_head_t wait;
	atomic_t wakes;

	/* under buffer->lock */
	u32 generation;			/* changes when the ring is removed */
	bool owned;			/* the role is ours, and ring, page and item are good */
	bool by_call;			/* braid_buffer_peek() or _consume() holds it */
	u32 nr_holds;			/* files that hold it */
	bool bad;			/* the host wrote an invalid event */
	struct braid_reader ring;
	struct braid_span span;		/* loss of the copied bytes, up to their end */
	u64 lost_reported;		/* of ring.lost, or what a reset emptied if that is more */
	u64 shown_lost;			/* before the reader's sub-buffer, as shown to a mapping */
	struct braid_page_copy page;
	struct braid_event_copy item;
	struct braid_page_copy scratch;	/* for events that are only counted */

	/* under map_lock, which is taken inside buffer->lock and mmap_lock */
	struct mutex map_lock;
	u32 nr_mapped;			/* of this generation */
	struct address_space *mapping;	/* of the file that is mapped */
	u8 *base;			/* of the ring; NULL: none */
	u64 map_bytes;
};

/* A ring in user space, from mmap() to the last part's munmap(). */
struct braid_ring_mapping {
	refcount_t users;
	struct braid_guest_reader *reader;
	u32 generation;
	bool has_pages;		/* as its ring's struct braid_range */
};

/* Whether a buffer has a ring for @cpu, now or later. */
bool braid_reader_cpu_valid(const struct braid_buffer *buffer, int cpu);

/*
 * The reader of a ring, allocated at the first call. May sleep; must hold buffer->lock. NULL: no
 * memory.
 */
struct braid_guest_reader *braid_reader_find(struct braid_buffer *buffer, int cpu);

/* Whether a reader has the memory for reading sub-buffers of this size. */
static inline bool braid_reader_has_room(const struct braid_guest_reader *r, u32 subbuf_bytes)
{
	return r->page.data &&
	       r->page.allocated_bytes == subbuf_bytes - BRAID_SUBBUF_HEADER_BYTES &&
	       r->item.bytes && r->item.allocated_bytes == subbuf_bytes;
}

/* Allocate the memory for reading sub-buffers of this size, unless there is some. 0 or -ENOMEM. */
int braid_reader_make_room(struct braid_guest_reader *r, u32 subbuf_bytes);

/* Takes the role. Must hold the buffer's lock. 0, or as braid_buffer_peek(). */
int braid_reader_take_role(struct braid_guest_reader *r);

/* Joins the holders of the role. Must hold the buffer's lock. As braid_reader_take_role(). */
int braid_reader_hold_role(struct braid_guest_reader *r, struct braid_reader_hold *hold);

/* Releases the role if it has no user. Must hold the buffer's lock. */
void braid_reader_give_role(struct braid_guest_reader *r);

/*
 * Finds the next event: @c is set after it, @view describes it in the copy. Must own the role and
 * hold the lock. Return: 1, 0 (none), -EBADMSG.
 */
int braid_reader_view(struct braid_guest_reader *r, struct braid_cursor *c,
		      struct braid_event_view *view);

/* Losses found and not yet reported. */
static inline u64 braid_reader_unreported(const struct braid_guest_reader *r)
{
	return r->ring.lost > r->lost_reported ? r->ring.lost - r->lost_reported : 0;
}

/* Consumes all @events up to @c, which are in the copy. */
void braid_reader_take(struct braid_guest_reader *r, const struct braid_cursor *c, u64 events);

/* Counts a ring's events. Must hold the buffer's lock. As braid_reader_counts(). */
int braid_reader_count(struct braid_guest_reader *r, struct braid_ring_counts *counts);

/* Whether a ring is mapped now. */
bool braid_reader_mapped(struct braid_guest_reader *r);

/* The ring is removed and its generation ends: on return no mapping reaches it. */
void braid_reader_unmap(struct braid_guest_reader *r);

/* These two sleep only to allocate: not if there is a copy of this size. 0 or -ENOMEM. */
int braid_page_copy_make(struct braid_page_copy *page, u32 subbuf_bytes);
int braid_event_copy_make(struct braid_event_copy *copy, u32 subbuf_bytes);

void braid_page_copy_free(struct braid_page_copy *page);

/* Copies a span's bytes and moves the walk to its start: 0 or -EBADMSG. */
int braid_page_copy_fill(struct braid_page_copy *page, const struct braid_span *span, u32 flags);

/* The next DATA event: 1, 0 at the end, -EBADMSG. */
int braid_page_copy_next(struct braid_cursor *c, struct braid_event_view *view);

void braid_event_copy_free(struct braid_event_copy *copy);

/* Sets @item's event and payload to a copy of @view's. */
void braid_event_copy_put(struct braid_event_copy *copy, const struct braid_page_copy *page,
			  const struct braid_event_view *view, struct braid_item *item);

#endif /* BRAID_CORE_READER_PRIVATE_H */
