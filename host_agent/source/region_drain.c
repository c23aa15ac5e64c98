// SPDX-License-Identifier: GPL-2.0-or-later
/* Moves sub-buffers from a guest's rings into the capture, one copy each. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/clock/host.h"
#include "host_agent/source/account.h"
#include "host_agent/source/region_private.h"
#include "host_agent/util/error.h"

/*
 * An unfinished sub-buffer is taken this often and no oftener: each time costs a
 * chunk and a count of its events, and what is left there is safe in the ring.
 */
#define TAIL_NS		250000000ULL

static const char *fault_name(enum braid_reader_fault fault)
{
	static const char *const names[] = {
		[BRAID_READER_OK] = "none",
		[BRAID_READER_BAD_SLOT] = "a slot word that no writer leaves",
		[BRAID_READER_BAD_COMMIT] = "a commit word that can't be",
		[BRAID_READER_BAD_COUNT] = "counts that can't be",
	};

	return names[fault];
}

static int give_up(struct braid_region_source *s, struct braid_live_ring *ring, const char *why)
{
	ring->dead = true;
	return braid_live_note(s, "ring %u of buffer %u broke the rules and is left alone: %s",
			       ring->vcpu, ring->buffer, why);
}

int braid_live_attach(struct braid_region_source *s)
{
	struct braid_live_ring *ring;
	struct braid_ring_map map;
	u32 buffer, vcpu, nr = 0;
	int err;

	for (buffer = 0; buffer < s->sb.nr_buffers; buffer++)
		nr += s->sb.buffers[buffer].nr_rings;
	free(s->rings);
	s->nr_rings = s->nr_accounted = s->first_ring = 0;
	s->rings = calloc(nr + 1, sizeof(*s->rings));
	if (!s->rings)
		return s->fatal = braid_fail(-ENOMEM, "no memory for %u rings", nr);
	for (buffer = 0; buffer < s->sb.nr_buffers; buffer++) {
		for (vcpu = 0; vcpu < s->sb.buffers[buffer].nr_rings; vcpu++) {
			ring = &s->rings[s->nr_rings++];
			ring->buffer = buffer;
			ring->vcpu = vcpu;
			braid_mapping_ring(s->mapping, &s->sb, buffer, vcpu, &map);
			err = braid_reader_attach(&ring->reader, &map, s->sb.incarnation);
			if (err)
				err = give_up(s, ring, fault_name(BRAID_READER_BAD_SLOT));
			if (err)
				return err;
			if (ring->dead)
				ring->reader.fault = BRAID_READER_BAD_SLOT;
			ring->began_seq = ring->reader.next_seq;
			ring->began_read = ring->reader.read;
			ring->began_lost = ring->told_lost = ring->reader.lost;
		}
	}
	return 0;
}

/* Events in the private copy of a span that is not its sub-buffer's last. */
static s64 count_copy(const struct braid_live_ring *ring, const struct braid_span *span,
		      const void *copy)
{
	struct braid_cursor c;

	braid_cursor_init(&c, copy, span->to_bytes - span->from_bytes, span->time_stamp,
			  ring->reader.map.flags);
	return braid_page_count(&c);
}

/* Copies a span, and only then decides whether to believe it. */
static int take_span(struct braid_region_source *s, struct braid_live_ring *ring,
		     const struct braid_span *span, u64 host_ns)
{
	u32 bytes = span->to_bytes - span->from_bytes;
	u64 lost = ring->reader.lost;
	struct braid_chunk_page page = {
		.buffer = ring->buffer,
		.vcpu = ring->vcpu,
		.flags = span->final ? BRAID_PAGE_FINAL : 0,
		.position = span->position,
		.from_bytes = span->from_bytes,
		.to_bytes = span->to_bytes,
		.time_stamp = span->time_stamp,
		.first_seq = span->first_seq,
		/* Not span->lost_before: losses behind a span that was not final have none. */
		.lost_before = (s64)(lost - ring->told_lost) > 0 ? lost - ring->told_lost : 0,
		.dropped = span->final ? span->dropped : 0,
		.host_ns = host_ns,
	};
	void *room = braid_capture_room(s->o.sink->capture, sizeof(page), bytes);
	s64 events;
	int err;

	if (!room)
		return s->fatal = -EIO;
	memcpy(room, span->data + span->from_bytes, bytes);
	if (!braid_mapping_same(s->mapping, s->sb.incarnation))
		return -ESTALE;
	events = span->final ? (s64)braid_reader_span_events(&ring->reader, span) :
			       count_copy(ring, span, room);
	if (events < 0)
		return give_up(s, ring, "bytes that are no events");
	err = braid_live_emit(s, BRAID_CHUNK_PAGE, &page, sizeof(page), room, bytes);
	if (err)
		return err;
	braid_reader_done(&ring->reader, span, events);
	ring->told_lost += page.lost_before + page.dropped;
	s->events += events;
	s->bytes += bytes;
	return 0;
}

/* Takes spans until @budget is used up; what was taken is subtracted from it. */
static int drain_ring(struct braid_region_source *s, struct braid_live_ring *ring, bool tails,
		      s64 *budget)
{
	struct braid_span span;
	u64 now_ns;
	int ret;

	while (*budget > 0 && !ring->dead) {
		ret = braid_reader_next(&ring->reader, &span);
		if (ret < 0 && !braid_mapping_same(s->mapping, s->sb.incarnation))
			return -ESTALE;
		if (ret < 0)
			return give_up(s, ring, fault_name(ring->reader.fault));
		if (!ret)
			return 0;
		now_ns = braid_host_clock_ns();	/* behind the load of the commit word */
		if (!span.final && !tails && now_ns < ring->tail_due_ns)
			return 0;
		ret = take_span(s, ring, &span, now_ns);
		if (ret)
			return ret;
		*budget -= span.to_bytes - span.from_bytes + sizeof(struct braid_chunk_page);
		if (!span.final) {
			ring->tail_due_ns = now_ns + TAIL_NS;
			return 0;
		}
	}
	return 0;
}

int braid_live_drain(struct braid_region_source *s, bool tails)
{
	s64 budget = BRAID_TURN_BYTES, share;
	u32 k, first = s->first_ring;
	int err;

	/* Each ring may use a half of what is left: a flooded one does not starve the rest. */
	for (k = 0; k < s->nr_rings && budget > 0; k++) {
		struct braid_live_ring *ring = &s->rings[(first + k) % s->nr_rings];
		s64 before = share = budget / 2 + 1;

		err = drain_ring(s, ring, tails, &share);
		if (err)
			return err;
		budget -= before - share;
		if (share <= 0)		/* it has more: it comes last the next time */
			s->first_ring = (first + k + 1) % s->nr_rings;
	}
	if (budget == BRAID_TURN_BYTES)
		return BRAID_POLL_IDLE;
	return budget < BRAID_TURN_BYTES / 2 ? BRAID_POLL_MORE : BRAID_POLL_BUSY;
}

int braid_live_drain_rest(struct braid_region_source *s)
{
	u32 k;
	int err;

	for (k = 0; k < s->nr_rings; k++) {
		const struct braid_ring_map *map = &s->rings[k].reader.map;
		s64 budget;

		if (s->rings[k].dead)
			continue;
		braid_live_beat(s);
		/* All that the ring can hold, once. */
		budget = (s64)(map->nr_slots + 1) *
			 (map->subbuf_bytes + sizeof(struct braid_chunk_page));
		err = drain_ring(s, &s->rings[k], true, &budget);
		if (err)
			return err;
	}
	return 0;
}

/* What the reader alone knows, when the ring itself can't be looked at. */
static void account_from_reader(const struct braid_live_ring *ring,
				struct braid_chunk_ring_end *end)
{
	end->read = ring->reader.read;
	end->lost = ring->reader.lost;
	end->written = end->read + end->lost;
	end->left = 0;
}

static int account_ring(struct braid_region_source *s, struct braid_live_ring *ring,
			struct braid_account_scratch *scratch)
{
	struct braid_chunk_ring_end end = {
		.buffer = ring->buffer,
		.vcpu = ring->vcpu,
		.first_seq = ring->began_seq,
		.fault = ring->reader.fault,
		.read_before = ring->began_read,
		.lost_before = ring->began_lost,
	};
	struct braid_ring_account a;
	int err = 0;

	account_from_reader(ring, &end);
	if (scratch && !ring->dead) {
		err = braid_ring_account(&a, &ring->reader.map, s->mapping, s->sb.incarnation,
					 scratch, NULL, NULL);
		if (!err && *a.fault)
			err = braid_live_note(s, "ring %u of buffer %u does not add up: %s",
					      ring->vcpu, ring->buffer, a.fault);
		else if (!err)
			end.written = a.written, end.read = a.read, end.lost = a.lost,
			end.left = a.left, end.broken = a.broken;
		else
			err = 0;	/* the reader's own counts have to do */
	}
	if (!err)
		err = braid_live_emit(s, BRAID_CHUNK_RING_END, &end, sizeof(end), NULL, 0);
	return err;
}

int braid_live_account(struct braid_region_source *s, bool walk)
{
	/* Not from the heap: a guard that jumps out of the walk would leak it. */
	static struct braid_account_scratch space;
	int err = 0;

	while (s->nr_accounted < s->nr_rings && !err) {
		err = account_ring(s, &s->rings[s->nr_accounted], walk ? &space : NULL);
		s->nr_accounted++;
	}
	return err;
}

u64 braid_live_lost(const struct braid_region_source *s)
{
	u64 lost = 0;
	u32 k;

	for (k = 0; k < s->nr_rings; k++)
		lost += s->rings[k].reader.lost - s->rings[k].began_lost;
	return lost;
}
