// SPDX-License-Identifier: GPL-2.0-or-later
/* The recording's window: each ring's position at its start and stop, and the events outside. */
#include <errno.h>
#include <string.h>

#include "host_agent/live/account.h"
#include "host_agent/live/rings.h"

/* Under the guard, so not from the heap. */
static union {
	struct braid_account_scratch account;
	u64 copy[BRAID_MAX_SUBBUF_BYTES / 8];
} scratch;

/* An invalid ring gets no mark: draining it will report the reason. */
static void mark(const struct braid_live_stream *s, const struct braid_live_ring *ring,
		 struct braid_live_mark *to)
{
	struct braid_ring_account a;

	memset(to, 0, sizeof(*to));
	if (ring->hold == BRAID_HOLD_DEAD ||
	    braid_ring_gauge(&a, &ring->reader.map, s->mapping, s->sb.incarnation,
			     &scratch.account))
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

s64 braid_live_skip(struct braid_live_rings *r, struct braid_live_stream *s,
		    struct braid_live_ring *ring, const struct braid_span *span)
{
	u32 bytes = span->to_bytes - span->from_bytes;
	s64 events;

	if (span->final) {
		events = braid_reader_span_events(&ring->reader, span);
		bytes = 0;	/* not checked */
	} else {
		memcpy(scratch.copy, span->data + span->from_bytes, bytes);
		if (!braid_mapping_same(s->mapping, s->sb.incarnation))
			return -ESTALE;
		events = braid_live_count_copy(ring, span, scratch.copy);
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
