// SPDX-License-Identifier: GPL-2.0-or-later
/* The cursors over a host's tracefs sub-buffers. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/capture/host_event.h"
#include "host_agent/trace/capture_private.h"
#include "host_agent/trace/trace_dat.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

#define PAGE_AT		BRAID_HOST_PAGE_AT
#define DATA_AT		(PAGE_AT + BRAID_SUBBUF_HEADER_BYTES)

struct host_ring {
	struct braid_capture_ring base;

	/* All below is where the cursor is: 0 at the start. */
	const u8 *data;			/* of the current sub-buffer */
	u32 bytes;			/* of it */
	u32 at;				/* of the next event */
	u64 time;			/* of the last one */
	bool skipped;			/* the pages just before the next one */
	u64 unreported;
	bool unreported_some;
	s64 last_ns;
	bool any;
	size_t span;			/* of left_out: the first that is not over */
	bool leaves_out;		/* some of the page, after its first event */
	bool passed;			/* the last event was, and its time was not converted */
};

static struct host_ring *host_ring(struct braid_ring *ring)
{
	return (struct host_ring *)ring;
}

static void faulty(struct host_ring *h, const char *what)
{
	struct braid_ring *ring = &h->base.ring;

	ring->walk.faults++;
	braid_source_faulty(&h->base.source->source, ring->stream, "CPU %u, sub-buffer %zu: %s",
			    ring->cpu, h->base.at.nr - 1, what);
}

/* Losses reported by tracefs, unless the agent reported them already. */
static void count_loss(struct host_ring *h, u32 page_bytes, u64 reported)
{
	struct braid_ring_walk *walk = &h->base.ring.walk;

	static_assert(BRAID_HOST_LOST_SOME == BRAID_LOST_SOME, "lost");
	reported = braid_host_lost(h->base.chunk + PAGE_AT, page_bytes, reported);
	if (reported == BRAID_LOST_SOME) {
		walk->some_lost = true;
		h->unreported_some = true;
		return;
	}
	walk->lost += reported;
	walk->next_seq += reported;
	h->unreported += reported;
}

static const struct braid_clock *clock_of(const struct host_ring *h)
{
	static const struct braid_clock as_is;	/* of BRAID_CLOCK_HOST */

	const struct braid_capture_stream *s = (const void *)h->base.ring.stream;

	return !h->base.own_clock ? &braid_capture_stream_clocks(s)->trace :
	       h->base.clock ? h->base.clock : &as_is;
}

/* Whether nothing but its number of events need be known of a page. */
static bool may_pass_page(const struct host_ring *h)
{
	const struct braid_capture_ring *base = &h->base;

	return base->ring.left_out && base->at.nr && !base->times && !base->own_clock &&
	       !base->nr_left_out && !h->skipped && !h->unreported && !h->unreported_some &&
	       braid_clock_epochs(clock_of(h)) <= 1;
}

/* Return: 1, 0 at the end, -errno. */
static int load_page(struct host_ring *h)
{
	struct braid_capture_ring *base = &h->base;
	const struct braid_extent *extent = &h->base.at.extent;
	u64 commit;
	u32 bytes;
	int err;

	if (may_pass_page(h))
		braid_capture_pass_host(base);
	err = braid_extents_next(&base->extents, &h->base.at);
	if (err <= 0)
		return err;
	h->at = h->bytes = 0;
	h->leaves_out = false;
	err = braid_capture_fetch(base, extent,
				  sizeof(struct braid_chunk_host_page) + extent->to_bytes);
	if (err == -EBADMSG) {
		faulty(h, braid_failure());
		return 1;
	}
	if (err)
		return err;
	base->ring.walk.pages++;
	if (!braid_capture_has_types(base, base->chunk))
		faulty(h, "its events are of other types than the index says");
	memcpy(&h->time, h->base.chunk + PAGE_AT, sizeof(h->time));
	memcpy(&commit, h->base.chunk + PAGE_AT + 8, sizeof(commit));
	if (h->skipped)
		base->ring.walk.next_seq = extent->position;
	h->skipped = false;
	count_loss(h, extent->to_bytes, extent->first_seq);
	bytes = commit & BRAID_HOST_COMMIT_MASK;
	if (bytes > extent->to_bytes - BRAID_SUBBUF_HEADER_BYTES) {
		faulty(h, "its size is larger than its contents");
		bytes = extent->to_bytes - BRAID_SUBBUF_HEADER_BYTES;
	}
	h->data = h->base.chunk + DATA_AT;
	h->bytes = bytes;
	return 1;
}

/* Whether another capture holds what happened at a time; times never go back. */
static bool is_elsewhere(struct host_ring *h, s64 ns)
{
	const struct braid_span_ns *left_out = h->base.left_out;

	while (h->span < h->base.nr_left_out && left_out[h->span].to_ns < ns)
		h->span++;
	return h->span < h->base.nr_left_out && left_out[h->span].from_ns <= ns;
}

/* A loss before a skipped event is reported by the other capture, too. */
static void pass_over(struct host_ring *h, u64 stamp)
{
	struct braid_ring *ring = &h->base.ring;

	ring->item.counter = stamp;
	ring->walk.next_seq++;
	ring->walk.duplicates++;
	ring->walk.lost -= h->unreported;
	h->unreported = 0;
	h->unreported_some = false;
}

/* The next event is no earlier than one that was left out. */
static void convert_passed(struct host_ring *h)
{
	struct braid_clock_time t;

	if (!h->passed)
		return;
	h->passed = false;
	t = braid_clock_convert(clock_of(h), 0, h->base.ring.item.counter, BRAID_TAKEN_UNKNOWN,
				h->base.epoch);
	if (t.ns > h->last_ns)
		h->last_ns = t.ns;
}

/* Counts an event of a type that is left out. Return: false: the event must be delivered. */
static bool leave_out(struct host_ring *h)
{
	struct braid_ring *ring = &h->base.ring;

	if (h->time < ring->item.counter || h->unreported || h->unreported_some)
		return false;
	h->passed = true;
	ring->item.counter = h->time;
	ring->walk.events++;
	ring->walk.next_seq++;
	return true;
}

/* Return: whether there is an event; else it is skipped. */
static bool capture_host_deliver(struct host_ring *h, const u8 *payload, u32 payload_bytes)
{
	const struct braid_clock *clock = clock_of(h);
	struct braid_ring *ring = &h->base.ring;
	struct braid_item *item = &ring->item;
	struct braid_clock_time t;
	u64 ts = h->time, back = 0;

	convert_passed(h);
	h->leaves_out = ring->left_out && !h->base.times && !h->base.nr_left_out &&
			braid_clock_epochs(clock) <= 1;
	if (h->base.times && !braid_dat_time(h->base.times, h->base.ticks, ring->cpu, ts, &ts)) {
		faulty(h, "a time cannot be converted; its event is skipped");
		return false;
	}
	if (h->any && ts < item->counter) {
		back = item->counter - ts;
		ring->walk.back++;
		faulty(h, "time goes back");
		ts = item->counter;
	}
	t = braid_clock_convert(clock, 0, ts, BRAID_TAKEN_UNKNOWN, h->base.epoch);
	if (t.sure)
		h->base.epoch = t.epoch;
	item->bound_ns = braid_dat_add_bounds(t.bound_ns, h->base.own_bound_ns);
	if (item->bound_ns != BRAID_BOUND_UNKNOWN)
		item->bound_ns += back;
	item->sure = t.sure;
	if (h->any && t.ns < h->last_ns) {
		if (item->bound_ns != BRAID_BOUND_UNKNOWN)
			item->bound_ns += (u64)h->last_ns - (u64)t.ns;
		t.ns = h->last_ns;	/* two epochs of its clock overlap */
	}
	h->any = true;
	h->last_ns = t.ns;
	if (is_elsewhere(h, t.ns)) {
		pass_over(h, ts);
		return false;
	}
	item->kind = BRAID_ITEM_EVENT;
	item->host_ns = t.ns;
	item->counter = ts;
	item->lost_before = h->unreported_some ? BRAID_LOST_SOME : h->unreported;
	item->seq = ring->walk.next_seq++;
	item->payload = payload;
	item->payload_bytes = payload_bytes;
	h->unreported = 0;
	h->unreported_some = false;
	ring->walk.events++;
	return true;
}

static int end_of_ring(struct host_ring *h)
{
	struct braid_ring_walk *walk = &h->base.ring.walk;
	struct braid_item *item = &h->base.ring.item;
	u64 rest = h->base.stated_lost > walk->lost ? h->base.stated_lost - walk->lost : 0;

	convert_passed(h);
	/* Lost at an unknown time: its pages do not say so. */
	walk->lost += rest;
	walk->next_seq += rest;
	h->unreported += rest;
	if (!h->unreported && !h->unreported_some)
		return 0;
	item->kind = BRAID_ITEM_LOST;
	item->host_ns = h->last_ns;
	item->lost_before = h->unreported_some ? BRAID_LOST_SOME : h->unreported;
	item->payload = NULL;
	item->payload_bytes = 0;
	h->unreported = 0;
	h->unreported_some = false;
	return 1;
}

static int host_next(struct braid_ring *ring)
{
	struct host_ring *h = host_ring(ring);
	const u8 *payload;
	u32 bytes;
	int ret;

	for (;;) {
		if (h->at == h->bytes) {
			ret = load_page(h);
			if (ret < 0)
				return ret;
			if (!ret)
				return end_of_ring(h);
		} else if (!braid_host_event_take(h->data, h->bytes, &h->at, &h->time,
						  &payload, &bytes)) {
			faulty(h, "invalid event; the rest is skipped");
			h->at = h->bytes;
		} else if (payload && h->leaves_out &&
			   braid_ring_leaves_out(ring, payload, bytes) && leave_out(h)) {
			continue;
		} else if (payload && capture_host_deliver(h, payload, bytes)) {
			return 1;
		}
	}
}

static bool page_is_before(const struct braid_capture_ring *ring, const void *head, s64 ns)
{
	u64 stamp;

	(void)ring;
	memcpy(&stamp, (const u8 *)head + sizeof(struct braid_chunk_host_page), sizeof(stamp));
	return (s64)stamp < ns;
}

bool braid_capture_host_can_skip(const struct braid_capture_ring *ring)
{
	const struct braid_capture_stream *s = (const void *)ring->ring.stream;

	return !ring->own_clock && !braid_capture_stream_clocks(s)->trace.nr_tracks &&
	       braid_capture_numbers_hosts(ring->source, ring->file);
}

static bool host_skip(struct braid_ring *ring, s64 ns)
{
	struct host_ring *h = host_ring(ring);
	bool moved;

	ns = braid_capture_own_ns(&h->base, ns);
	if (!braid_capture_host_can_skip(&h->base))
		return false;
	moved = braid_capture_skip(&h->base, ns, true);
	moved |= braid_capture_skip_pages(&h->base, ns,
					  sizeof(struct braid_chunk_host_page) + sizeof(u64),
					  page_is_before);
	if (!moved)
		return false;
	h->at = h->bytes = 0;
	h->skipped = true;
	h->leaves_out = h->passed = false;
	h->unreported = 0;
	h->unreported_some = false;
	return true;
}

static void host_rewind(struct braid_ring *ring)
{
	struct host_ring *h = host_ring(ring);

	braid_capture_rewind(&h->base, &h->data, sizeof(*h) - offsetof(struct host_ring, data));
}

struct braid_capture_ring *braid_capture_host_ring(struct braid_capture_stream *s, u32 cpu)
{
	static const struct braid_ring_ops ops = {
		.next = host_next,
		.skip = host_skip,
		.rewind = host_rewind,
	};

	return braid_capture_add_ring(s, sizeof(struct host_ring), cpu, &ops);
}
