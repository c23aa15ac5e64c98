// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Compares arbitrary operations on a ring with a simple model: which event is recorded, at what
 * time, which are delivered, which count as lost. The two must agree after every step.
 *
 * Contexts that interrupt a writer are simulated by its counter function, which a
 * reservation calls midway, and between a reservation and its commit.
 */
#include "host_agent/transport/region_copy.h"
#include "shared/ring.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/ring_model.h"

#define MAX_STEPS	1500
#define MAX_DEPTH	4
#define STAMPED		0x80	/* in the first byte: sub-buffers begin with a stamp */
#define EXTERNAL_NS	1000000000000000000ULL	/* host time of counter 0; each step is 1/16 ns */

/* An event in progress. */
struct offer {
	u32 bytes;
	u32 turns;
	enum model_verdict verdict;
	struct model_event event;
};

struct fuzz_ring {
	struct fuzz_input in;
	struct braid_writer *w;
	struct braid_ring_map map;
	struct braid_ring_identity who;
	struct braid_reader reader;
	bool reader_lives;
	u64 now;
	u32 depth;
	u32 steps;
	struct offer *offer;	/* the innermost */
	struct ring_model model;
};

static struct fuzz_ring *ring;	/* for the counter function */

static void interrupt(void);

/* Steps of the clock: small, around the limits of 27, 32 and 59 bits, and backward. */
static void move_clock(void)
{
	u32 how = fuzz_take(&ring->in, 1);
	u64 by = how >> 3;

	switch (how & 7) {
	case 2:
		by = -(by << 33);
		break;
	case 3:
		by = -(BRAID_JUMP_STEPS - 16 + by);
		break;
	case 4:
		by = (1ULL << 27) - 16 + by;
		break;
	case 5:
		by = (1ULL << 32) - 16 + by;
		break;
	case 6:
		by = (1ULL << 40) * by;
		break;
	case 7:
		by = -by;
	}
	ring->now += by;
}

/* Each try of a reservation calls this once, so it is also the model's try. */
static u64 counter(void)
{
	struct offer *offer = ring->offer;
	struct model_tail seen = model_tail(&ring->model);

	MUST(offer->verdict == MODEL_AGAIN);
	move_clock();
	interrupt();
	ring->offer = offer;
	offer->verdict = model_try(&ring->model, &seen, !offer->turns++, offer->bytes, ring->now,
				   &offer->event);
	return ring->now;
}

static void fill(void *payload, u32 bytes, u64 number)
{
	u8 *to = payload;
	u32 k;

	for (k = 0; k < bytes; k++)
		to[k] = number * 31 + k;
}

/* One event, with all that interrupts it; it may itself interrupt another. */
static void offer(void)
{
	u32 size = fuzz_take(&ring->in, 1);
	struct offer offer = { .bytes = size < 250 ? size % 64 : (size - 249) * 128 };
	u64 token;
	void *payload;

	if (model_full(&ring->model) || ring->steps++ > MAX_STEPS)
		return;
	ring->depth++;
	model_enter(&ring->model);
	ring->offer = &offer;
	payload = braid_ring_reserve(ring->w, offer.bytes, counter, &token);
	MUST(offer.verdict == (payload ? MODEL_TAKEN : MODEL_DROPPED));
	if (payload) {
		fill(payload, offer.bytes, offer.event.number);
		interrupt();
		braid_ring_commit(ring->w, token);
	}
	model_leave(&ring->model);
	ring->depth--;
}

/* The events of a span equal the model's, in time and content. */
static void look_at_span(const struct braid_span *span, const struct model_span *want)
{
	struct braid_event_view view;
	struct braid_cursor c;
	u32 index = 0;

	braid_cursor_init(&c, span->data, span->to_bytes, span->time_stamp, ring->map.flags);
	while (braid_page_next(&c, &view) > 0) {
		const struct model_event *event = want->events + index;
		u8 expected[1024];

		MUST(index < want->from + want->nr);
		MUST_EQ(view.time, event->time);
		if (view.type != BRAID_TYPE_DATA) {
			MUST(event->stamp);
			MUST_EQ(view.external_ns,
				event->paired ? EXTERNAL_NS + view.time / 16 : 0);
			continue;
		}
		MUST(index || view.offset == (event->stamp ? BRAID_STAMP_BYTES : 0));
		index++;
		MUST_EQ(view.payload_bytes, braid_event_bytes(event->bytes) -
			(event->bytes > BRAID_MAX_SMALL_BYTES ? 8 : 4));
		memset(expected, 0, sizeof(expected));
		fill(expected, event->bytes, event->number);
		MUST(!memcmp(view.payload, expected,
			     event->bytes ? view.payload_bytes : 0));
	}
	MUST_EQ(index, want->from + want->nr);
	MUST_EQ(c.offset, span->to_bytes);
}

static void attach(void)
{
	MUST(!braid_reader_attach(&ring->reader, &ring->map, ring->who.incarnation));
	ring->reader_lives = true;
	model_attach(&ring->model);
}

/* One extent is read, or the reader dies while it holds it. */
static void read_one(bool dies)
{
	struct model_span want;
	struct braid_span span;
	u64 events;
	int ret;

	if (!ring->reader_lives)
		attach();
	ret = braid_reader_next(&ring->reader, &span);
	MUST(ret >= 0);
	MUST_EQ(ret, model_next(&ring->model, &want));
	MUST_EQ(ring->reader.lost, ring->model.lost);
	if (ret) {
		MUST_EQ(span.final, want.final);
		MUST_EQ(span.first_seq + want.from, want.seq);
		MUST_EQ(span.lost_before, want.lost_before);
		look_at_span(&span, &want);
		if (span.final) {
			events = braid_reader_span_events(&ring->reader, &span);
			MUST_EQ(events, want.nr);
			MUST_EQ(span.dropped, want.dropped);
		}
	}
	if (dies) {
		ring->reader_lives = false;
		return;
	}
	if (ret) {
		braid_reader_done(&ring->reader, &span, want.nr);
		model_done(&ring->model, &want);
	}
	MUST_EQ(ring->reader.read, ring->model.read);
	MUST_EQ(ring->reader.lost, ring->model.lost);
}

/* A look, which changes nothing, finds all unread events, in the ring or in a copy of it. */
static void peek_at(const struct braid_ring_map *map)
{
	struct model_look look;
	struct model_span want;
	struct braid_peek p;
	struct braid_span span;
	int ret;

	MUST(!braid_peek_begin(&p, map, ring->who.incarnation));
	model_look_begin(&ring->model, &look);
	while ((ret = braid_peek_next(&p, &span)) > 0) {
		MUST(braid_peek_valid(&p, &span));
		if (span.from_bytes == span.to_bytes)
			continue;
		MUST(model_look_next(&ring->model, &look, &want));
		MUST_EQ(span.first_seq + want.from, want.seq);
		look_at_span(&span, &want);
	}
	MUST_EQ(ret, 0);
	MUST(!model_look_next(&ring->model, &look, &want));
}

static void peek(void)
{
	const struct braid_ring_map *from = &ring->map;
	size_t bytes = braid_ring_bytes(from->nr_slots, from->subbuf_bytes, BRAID_PAGE_BYTES);
	struct braid_ring_map copy;
	void *memory;

	peek_at(from);
	if (posix_memalign(&memory, 4096, bytes))
		abort();
	memset(memory, 0, bytes);
	braid_ring_map_init(&copy, memory, from->nr_slots, from->subbuf_bytes, BRAID_PAGE_BYTES,
			    from->flags);
	MUST(!braid_ring_copy(&copy, from, ring->who.incarnation));
	peek_at(&copy);
	free(memory);
}

/* The ring is emptied or resized; its numbers continue after the former ones. */
static void lay_out(bool again)
{
	u32 shape = fuzz_take(&ring->in, 1);
	u32 slots = 2u << (shape & 3), subbuf = 256 + (shape >> 2 & 3) * 56;
	size_t bytes = braid_ring_bytes(slots, subbuf, BRAID_PAGE_BYTES);
	struct braid_ring_past past;
	void *old = again ? ring->map.priv : NULL, *memory;

	if (posix_memalign(&memory, 4096, bytes))
		abort();
	memset(memory, shape, bytes);		/* former content */
	if (again) {
		braid_writer_past(ring->w, &past);
		free(ring->w);
	}
	ring->w = malloc(braid_writer_bytes(slots));
	ring->who.counter = ring->now = ring->now > ring->model.last_time ? ring->now :
						ring->model.last_time;
	ring->who.past = again ? &past : NULL;
	braid_ring_map_init(&ring->map, memory, slots, subbuf, BRAID_PAGE_BYTES,
			    ring->map.flags);
	braid_writer_init(ring->w, &ring->map, &ring->who);
	ring->reader_lives = false;
	model_lay_out(&ring->model, slots, subbuf - BRAID_SUBBUF_HEADER_BYTES, ring->now);
	free(old);
}

/* What may run between any two instructions of a writer: another writer, or the reader. */
static void interrupt(void)
{
	u32 what;

	while (ring->depth < MAX_DEPTH && ring->in.left) {
		what = fuzz_take(&ring->in, 1);
		if ((what & 7) < 6)
			return;
		if ((what & 7) == 6)
			offer();
		else if (what >> 3 & 3)
			read_one(what & 0x80);
		else
			peek();
	}
}

static void step(void)
{
	u32 what = fuzz_take(&ring->in, 1);

	ring->steps++;
	switch (what & 15) {
	case 8 ... 11:
		read_one(what & 0x80 && what & 0x40);
		break;
	case 12:
		peek();
		break;
	case 13:
		ring->reader_lives = false;
		break;
	case 14:
		if (what >> 6 == 3)
			lay_out(true);
		break;
	default:
		offer();
	}
	MUST_EQ(braid_writer_written(ring->w), ring->model.offered);
	MUST(!ring->w->nest && !ring->w->broken);
}

/* Whether a reader has not reached the last page that it can take: an empty one stays. */
static bool has_unread_pages(const struct ring_model *m)
{
	u32 last = m->pages[m->tail].visible ? m->tail : m->tail - 1;

	return (s32)(m->hand - last) < 0;
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes)
{
	static struct fuzz_ring state;
	static struct braid_clock_latch line;
	u32 flags, wrap;
	bool stamped;

	ring = &state;
	memset(ring, 0, offsetof(struct fuzz_ring, model));
	ring->in = (struct fuzz_input){ data, bytes };
	flags = fuzz_take(&ring->in, 1);
	stamped = flags & STAMPED;
	flags &= BRAID_BUFFER_OVERWRITE | BRAID_BUFFER_ABSOLUTE;
	wrap = fuzz_take(&ring->in, 1);
	ring->who.incarnation = 1 + wrap;
	ring->who.first_position = (wrap & 1 ? BRAID_POS_MASK : 0xffff) - (wrap >> 1 & 15);
	ring->who.first_seq = 0ULL - (wrap >> 5) * 20;
	ring->now = wrap & 4 ? 0xfffffff0 : 1ULL << 50;
	ring->map.flags = flags;
	braid_clock_latch_set(&line, &(struct braid_clock_map){
		0, EXTERNAL_NS, 1ULL << (BRAID_CLOCK_SHIFT - 4) });
	ring->who.external = stamped ? &line : NULL;
	model_init(&ring->model, flags, stamped, ring->who.first_seq, ring->now);
	lay_out(false);
	while (ring->in.left && ring->steps < MAX_STEPS)
		step();
	/* Without writers, a reader gets all events, and the counts add up. */
	do
		read_one(false);
	while (ring->model.delivered || has_unread_pages(&ring->model));
	peek();
	MUST_EQ(ring->model.read + ring->model.lost + model_left(&ring->model),
		ring->model.offered);
	free(ring->map.priv);
	free(ring->w);
	return 0;
}
