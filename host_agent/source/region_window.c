// SPDX-License-Identifier: GPL-2.0-or-later
/* The recording's window: where each ring was when it started and stopped, and what lies outside. */
#include <errno.h>
#include <string.h>

#include "host_agent/source/account.h"
#include "host_agent/source/region_private.h"

/* Under the guard, so not from the heap. */
static union {
	struct braid_account_scratch account;
	u64 copy[BRAID_MAX_SUBBUF_BYTES / 8];
} scratch;

/* A ring that makes no sense gets no mark: whoever drains it finds out why. */
static void mark(const struct braid_region_source *s, const struct braid_live_ring *ring,
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

void braid_live_mark_start(struct braid_region_source *s)
{
	size_t k;

	for (k = 0; k < s->nr_rings; k++) {
		mark(s, &s->rings[k], &s->rings[k].from);
		s->rings[k].held = s->silent;
	}
}

static int mark_start(void *arg)
{
	braid_live_mark_start(arg);
	return 0;
}

static int mark_stop(void *arg)
{
	struct braid_region_source *s = arg;
	size_t k;

	for (k = 0; k < s->nr_rings; k++)
		if (s->rings[k].hold == BRAID_HOLD_OURS)
			mark(s, &s->rings[k], &s->rings[k].to);
	return 0;
}

void braid_region_source_start(struct braid_region_source *s)
{
	if (s->started || !s->o.window)
		return;
	s->started = true;
	if (s->o.backlog)
		return;
	if (s->phase == BRAID_PHASE_RECORDING)
		braid_guard_run(s->mapping->base, s->mapping->bytes, mark_start, s);
	else
		s->old_incarnation = s->sb.incarnation;
}

void braid_region_source_stop(struct braid_region_source *s)
{
	if (s->stopped || !s->started)
		return;
	s->stopped = true;
	if (s->phase == BRAID_PHASE_RECORDING)
		braid_guard_run(s->mapping->base, s->mapping->bytes, mark_stop, s);
	braid_live_control_stop(s);	/* the next turn returns what failed */
}

s64 braid_live_skip(struct braid_region_source *s, struct braid_live_ring *ring,
		    const struct braid_span *span)
{
	u32 bytes = span->to_bytes - span->from_bytes;
	s64 events;

	if (span->final) {
		events = braid_reader_span_events(&ring->reader, span);
		bytes = 0;	/* not looked at */
	} else {
		memcpy(scratch.copy, span->data + span->from_bytes, bytes);
		if (!braid_mapping_same(s->mapping, s->sb.incarnation))
			return -ESTALE;
		events = braid_live_count_copy(ring, span, scratch.copy);
	}
	if (!braid_live_settled(s) || !braid_live_ring_ours(ring))
		return -EAGAIN;
	if (events < 0)
		return braid_live_ring_give_up(s, ring, BRAID_READER_BAD_COUNT,
					       "bytes that are not events");
	braid_reader_done(&ring->reader, span, events);
	s->skipped += events;
	return bytes + sizeof(struct braid_chunk_page);
}
