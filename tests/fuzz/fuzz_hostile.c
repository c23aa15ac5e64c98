// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A ring whose peer writes arbitrary values anywhere, before and during every
 * operation: writer, reader, look and copy may lose events, but nothing else may fail.
 */
#include "host_agent/transport/region_copy.h"
#include "shared/ring.h"
#include "tests/fuzz/fuzz.h"

#define MAX_STEPS	600
#define MAX_DEPTH	3

static struct {
	struct fuzz_input in;
	struct braid_writer *w;
	struct braid_ring_map map;
	struct braid_ring_identity who;
	struct braid_reader reader;
	size_t bytes;
	u64 now;
	u32 depth;
	u32 steps;
} ring;

static void offer(void);

/* An almost valid word is more dangerous than any other. */
static u64 word_for(u64 *at, u32 how)
{
	u64 first = ring.w->position;

	switch (how & 7) {
	case 0:
		return *at + (s8)fuzz_take(&ring.in, 1);
	case 1:
		return *at ^ 1ULL << (fuzz_take(&ring.in, 1) & 63);
	case 2:
	case 3:
		return braid_slot_word(first + (s8)fuzz_take(&ring.in, 1), how >> 3 & 3,
				       fuzz_take(&ring.in, 1) % (ring.map.nr_slots + 3));
	case 4:
		return ((first + (s8)fuzz_take(&ring.in, 1)) & BRAID_POS_MASK) <<
			BRAID_COMMIT_POS_SHIFT | (how & 8 ? BRAID_COMMIT_FINAL : 0) |
			fuzz_take(&ring.in, 2);
	case 5:
		return fuzz_take(&ring.in, 2);
	default:
		return fuzz_take(&ring.in, 8);
	}
}

/* The peer writes: slots, states, the rest of the meta page, or data. */
static void poke(void)
{
	u32 how = fuzz_take(&ring.in, 1), n = ring.map.nr_slots;
	u64 *at;

	switch (how >> 6) {
	case 0:
		at = ring.map.slots + fuzz_take(&ring.in, 1) % n;
		break;
	case 1:
		at = (u64 *)(ring.map.states + fuzz_take(&ring.in, 1) % (n + 1)) +
		     fuzz_take(&ring.in, 1) % 4;
		break;
	case 2:
		at = (u64 *)(how & 1 ? (void *)ring.map.meta : ring.map.priv) +
		     fuzz_take(&ring.in, 1) % (BRAID_RING_SLOTS_OFFSET / 8);
		break;
	default:
		at = (u64 *)ring.map.priv + fuzz_take(&ring.in, 2) % (ring.bytes / 8);
	}
	*at = word_for(at, how);
}

static u64 counter(void)
{
	u32 how = fuzz_take(&ring.in, 1);

	ring.now += (how & 7) == 7 ? 1ULL << (how >> 3) : how;
	if ((how & 0x30) == 0x30)
		poke();
	if ((how & 0xc0) == 0xc0 && ring.depth < MAX_DEPTH)
		offer();
	return ring.now;
}

static void offer(void)
{
	u32 bytes = fuzz_take(&ring.in, 1);
	u64 token;
	u8 *payload;

	if (ring.steps++ > MAX_STEPS)
		return;
	ring.depth++;
	payload = braid_ring_reserve(ring.w, bytes, counter, &token);
	if (payload) {
		MUST(payload >= ring.map.subbufs);
		MUST(payload + bytes <= (u8 *)ring.map.priv + ring.bytes);
		memset(payload, bytes, bytes);
		if (fuzz_take(&ring.in, 1) & 1)
			poke();
		braid_ring_commit(ring.w, token);
	}
	ring.depth--;
}

/* A span is always within its sub-buffer; its bytes may be anything. */
static void look_at_span(const struct braid_span *span)
{
	u32 room = ring.map.subbuf_bytes - BRAID_SUBBUF_HEADER_BYTES;
	struct braid_cursor c;
	u8 *copy;

	MUST(span->id <= ring.map.nr_slots && span->from_bytes <= span->to_bytes);
	MUST(span->to_bytes <= room && span->data == braid_ring_subbuf(&ring.map, span->id)->data);
	copy = malloc(span->to_bytes);
	memcpy(copy, span->data, span->to_bytes);
	braid_cursor_init(&c, copy, span->to_bytes, span->time_stamp, ring.map.flags);
	braid_page_count(&c);
	free(copy);
}

static void attach(void)
{
	if (braid_reader_attach(&ring.reader, &ring.map, ring.who.incarnation)) {
		memset(&ring.reader, 0, sizeof(ring.reader));
		ring.reader.fault = BRAID_READER_BAD_SLOT;
	}
}

static void read_one(u32 how)
{
	struct braid_span span;

	if (!ring.reader.map.meta || ring.reader.fault)
		attach();
	if (braid_reader_next(&ring.reader, &span) <= 0)
		return;
	MUST(span.from_bytes < span.to_bytes);	/* no page without bytes is ever recorded */
	look_at_span(&span);
	if (how & 0x40)
		poke();
	MUST(braid_reader_span_events(&ring.reader, &span) <= span.entries);
	if (!(how & 0x80))
		braid_reader_done(&ring.reader, &span, how >> 4 & 3);
}

static void peek(bool poked)
{
	struct braid_span span;
	struct braid_peek p;
	u32 nr = 0;

	if (braid_peek_begin(&p, &ring.map, ring.who.incarnation))
		return;
	while (braid_peek_next(&p, &span) > 0) {
		MUST(nr++ <= ring.map.nr_slots);
		look_at_span(&span);
		braid_peek_valid(&p, &span);
		if (poked)
			poke();
	}
}

/* The copy is in memory of the ring's size, and its reader's loop ends. */
static void copy(void)
{
	struct braid_reader reader;
	struct braid_ring_map to;
	struct braid_span span;
	u32 nr = 0;
	void *memory;

	if (posix_memalign(&memory, 4096, ring.bytes))
		abort();
	memset(memory, 0, ring.bytes);
	braid_ring_map_init(&to, memory, ring.map.nr_slots, ring.map.subbuf_bytes, BRAID_PAGE_BYTES,
			    ring.map.flags);
	if (braid_ring_copy(&to, &ring.map, ring.who.incarnation) >= 0 &&
	    !braid_reader_attach(&reader, &to, ring.who.incarnation))
		while (braid_reader_next(&reader, &span) > 0) {
			MUST(nr++ <= ring.map.nr_slots);
			braid_reader_done(&reader, &span, 0);
		}
	free(memory);
}

static void lay_out(bool again)
{
	struct braid_ring_past past;

	if (again)
		braid_writer_past(ring.w, &past);
	ring.who.past = again ? &past : NULL;
	ring.who.counter = ring.now;
	braid_writer_init(ring.w, &ring.map, &ring.who);
	memset(&ring.reader, 0, sizeof(ring.reader));
}

static void step(void)
{
	u32 what = fuzz_take(&ring.in, 1);

	ring.steps++;
	switch (what & 15) {
	case 0 ... 4:
		offer();
		break;
	case 5 ... 8:
		read_one(what);
		break;
	case 9:
		if (what & 0x20)
			copy();
		else
			peek(what & 0x10);
		break;
	case 10:
		attach();
		break;
	case 11:
		if (what >> 5 == 7)
			lay_out(true);
		break;
	default:
		poke();
	}
	braid_writer_written(ring.w);
	MUST(!ring.w->nest);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes)
{
	u32 shape, slots, subbuf;
	void *memory;

	memset(&ring, 0, sizeof(ring));
	ring.in = (struct fuzz_input){ data, bytes };
	shape = fuzz_take(&ring.in, 1);
	slots = 2u << (shape >> 2 & 3);
	subbuf = shape & 0x10 ? 256 : 264;
	ring.bytes = braid_ring_bytes(slots, subbuf, BRAID_PAGE_BYTES);
	ring.who = (struct braid_ring_identity){
		.incarnation = 7, .first_position = (shape & 0x20 ? BRAID_POS_MASK : 0xffff) - 3,
		.first_seq = 0ULL - 30,
	};
	if (posix_memalign(&memory, 4096, ring.bytes))
		abort();
	ring.w = malloc(braid_writer_bytes(slots));
	braid_ring_map_init(&ring.map, memory, slots, subbuf, BRAID_PAGE_BYTES,
			    shape & (BRAID_BUFFER_OVERWRITE | BRAID_BUFFER_ABSOLUTE));
	lay_out(false);
	while (ring.in.left && ring.steps < MAX_STEPS)
		step();
	free(ring.w);
	free(memory);
	return 0;
}
