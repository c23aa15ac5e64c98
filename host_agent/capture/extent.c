// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Extents as they differ from the one before: a byte that says what differs, then the differences,
 * seven bits to a byte. That takes a quarter of what the numbers themselves would.
 */
#include "host_agent/capture/chunk.h"
#include "host_agent/capture/extent.h"
#include "host_agent/util/varint.h"

#define HAS_POSITION	(1u << 0)
#define HAS_SEQ		(1u << 1)
#define HAS_FROM	(1u << 2)	/* else it is 0 */
#define HAS_TO		(1u << 3)
#define HAS_FILE	(1u << 4)	/* in memory only */
#define IS_FINAL	(1u << 5)

char *braid_extent_put(char *head, const struct braid_extent *before,
		       const struct braid_extent *extent)
{
	char *at;

	*head = (extent->position != before->position ? HAS_POSITION : 0) |
		(extent->first_seq != before->first_seq ? HAS_SEQ : 0) |
		(extent->from_bytes ? HAS_FROM : 0) |
		(extent->to_bytes != before->to_bytes ? HAS_TO : 0) |
		(extent->file != before->file ? HAS_FILE : 0) | (extent->final ? IS_FINAL : 0);
	at = braid_varint_put(head + 1,
			      braid_varint_fold((extent->offset >> 3) - (before->offset >> 3)));
	if (*head & HAS_POSITION)
		at = braid_varint_put(at, braid_varint_fold(extent->position - before->position));
	if (*head & HAS_SEQ)
		at = braid_varint_put(at, braid_varint_fold(extent->first_seq - before->first_seq));
	if (*head & HAS_FROM)
		at = braid_varint_put(at, extent->from_bytes);
	if (*head & HAS_TO)
		at = braid_varint_put(at, extent->to_bytes);
	if (*head & HAS_FILE)
		at = braid_varint_put(at, extent->file);
	return at;
}

/* A 32-bit number. */
static const char *take_u32(const char *at, const char *end, u32 *to)
{
	u64 n;

	at = braid_varint_take_within(at, end, &n);
	*to = n;
	return at && n <= UINT32_MAX ? at : NULL;
}

const char *braid_extent_take(const char *at, const char *end, struct braid_extent *extent)
{
	u8 head;
	u64 n;

	if (at >= end)
		return NULL;
	head = *at;
	at = braid_varint_take_within(at + 1, end, &n);
	extent->offset += braid_varint_unfold(n) << 3;
	if (at && head & HAS_POSITION) {
		at = braid_varint_take_within(at, end, &n);
		extent->position += braid_varint_unfold(n);
	}
	if (at && head & HAS_SEQ) {
		at = braid_varint_take_within(at, end, &n);
		extent->first_seq += braid_varint_unfold(n);
	}
	extent->from_bytes = 0;
	if (at && head & HAS_FROM)
		at = take_u32(at, end, &extent->from_bytes);
	if (at && head & HAS_TO)
		at = take_u32(at, end, &extent->to_bytes);
	if (at && head & HAS_FILE)
		at = take_u32(at, end, &extent->file);
	extent->final = head & IS_FINAL;
	return at;
}
