// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Records events whose instructions tests/bench/count.sh counts: bench_count fast|turns|floor.
 * fast never leaves a sub-buffer; turns goes around the ring; floor is the minimum of any ring.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/timing.h"

#define N	4
#define EVENTS	3000	/* of 20 bytes: they fit one sub-buffer of the largest size */

int main(int argc, char **argv);

static struct braid_writer *w;
static u64 source[2] = { 1, 2 };
static u8 plain[1 << 16];

static noinline void braid_count_ring(void)
{
	int k;

	for (k = 0; k < EVENTS; k++) {
		u64 token;
		void *at = braid_ring_reserve(w, 16, counter, &token);

		if (!at)
			continue;
		memcpy(at, source, 16);
		braid_ring_commit(w, token);
	}
}

static noinline void braid_count_floor(void)
{
	u32 at = 0;
	int k;

	for (k = 0; k < EVENTS; k++, at += 20) {
		u32 stamp = counter();

		braid_barrier();
		memcpy(plain + at + 4, source, 16);
		memcpy(plain + at, &stamp, 4);
		braid_barrier();
	}
}

int main(int argc, char **argv)
{
	u32 subbuf = argc == 2 && !strcmp(argv[1], "turns") ? 4096 : BRAID_MAX_SUBBUF_BYTES;
	const struct braid_ring_identity who = { .incarnation = 1, .counter = counter() };
	struct braid_ring_map map;
	void *memory;

	if (argc != 2 ||
	    posix_memalign(&memory, 4096, braid_ring_bytes(N, subbuf, BRAID_PAGE_BYTES)))
		return 1;
	w = aligned_alloc(BRAID_CACHELINE_BYTES, braid_writer_bytes(N));
	braid_ring_map_init(&map, memory, N, subbuf, BRAID_PAGE_BYTES, BRAID_BUFFER_OVERWRITE);
	braid_writer_init(w, &map, &who);
	if (!strcmp(argv[1], "floor")) {
		braid_count_floor();
	} else {
		braid_count_ring();
		if (braid_writer_written(w) != EVENTS)
			return 1;
	}
	printf("%d\n", EVENTS);
	return 0;
}
