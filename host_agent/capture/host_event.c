// SPDX-License-Identifier: GPL-2.0-or-later
/* Decodes the events in a sub-buffer of the host's ftrace. */
#include <string.h>

#include "host_agent/capture/chunk.h"
#include "host_agent/capture/host_event.h"
#include "tracebraid/abi.h"

/* ftrace's event header: type_len:5, time_delta:27. A type_len up to 28 is of words of data. */
#define TYPE_PADDING		29u
#define TYPE_TIME_EXTEND	30u
#define TYPE_TIME_STAMP		31u
#define DELTA_BITS		27
#define STAMP_BITS		59	/* number of the clock's bits in a stamp */

static u32 word_at(const u8 *data, u32 offset)
{
	u32 v;

	memcpy(&v, data + offset, sizeof(v));
	return v;
}

/* Bytes of data by a header's words, or 0 when that is impossible. */
static u32 data_bytes(const u8 *head, u32 type, u32 left)
{
	u32 size;

	if (type && type != TYPE_PADDING)
		return type < TYPE_PADDING ? 4 * type : 4;
	size = left < 8 ? 0 : word_at(head, 4);
	if (size < 4 || size > left)
		return 0;
	if (!type)
		size = (size + 3) & ~3u;
	return size & 3 ? 0 : size;
}

bool braid_host_event_take(const u8 *data, u32 bytes, u32 *at, u64 *time, const u8 **payload,
			   u32 *payload_bytes)
{
	const u8 *head = data + *at;
	u32 left = bytes - *at, word, type, size;
	u64 delta;

	if (left < 4)
		return false;
	word = word_at(head, 0);
	type = word & 31;
	delta = word >> 5;
	size = data_bytes(head, type, left);
	if (!size || size > left - 4)
		return false;
	*payload = NULL;
	*at += 4 + size;
	if (type == TYPE_TIME_EXTEND || type == TYPE_TIME_STAMP)
		delta += (u64)word_at(head, 4) << DELTA_BITS;
	if (type == TYPE_TIME_STAMP)
		*time = (*time & ~0ULL << STAMP_BITS) | delta;
	else
		*time += delta;
	if (type >= TYPE_PADDING)
		return true;
	*payload = head + (type ? 4 : 8);	/* without one, the length comes first */
	*payload_bytes = type ? size : size - 4;
	return true;
}

u64 braid_host_lost(const u8 *page, u32 bytes, u64 reported)
{
	u64 commit, end, stored;

	memcpy(&commit, page + 8, sizeof(commit));
	end = BRAID_SUBBUF_HEADER_BYTES + (commit & BRAID_HOST_COMMIT_MASK);
	if (reported || !(commit & BRAID_MISSED_EVENTS))
		return reported;
	if (!(commit & BRAID_MISSED_STORED) || bytes < end + sizeof(stored))
		return BRAID_HOST_LOST_SOME;
	memcpy(&stored, page + end, sizeof(stored));
	return stored;
}

u64 braid_host_numbers(const u8 *page, u32 bytes, u64 reported, struct braid_types_page *types)
{
	u64 lost = braid_host_lost(page, bytes, reported);
	u64 nr = lost == BRAID_HOST_LOST_SOME ? 0 : lost;
	const u8 *payload;
	u32 at = 0, payload_bytes, there = bytes - BRAID_SUBBUF_HEADER_BYTES;
	u64 commit, time = 0;

	memcpy(&commit, page + 8, sizeof(commit));
	commit &= BRAID_HOST_COMMIT_MASK;
	if (types)
		types->odd = lost || commit > there;
	there = commit < there ? commit : there;
	while (at < there && braid_host_event_take(page + BRAID_SUBBUF_HEADER_BYTES, there, &at, &time,
						   &payload, &payload_bytes)) {
		nr += payload != NULL;
		if (payload && types)
			braid_types_note(types, payload, payload_bytes);
	}
	if (types)
		types->odd |= at < there;
	return nr;
}
