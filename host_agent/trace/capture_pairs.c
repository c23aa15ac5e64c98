// SPDX-License-Identifier: GPL-2.0-or-later
/* Pairs of counter and wall time: those of the capture, and those in a guest's rings, page by page. */
#include <errno.h>
#include <string.h>

#include "host_agent/trace/capture_private.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "shared/page.h"

static int add_pair(struct braid_capture_stream *s, struct braid_clock_pair pair)
{
	return s->nr_pairs >= BRAID_MAX_TABLE ? 0 :
	       braid_array_push(s->pairs, s->nr_pairs, s->pairs_capacity, pair);
}

int braid_capture_take_pairs(struct braid_capture_stream *s, const struct braid_chunk_view *v)
{
	struct braid_clock_pair one;
	int err = 0;
	u32 at = 0;

	while (!err && braid_view_take(v, &at, &one, sizeof(one)))
		err = add_pair(s, one);
	return err;
}

/* A stamp is an absolute counter: the times of the events around it do not matter. */
static int of_extent(struct braid_capture_stream *s, const struct braid_capture_ring *ring,
		     const struct braid_extent *extent)
{
	u32 flags = s->superblock.buffers[ring->ring.buffer].flags;
	struct braid_chunk_page page;
	struct braid_event_view view;
	struct braid_cursor c;
	int err = 0;

	memcpy(&page, ring->chunk + BRAID_PAGE_AT, sizeof(page));
	flags = braid_capture_page_flags(s->source, extent, &page, flags);
	braid_cursor_init(&c, ring->chunk + BRAID_PAGE_DATA_AT, extent->to_bytes - extent->from_bytes,
			  page.time_stamp, flags);
	while (!err && braid_page_next(&c, &view) > 0)
		if (view.type != BRAID_TYPE_DATA && view.external_ns)
			err = add_pair(s, (struct braid_clock_pair){
				.counter = view.time, .realtime_ns = view.external_ns });
	return err;
}

static int of_ring(struct braid_capture_stream *s, struct braid_capture_ring *ring)
{
	struct braid_extent_cursor at = { 0 };
	int err = 0;

	while (!err && (err = braid_extents_next(&ring->extents, &at)) > 0) {
		err = braid_capture_fetch(ring, &at.extent, sizeof(struct braid_chunk_page) +
					  at.extent.to_bytes - at.extent.from_bytes);
		if (!err)
			err = of_extent(s, ring, &at.extent);
		else if (err == -EBADMSG)
			err = 0;	/* the later walk reports it */
	}
	return err == -ENOMEM ? braid_out_of_memory() : err;
}

int braid_capture_find_pairs(struct braid_capture_stream *s)
{
	size_t k;
	int err = 0;

	for (k = 0; k < s->stream.nr_rings && !err; k++)
		if (s->stream.rings[k]->cpu != BRAID_RING_NOTES)
			err = of_ring(s, (struct braid_capture_ring *)s->stream.rings[k]);
	return err;
}
