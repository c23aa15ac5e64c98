// SPDX-License-Identifier: GPL-2.0-or-later
/* Limits a ring's bytes and counts to the recording's window. */
#include "host_agent/live/rings.h"

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

static u64 at_least_0(u64 difference)
{
	return (s64)difference > 0 ? difference : 0;
}

void braid_live_split(const struct braid_live_stream *s, const struct braid_live_ring *ring,
		      struct braid_chunk_ring_end *end)
{
	const struct braid_reader *r = &ring->reader;
	u64 first = r->next_seq - r->read - r->lost, last = first + end->written;
	u64 start = end->first_seq, stop = last, read, next;

	if (!braid_live_takes(s)) {	/* it ended before the recording began */
		start = end->first_seq = last;
		end->read_before = end->read;
		end->lost_before = end->lost;
	} else if (ring->from.set) {	/* it ended before all was skipped */
		start = end->first_seq = ring->from.seq;
		end->read_before = end->read;
		end->lost_before = end->lost;
	}
	if (ring->to.set && (s64)(last - ring->to.seq) > 0)
		stop = ring->to.seq;
	read = end->read - end->read_before;
	next = (s64)(r->next_seq - start) > 0 ? r->next_seq : start;
	end->before = start - first;
	end->after = at_least_0(last - stop);
	end->left_within = at_least_0(stop - next);
	if (end->left_within > end->left)
		end->left_within = end->left;
	end->lost_within = at_least_0(stop - start - read - end->left_within);
}
