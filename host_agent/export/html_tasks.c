// SPDX-License-Identifier: GPL-2.0-or-later
/* A hash table with open addressing, from which entries can be removed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/export/html_tasks.h"

#define FIRST_SLOTS	1024u

static struct braid_html_task_key *at(const struct braid_html_tasks *t, u32 slot)
{
	return (struct braid_html_task_key *)(t->slots + slot * t->bytes);
}

int braid_html_tasks_begin(struct braid_html_tasks *t, size_t bytes)
{
	*t = (struct braid_html_tasks){ .bytes = bytes, .nr_slots = FIRST_SLOTS };
	t->slots = calloc(t->nr_slots, bytes);
	return t->slots ? 0 : -ENOMEM;
}

void braid_html_tasks_free(struct braid_html_tasks *t)
{
	free(t->slots);
}

static u32 home_of(const struct braid_html_tasks *t, u32 group, s32 pid)
{
	u64 key = (u64)group << 32 | (u32)pid;

	return (key * 0x9e3779b97f4a7c15ULL) >> 32 & (t->nr_slots - 1);
}

/* The slot of a task, or the free one where it would be. */
static u32 slot_of(const struct braid_html_tasks *t, u32 group, s32 pid)
{
	u32 k = home_of(t, group, pid);

	while (at(t, k)->used && (at(t, k)->group != group || at(t, k)->pid != pid))
		k = (k + 1) & (t->nr_slots - 1);
	return k;
}

void *braid_html_tasks_find(const struct braid_html_tasks *t, u32 group, s32 pid)
{
	struct braid_html_task_key *entry = at(t, slot_of(t, group, pid));

	return entry->used ? entry : NULL;
}

static int grow(struct braid_html_tasks *t)
{
	struct braid_html_tasks more = { .bytes = t->bytes, .nr_slots = 2 * t->nr_slots };
	u32 k;

	more.slots = calloc(more.nr_slots, more.bytes);
	if (!more.slots)
		return -ENOMEM;
	for (k = 0; k < t->nr_slots; k++)
		if (at(t, k)->used)
			memcpy(at(&more, slot_of(&more, at(t, k)->group, at(t, k)->pid)), at(t, k),
			       t->bytes);
	free(t->slots);
	t->slots = more.slots;
	t->nr_slots = more.nr_slots;
	return 0;
}

int braid_html_tasks_add(struct braid_html_tasks *t, u32 group, s32 pid, void **out)
{
	struct braid_html_task_key *entry = braid_html_tasks_find(t, group, pid);

	*out = entry;
	if (entry || t->nr == BRAID_HTML_TASKS_MAX)
		return 0;
	if (2 * (t->nr + 1) > t->nr_slots && grow(t))
		return -ENOMEM;
	entry = at(t, slot_of(t, group, pid));
	memset(entry, 0, t->bytes);
	*entry = (struct braid_html_task_key){ .group = group, .pid = pid, .used = true };
	t->nr++;
	*out = entry;
	return 0;
}

void braid_html_tasks_drop(struct braid_html_tasks *t, u32 group, s32 pid)
{
	u32 hole = slot_of(t, group, pid), mask = t->nr_slots - 1, k, home;

	if (!at(t, hole)->used)
		return;
	/* Those after it that a search would miss now move up. */
	for (k = (hole + 1) & mask; at(t, k)->used; k = (k + 1) & mask) {
		home = home_of(t, at(t, k)->group, at(t, k)->pid);
		if (((k - home) & mask) < ((k - hole) & mask))
			continue;
		memcpy(at(t, hole), at(t, k), t->bytes);
		hole = k;
	}
	at(t, hole)->used = false;
	t->nr--;
}
