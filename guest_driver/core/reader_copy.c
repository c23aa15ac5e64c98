// SPDX-License-Identifier: GPL-2.0
/* Private copies of data that the host may rewrite at any moment: copied before use. */
#include <linux/mm.h>
#include <linux/slab.h>

#include "guest_driver/core/reader_private.h"

int braid_page_copy_make(struct braid_page_copy *page, u32 subbuf_bytes)
{
	u32 room = subbuf_bytes - BRAID_SUBBUF_HEADER_BYTES;

	if (page->data && page->allocated_bytes == room)
		return 0;
	braid_page_copy_free(page);
	page->data = kvmalloc(room, GFP_KERNEL);
	page->allocated_bytes = room;
	return page->data ? 0 : -ENOMEM;
}

void braid_page_copy_free(struct braid_page_copy *page)
{
	kvfree(page->data);
	memset(page, 0, sizeof(*page));
}

/* Walks to the first unread event, so that the cursor has its time. */
static int braid_copy_walk_to(struct braid_page_copy *page, u32 from)
{
	struct braid_event_view view;

	while (page->cursor.offset < from)
		if (braid_page_next(&page->cursor, &view) <= 0)
			break;
	return page->cursor.offset == from ? 0 : -EBADMSG;
}

int braid_page_copy_fill(struct braid_page_copy *page, const struct braid_span *span, u32 flags)
{
	struct braid_cursor *c = &page->cursor;

	if (page->valid && page->position == span->position && c->offset == span->from_bytes &&
	    c->bytes <= span->to_bytes) {
		memcpy(page->data + c->bytes, span->data + c->bytes, span->to_bytes - c->bytes);
		c->bytes = span->to_bytes;
		return 0;
	}
	memcpy(page->data, span->data, span->to_bytes);
	braid_cursor_init(c, page->data, span->to_bytes, span->time_stamp, flags);
	page->position = span->position;
	page->valid = !braid_copy_walk_to(page, span->from_bytes);
	return page->valid ? 0 : -EBADMSG;
}

int braid_page_copy_next(struct braid_cursor *c, struct braid_event_view *view)
{
	int ret;

	do
		ret = braid_page_next(c, view);
	while (ret > 0 && view->type != BRAID_TYPE_DATA);
	return ret;
}

int braid_event_copy_make(struct braid_event_copy *copy, u32 subbuf_bytes)
{
	if (copy->bytes && copy->allocated_bytes == subbuf_bytes)
		return 0;
	braid_event_copy_free(copy);
	copy->bytes = kvzalloc(subbuf_bytes + BRAID_ITEM_PAD, GFP_KERNEL);
	copy->allocated_bytes = subbuf_bytes;
	return copy->bytes ? 0 : -ENOMEM;
}

void braid_event_copy_free(struct braid_event_copy *copy)
{
	kvfree(copy->bytes);
	memset(copy, 0, sizeof(*copy));
}

void braid_event_copy_put(struct braid_event_copy *copy, const struct braid_page_copy *page,
			  const struct braid_event_view *view, struct braid_item *item)
{
	const u8 *event = page->data + view->offset;
	u32 header = (const u8 *)view->payload - event, used = header + view->payload_bytes;

	memcpy(copy->bytes, event, used);
	if (used < copy->used)
		memset(copy->bytes + used, 0, copy->used - used);
	copy->used = used;
	item->event = (struct braid_ring_event *)copy->bytes;
	item->payload = copy->bytes + header;
	item->payload_bytes = view->payload_bytes;
}
