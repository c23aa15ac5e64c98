// SPDX-License-Identifier: GPL-2.0
/*
 * Iterates over a ring's events without consuming them, while its CPU records: a copy is checked
 * after it was made, what was overwritten before counts as lost, and each slot is visited once.
 */
#include <linux/err.h>
#include <linux/export.h>
#include <linux/slab.h>

#include "guest_driver/core/reader_private.h"

#define BEGIN_TRIES	3	/* an agent that swaps meanwhile can spoil one */

struct braid_buffer_iter {
	struct braid_buffer *buffer;
	int cpu;
	u32 generation;			/* of the iterated ring */
	struct braid_peek peek;
	struct braid_span span;		/* in the copy */
	struct braid_page_copy page;
	u64 next_seq;			/* of the event after the last one seen */
	u64 next_position;		/* of the next sub-buffer if none was overwritten */
	u64 lost;			/* since the last event */
	struct braid_event_copy item;
};

/* Must hold the buffer's lock. */
static int braid_iter_begin(struct braid_buffer_iter *iter)
{
	const struct braid_writer *w = braid_buffer_writer(iter->buffer, iter->cpu);
	u64 incarnation = iter->buffer->region->layout.incarnation;
	int err, tries = 0;

	do
		err = braid_peek_begin(&iter->peek, &w->map, incarnation);
	while (err && ++tries < BEGIN_TRIES);
	iter->page.valid = false;
	iter->page.cursor.offset = iter->page.cursor.bytes = 0;
	iter->next_seq = iter->peek.block.next_seq;
	iter->next_position = iter->peek.position;
	iter->lost = 0;
	return err;
}

static int braid_iter_make(struct braid_buffer_iter *iter)
{
	const struct braid_writer *w = braid_buffer_writer(iter->buffer, iter->cpu);
	struct braid_guest_reader *r;
	int err;

	if (!w)
		return -ENODEV;
	r = braid_reader_find(iter->buffer, iter->cpu);
	if (!r)
		return -ENOMEM;
	iter->generation = r->generation;
	err = braid_page_copy_make(&iter->page, w->map.subbuf_bytes) ?:
	      braid_event_copy_make(&iter->item, w->map.subbuf_bytes);
	return err ?: braid_iter_begin(iter);
}

struct braid_buffer_iter *braid_buffer_read_start(struct braid_buffer *buffer, int cpu)
{
	struct braid_buffer_iter *iter;
	int err;

	if (!braid_reader_cpu_valid(buffer, cpu))
		return ERR_PTR(-EINVAL);
	iter = kzalloc(sizeof(*iter), GFP_KERNEL);
	if (!iter)
		return ERR_PTR(-ENOMEM);
	iter->buffer = buffer;
	iter->cpu = cpu;
	braid_lock(&buffer->lock);
	err = braid_iter_make(iter);
	braid_unlock(&buffer->lock);
	if (err) {
		braid_buffer_read_finish(iter);
		return ERR_PTR(err);
	}
	return iter;
}
EXPORT_SYMBOL_GPL(braid_buffer_read_start);

void braid_buffer_read_finish(struct braid_buffer_iter *iter)
{
	braid_page_copy_free(&iter->page);
	braid_event_copy_free(&iter->item);
	kfree(iter);
}
EXPORT_SYMBOL_GPL(braid_buffer_read_finish);

/* 0 if the iterator's ring still exists. */
static int braid_iter_ring_is_there(const struct braid_buffer_iter *iter)
{
	return braid_buffer_writer(iter->buffer, iter->cpu) &&
	       iter->buffer->cpus[iter->cpu].reader->generation == iter->generation ? 0 : -ENODEV;
}

/* Advances to the event numbered @seq; skipped events count as lost if @lost. */
static void braid_iter_skip_to(struct braid_buffer_iter *iter, u64 seq, bool lost)
{
	s64 ahead = seq - iter->next_seq;

	if (ahead <= 0)
		return;		/* a reader consumed, and counted, the sub-buffer's beginning */
	iter->next_seq = seq;
	if (lost)
		iter->lost += ahead;
}

/* Sub-buffers are gone: events that a reader consumed are not lost. */
static void braid_iter_skip_read(struct braid_buffer_iter *iter, u64 first_seq)
{
	u64 incarnation = iter->buffer->region->layout.incarnation;
	struct braid_peek now;

	if (braid_peek_begin(&now, &iter->peek.map, incarnation))
		return;
	if ((s64)(now.block.next_seq - first_seq) < 0)
		first_seq = now.block.next_seq;
	braid_iter_skip_to(iter, first_seq, false);
}

/* The last sub-buffer is finished: count the events dropped at its end. */
static void braid_iter_leave_page(struct braid_buffer_iter *iter)
{
	const struct braid_span *span = &iter->span;

	if (iter->page.valid && span->final)
		braid_iter_skip_to(iter, span->first_seq + span->entries + span->dropped, true);
	iter->page.valid = false;
}

/* Copies what was recorded in the sub-buffer since it was copied: whether there is any. */
static bool braid_iter_more(struct braid_buffer_iter *iter)
{
	struct braid_page_copy *page = &iter->page;
	struct braid_span now;

	if (!page->valid || iter->span.final ||
	    braid_peek_subbuf(&iter->peek, iter->span.id, iter->span.position, page->cursor.offset,
			      &now) <= 0)
		return false;
	if (braid_page_copy_fill(page, &now, iter->peek.map.flags) ||
	    !braid_peek_valid(&iter->peek, &now)) {
		page->valid = false;	/* overwritten */
		return false;
	}
	iter->span = now;
	return now.to_bytes > now.from_bytes;
}

/* Whether the last span's sub-buffer was overwritten, or taken by a reader. */
static bool braid_iter_span_went(const struct braid_buffer_iter *iter)
{
	const struct braid_peek *p = &iter->peek;
	u64 position = (p->position - 1) & BRAID_POS_MASK;
	struct braid_peek now;

	if (p->word)
		return braid_load(&p->map.slots[position & (p->map.nr_slots - 1)]) != p->word;
	return !braid_peek_begin(&now, &p->map, iter->buffer->region->layout.incarnation) &&
	       (now.hand_id != p->hand_id || now.position != position);
}

/* The next sub-buffer: 1, 0 at the end, -EBADMSG, or -EAGAIN when it went meanwhile. */
static int braid_iter_next_span(struct braid_buffer_iter *iter)
{
	struct braid_peek *p = &iter->peek;
	bool hand_done = p->hand_done;
	u32 left = p->left;
	int ret = braid_peek_next(p, &iter->span);

	/* A peek that does not get on, whatever a host writes, ends the walk. */
	if (ret == -EBADMSG && (p->left != left || p->hand_done != hand_done) &&
	    braid_iter_span_went(iter))
		return -EAGAIN;
	return ret;
}

/* Copies it; likewise. */
static int braid_iter_next_page(struct braid_buffer_iter *iter)
{
	struct braid_span *span = &iter->span;
	int ret;

	braid_iter_leave_page(iter);
	ret = braid_iter_next_span(iter);
	if (ret <= 0)
		return ret;
	ret = braid_page_copy_fill(&iter->page, span, iter->peek.map.flags);
	if (!braid_peek_valid(&iter->peek, span)) {
		iter->page.valid = false;
		return -EAGAIN;
	}
	if (ret)
		return ret;
	if (span->position != iter->next_position)
		braid_iter_skip_read(iter, span->first_seq);
	/*
	 * An empty sub-buffer held by the reader means that the ring was restarted, and so emptied.
	 */
	braid_iter_skip_to(iter, span->first_seq, span->to_bytes);
	iter->next_position = (span->position + 1) & BRAID_POS_MASK;
	return 1;
}

/* Finds the next event; advances @c past it. Must hold the buffer's lock. */
static int braid_iter_find_event(struct braid_buffer_iter *iter, struct braid_cursor *c,
				 struct braid_event_view *view)
{
	int ret = braid_iter_ring_is_there(iter);

	while (!ret) {
		*c = iter->page.cursor;
		ret = iter->page.valid ? braid_page_copy_next(c, view) : 0;
		if (ret)
			break;
		if (braid_iter_more(iter))
			continue;
		ret = braid_iter_next_page(iter);
		if (!ret)
			break;
		if (ret > 0 || ret == -EAGAIN)
			ret = 0;
	}
	return ret;
}

static int braid_iter_get_item(struct braid_buffer_iter *iter, struct braid_item *item, bool go_on)
{
	struct braid_event_view view;
	struct braid_cursor c;
	int ret;

	braid_lock(&iter->buffer->lock);
	ret = braid_iter_find_event(iter, &c, &view);
	braid_unlock(&iter->buffer->lock);
	if (ret <= 0)
		return ret;
	item->buffer = iter->buffer;
	item->cpu = iter->cpu;
	item->stamp = view.time;
	item->lost_before = iter->lost;
	braid_event_copy_put(&iter->item, &iter->page, &view, item);
	if (go_on) {
		iter->page.cursor = c;
		iter->next_seq++;
		iter->lost = 0;
	}
	return 1;
}

int braid_buffer_iter_peek(struct braid_buffer_iter *iter, struct braid_item *item)
{
	return braid_iter_get_item(iter, item, false);
}
EXPORT_SYMBOL_GPL(braid_buffer_iter_peek);

int braid_buffer_read(struct braid_buffer_iter *iter, struct braid_item *item)
{
	return braid_iter_get_item(iter, item, true);
}
EXPORT_SYMBOL_GPL(braid_buffer_read);

int braid_buffer_iter_reset(struct braid_buffer_iter *iter)
{
	int err;

	braid_lock(&iter->buffer->lock);
	err = braid_iter_ring_is_there(iter) ?: braid_iter_begin(iter);
	braid_unlock(&iter->buffer->lock);
	return err;
}
EXPORT_SYMBOL_GPL(braid_buffer_iter_reset);

bool braid_buffer_iter_empty(struct braid_buffer_iter *iter)
{
	struct braid_event_view view;
	struct braid_cursor c;
	bool empty;

	braid_lock(&iter->buffer->lock);
	empty = braid_iter_find_event(iter, &c, &view) <= 0;
	braid_unlock(&iter->buffer->lock);
	return empty;
}
EXPORT_SYMBOL_GPL(braid_buffer_iter_empty);
