// SPDX-License-Identifier: GPL-2.0-or-later
/* Moves sub-buffers from a guest's rings into the capture, one copy each. */
#include <errno.h>
#include <string.h>

#include "host_agent/clock_sync/host.h"
#include "host_agent/live/rings.h"
#include "host_agent/util/error.h"

/*
 * Minimum interval for reading an unfinished sub-buffer: each read costs a chunk and a count of its
 * events, and unread events are safe in the ring.
 */
#define TAIL_NS		250000000ULL
#define REST_TRIES	16	/* at the end, while buffers move */
#define REST_STEP_NS	1000000ULL

static const char *fault_name(enum braid_reader_fault fault)
{
	static const char *const names[] = {
		[BRAID_READER_OK] = "none",
		[BRAID_READER_BAD_SLOT] = "invalid slot word",
		[BRAID_READER_BAD_COMMIT] = "an invalid commit word",
		[BRAID_READER_BAD_COUNT] = "invalid counts",
	};

	return names[fault];
}

/* A dump can lack pages: what its guest counted in them is taken, and can't be read. */
static void note_missing(struct braid_live_rings *r, const struct braid_live_ring *ring,
			 const struct braid_span *span, const void *copy, u64 counted)
{
	struct braid_event_view view;
	struct braid_cursor c;

	braid_cursor_init(&c, copy, span->to_bytes - span->from_bytes, span->time_stamp,
			  ring->reader.map.flags);
	while (braid_page_next(&c, &view) > 0)
		;
	if (c.events < counted)
		r->unreadable += counted - c.events;
}

static u32 page_flags(const struct braid_live_ring *ring, const struct braid_span *span)
{
	u32 flags = ring->reader.map.flags;

	return (span->final ? BRAID_PAGE_FINAL : 0) |
	       (flags & BRAID_BUFFER_ABSOLUTE ? BRAID_PAGE_ABSOLUTE : 0) |
	       (flags & BRAID_BUFFER_RAW ? BRAID_PAGE_RAW : 0);
}

/*
 * The first extent that we read of a sub-buffer whose beginning another reader consumed: its time
 * and number come from the consumed part, which still exists.
 */
static void place_extent(const struct braid_live_ring *ring, const struct braid_span *span,
			 struct braid_chunk_page *page)
{
	static u64 before[BRAID_MAX_SUBBUF_BYTES / 8];
	struct braid_event_view view;
	struct braid_cursor c;
	int ret;

	if (!span->from_bytes || (ring->took_extent && ring->extent_position == span->position))
		return;
	memcpy(before, span->data, span->from_bytes);
	braid_cursor_init(&c, (const u8 *)before, span->from_bytes, span->time_stamp,
			  ring->reader.map.flags);
	do
		ret = braid_page_next(&c, &view);
	while (ret > 0);
	if (ret)
		return;
	page->flags |= BRAID_PAGE_PLACED;
	page->time_stamp = c.time;
	page->first_seq += c.events;
}

/*
 * Check after a copy, and after a write: 0 while the ring is the same and we own its reader role.
 */
static int check_ring(const struct braid_live_rings *r, const struct braid_live_stream *s,
		      const struct braid_live_ring *ring)
{
	if (!braid_mapping_same(s->mapping, s->sb.incarnation))
		return -ESTALE;
	return braid_live_settled(r, s) && braid_live_ring_ours(ring) ? 0 : -EAGAIN;
}

/*
 * A span is marked as consumed only after the kernel, or the process that writes, has its data, so
 * that killing us loses no events. Spans left by a failed write or a lost role are read again.
 */
static int region_drain_write_out(const struct braid_live_rings *r, struct braid_live_stream *s,
				  const struct braid_live_ring *ring)
{
	int err = braid_capture_flush(s->o.sink->capture);

	if (err)
		return s->fatal = err;
	if (braid_capture_tee_failed(s->o.sink->capture))
		return -EAGAIN;
	return check_ring(r, s, ring);
}

/* Copies a span, and only then decides whether to believe it. */
static int region_drain_take_span(struct braid_live_rings *r, struct braid_live_stream *s,
				  struct braid_live_ring *ring, const struct braid_span *span,
				  u64 host_ns)
{
	u32 bytes = span->to_bytes - span->from_bytes;
	u64 lost = ring->reader.lost;
	struct braid_chunk_page page = {
		.buffer = ring->buffer,
		.vcpu = ring->vcpu,
		.flags = page_flags(ring, span),
		.position = span->position,
		.from_bytes = span->from_bytes,
		.to_bytes = span->to_bytes,
		.time_stamp = span->time_stamp,
		.first_seq = span->first_seq,
		/* Not span->lost_before: it lacks losses after a span that was not final. */
		.lost_before = (s64)(lost - ring->reported_lost) > 0 ?
			       lost - ring->reported_lost : 0,
		.dropped = braid_live_dropped(ring, span),
		.host_ns = host_ns,
	};
	void *copy = braid_capture_reserve(s->o.sink->capture, sizeof(page), bytes);
	s64 events;
	int err;

	if (!copy)
		return s->fatal = braid_capture_error(s->o.sink->capture);
	place_extent(ring, span, &page);
	memcpy(copy, span->data + span->from_bytes, bytes);
	err = check_ring(r, s, ring);
	if (err)
		return err;
	events = span->final ? (s64)braid_reader_span_events(&ring->reader, span) :
			       braid_live_count_copy(ring, span, copy);
	if (s->o.dead_ns && span->final)
		note_missing(r, ring, span, copy, events);
	if (events < 0)
		return braid_live_ring_give_up(s, ring, BRAID_READER_BAD_COUNT,
					       "invalid event bytes");
	err = braid_live_emit(s, BRAID_CHUNK_PAGE, &page, sizeof(page), copy, bytes);
	if (!err)
		err = region_drain_write_out(r, s, ring);
	if (err)
		return err;
	braid_reader_done(&ring->reader, span, events);
	ring->took_extent = true;
	ring->extent_position = span->position;
	ring->reported_lost += page.lost_before + page.dropped;
	r->events += events;
	r->bytes += bytes;
	return 0;
}

/*
 * Reads spans until @budget is used up; their size is subtracted from it. Returns 0, -EAGAIN (the
 * ring moves: check buffers and roles first), -ESTALE or the capture's error.
 */
static int drain_ring(struct braid_live_rings *r, struct braid_live_stream *s,
		      struct braid_live_ring *ring, bool tails, s64 *budget)
{
	u64 tail_ns = s->o.sink->prompt_ns ?: TAIL_NS, look_ns, now_ns;
	struct braid_span span;
	int ret;

	if (ring->hold == BRAID_HOLD_OURS && !braid_live_ring_ours(ring))
		return braid_live_ring_lose(r, s, ring);
	if (!braid_live_takes(s) || (ring->held && s->silent))
		return 0;
	while (*budget > 0 && ring->hold == BRAID_HOLD_OURS) {
		look_ns = braid_host_clock_ns();
		ret = braid_reader_next(&ring->reader, &span);
		if (ret < 0 && !braid_mapping_same(s->mapping, s->sb.incarnation))
			return -ESTALE;
		if (ret < 0 && (!braid_live_settled(r, s) || !braid_live_ring_ours(ring)))
			return -EAGAIN;
		if (ret < 0)
			return braid_live_ring_give_up(s, ring, ring->reader.fault,
						       fault_name(ring->reader.fault));
		if (ret && ring->from.set && braid_live_cut_span(&ring->from, &span)) {
			ret = braid_live_skip(r, s, ring, &span);
			if (ret < 0)
				return ret;
			*budget -= ret;
			continue;
		}
		if (ring->from.set)
			braid_live_begin_window(ring);
		if (!ret || (ring->to.set && !braid_live_cut_span(&ring->to, &span))) {
			ring->complete_ns = look_ns;
			return 0;
		}
		now_ns = braid_live_now_ns(s);	/* after the load of the commit word */
		if (!span.final && !tails && now_ns - ring->tail_ns < tail_ns)
			return 0;
		ret = region_drain_take_span(r, s, ring, &span, now_ns);
		if (ret)
			return ret;
		*budget -= span.to_bytes - span.from_bytes + sizeof(struct braid_chunk_page);
		if (!span.final) {
			ring->tail_ns = now_ns;
			ring->complete_ns = look_ns;
			return 0;
		}
	}
	return 0;
}

/* The same for a ring about to be removed: all its current events, once, over several turns. */
static int drain_closing(struct braid_live_rings *r, struct braid_live_stream *s,
			 struct braid_live_ring *ring, s64 *budget)
{
	s64 most = *budget < ring->rest_bytes ? *budget : ring->rest_bytes, share = most;
	int err = ring->rest_bytes ? drain_ring(r, s, ring, true, &share) : 0;

	if (err)
		return err;
	*budget -= most - share;
	ring->rest_bytes -= most - share;
	if (share > 0 || ring->rest_bytes < 0)	/* it is empty, or not ours */
		ring->rest_bytes = 0;
	return 0;
}

bool braid_live_held_up(const struct braid_live_stream *s)
{
	return braid_capture_full(s->o.sink->capture);
}

int braid_live_drain(struct braid_live_rings *r, struct braid_live_stream *s, bool tails)
{
	size_t most = r->nr_rings < BRAID_TURN_RINGS ? r->nr_rings : BRAID_TURN_RINGS, k;
	s64 budget = BRAID_TURN_BYTES, share;
	u32 first = r->first_ring;
	int err;

	/* Each ring may use half of the rest: a flooded one does not starve the rest. */
	for (k = 0; k < most && budget > 0 && !braid_live_held_up(s); k++) {
		struct braid_live_ring *ring = &r->rings[(first + k) % r->nr_rings];
		s64 before = share = budget / 2 + 1;

		err = r->follow[ring->buffer] == BRAID_FOLLOW_CLOSING ?
		      drain_closing(r, s, ring, &share) : drain_ring(r, s, ring, tails, &share);
		if (err == -EAGAIN) {
			r->nr_quiet = 0;
			return BRAID_POLL_BUSY;
		}
		if (err)
			return err;
		budget -= before - share;
		if (share <= 0)		/* it has more: it is last in the next turn */
			r->first_ring = (first + k + 1) % r->nr_rings;
	}
	if (k < r->nr_rings)
		r->first_ring = (first + k) % r->nr_rings;
	if (braid_live_held_up(s)) {
		r->nr_quiet = 0;
		return BRAID_POLL_BUSY;
	}
	if (budget < BRAID_TURN_BYTES)
		r->nr_quiet = 0;
	else if (r->nr_quiet < r->nr_rings)
		r->nr_quiet += k;
	if (budget == BRAID_TURN_BYTES && r->nr_quiet >= r->nr_rings)
		return BRAID_POLL_IDLE;
	return budget < BRAID_TURN_BYTES / 2 ? BRAID_POLL_MORE : BRAID_POLL_BUSY;
}

void braid_live_drain_again(struct braid_live_rings *r)
{
	r->nr_quiet = 0;
}

int braid_live_drain_rest(struct braid_live_rings *r, struct braid_live_stream *s)
{
	int err = 0, tries;
	size_t k;

	for (tries = 0; tries < REST_TRIES; tries++) {
		err = braid_live_buffers(r, s, true);
		if (!err)
			err = braid_live_ring_roles(r, s, true);
		for (k = 0; k < r->nr_rings && !err; k++) {
			s64 budget = braid_live_ring_bytes(&r->rings[k]);

			braid_live_beat(s);
			err = drain_ring(r, s, &r->rings[k], true, &budget);
			r->rings[k].rest_bytes = 0;
		}
		if (!err)
			err = braid_live_close(r, s);
		if (err != -EAGAIN || braid_capture_tee_failed(s->o.sink->capture))
			break;
		braid_sleep_ns(REST_STEP_NS);
	}
	/* Buffers that never stop changing are the guest's fault. */
	return err == -EAGAIN ? 0 : err;
}
