// SPDX-License-Identifier: GPL-2.0-or-later
/* An array without holes: the last entry takes the place of one that is removed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/export/html/tasks.h"

#define FIRST_ENTRIES	256u

static struct braid_html_task_key *at(const struct braid_html_tasks *t, u32 number)
{
	return (struct braid_html_task_key *)(t->entries + number * t->bytes);
}

static bool html_tasks_same(const void *in, u32 number, const void *of)
{
	const struct braid_html_task_key *entry = at(in, number), *key = of;

	return entry->group == key->group && entry->pid == key->pid;
}

static u32 html_tasks_hash_of(const struct braid_html_task_key *key)
{
	return braid_hash_of_number((u64)key->group << 32 | (u32)key->pid);
}

static u32 html_tasks_number_of(const struct braid_html_tasks *t,
				const struct braid_html_task_key *key)
{
	return braid_hash_find(&t->by_pid, html_tasks_hash_of(key), html_tasks_same, t, key);
}

void braid_html_tasks_begin(struct braid_html_tasks *t, size_t bytes)
{
	*t = (struct braid_html_tasks){ .bytes = bytes };
}

void braid_html_tasks_free(struct braid_html_tasks *t)
{
	free(t->entries);
	braid_hash_free(&t->by_pid);
}

void *braid_html_tasks_find(const struct braid_html_tasks *t, u32 group, s32 pid)
{
	const struct braid_html_task_key key = { group, pid };
	u32 number = html_tasks_number_of(t, &key);

	return number == BRAID_HASH_NONE ? NULL : at(t, number);
}

static int html_tasks_grow(struct braid_html_tasks *t)
{
	u32 more = t->capacity ? 2 * t->capacity : FIRST_ENTRIES;
	u8 *entries = reallocarray(t->entries, more, t->bytes);

	if (!entries)
		return -ENOMEM;
	t->entries = entries;
	t->capacity = more;
	return 0;
}

int braid_html_tasks_add(struct braid_html_tasks *t, u32 group, s32 pid, void **out)
{
	const struct braid_html_task_key key = { group, pid };
	u32 number = t->by_pid.nr;
	int err;

	*out = braid_html_tasks_find(t, group, pid);
	if (*out)
		return 0;
	err = braid_hash_reserve(&t->by_pid, BRAID_HTML_TASKS_MAX);
	if (err)
		return err == -ENOSPC ? 0 : err;
	if (number == t->capacity && html_tasks_grow(t))
		return -ENOMEM;
	memset(at(t, number), 0, t->bytes);
	*at(t, number) = key;
	braid_hash_put(&t->by_pid, html_tasks_hash_of(&key), number);
	*out = at(t, number);
	return 0;
}

void braid_html_tasks_drop(struct braid_html_tasks *t, u32 group, s32 pid)
{
	const struct braid_html_task_key key = { group, pid };
	u32 number = html_tasks_number_of(t, &key), last = t->by_pid.nr - 1;

	if (number == BRAID_HASH_NONE)
		return;
	braid_hash_remove(&t->by_pid, html_tasks_hash_of(&key), number);
	if (number == last)
		return;
	memcpy(at(t, number), at(t, last), t->bytes);
	braid_hash_remove(&t->by_pid, html_tasks_hash_of(at(t, last)), last);
	braid_hash_put(&t->by_pid, html_tasks_hash_of(at(t, last)), number);
}
