// SPDX-License-Identifier: GPL-2.0-or-later
/* Lists of extents return their elements, in the requested order. */
#include <stdlib.h>
#include <string.h>

#include "host_agent/trace/capture_extents.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"

#define NR	20000u

int main(void);

static struct braid_extent made[NR];
static u64 random_state = 0xda3e39cb94b95bdbULL;

static u64 any(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static bool same(const struct braid_extent *a, const struct braid_extent *b)
{
	return a->offset == b->offset && a->file == b->file && a->final == b->final &&
	       a->position == b->position && a->first_seq == b->first_seq &&
	       a->from_bytes == b->from_bytes && a->to_bytes == b->to_bytes;
}

/* As in a recording, with occasional odd ones. */
static void make(void)
{
	struct braid_extent p = { .position = ~0ULL - 100, .first_seq = ~0ULL - 999 };
	u32 k;

	for (k = 0; k < NR; k++) {
		p.offset += 8 * (1 + any() % 9000);
		p.final = any() & 1;
		p.position += p.final;
		p.first_seq += any() % 90;
		p.from_bytes = any() % 3 ? 0 : any() % 4096;
		p.to_bytes = any() % 4 ? 4096 : any() % 4096;
		if (!(any() % 50)) {
			p.offset = any() << 3;
			p.file = any() % 1024;
			p.position = any();
			p.first_seq = any();
			p.to_bytes = any();
			p.from_bytes = any();
		}
		made[k] = p;
	}
}

static void fill(struct braid_extents *list, u32 nr)
{
	u32 k;

	for (k = 0; k < nr; k++)
		NEED(!braid_extents_add(list, &made[k], 10 * k, true));
	CHECK_EQ(list->nr, nr);
}

static void compare_all(struct braid_extents *list, u32 nr)
{
	struct braid_extent_cursor c = { 0 };
	u32 k;

	for (k = 0; k < nr; k++) {
		NEED(braid_extents_next(list, &c) == 1);
		CHECK_EQ(c.nr, k + 1);
		NEED(same(&c.extent, &made[k]));
	}
	CHECK(!braid_extents_next(list, &c));
	CHECK(!braid_extents_next(list, &c));
}

static void returns_all_elements(void)
{
	static const u32 sizes[] = { 0, 1, 2, 30, 31, 32, 33, 1000, NR };
	struct braid_extents list = { 0 };
	u32 k;

	for (k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
		fill(&list, sizes[k]);
		compare_all(&list, sizes[k]);
		compare_all(&list, sizes[k]);
		braid_extents_free(&list);
		CHECK_EQ(list.nr, 0);
	}
}

static int by_offset(const void *a, const void *b, void *arg)
{
	const struct braid_extent *x = a, *y = b;

	++*(u32 *)arg;
	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static void sorting(void)
{
	struct braid_extents list = { 0 };
	u32 calls = 0;

	fill(&list, NR);
	NEED(!braid_extents_sort(&list, by_offset, &calls));
	qsort_r(made, NR, sizeof(made[0]), by_offset, &calls);
	compare_all(&list, NR);
	braid_extents_free(&list);
	NEED(!braid_extents_sort(&list, by_offset, &calls));
}

/* As an INDEX chunk has them. */
static u32 put_places(char *data, u32 nr)
{
	struct braid_extent before = { 0 };
	char *end = data;
	u32 k;

	for (k = 0; k < nr; k++) {
		end = braid_extent_put(end, &before, &made[k]);
		before = made[k];
	}
	return end - data;
}

static s64 read_places(void *arg, const struct braid_index_place *place, char **to,
		       struct braid_extents_types **types)
{
	(void)arg;
	(void)types;
	*to = malloc(place->nr * BRAID_PLACE_BYTES);
	NEED(*to);
	return put_places(*to, place->nr);
}

/*
 * What was read of a block that is freed is not taken for a later one's, which may get its address.
 */
static void forgotten_blocks(void)
{
	struct braid_extents list = { .read = read_places };
	const struct braid_index_place place = { .offset = 8, .nr = 20 };
	struct braid_extent_cursor c = { 0 };
	u32 k;

	NEED(!braid_extents_add_block(&list, &place));
	for (k = 20; k < 30; k++)
		NEED(!braid_extents_add(&list, &made[k], k, true));
	for (k = 0; k < 21; k++)
		NEED(braid_extents_next(&list, &c) == 1 && same(&c.extent, &made[k]));
	CHECK(list.loaded && list.loaded != c.block);
	braid_extents_forget(&list, &c);
	CHECK(list.first == c.block && !list.loaded);
	for (; k < 30; k++)
		NEED(braid_extents_next(&list, &c) == 1 && same(&c.extent, &made[k]));
	CHECK(!braid_extents_next(&list, &c));
	braid_extents_free(&list);
}

int main(void)
{
	make();
	RUN(forgotten_blocks);
	RUN(returns_all_elements);
	RUN(sorting);
	return VERDICT();
}
