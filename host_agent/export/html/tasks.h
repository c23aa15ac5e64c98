/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is known of each task, by its group of streams and its pid. */
#ifndef BRAID_EXPORT_HTML_TASKS_H
#define BRAID_EXPORT_HTML_TASKS_H

#include "host_agent/util/hash.h"

#define BRAID_HTML_TASKS_MAX	(1u << 20)	/* tasks at a time */

/* An entry begins with this. */
struct braid_html_task_key {
	u32 group;
	s32 pid;
};

struct braid_html_tasks {
	u8 *entries;
	size_t bytes;		/* of an entry */
	u32 capacity;
	struct braid_hash by_pid;	/* numbers of entries */
};

/** braid_html_tasks_begin - an empty table of entries of @bytes each */
void braid_html_tasks_begin(struct braid_html_tasks *t, size_t bytes);

/** braid_html_tasks_find - the entry of a task, valid until one is added or dropped; or NULL */
void *braid_html_tasks_find(const struct braid_html_tasks *t, u32 group, s32 pid);

/**
 * braid_html_tasks_add - the entry of a task, zeroed if it is new
 * @out: valid until the next one is added or dropped; NULL: too many
 *
 * Return: 0, or -ENOMEM.
 */
int braid_html_tasks_add(struct braid_html_tasks *t, u32 group, s32 pid, void **out);

/** braid_html_tasks_drop - remove a task, if it is there */
void braid_html_tasks_drop(struct braid_html_tasks *t, u32 group, s32 pid);

/** braid_html_tasks_free - free all; of a zeroed table too */
void braid_html_tasks_free(struct braid_html_tasks *t);

#endif /* BRAID_EXPORT_HTML_TASKS_H */
