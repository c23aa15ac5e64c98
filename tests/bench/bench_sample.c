// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The steps of a sample in user space, to tell how many instructions of such code a nanosecond
 * takes: a walk of 16 frames by a table as the kernel's ORC unwinder has it, one of 16 frames by
 * frame pointers, 32 addresses looked up in a hash, and a record of all of them. It prints the time
 * of one; `bench_sample count`, for tests/bench/count.sh, runs once and prints their number.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/timing.h"

#define FRAMES		16
#define NR_STACKS	64u		/* in turns, so that branches are not all foreseen */
#define BLOCK_BYTES	256u		/* of code, that have one entry in the lookup */
#define TEXT_BYTES	(16u << 20)
#define ENTRY_BYTES	24u		/* of code, on average, between two entries */
#define NR_ENTRIES	(TEXT_BYTES / ENTRY_BYTES)
#define NR_CELLS	4096u
#define N		16		/* sub-buffers */
#define SAMPLES		2000
#define ROUNDS		200

struct entry {
	s16 sp_offset, bp_offset;
	u16 kind;
};

static s32 places[NR_ENTRIES + 1];
static struct entry entries[NR_ENTRIES];
static u32 lookup[TEXT_BYTES / BLOCK_BYTES + 1];
static u64 cells[NR_CELLS], stacks[NR_STACKS * FRAMES * 8], frames[2 * FRAMES];
static struct braid_writer *w;

static void make_tables(void)
{
	u32 k, block = 0;

	for (k = 0; k < NR_ENTRIES; k++) {
		places[k] = k * ENTRY_BYTES + k * 7919 % ENTRY_BYTES;
		entries[k] = (struct entry){ .sp_offset = 8 * 8, .kind = k % 16 == 0 };
		for (; block * BLOCK_BYTES <= (u32)places[k]; block++)
			lookup[block] = k ? k - 1 : 0;
	}
	places[NR_ENTRIES] = TEXT_BYTES;
	for (; block < sizeof(lookup) / sizeof(*lookup); block++)
		lookup[block] = NR_ENTRIES - 1;
	for (k = 0; k < NR_STACKS * FRAMES; k++) {
		u64 *frame = &stacks[8 * k];

		frame[0] = (u64)(frame + 8);
		frame[7] = (k * 2654435761u) % TEXT_BYTES;	/* returns to */
	}
}

/* The last entry at or before an address. */
static noinline const struct entry *find(u32 address)
{
	u32 block = address / BLOCK_BYTES, from, to, middle;

	from = lookup[block];
	to = lookup[block + 1] + 1;
	while (from + 1 < to) {
		middle = from + (to - from) / 2;
		if (places[middle] <= (s32)address)
			from = middle;
		else
			to = middle;
	}
	return &entries[from];
}

static noinline u32 walk_by_table(const u64 *stack, u64 *to)
{
	const u64 *sp = stack;
	u32 address = 12345, nr;

	for (nr = 0; nr < FRAMES; nr++) {
		const struct entry *e = find(address);

		if (sp < stack || sp + e->sp_offset / 8 > stack + FRAMES * 8)
			break;
		sp += e->kind ? 8 : e->sp_offset / 8;
		address = sp[-1];
		to[nr] = address;
	}
	return nr;
}

static noinline u32 walk_by_pointers(const u64 *stack, u64 *to)
{
	const u64 *at = stack;
	u32 nr;

	for (nr = 0; nr < FRAMES && at; nr++) {
		to[nr] = at[1] + at[7];
		if (at[0] <= (u64)at)
			break;
		at = (const u64 *)at[0];
	}
	return nr;
}

static noinline void note(u64 address)
{
	u32 k, at = address * 0x9e3779b97f4a7c15ULL >> 52;

	for (k = 0; k < 16; k++) {
		u64 *cell = &cells[(at + k) % NR_CELLS], seen = braid_load(cell);

		if (seen == address)
			return;
		if (!seen) {
			braid_store(cell, address);
			return;
		}
	}
}

static noinline void braid_count_sample(const u64 *stack)
{
	u32 nr, k;
	u64 token, *at;

	nr = walk_by_table(stack, frames);
	nr += walk_by_pointers(stack, frames + nr);
	at = braid_ring_reserve(w, 48 + nr * 8, counter, &token);
	if (!at)
		return;
	for (k = 0; k < 6; k++)
		at[k] = k;
	for (k = 0; k < nr; k++)
		at[6 + k] = frames[k];
	braid_ring_commit(w, token);
	for (k = 0; k < nr; k++)
		note(frames[k]);
}

static void run(void)
{
	int k;

	for (k = 0; k < SAMPLES; k++)
		braid_count_sample(stacks + k % NR_STACKS * FRAMES * 8);
}

int main(int argc, char **argv)
{
	const struct braid_ring_identity who = { .incarnation = 1, .counter = counter() };
	struct braid_ring_map map;
	double ns[ROUNDS];
	void *memory;
	int k;

	if (posix_memalign(&memory, 4096, braid_ring_bytes(N, 4096, BRAID_PAGE_BYTES)))
		return 1;
	w = aligned_alloc(BRAID_CACHELINE_BYTES, braid_writer_bytes(N));
	braid_ring_map_init(&map, memory, N, 4096, BRAID_PAGE_BYTES, BRAID_BUFFER_OVERWRITE);
	braid_writer_init(w, &map, &who);
	make_tables();
	if (argc > 1 && !strcmp(argv[1], "count")) {
		run();
		printf("%d\n", SAMPLES);
		return 0;
	}
	for (k = 0; k < (is_short() ? 3 : ROUNDS); k++)
		ns[k] = timed(run) / SAMPLES;
	qsort(ns, k, sizeof(*ns), compare_doubles);
	printf("sample_steps_time\t%.1f\tns\n", ns[0]);	/* that which nothing interrupted */
	return 0;
}
