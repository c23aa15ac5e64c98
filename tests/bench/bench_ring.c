// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * One 16-byte event compared with its minimum: a counter read, a 16-byte copy
 * and the stamp's store. And the reader's swap compared with memcpy. Timed alternately.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "tests/bench/timing.h"

#define N		64
#define SUBBUF		4096
#define ROUNDS		201
#define SHORT_ROUNDS	3
#define EVENTS		50000

static struct braid_ring_map map;
static struct braid_writer *w;
static struct braid_reader r;
static u8 *plain, *copy;
static u64 source[2] = { 1, 2 };

static noinline void bare(void)
{
	static u32 at;
	int k;

	for (k = 0; k < EVENTS; k++) {
		u8 *to = plain + (at & (N * SUBBUF - 1));
		u32 stamp = counter();

		braid_barrier();
		memcpy(to, source, 16);
		*(u32 *)to = stamp;
		braid_barrier();
		at += 16;
	}
}

static noinline void ring(void)
{
	struct braid_writer *const writer = w;
	int k;

	for (k = 0; k < EVENTS; k++) {
		u64 token;
		void *at = braid_ring_reserve(writer, 16, counter, &token);

		if (!at)
			continue;
		memcpy(at, source, 16);
		braid_ring_commit(writer, token);
	}
}

static u64 drained;

static noinline void drain(void)
{
	struct braid_span span;

	drained = 0;
	while (braid_reader_next(&r, &span) > 0) {
		memcpy(copy, span.data + span.from_bytes, span.to_bytes - span.from_bytes);
		drained += span.to_bytes - span.from_bytes;
		braid_reader_done(&r, &span, span.final ? braid_reader_span_events(&r, &span) : 0);
	}
}

static noinline void only_copy(void)
{
	u64 left = drained;
	u32 id = 0;

	while (left) {
		u64 bytes = left < SUBBUF - 16 ? left : SUBBUF - 16;

		memcpy(copy, braid_ring_subbuf(&map, id++ % N)->data, bytes);
		braid_barrier();
		left -= bytes;
	}
}

int main(void)
{
	static double bare_ns[ROUNDS], ring_ns[ROUNDS], ratio[ROUNDS], swap[ROUNDS];
	const struct braid_ring_identity who = { .incarnation = 1, .counter = counter() };
	size_t bytes = braid_ring_bytes(N, SUBBUF, BRAID_PAGE_BYTES);
	u8 *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	int rounds = is_short() ? SHORT_ROUNDS : ROUNDS, k;

	plain = malloc(N * SUBBUF);
	copy = malloc(SUBBUF);
	w = aligned_alloc(BRAID_CACHELINE_BYTES, braid_writer_bytes(N));
	memset(plain, 0, N * SUBBUF);
	braid_ring_map_init(&map, memory, N, SUBBUF, BRAID_PAGE_BYTES, BRAID_BUFFER_OVERWRITE);
	braid_writer_init(w, &map, &who);
	braid_reader_attach(&r, &map, 1);
	for (k = 0; k < rounds; k++) {
		double drain_ns;

		if (k & 1) {
			ring_ns[k] = timed(ring) / EVENTS;
			bare_ns[k] = timed(bare) / EVENTS;
		} else {
			bare_ns[k] = timed(bare) / EVENTS;
			ring_ns[k] = timed(ring) / EVENTS;
		}
		ratio[k] = ring_ns[k] / bare_ns[k];
		drain_ns = timed(drain);
		swap[k] = timed(only_copy) / drain_ns;
	}
	printf("event_16_bytes\t%.1f\tns\n", median(ring_ns, rounds));
	printf("counter_copy_store\t%.1f\tns\n", median(bare_ns, rounds));
	printf("event_over_counter_copy_store\t%.2f\tratio\n", median(ratio, rounds));
	printf("drain_speed_over_memcpy\t%.2f\tratio\n", median(swap, rounds));
	return 0;
}
