// SPDX-License-Identifier: GPL-2.0-or-later
/* Lists of pieces give back what was put into them, in the order that is wanted. */
#include <string.h>

#include "host_agent/source/capture_pieces.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"

#define NR	20000u

int main(void);

static struct braid_piece made[NR];
static u64 random_state = 0xda3e39cb94b95bdbULL;

static u64 any(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static bool same(const struct braid_piece *a, const struct braid_piece *b)
{
	return a->offset == b->offset && a->file == b->file && a->final == b->final &&
	       a->position == b->position && a->first_seq == b->first_seq &&
	       a->from_bytes == b->from_bytes && a->to_bytes == b->to_bytes;
}

/* As a recording has them, with something odd now and then. */
static void make(void)
{
	struct braid_piece p = { .position = ~0ULL - 100, .first_seq = ~0ULL - 999 };
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

static void fill(struct braid_pieces *list, u32 nr)
{
	u32 k;

	for (k = 0; k < nr; k++)
		NEED(!braid_pieces_add(list, &made[k]));
	CHECK_EQ(list->nr, nr);
}

static void compare_all(const struct braid_pieces *list, u32 nr)
{
	struct braid_piece_cursor c = { 0 };
	u32 k;

	for (k = 0; k < nr; k++) {
		NEED(braid_pieces_next(list, &c));
		CHECK_EQ(c.nr, k + 1);
		NEED(same(&c.piece, &made[k]));
	}
	CHECK(!braid_pieces_next(list, &c));
	CHECK(!braid_pieces_next(list, &c));
}

static void what_went_in_comes_out(void)
{
	static const u32 sizes[] = { 0, 1, 2, 30, 31, 32, 33, 1000, NR };
	struct braid_pieces list = { 0 };
	u32 k;

	for (k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
		fill(&list, sizes[k]);
		compare_all(&list, sizes[k]);
		compare_all(&list, sizes[k]);
		braid_pieces_free(&list);
		CHECK_EQ(list.nr, 0);
	}
}

static int by_offset(const void *a, const void *b, void *arg)
{
	const struct braid_piece *x = a, *y = b;

	++*(u32 *)arg;
	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static void sorting(void)
{
	struct braid_pieces list = { 0 };
	u32 calls = 0;

	fill(&list, NR);
	NEED(!braid_pieces_sort(&list, by_offset, &calls));
	qsort_r(made, NR, sizeof(made[0]), by_offset, &calls);
	compare_all(&list, NR);
	calls = 0;
	NEED(!braid_pieces_sort(&list, by_offset, &calls));
	CHECK_EQ(calls, NR - 1);	/* it is in order, and that is all that is looked at */
	braid_pieces_free(&list);
	NEED(!braid_pieces_sort(&list, by_offset, &calls));
}

int main(void)
{
	make();
	RUN(what_went_in_comes_out);
	RUN(sorting);
	return VERDICT();
}
