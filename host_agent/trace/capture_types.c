// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Passes over whole pages: by the index they have only events of types that nobody asked for, and
 * none was lost before or after them. The first page of a ring and its last one are always read.
 */
#include <stdlib.h>

#include "host_agent/capture/host_event.h"
#include "host_agent/trace/capture_private.h"
#include "host_agent/util/error.h"
#include "shared/ring.h"

#define LEAST_EVENT_BYTES	8u

/* Bits of the numbers of a block that stand for types that are not left out. */
struct wanted {
	const struct braid_extent_block *block;
	u64 bits;
};

static u64 wanted_bits(const struct braid_types_ids *ids, const u64 *left_out)
{
	u64 bits = ids->nr < BRAID_TYPES_IDS ? ~0ULL << (ids->nr + 1) : 0;
	u32 k;

	for (k = 0; k < ids->nr; k++) {
		u16 id = ids->ids[k];

		if (id >= BRAID_LEFT_OUT_IDS || !(left_out[id / 64] >> id % 64 & 1))
			bits |= 2ULL << k;
	}
	return bits;
}

/* Whether the extent that a cursor has come to must be read. */
static bool is_wanted(const struct braid_capture_ring *ring, const struct braid_extent_cursor *c,
		      struct wanted *w)
{
	if (c->types & BRAID_TYPES_READ)
		return true;
	if (w->block != c->block) {
		w->block = c->block;
		w->bits = wanted_bits(braid_extents_ids(&ring->extents, c), ring->ring.left_out);
	}
	return c->types & w->bits;
}

static bool lists_types(const struct braid_capture_ring *ring)
{
	return ring->ring.left_out && ring->source->files[ring->file].minor >= 7 &&
	       braid_capture_can_skip(ring);
}

/* Whether one recording accounts for all events of [from, to). */
static bool in_one_part(const struct braid_capture_ring *ring, size_t *part, u64 from, u64 to)
{
	while (*part < ring->nr_parts && (s64)(from - ring->parts[*part].reach) >= 0)
		(*part)++;
	return *part < ring->nr_parts && (s64)(from - ring->parts[*part].from_seq) >= 0 &&
	       (s64)(to - ring->parts[*part].to_seq) <= 0;
}

/* What is known of some pages that are passed over. */
static bool can_be(s64 events, u32 bytes)
{
	return events > 0 && events <= bytes / LEAST_EVENT_BYTES;
}

/*
 * From the extent that @next has come to on, of the sub-buffer's byte @from. @c: moved to its last
 * extent, @next to the one after it. Return: whether that extent is of another sub-buffer, and this
 * one is not wanted.
 */
static bool pass_subbuf(struct braid_capture_ring *ring, struct braid_extent_cursor *c,
			struct braid_extent_cursor *next, u32 from, struct wanted *w)
{
	u64 position = next->extent.position, first_seq = next->extent.first_seq;

	do {
		if (next->extent.from_bytes != from || next->extent.first_seq != first_seq ||
		    is_wanted(ring, next, w))
			return false;
		from = next->extent.to_bytes;
		*c = *next;
		if (braid_extents_next(&ring->extents, next) <= 0)
			return false;
	} while (next->extent.position == position);
	/* Its first event's number tells how many are before it if none was lost there. */
	return c->extent.final && !next->extent.from_bytes && !(next->types & BRAID_TYPES_READ);
}

void braid_capture_pass_guest(struct braid_capture_ring *ring, u64 position, u32 covered,
			      size_t *part)
{
	struct braid_ring_walk *walk = &ring->ring.walk;
	struct braid_extent_cursor c = ring->at, next = c;
	struct wanted w = { NULL, 0 };
	bool fresh;
	s64 events;
	u32 from;

	if (!lists_types(ring) || braid_extents_next(&ring->extents, &next) <= 0)
		return;
	for (;;) {
		fresh = next.extent.position != position;
		from = fresh ? 0 : covered;
		if ((fresh && next.extent.first_seq != walk->next_seq) ||
		    !pass_subbuf(ring, &c, &next, from, &w))
			return;
		events = (s64)(next.extent.first_seq - walk->next_seq);
		if (!can_be(events, c.extent.to_bytes - from) ||
		    !in_one_part(ring, part, walk->next_seq, next.extent.first_seq))
			return;
		ring->at = c;
		walk->pages += fresh;
		walk->events += events;
		walk->next_seq = next.extent.first_seq;
	}
}

void braid_capture_pass_host(struct braid_capture_ring *ring)
{
	struct braid_ring_walk *walk = &ring->ring.walk;
	struct braid_extent_cursor c = ring->at, next = c;
	struct wanted w = { NULL, 0 };
	s64 events;

	if (!lists_types(ring) || !braid_capture_numbers_hosts(ring->source, ring->file) ||
	    braid_extents_next(&ring->extents, &next) <= 0)
		return;
	while (next.extent.position == walk->next_seq && !next.extent.first_seq &&
	       !is_wanted(ring, &next, &w)) {
		c = next;
		if (braid_extents_next(&ring->extents, &next) <= 0)
			return;
		events = (s64)(next.extent.position - walk->next_seq);
		if (!can_be(events, c.extent.to_bytes))
			return;
		ring->at = c;
		walk->pages++;
		walk->events += events;
		walk->next_seq = next.extent.position;
	}
}

/* What a file says of itself ------------------------------------------------------------------ */

void braid_capture_take_types(struct braid_capture_source *cs, const struct braid_chunk_view *v)
{
	struct braid_types_ids ids;

	/* Only those that a reader would use: next to an INDEX chunk. */
	if (cs->types_at == v->offset &&
	    !braid_types_open(v->payload, v->bytes, cs->types_nr, &ids))
		braid_source_faulty(&cs->source, NULL, "%s: the types of events in chunk %llu are invalid",
				    cs->path, (unsigned long long)v->number);
}

bool braid_capture_has_types(struct braid_capture_ring *ring, const void *chunk)
{
	struct braid_types_page *has = ring->source->types;
	const u8 *payload = (const u8 *)chunk + sizeof(struct braid_chunk);
	struct braid_chunk_host_page host;
	struct braid_chunk_page page;

	if (!has || ring->types_differ || ring->at.types & BRAID_TYPES_READ)
		return true;
	if (ring->ring.stream->kind == BRAID_STREAM_GUEST) {
		memcpy(&page, payload, sizeof(page));
		braid_types_guest(has, &page, payload + sizeof(page),
				  page.to_bytes - page.from_bytes);
	} else {
		memcpy(&host, payload, sizeof(host));
		braid_host_numbers(payload + sizeof(host), host.bytes, host.lost_before, has);
	}
	ring->types_differ = !braid_types_agree(has, braid_extents_ids(&ring->extents, &ring->at),
						ring->at.types);
	braid_types_clear(has);
	return !ring->types_differ;
}
