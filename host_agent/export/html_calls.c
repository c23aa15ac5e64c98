// SPDX-License-Identifier: GPL-2.0-or-later
/* A hash table of the tasks that are in system calls. */
#include <errno.h>
#include <stdlib.h>

#include "host_agent/export/html_calls.h"

#define FIRST_SLOTS	1024u

struct call {
	u32 group;
	s32 pid;
	u32 name;		/* 0: the slot is free */
};

struct braid_html_calls {
	struct call *slots;
	u32 nr_slots;		/* a power of two, at least twice nr */
	u32 nr;
};

struct braid_html_calls *braid_html_calls_new(void)
{
	struct braid_html_calls *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->nr_slots = FIRST_SLOTS;
	c->slots = calloc(c->nr_slots, sizeof(*c->slots));
	if (!c->slots) {
		free(c);
		return NULL;
	}
	return c;
}

void braid_html_calls_free(struct braid_html_calls *c)
{
	if (!c)
		return;
	free(c->slots);
	free(c);
}

static u32 home_of(const struct braid_html_calls *c, u32 group, s32 pid)
{
	u64 key = (u64)group << 32 | (u32)pid;

	return (key * 0x9e3779b97f4a7c15ULL) >> 32 & (c->nr_slots - 1);
}

/* The slot of a task, or the free one where it would be. */
static u32 find(const struct braid_html_calls *c, u32 group, s32 pid)
{
	u32 k = home_of(c, group, pid);

	while (c->slots[k].name && (c->slots[k].group != group || c->slots[k].pid != pid))
		k = (k + 1) & (c->nr_slots - 1);
	return k;
}

u32 braid_html_calls_of(const struct braid_html_calls *c, u32 group, s32 pid)
{
	return c->slots[find(c, group, pid)].name;
}

static int grow(struct braid_html_calls *c)
{
	struct braid_html_calls more = { .nr_slots = 2 * c->nr_slots };
	u32 k;

	more.slots = calloc(more.nr_slots, sizeof(*more.slots));
	if (!more.slots)
		return -ENOMEM;
	for (k = 0; k < c->nr_slots; k++)
		if (c->slots[k].name)
			more.slots[find(&more, c->slots[k].group, c->slots[k].pid)] = c->slots[k];
	free(c->slots);
	c->slots = more.slots;
	c->nr_slots = more.nr_slots;
	return 0;
}

/* Frees a slot; those after it that a search would miss now move up. */
static void drop(struct braid_html_calls *c, u32 hole)
{
	u32 mask = c->nr_slots - 1, k, home;

	for (k = (hole + 1) & mask; c->slots[k].name; k = (k + 1) & mask) {
		home = home_of(c, c->slots[k].group, c->slots[k].pid);
		if (((k - home) & mask) < ((k - hole) & mask))
			continue;
		c->slots[hole] = c->slots[k];
		hole = k;
	}
	c->slots[hole].name = 0;
	c->nr--;
}

int braid_html_calls_set(struct braid_html_calls *c, u32 group, s32 pid, u32 name)
{
	u32 k = find(c, group, pid);

	if (!name) {
		if (c->slots[k].name)
			drop(c, k);
		return 0;
	}
	if (!c->slots[k].name) {
		if (c->nr == BRAID_HTML_CALLS_MAX)
			return 0;
		if (2 * (c->nr + 1) > c->nr_slots) {
			if (grow(c))
				return -ENOMEM;
			k = find(c, group, pid);
		}
		c->nr++;
	}
	c->slots[k] = (struct call){ .group = group, .pid = pid, .name = name };
	return 0;
}
