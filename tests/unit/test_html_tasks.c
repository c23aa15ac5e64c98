// SPDX-License-Identifier: GPL-2.0-or-later
/* The page's table of tasks, against an array. */
#include <stdlib.h>

#include "host_agent/export/html/tasks.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"

#define PIDS	3000

struct entry {
	struct braid_html_task_key key;
	u64 value;
};

static void as_an_array(void)
{
	static u64 want[2][PIDS];	/* 0: not there */
	struct braid_html_tasks t;
	u64 random = 3, turn;
	u32 nr = 0;

	braid_html_tasks_begin(&t, sizeof(struct entry));
	for (turn = 1; turn < 60000; turn++) {
		u32 group, pid;
		struct entry *e;
		void *added;

		random = random * 6364136223846793005ULL + 1442695040888963407ULL;
		group = random >> 40 & 1;
		pid = (random >> 42) % PIDS;
		e = braid_html_tasks_find(&t, group, (s32)pid);
		CHECK_EQ(e ? e->value : 0, want[group][pid]);
		/* It grows in the first half, and shrinks in the second. */
		if ((random >> 60) < (turn < 30000 ? 4 : 12)) {
			braid_html_tasks_drop(&t, group, (s32)pid);
			nr -= !!want[group][pid];
			want[group][pid] = 0;
		} else {
			NEED(!braid_html_tasks_add(&t, group, (s32)pid, &added) && added);
			e = added;
			CHECK_EQ(e->value, want[group][pid]);
			nr += !want[group][pid];
			e->value = want[group][pid] = turn;
		}
		CHECK_EQ(t.by_pid.nr, nr);
	}
	braid_html_tasks_free(&t);
}

static u64 value_of(const struct braid_html_tasks *t, u32 k)
{
	const struct entry *e = braid_html_tasks_find(t, k & 1, 100 + (s32)(k >> 1) * 65536);

	return e ? e->value : 0;
}

/* Many, of which a third is removed. */
static void many(void)
{
	struct braid_html_tasks t;
	u32 k, wrong = 0;
	void *added;

	braid_html_tasks_begin(&t, sizeof(struct entry));
	CHECK(!braid_html_tasks_find(&t, 0, 100));
	braid_html_tasks_drop(&t, 0, 100);
	for (k = 0; k < 50000; k++) {
		NEED(!braid_html_tasks_add(&t, k & 1, 100 + (s32)(k >> 1) * 65536, &added) && added);
		((struct entry *)added)->value = k + 1;
	}
	for (k = 0; k < 50000; k++)
		wrong += value_of(&t, k) != k + 1;
	CHECK_EQ(wrong, 0);
	for (k = 0; k < 50000; k += 3)
		braid_html_tasks_drop(&t, k & 1, 100 + (s32)(k >> 1) * 65536);
	for (k = 0; k < 50000; k++)
		wrong += value_of(&t, k) != (k % 3 ? k + 1 : 0);
	CHECK_EQ(wrong, 0);
	braid_html_tasks_free(&t);
}

int main(void)
{
	RUN(as_an_array);
	RUN(many);
	return VERDICT();
}
