// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Decodes sub-buffers. Trusts none of their lengths. */
#include "shared/page.h"

static u32 braid_page_word_at(const struct braid_cursor *c, u32 offset)
{
	u32 v;

	memcpy(&v, c->data + offset, sizeof(v));
	return v;
}

/* Size of the event at c->offset with its header, or 0 when it is not valid. */
static u32 braid_page_event_size(const struct braid_cursor *c, u32 head, u32 *header_bytes)
{
	u32 left = c->bytes - c->offset;
	u32 len = head >> BRAID_EVENT_LEN_SHIFT & 7;
	u32 payload;

	*header_bytes = 4;
	switch (head & 3) {
	case BRAID_TYPE_PADDING:
		return left;
	case BRAID_TYPE_TIME_EXTENT:
		return len == 1 && left >= BRAID_EXTENT_BYTES ? BRAID_EXTENT_BYTES : 0;
	case BRAID_TYPE_TIME_STAMP:
		return len == 4 && left >= BRAID_STAMP_BYTES ? BRAID_STAMP_BYTES : 0;
	}
	if (len)
		return 4 + 4 * len <= left ? 4 + 4 * len : 0;
	if (left < 8)
		return 0;
	*header_bytes = 8;
	payload = braid_page_word_at(c, c->offset + 4);
	if (!payload || payload & 3 || payload > left - 8)
		return 0;
	return 8 + payload;
}

/* The counter after a field of @bits low bits was read in absolute mode. */
static u64 braid_page_advance_to(u64 time, u64 value, u32 bits)
{
	return time + ((value - time) & ((1ULL << bits) - 1));
}

int braid_page_next(struct braid_cursor *c, struct braid_event_view *view)
{
	u32 head, size, header, at;
	u64 value;

	while (c->offset < c->bytes) {
		if (c->bytes - c->offset < 4)
			goto bad;
		at = c->offset;
		head = braid_page_word_at(c, at);
		size = braid_page_event_size(c, head, &header);
		if (!size)
			goto bad;
		c->offset += size;
		value = head >> BRAID_EVENT_DELTA_SHIFT;

		switch (head & 3) {
		case BRAID_TYPE_PADDING:
			continue;
		case BRAID_TYPE_TIME_EXTENT:
			value |= (u64)braid_page_word_at(c, at + 4) << BRAID_DELTA_BITS;
			if (c->absolute)
				c->time = braid_page_advance_to(c->time, value,
								BRAID_DELTA_BITS + 32);
			else
				c->time += value;
			continue;
		case BRAID_TYPE_TIME_STAMP:
			c->time = braid_page_word_at(c, at + 4) |
				  (u64)braid_page_word_at(c, at + 8) << 32;
			if ((c->time & BRAID_DELTA_MASK) != value)
				goto bad;
			view->external_ns = braid_page_word_at(c, at + 12) |
					    (u64)braid_page_word_at(c, at + 16) << 32;
			break;
		default:
			if (c->absolute)
				c->time = braid_page_advance_to(c->time, value, BRAID_DELTA_BITS);
			else
				c->time += value;
			view->external_ns = 0;
			c->events++;
		}
		view->type = head & 3;
		view->offset = at;
		view->payload = c->data + at + header;
		view->payload_bytes = size - header;
		view->time = c->time;
		return 1;
	}
	return 0;
bad:
	c->offset = c->bytes;
	return -EBADMSG;
}

s64 braid_page_count(struct braid_cursor *c)
{
	struct braid_event_view view;
	u64 before = c->events;
	int err;

	while ((err = braid_page_next(c, &view)) > 0)
		;
	return err ? err : (s64)(c->events - before);
}
