// SPDX-License-Identifier: GPL-2.0
/* Takes events in the guest: whole sub-buffers, peek and consume. */
#include <linux/err.h>
#include <linux/export.h>

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
	u64 lost = braid_reader_unreported(r);
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

/* Must hold the buffer's lock. Context: any. */
static int braid_reader_take_for_call(struct braid_buffer *buffer, int cpu,
				      struct braid_guest_reader **out)
{
	const struct braid_writer *w = braid_buffer_writer(buffer, cpu);
	struct braid_guest_reader *r = buffer->cpus[cpu].reader;
	int err;

	if (!w)
		return -ENODEV;
	if (!r || !braid_reader_has_room(r, w->map.subbuf_bytes))
		return -ENOMEM;
	err = braid_reader_take_role(r);	/* so it allocates nothing */
	if (!err)
		WRITE_ONCE(r->by_call, true);
	*out = r;
	return err;
}

static int braid_reader_get_item(struct braid_buffer *buffer, int cpu, struct braid_item *item,
				 bool consume)
{
	struct braid_guest_reader *r;
	struct braid_event_view view;
	struct braid_cursor c;
	int ret;

	if (!braid_reader_cpu_valid(buffer, cpu))
		return -EINVAL;
	if (!braid_lock_try_any(&buffer->lock))
		return -EBUSY;
	ret = braid_reader_take_for_call(buffer, cpu, &r);
	if (!ret)
		ret = braid_reader_view(r, &c, &view);
	if (ret > 0) {
		item->buffer = buffer;
		item->cpu = cpu;
		item->stamp = view.time;
		item->lost_before = braid_reader_unreported(r);
		braid_event_copy_put(&r->item, &r->page, &view, item);
	}
	if (ret > 0 && consume) {
		r->lost_reported += item->lost_before;
		braid_reader_take(r, &c, 1);
	}
	braid_lock_end_any(&buffer->lock);
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
	struct braid_guest_reader *r;

	if (!braid_reader_cpu_valid(buffer, cpu))
		return;
	r = READ_ONCE(buffer->cpus[cpu].reader);	/* freed with the buffer */
	if (!r)
		return;
	WRITE_ONCE(r->by_call, false);
	if (!braid_lock_try_any(&buffer->lock))
		return;		/* braid_reader_poll() returns the role */
	braid_reader_give_role(r);
	braid_lock_end_any(&buffer->lock);
}
EXPORT_SYMBOL_GPL(braid_buffer_read_done);
