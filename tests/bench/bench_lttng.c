// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * One 16-byte event in our ring and one in LTTng-UST's, timed alternately in one process.
 * lttng.sh creates its session: flight recorder, snapshot mode, the default channel.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "tests/bench/lttng_event.h"
#include "tests/bench/timing.h"

#define N	16
#define SUBBUF	4096
#define ROUNDS	201
#define SHORT_ROUNDS	3
#define EVENTS	20000

static struct braid_writer *w;
static volatile u64 source[2] = { 1, 2 };

static noinline void ours(void)
{
	int k;

	for (k = 0; k < EVENTS; k++) {
		u64 token, *at = braid_ring_reserve(w, 16, counter, &token);

		if (!at)
			continue;
		at[0] = source[0];
		at[1] = source[1];
		braid_ring_commit(w, token);
	}
}

static noinline void theirs(void)
{
	int k;

	for (k = 0; k < EVENTS; k++)
		lttng_ust_tracepoint(braid_bench, event, source[0], source[1]);
}

int main(void)
{
	static double ours_ns[ROUNDS], theirs_ns[ROUNDS], ratio[ROUNDS];
	const struct braid_ring_identity who = { .incarnation = 1, .counter = counter() };
	size_t bytes = braid_ring_bytes(N, SUBBUF, BRAID_PAGE_BYTES);
	int rounds = is_short() ? SHORT_ROUNDS : ROUNDS, k;
	struct braid_ring_map map;

	braid_ring_map_init(&map, mmap(NULL, bytes, PROT_READ | PROT_WRITE,
				       MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0),
			    N, SUBBUF, BRAID_PAGE_BYTES, BRAID_BUFFER_OVERWRITE);
	w = aligned_alloc(BRAID_CACHELINE_BYTES, braid_writer_bytes(N));
	braid_writer_init(w, &map, &who);
	if (!lttng_ust_tracepoint_enabled(braid_bench, event)) {
		fprintf(stderr, "bench_lttng: no active session: run it by tests/bench/lttng.sh\n");
		return 1;
	}
	for (k = 0; k < rounds; k++) {
		if (k & 1) {
			ours_ns[k] = timed(ours) / EVENTS;
			theirs_ns[k] = timed(theirs) / EVENTS;
		} else {
			theirs_ns[k] = timed(theirs) / EVENTS;
			ours_ns[k] = timed(ours) / EVENTS;
		}
		ratio[k] = ours_ns[k] / theirs_ns[k];
	}
	printf("lttng_event_16_bytes\t%.1f\tns\n", median(theirs_ns, rounds));
	printf("event_over_lttng_event\t%.2f\tratio\n", median(ratio, rounds));
	return 0;
}
