/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which tasks are in a system call, also while they do not run. */
#ifndef BRAID_EXPORT_HTML_CALLS_H
#define BRAID_EXPORT_HTML_CALLS_H

#include "tracebraid/types.h"

#define BRAID_HTML_CALLS_MAX	(1u << 20)	/* tasks in a call at a time */

struct braid_html_calls;

/** braid_html_calls_new - no task is in a call; NULL: out of memory */
struct braid_html_calls *braid_html_calls_new(void);

/** braid_html_calls_free - free it; NULL is fine */
void braid_html_calls_free(struct braid_html_calls *c);

/** braid_html_calls_of - the name of the call that a task is in, or 0 */
u32 braid_html_calls_of(const struct braid_html_calls *c, u32 group, s32 pid);

/**
 * braid_html_calls_set - a task enters a call, or leaves it
 * @c: the calls
 * @group: of the task
 * @pid: the task
 * @name: of the call; 0: it is in none
 *
 * Calls of more than BRAID_HTML_CALLS_MAX tasks at a time are not remembered.
 *
 * Return: 0, or -ENOMEM.
 */
int braid_html_calls_set(struct braid_html_calls *c, u32 group, s32 pid, u32 name);

#endif /* BRAID_EXPORT_HTML_CALLS_H */
