// SPDX-License-Identifier: GPL-2.0-or-later
/* Folded stacks as a tree: no time is lost, whatever is combined. */
#include <stdio.h>
#include <string.h>

#include "host_agent/analyze/flame.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"

static struct braid_flame flame;

static void make(const char *lines, u32 most)
{
	const struct braid_text folded = { .data = (char *)lines, .bytes = strlen(lines) };

	braid_flame_free(&flame);
	memset(&flame, 0, sizeof(flame));
	NEED(!braid_flame_make(&flame, &folded, most));
}

/* The frame of a path like "a;b"; it must be there. */
static const struct braid_flame_frame *frame_of(const char *path)
{
	u32 at = BRAID_FLAME_ROOT, k;
	const char *end, *name;

	for (; *path; path = end + (*end == ';')) {
		end = strchrnul(path, ';');
		for (k = 0; k < flame.nr; k++) {
			name = braid_flame_name(&flame, &flame.frames[k]);
			if (flame.frames[k].parent == at && strlen(name) == (size_t)(end - path) &&
			    !memcmp(name, path, end - path))
				break;
		}
		NEED(k < flame.nr);
		at = k;
	}
	return &flame.frames[at];
}

/* A frame is after its parent, and as wide as its children and itself. */
static void check_widths(u64 total_ns)
{
	u64 sums[64] = { 0 }, whole = 0;
	u32 k;

	NEED(flame.nr <= 64);
	for (k = flame.nr; k--;) {
		const struct braid_flame_frame *f = &flame.frames[k];

		CHECK_EQ(f->total_ns, f->own_ns + sums[k]);
		CHECK(f->parent == BRAID_FLAME_ROOT || f->parent < k);
		if (f->parent == BRAID_FLAME_ROOT)
			whole += f->total_ns;
		else
			sums[f->parent] += f->total_ns;
	}
	CHECK_EQ(whole, total_ns);
	CHECK_EQ(flame.total_ns, total_ns);
}

static void whole(void)
{
	make("g;v 0;f a 5\ng;v 0;f a;b 7\ng;v 1;b 2\ng;v 0 1\n", 100);
	check_widths(15);
	CHECK_EQ(flame.nr, 6);
	CHECK_EQ(flame.nr_names, 5);
	CHECK_EQ(frame_of("g;v 0;f a")->own_ns, 5);
	CHECK_EQ(frame_of("g;v 0;f a;b")->own_ns, 7);
	CHECK_EQ(frame_of("g;v 1;b")->own_ns, 2);
	CHECK_EQ(frame_of("g;v 0")->own_ns, 1);
}

/* Of the narrow ones each parent has one; what is below them is counted, too. */
static void combined(void)
{
	const char *lines = "g;a;x 50\ng;a;y 3\ng;a;y;z 1\ng;a;w 2\ng;b 4\ng 5\nh;i 1\n";

	make(lines, 3);
	check_widths(66);
	CHECK_EQ(flame.nr, 6);
	CHECK_EQ(frame_of("g;a;x")->own_ns, 50);
	CHECK_EQ(frame_of("g;a;[others]")->own_ns, 6);
	CHECK_EQ(frame_of("g;a;[others]")->nr_combined, 3);
	CHECK_EQ(frame_of("g;[others]")->own_ns, 4);
	CHECK_EQ(frame_of("g;[others]")->nr_combined, 1);
	CHECK_EQ(frame_of("g")->own_ns, 5);
	CHECK_EQ(frame_of("[others]")->own_ns, 1);
	CHECK_EQ(frame_of("[others]")->nr_combined, 2);
	make(lines, 9);
	check_widths(66);
	CHECK_EQ(flame.nr, 9);
}

/* Equal widths: a parent stays before its only child. */
static void chains(void)
{
	make("a;b;c;d 7\ne;f;g;h 7\n", 5);
	check_widths(14);
	CHECK_EQ(frame_of("a;b;c;d")->own_ns, 7);
	CHECK_EQ(frame_of("e;[others]")->nr_combined, 3);
}

static void nothing(void)
{
	make("", 1);
	CHECK_EQ(flame.nr, 0);
	make("no weight\n\n;; 3\n", 4);
	check_widths(3);
}

int main(void)
{
	RUN(whole);
	RUN(combined);
	RUN(chains);
	RUN(nothing);
	braid_flame_free(&flame);
	return VERDICT();
}
