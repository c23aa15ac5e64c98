// SPDX-License-Identifier: GPL-2.0-or-later
/* What the cursors over captures have in common: joining their stream, chunks, and what others read. */
#include <stdlib.h>
#include <string.h>

#include "host_agent/trace/capture_private.h"
#include "host_agent/trace/trace_dat.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

int braid_stream_leave_out(struct braid_stream *stream, const u64 *ids)
{
	const size_t bytes = BRAID_LEFT_OUT_IDS / 8;
	size_t k;

	if (!stream->left_out)
		stream->left_out = malloc(bytes);
	if (!stream->left_out)
		return braid_out_of_memory();
	memcpy(stream->left_out, ids, bytes);
	for (k = 0; k < stream->nr_rings; k++)
		if (stream->rings[k]->cpu != BRAID_RING_NOTES)
			stream->rings[k]->left_out = stream->left_out;
	return 0;
}

void braid_capture_find_part(struct braid_capture_ring *base, size_t *part, u64 seq)
{
	struct braid_ring_walk *walk = &base->ring.walk;

	while (*part < base->nr_parts && (s64)(seq - base->parts[*part].reach) >= 0)
		(*part)++;
	if (*part == base->nr_parts)
		walk->late++;
	else if ((s64)(seq - base->parts[*part].from_seq) >= 0)
		return;
	walk->outside++;
}

void *braid_capture_add_ring(struct braid_capture_stream *s, size_t bytes, u32 cpu,
			     const struct braid_ring_ops *ops)
{
	struct braid_capture_ring *base = calloc(1, bytes);
	struct braid_stream *to = &s->stream;
	size_t last;

	if (!base || braid_array_push(to->rings, to->nr_rings, s->rings_capacity, &base->ring)) {
		free(base);
		return NULL;
	}
	base->source = s->source;
	base->ring.stream = to;
	base->ring.cpu = cpu;
	base->ring.ops = ops;
	base->ring.item.stream = to;
	base->ring.item.ring = &base->ring;
	last = to->nr_rings - 1;
	if (last && to->rings[last - 1]->cpu == BRAID_RING_NOTES) {
		to->rings[last] = to->rings[last - 1];
		to->rings[last - 1] = &base->ring;
	}
	return base;
}

void braid_capture_rewind(struct braid_capture_ring *ring, void *cursor, size_t bytes)
{
	memset(cursor, 0, bytes);
	memset(&ring->ring.walk, 0, sizeof(ring->ring.walk));
	memset(&ring->at, 0, sizeof(ring->at));
	ring->epoch = 0;
	ring->stay = 0;
	ring->ring.either = false;
	ring->ring.taken_ns = 0;
	ring->ring.tied_ns = 0;
	ring->ring.left_out = NULL;
}

void braid_capture_free_ring(struct braid_capture_ring *ring)
{
	braid_extents_free(&ring->extents);
	free(ring->parts);
	free(ring->left_out);
	free(ring->chunk);
	free(ring);
}

int braid_capture_fetch(struct braid_capture_ring *ring, const struct braid_extent *extent,
			u32 bytes)
{
	struct braid_capture_source *cs = ring->source;
	u32 room = sizeof(struct braid_chunk) + bytes;
	u8 *grown;
	int err;

	if (room > ring->chunk_bytes) {
		grown = realloc(ring->chunk, room);
		if (!grown)
			return braid_out_of_memory();
		ring->chunk = grown;
		ring->chunk_bytes = room;
	}
	cs->source.bytes_read += bytes;
	if (cs->files[extent->file].dat)	/* its pages have no header of ours */
		return braid_dat_load(cs->files[extent->file].dat, extent,
				      ring->chunk + BRAID_HOST_PAGE_AT, extent->to_bytes);
	err = braid_capture_load(cs->files[extent->file].reader, extent->offset, ring->chunk, bytes,
				 false);
	return err || !cs->files[extent->file].by_index ? err :
	       braid_capture_check_page(ring, extent->file, ring->chunk, bytes);
}

bool braid_capture_can_skip(const struct braid_capture_ring *ring)
{
	/* An order of the file that is not the ring's says nothing of times. */
	return ring->source->files[ring->file].by_index && !ring->unordered && !ring->back;
}

bool braid_capture_skip(struct braid_capture_ring *ring, s64 ns, bool first)
{
	return braid_capture_can_skip(ring) && ns > 0 &&
	       braid_extents_skip(&ring->extents, &ring->at, ns, first);
}

/* Looks for pages by their times. */
struct look {
	struct braid_capture_ring *ring;
	s64 ns;
	bool (*before)(const struct braid_capture_ring *ring, const void *head, s64 ns);
	u32 bytes;
};

static bool is_before(void *arg, const struct braid_extent *extent)
{
	const struct look *look = arg;
	struct braid_capture_ring *ring = look->ring;
	u8 head[sizeof(struct braid_chunk) + BRAID_PAGE_HEAD];

	/* What can't be read is found when its turn comes. */
	return !braid_capture_load(ring->source->files[extent->file].reader, extent->offset, head,
				   look->bytes, true) &&
	       look->before(ring, head + sizeof(struct braid_chunk), look->ns);
}

static bool begins(const struct braid_extent *extent)
{
	return !extent->from_bytes;
}

bool braid_capture_skip_pages(struct braid_capture_ring *ring, s64 ns, u32 bytes,
			      bool (*before)(const struct braid_capture_ring *ring,
					     const void *head, s64 ns))
{
	struct look look = { ring, ns, before, bytes };

	return braid_capture_can_skip(ring) && ns > 0 &&
	       braid_extents_skip_near(&ring->extents, &ring->at, is_before, begins, &look) > 0;
}

u32 braid_capture_page_flags(const struct braid_capture_source *cs,
			     const struct braid_extent *extent,
			     const struct braid_chunk_page *page, u32 stream_flags)
{
	if (!cs->files[extent->file].minor)
		return stream_flags;
	return (page->flags & BRAID_PAGE_ABSOLUTE ? BRAID_BUFFER_ABSOLUTE : 0) |
	       (page->flags & BRAID_PAGE_RAW ? BRAID_BUFFER_RAW : 0);
}

/* Events before @seq that are between parts; those before the first part don't count. */
static u64 gaps_before(const struct braid_capture_ring *ring, u64 seq)
{
	const struct braid_ring_part *part;
	bool last;
	size_t k;

	braid_array_first(k, ring->nr_parts, (s64)(ring->parts[k].from_seq - seq) > 0);
	if (!k)
		return 0;
	part = &ring->parts[k - 1];
	/* The start of the current part is reported at its end. */
	last = k == ring->nr_parts && !ring->source->source.grows;
	return part->gaps + (!last && (s64)(seq - part->reach) > 0 ? seq - part->reach : 0);
}

u64 braid_capture_elsewhere(const struct braid_capture_ring *ring, u64 from, u64 to)
{
	u64 before = gaps_before(ring, from), sum = gaps_before(ring, to);

	return sum > before ? sum - before : 0;
}
