// SPDX-License-Identifier: GPL-2.0
/* Takes events in the guest: whole sub-buffers, peek and consume. */
#include <linux/err.h>
#include <linux/export.h>
#include <linux/slab.h>

#include "guest_driver/core/reader_private.h"

int braid_reader_subbuf_bytes(struct braid_guest_reader *r)
{
	const struct braid_writer *w;
	int ret;

	braid_lock(&r->buffer->lock);
	w = braid_buffer_writer(r->buffer, r->cpu);
	ret = w ? (int)w->map.subbuf_bytes : -ENODEV;
	braid_unlock(&r->buffer->lock);
	return ret;
}

/* Fills a page as tracefs does, with whole events from the copy: 1 or -ENOSPC, -EBADMSG. */
static int braid_reader_fill_page(struct braid_guest_reader *r, struct braid_cursor *c,
				  struct braid_subbuf *page, u32 bytes)
{
	u32 room = r->ring.map.subbuf_bytes - BRAID_SUBBUF_HEADER_BYTES, used, events = 0;
	u64 lost = r->ring.lost - r->lost_reported;
	struct braid_cursor end = r->page.cursor;
	struct braid_event_view view;
	u32 from = end.offset;

	do {
		if (c->offset - from > min(bytes - BRAID_SUBBUF_HEADER_BYTES, room))
			break;
		end = *c;
		events++;
	} while (braid_page_copy_next(c, &view) > 0);
	if (!events)
		return -ENOSPC;

	used = end.offset - from;
	page->time_stamp = r->page.cursor.time;
	page->commit = used;
	memcpy(page->data, r->page.data + from, used);
	if (lost && room - used >= sizeof(lost)) {
		memcpy(page->data + used, &lost, sizeof(lost));
		page->commit |= BRAID_MISSED_STORED;
		used += sizeof(lost);
	}
	if (lost)
		page->commit |= BRAID_MISSED_EVENTS;
	memset(page->data + used, 0, room - used);
	r->lost_reported += lost;
	braid_reader_take(r, &end, events);
	return 1;
}

int braid_reader_read_page(struct braid_guest_reader *r, struct braid_reader_hold *h,
			   void *page, u32 bytes, u32 *subbuf_bytes)
{
	struct braid_event_view view;
	struct braid_cursor c;
	int ret;

	braid_lock(&r->buffer->lock);
	ret = braid_reader_hold_role(r, h);
	if (!ret) {
		/* Callers with a page of another size must retry. */
		if (r->ring.map.subbuf_bytes != *subbuf_bytes)
			ret = -ESTALE;
		*subbuf_bytes = r->ring.map.subbuf_bytes;
	}
	if (!ret)
		ret = braid_reader_view(r, &c, &view);
	if (ret > 0)
		ret = bytes > BRAID_SUBBUF_HEADER_BYTES ? braid_reader_fill_page(r, &c, page, bytes) :
							  -ENOSPC;
	braid_unlock(&r->buffer->lock);
	return ret;
}

/* The API --------------------------------------------------------------------------- */

/* The buffer's lock; contexts that cannot sleep only try it. */
static bool braid_reader_lock_buffer(struct braid_buffer *buffer, bool sleeps)
{
	if (!sleeps)
		return braid_lock_try_any(&buffer->lock);
	braid_lock(&buffer->lock);
	return true;
}

static void braid_reader_unlock_buffer(struct braid_buffer *buffer, bool sleeps)
{
	if (sleeps)
		braid_unlock(&buffer->lock);
	else
		braid_lock_end_any(&buffer->lock);
}

static int braid_reader_get_item(struct braid_buffer *buffer, int cpu, struct braid_item *item,
				 bool consume)
{
	struct braid_guest_reader *r;
	struct braid_event_view view;
	bool sleeps = braid_may_sleep();
	struct braid_cursor c;
	int ret = -ENOMEM;

	if (!braid_reader_cpu_valid(buffer, cpu))
		return -EINVAL;
	if (!braid_reader_lock_buffer(buffer, sleeps))
		return -EBUSY;
	r = braid_reader_find(buffer, cpu);
	if (r)
		ret = braid_reader_take_role(r);
	if (!ret) {
		r->by_call = true;
		ret = braid_reader_view(r, &c, &view);
	}
	if (ret > 0) {
		item->buffer = buffer;
		item->cpu = cpu;
		item->stamp = view.time;
		item->lost_before = r->ring.lost - r->lost_reported;
		braid_event_copy_put(&r->item, &r->page, &view, item);
	}
	if (ret > 0 && consume) {
		r->lost_reported += item->lost_before;
		braid_reader_take(r, &c, 1);
	}
	braid_reader_unlock_buffer(buffer, sleeps);
	return ret;
}

int braid_buffer_peek(struct braid_buffer *buffer, int cpu, struct braid_item *item)
{
	return braid_reader_get_item(buffer, cpu, item, false);
}
EXPORT_SYMBOL_GPL(braid_buffer_peek);

int braid_buffer_consume(struct braid_buffer *buffer, int cpu, struct braid_item *item)
{
	return braid_reader_get_item(buffer, cpu, item, true);
}
EXPORT_SYMBOL_GPL(braid_buffer_consume);

void braid_buffer_read_done(struct braid_buffer *buffer, int cpu)
{
	bool sleeps = braid_may_sleep();
	struct braid_guest_reader *r;

	if (!braid_reader_cpu_valid(buffer, cpu) || !braid_reader_lock_buffer(buffer, sleeps))
		return;
	r = buffer->cpus[cpu].reader;
	if (r) {
		r->by_call = false;
		braid_reader_give_role(r);
	}
	braid_reader_unlock_buffer(buffer, sleeps);
}
EXPORT_SYMBOL_GPL(braid_buffer_read_done);
