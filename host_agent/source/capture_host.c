// SPDX-License-Identifier: GPL-2.0-or-later
/* The cursors over a host's tracefs sub-buffers. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <traceevent/kbuffer.h>

#include "host_agent/source/capture_private.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

#define COMMIT_BYTES_MASK	((1u << 27) - 1)

struct host_ring {
	struct braid_capture_ring base;
	struct kbuffer *kbuf;
	u8 *buffer;
	u32 room_bytes;

	/* All below is where the cursor is. */
	size_t at;
	u32 data_bytes;
	bool loaded;
	bool fresh;			/* the sub-buffer's first event was not delivered yet */
	u64 untold;
	bool untold_some;
	u32 epoch;
	s64 last_ns;
	bool any;
};

static struct host_ring *host_ring(struct braid_ring *ring)
{
	return (struct host_ring *)ring;
}

static u32 word_at(const u8 *data, u32 offset)
{
	u32 v;

	memcpy(&v, data + offset, sizeof(v));
	return v;
}

/*
 * Bytes of @data that are well-formed ftrace events (type_len:5, time_delta:27).
 * libtraceevent's kbuffer believes every length, so nothing else may reach it.
 */
static u32 sound_bytes(const u8 *data, u32 bytes)
{
	u32 at = 0;

	while (bytes - at >= 4) {
		u32 head = word_at(data, at), type = head & 31, size;

		switch (type) {
		case KBUFFER_TYPE_PADDING:
		case 0:
			if (bytes - at < 8)
				return at;
			size = word_at(data, at + 4);
			if (size < 4 || size > bytes)
				return at;
			size = 4 + (type ? size : (size + 3) & ~3u);
			if (size & 3)
				return at;
			break;
		case KBUFFER_TYPE_TIME_EXTEND:
		case KBUFFER_TYPE_TIME_STAMP:
			size = 8;
			break;
		default:
			size = 4 + 4 * type;
		}
		if (size > bytes - at)
			return at;
		at += size;
	}
	return at;
}

static void faulty(struct host_ring *h, const char *what)
{
	struct braid_ring *ring = &h->base.ring;

	ring->walk.faults++;
	braid_source_faulty(&h->base.source->source, ring->stream, "CPU %u, sub-buffer %zu: %s",
			    ring->cpu, h->at - 1, what);
}

/* What tracefs says of losses, unless the agent said it already. */
static void count_loss(struct host_ring *h, u64 commit, u32 page_bytes, u64 told)
{
	struct braid_ring_walk *walk = &h->base.ring.walk;
	u32 behind = BRAID_SUBBUF_HEADER_BYTES + (commit & COMMIT_BYTES_MASK);
	u64 stored;

	if (!told && commit & BRAID_MISSED_EVENTS) {
		told = BRAID_LOST_SOME;
		if (commit & BRAID_MISSED_STORED && page_bytes >= behind + 8) {
			memcpy(&stored, h->buffer + behind, sizeof(stored));
			told = stored;
		}
	}
	if (told == BRAID_LOST_SOME) {
		walk->some_lost = true;
		h->untold_some = true;
		return;
	}
	walk->lost += told;
	walk->next_seq += told;
	h->untold += told;
}

/* Return: 1, 0 at the end, -errno. */
static int load_page(struct host_ring *h)
{
	struct braid_capture_ring *base = &h->base;
	const struct braid_piece *piece;
	u64 commit;
	u32 bytes;
	int err;

	if (h->at == base->pieces.nr)
		return 0;
	piece = &base->pieces.at[h->at++];
	if (piece->to_bytes + 8 > h->room_bytes) {
		u8 *grown = realloc(h->buffer, piece->to_bytes + 8);

		if (!grown)
			return braid_fail(-ENOMEM, "out of memory");
		h->buffer = grown;
		h->room_bytes = piece->to_bytes + 8;
	}
	err = braid_capture_fetch(base->source, piece, sizeof(struct braid_chunk_host_page),
				  h->buffer, piece->to_bytes);
	if (err == -EBADMSG) {
		faulty(h, braid_failure());
		return 1;
	}
	if (err)
		return err;
	base->ring.walk.pages++;
	memcpy(&commit, h->buffer + 8, sizeof(commit));
	count_loss(h, commit, piece->to_bytes, piece->first_seq);
	bytes = commit & COMMIT_BYTES_MASK;
	if (bytes > piece->to_bytes - BRAID_SUBBUF_HEADER_BYTES) {
		faulty(h, "it says to hold more than it does");
		bytes = piece->to_bytes - BRAID_SUBBUF_HEADER_BYTES;
	}
	h->data_bytes = sound_bytes(h->buffer + BRAID_SUBBUF_HEADER_BYTES, bytes);
	if (h->data_bytes != bytes)
		faulty(h, "bytes that are no event; the rest is skipped");
	commit = h->data_bytes;
	memcpy(h->buffer + 8, &commit, sizeof(commit));
	memset(h->buffer + BRAID_SUBBUF_HEADER_BYTES + h->data_bytes, 0, 8);
	if (!h->data_bytes || kbuffer_load_subbuffer(h->kbuf, h->buffer))
		return 1;
	h->loaded = true;
	h->fresh = true;
	return 1;
}

static void deliver(struct host_ring *h, void *payload, u64 ts)
{
	struct braid_ring *ring = &h->base.ring;
	struct braid_item *item = &ring->item;
	struct braid_clock_time t;

	if (h->any && ts < item->counter) {
		faulty(h, "time goes back");
		ts = item->counter;
	}
	t = braid_clock_convert(&h->base.source->source.clocks.trace, 0, ts, BRAID_TAKEN_UNKNOWN,
				h->epoch);
	if (t.sure)
		h->epoch = t.epoch;
	item->bound_ns = t.bound_ns;
	item->sure = t.sure;
	if (h->any && t.ns < h->last_ns) {
		if (t.bound_ns != BRAID_BOUND_UNKNOWN)
			item->bound_ns += (u64)h->last_ns - (u64)t.ns;
		t.ns = h->last_ns;	/* two epochs of its clock overlap */
	}
	h->any = true;
	h->last_ns = t.ns;
	item->kind = BRAID_ITEM_EVENT;
	item->host_ns = t.ns;
	item->counter = ts;
	item->lost_before = h->untold_some ? BRAID_LOST_SOME : h->untold;
	item->seq = ring->walk.next_seq++;
	item->payload = payload;
	item->payload_bytes = kbuffer_event_size(h->kbuf);
	h->untold = 0;
	h->untold_some = false;
	ring->walk.events++;
}

static int end_of_ring(struct host_ring *h)
{
	struct braid_item *item = &h->base.ring.item;

	if (!h->untold && !h->untold_some)
		return 0;
	item->kind = BRAID_ITEM_LOST;
	item->host_ns = h->last_ns;
	item->lost_before = h->untold_some ? BRAID_LOST_SOME : h->untold;
	item->payload = NULL;
	item->payload_bytes = 0;
	h->untold = 0;
	h->untold_some = false;
	return 1;
}

static int host_next(struct braid_ring *ring)
{
	struct host_ring *h = host_ring(ring);
	unsigned long long ts;
	void *payload;
	int ret;

	for (;;) {
		if (!h->loaded) {
			ret = load_page(h);
			if (ret < 0)
				return ret;
			if (!ret)
				return end_of_ring(h);
			continue;
		}
		payload = h->fresh ? kbuffer_read_event(h->kbuf, &ts) :
				     kbuffer_next_event(h->kbuf, &ts);
		h->fresh = false;
		if (!payload) {
			h->loaded = false;
			continue;
		}
		deliver(h, payload, ts);
		return 1;
	}
}

static void host_rewind(struct braid_ring *ring)
{
	struct host_ring *h = host_ring(ring);

	memset(&ring->walk, 0, sizeof(ring->walk));
	h->at = 0;
	h->loaded = false;
	h->untold = 0;
	h->untold_some = false;
	h->any = false;
	h->epoch = 0;
	h->last_ns = 0;
}

static void host_free(struct braid_ring *ring)
{
	struct host_ring *h = host_ring(ring);

	kbuffer_free(h->kbuf);
	free(h->base.pieces.at);
	free(h->base.parts);
	free(h->buffer);
	free(h);
}

bool braid_capture_join(struct braid_capture_stream *s, struct braid_capture_ring *base, u32 cpu,
			const struct braid_ring_ops *ops)
{
	base->source = s->source;
	base->ring.stream = &s->stream;
	base->ring.cpu = cpu;
	base->ring.ops = ops;
	base->ring.item.stream = &s->stream;
	base->ring.item.ring = &base->ring;
	return !braid_array_push(s->stream.rings, s->stream.nr_rings, s->rings_capacity,
				 &base->ring);
}

struct braid_capture_ring *braid_capture_host_ring(struct braid_capture_stream *s, u32 cpu)
{
	static const struct braid_ring_ops ops = {
		.next = host_next,
		.rewind = host_rewind,
		.free = host_free,
	};
	struct host_ring *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->kbuf = kbuffer_alloc(KBUFFER_LSIZE_8, KBUFFER_ENDIAN_LITTLE);
	if (!h->kbuf || !braid_capture_join(s, &h->base, cpu, &ops)) {
		kbuffer_free(h->kbuf);
		free(h);
		return NULL;
	}
	return &h->base;
}
