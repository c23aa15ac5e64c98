// SPDX-License-Identifier: GPL-2.0
/* Iterates over what a ring holds, without taking it. */
#include <linux/err.h>
#include <linux/export.h>
#include <linux/slab.h>

#include "guest_driver/core/reader_private.h"

#define BEGIN_TRIES	3	/* an agent that swaps meanwhile can spoil one */

struct braid_buffer_iter {
	struct braid_buffer *buffer;
	int cpu;
	u32 generation;			/* of the ring it looks at */
	struct braid_peek peek;
	struct braid_span span;		/* in the copy */
	struct braid_page_copy page;
	u64 next_seq;			/* of the event behind the last one seen */
	u64 next_position;		/* of the sub-buffer that comes next if none is gone */
	u64 lost;			/* since the last event */
	struct braid_event_room item;
};

/* Must hold the buffer's lock. */
static int begin(struct braid_buffer_iter *iter)
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

static int make(struct braid_buffer_iter *iter)
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
	      braid_event_room_make(&iter->item, w->map.subbuf_bytes);
	return err ?: begin(iter);
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
	braid_buffer_record_disable_cpu(buffer, cpu);
	synchronize_rcu();	/* who records now has preemption off */
	braid_lock(&buffer->lock);
	err = make(iter);
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
	braid_buffer_record_enable_cpu(iter->buffer, iter->cpu);
	braid_page_copy_free(&iter->page);
	braid_event_room_free(&iter->item);
	kfree(iter);
}
EXPORT_SYMBOL_GPL(braid_buffer_read_finish);

/* 0 if the ring that the iterator began with is still there. */
static int still_there(const struct braid_buffer_iter *iter)
{
	return braid_buffer_writer(iter->buffer, iter->cpu) &&
	       iter->buffer->cpus[iter->cpu].reader->generation == iter->generation ? 0 : -ENODEV;
}

/* Goes on to the event numbered @seq; what lies between is lost if it is @lost. */
static void skip_to(struct braid_buffer_iter *iter, u64 seq, bool lost)
{
	s64 ahead = seq - iter->next_seq;

	if (ahead <= 0)
		return;		/* a reader took the sub-buffer's beginning, and counted */
	iter->next_seq = seq;
	if (lost)
		iter->lost += ahead;
}

/* Sub-buffers are gone: what a reader took meanwhile is no loss. */
static void skip_what_was_read(struct braid_buffer_iter *iter, u64 first_seq)
{
	u64 incarnation = iter->buffer->region->layout.incarnation;
	struct braid_peek now;

	if (braid_peek_begin(&now, &iter->peek.map, incarnation))
		return;
	if ((s64)(now.block.next_seq - first_seq) < 0)
		first_seq = now.block.next_seq;
	skip_to(iter, first_seq, false);
}

/* The last sub-buffer is behind us: what was dropped at its end. */
static void leave_page(struct braid_buffer_iter *iter)
{
	const struct braid_span *span = &iter->span;

	if (iter->page.valid && span->final)
		skip_to(iter, span->first_seq + span->entries + span->dropped, true);
	iter->page.valid = false;
}

/* Copies the next sub-buffer: 1, 0 at the end, -EBADMSG, or -EAGAIN when it went meanwhile. */
static int next_page(struct braid_buffer_iter *iter)
{
	struct braid_span *span = &iter->span;
	int ret;

	leave_page(iter);
	ret = braid_peek_next(&iter->peek, span);
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
		skip_what_was_read(iter, span->first_seq);
	/* An empty one in the reader's hand is how a ring begins anew: that emptied it. */
	skip_to(iter, span->first_seq, span->to_bytes);
	iter->next_position = (span->position + 1) & BRAID_POS_MASK;
	return 1;
}

/* Finds the next event; @c is set behind it. Must hold the buffer's lock. */
static int find(struct braid_buffer_iter *iter, struct braid_cursor *c,
		struct braid_event_view *view)
{
	int ret = still_there(iter);

	while (!ret) {
		*c = iter->page.cursor;
		ret = iter->page.valid ? braid_page_copy_next(c, view) : 0;
		if (ret)
			break;
		ret = next_page(iter);
		if (!ret)
			break;
		if (ret > 0 || ret == -EAGAIN)
			ret = 0;
	}
	return ret;
}

static int get_item(struct braid_buffer_iter *iter, struct braid_item *item, bool go_on)
{
	struct braid_event_view view;
	struct braid_cursor c;
	int ret;

	braid_lock(&iter->buffer->lock);
	ret = find(iter, &c, &view);
	braid_unlock(&iter->buffer->lock);
	if (ret <= 0)
		return ret;
	item->buffer = iter->buffer;
	item->cpu = iter->cpu;
	item->stamp = view.time;
	item->lost_before = iter->lost;
	braid_event_room_put(&iter->item, &iter->page, &view, item);
	if (go_on) {
		iter->page.cursor = c;
		iter->next_seq++;
		iter->lost = 0;
	}
	return 1;
}

int braid_buffer_iter_peek(struct braid_buffer_iter *iter, struct braid_item *item)
{
	return get_item(iter, item, false);
}
EXPORT_SYMBOL_GPL(braid_buffer_iter_peek);

int braid_buffer_read(struct braid_buffer_iter *iter, struct braid_item *item)
{
	return get_item(iter, item, true);
}
EXPORT_SYMBOL_GPL(braid_buffer_read);

int braid_buffer_iter_reset(struct braid_buffer_iter *iter)
{
	int err;

	braid_lock(&iter->buffer->lock);
	err = still_there(iter) ?: begin(iter);
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
	empty = find(iter, &c, &view) <= 0;
	braid_unlock(&iter->buffer->lock);
	return empty;
}
EXPORT_SYMBOL_GPL(braid_buffer_iter_empty);
