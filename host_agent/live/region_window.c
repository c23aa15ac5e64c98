// SPDX-License-Identifier: GPL-2.0-or-later
/* The recording's window: each ring's position at start and stop, what is before and after. */
#include <errno.h>
#include <string.h>

#include "host_agent/live/account.h"
#include "host_agent/live/rings.h"

/* An invalid ring gets no mark: draining it will report the reason. */
static void mark(const struct braid_live_stream *s, const struct braid_live_ring *ring,
		 struct braid_live_mark *to)
{
	struct braid_ring_account a;

	memset(to, 0, sizeof(*to));
	if (ring->hold == BRAID_HOLD_DEAD ||
	    braid_ring_gauge(&a, &ring->reader.map, s->mapping, s->sb.incarnation))
		return;
	*to = (struct braid_live_mark){
		.set = true, .position = a.end_position, .bytes = a.end_bytes, .seq = a.end_seq,
	};
}

void braid_live_mark_start(struct braid_live_rings *r, struct braid_live_stream *s)
{
	size_t k;

	for (k = 0; k < r->nr_rings; k++) {
		braid_live_off_take(r, s, &r->rings[k]);
		mark(s, &r->rings[k], &r->rings[k].from);
		r->rings[k].held = s->silent;
	}
}

void braid_live_mark_stop(struct braid_live_rings *r, struct braid_live_stream *s)
{
	size_t k;

	for (k = 0; k < r->nr_rings; k++) {
		braid_live_off_take(r, s, &r->rings[k]);
		if (r->rings[k].hold == BRAID_HOLD_OURS)
			mark(s, &r->rings[k], &r->rings[k].to);
	}
}

s64 braid_live_count_copy(const struct braid_live_ring *ring, const struct braid_span *span,
			  const void *copy)
{
	struct braid_cursor c;

	braid_cursor_init(&c, copy, span->to_bytes - span->from_bytes, span->time_stamp,
			  ring->reader.map.flags);
	return braid_page_count(&c);
}

bool braid_live_cut_span(const struct braid_live_mark *mark, struct braid_span *span)
{
	s64 ahead = braid_position_diff(span->position, mark->position);

	if (ahead > 0 || (!ahead && span->from_bytes >= mark->bytes))
		return false;
	if (!ahead && span->to_bytes > mark->bytes) {
		span->to_bytes = mark->bytes;
		span->final = false;
	}
	return true;
}

void braid_live_begin_window(struct braid_live_ring *ring)
{
	struct braid_reader *r = &ring->reader;

	/*
	 * The reader may have found losses after the mark, which count, or not yet those before it,
	 * which do not.
	 */
	ring->began_seq = ring->from.seq;
	ring->began_read = r->read;
	ring->began_lost = ring->reported_lost = r->lost - (r->next_seq - ring->from.seq);
	ring->took_extent = false;
	ring->from.set = ring->held = false;
}

u64 braid_live_dropped(const struct braid_live_ring *ring, const struct braid_span *span)
{
	s64 room = (s64)(ring->to.seq - span->first_seq - span->entries);

	if (!span->final)
		return 0;
	if (!ring->to.set || room >= (s64)span->dropped)
		return span->dropped;
	return room > 0 ? room : 0;
}

s64 braid_live_skip(struct braid_live_rings *r, struct braid_live_stream *s,
		    struct braid_live_ring *ring, const struct braid_span *span)
{
	static u64 copy[BRAID_MAX_SUBBUF_BYTES / 8];	/* under the guard: not from the heap */
	u32 bytes = span->to_bytes - span->from_bytes;
	s64 events;

	if (span->final) {
		events = braid_reader_span_events(&ring->reader, span);
		bytes = 0;	/* not checked */
	} else {
		memcpy(copy, span->data + span->from_bytes, bytes);
		if (!braid_mapping_same(s->mapping, s->sb.incarnation))
			return -ESTALE;
		events = braid_live_count_copy(ring, span, copy);
	}
	if (!braid_live_settled(r, s) || !braid_live_ring_ours(ring))
		return -EAGAIN;
	if (events < 0)
		return braid_live_ring_give_up(s, ring, BRAID_READER_BAD_COUNT,
					       "invalid event bytes");
	braid_reader_done(&ring->reader, span, events);
	r->skipped += events;
	return bytes + sizeof(struct braid_chunk_page);
}
