// SPDX-License-Identifier: GPL-2.0-or-later
/* Scans pages for the ids of their events. It runs for each recorded page: it decodes no times. */
#include "host_agent/capture/types.h"
#include "host_agent/util/varint.h"

static u32 types_word_at(const u8 *data, u32 at)
{
	u32 word;

	memcpy(&word, data + at, sizeof(word));
	return word;
}

/* Bytes of what begins at @at, @left bytes before the end; 0: not valid. As braid_page_next(). */
static u32 types_item_bytes(const u8 *data, u32 at, u32 head, u32 left)
{
	u32 len = head >> BRAID_EVENT_LEN_SHIFT & 7, payload;

	switch (head & 3) {
	case BRAID_TYPE_PADDING:
		return left;
	case BRAID_TYPE_TIME_EXTENT:
		return len == 1 ? BRAID_EXTENT_BYTES : 0;
	case BRAID_TYPE_TIME_STAMP:
		return len == 4 && left >= BRAID_STAMP_BYTES &&
		       (types_word_at(data, at + 4) & BRAID_DELTA_MASK) ==
		       head >> BRAID_EVENT_DELTA_SHIFT ? BRAID_STAMP_BYTES : 0;
	}
	if (len)
		return 4 + 4 * len;
	payload = left < 8 ? 0 : types_word_at(data, at + 4);
	return payload && !(payload & 3) && payload <= left - 8 ? 8 + payload : 0;
}

void braid_types_guest(struct braid_types_page *page, const struct braid_chunk_page *head,
		       const u8 *data, u32 bytes)
{
	u32 at, word, size, end = head->to_bytes - head->from_bytes;

	if (head->lost_before || head->dropped || head->from_bytes >= head->to_bytes ||
	    end > bytes || head->flags & (BRAID_PAGE_RAW | BRAID_PAGE_PLACED)) {
		page->odd = true;
		return;
	}
	for (at = 0; at < end; at += size) {
		word = end - at < 4 ? 0 : types_word_at(data, at);
		size = end - at < 4 ? 0 : types_item_bytes(data, at, word, end - at);
		if (!size || size > end - at) {
			page->odd = true;
			return;
		}
		if ((word & 3) == BRAID_TYPE_DATA) {
			u32 header = word >> BRAID_EVENT_LEN_SHIFT & 7 ? 4 : 8;

			braid_types_note(page, data + at + header, size - header);
		}
	}
}

void braid_types_clear(struct braid_types_page *page)
{
	u32 k;

	for (k = 0; k < page->has.nr; k++)
		page->seen[page->has.ids[k] / 64] = 0;
	page->has.nr = 0;
	page->odd = false;
}

/* The bit that stands for an id; 0: none. */
static u64 types_bit_of(const struct braid_types_ids *ids, u16 id)
{
	u32 k;

	for (k = 0; k < ids->nr; k++)
		if (ids->ids[k] == id)
			return 2ULL << k;
	return 0;
}

u64 braid_types_put(struct braid_types_page *page, struct braid_types_ids *ids)
{
	u64 number = page->odd ? BRAID_TYPES_READ : 0, bit;
	u32 k;

	for (k = 0; k < page->has.nr; k++) {
		bit = types_bit_of(ids, page->has.ids[k]);
		if (!bit && ids->nr < BRAID_TYPES_IDS) {
			bit = 2ULL << ids->nr;
			ids->ids[ids->nr++] = page->has.ids[k];
		}
		number |= bit ? bit : BRAID_TYPES_READ;
	}
	braid_types_clear(page);
	return number;
}

bool braid_types_agree(const struct braid_types_page *page, const struct braid_types_ids *ids,
		       u64 number)
{
	u32 k;

	if (number & BRAID_TYPES_READ)	/* the number says nothing */
		return true;
	for (k = 0; k < page->has.nr; k++)
		number ^= types_bit_of(ids, page->has.ids[k]) ?: BRAID_TYPES_READ;
	return !number && !page->odd;
}

const char *braid_types_open(const u8 *payload, u32 bytes, u32 nr, struct braid_types_ids *ids)
{
	struct braid_chunk_types head;
	const char *numbers, *at, *end = (const char *)payload + bytes;
	u64 number;

	if (bytes < sizeof(head))
		return NULL;
	memcpy(&head, payload, sizeof(head));
	if (head.nr != nr || head.nr_ids > BRAID_TYPES_IDS ||
	    bytes - sizeof(head) < head.nr_ids * sizeof(*ids->ids))
		return NULL;
	ids->nr = head.nr_ids;
	memcpy(ids->ids, payload + sizeof(head), ids->nr * sizeof(*ids->ids));
	at = numbers = (const char *)payload + sizeof(head) + ids->nr * sizeof(*ids->ids);
	while (nr--) {
		at = braid_varint_take_within(at, end, &number);
		if (!at)
			return NULL;
	}
	return at == end ? numbers : NULL;
}
