/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a task did before it ran: preempted or blocked, and who woke it. */
#ifndef BRAID_EXPORT_HTML_WAITS_H
#define BRAID_EXPORT_HTML_WAITS_H

#include "host_agent/export/html/out.h"

struct braid_html_waits;

/* A task, in its group of streams, at a time by the clock that is shown. */
struct braid_html_task {
	u32 group;
	s32 pid;
	s64 ns;
};

/** braid_html_waits_new - no task is known; NULL: out of memory */
struct braid_html_waits *braid_html_waits_new(struct braid_html_out *out, size_t nr_groups);

/** braid_html_waits_free - free it; NULL is fine */
void braid_html_waits_free(struct braid_html_waits *w);

/** braid_html_waits_base - set the origin of all times; before the first event */
void braid_html_waits_base(struct braid_html_waits *w, s64 ns);

/** braid_html_waits_off - the task leaves its CPU; @call: name of the system call it is in, or 0 */
int braid_html_waits_off(struct braid_html_waits *w, const struct braid_html_task *task,
			 bool preempted, u32 call);

/** braid_html_waits_wake - the task is woken by @waker (a name), which runs in @lane */
int braid_html_waits_wake(struct braid_html_waits *w, const struct braid_html_task *task,
			  u32 lane, u32 waker);

/**
 * braid_html_waits_on - the task runs in @lane
 *
 * A row of the page has: lane, time, what it waited (0: not known; else its ns + 1, times two, plus
 * 1 if it was preempted), the system call it was in or 0, the ns + 1 since it was woken or 0, and
 * then the waker's lane and name.
 */
int braid_html_waits_on(struct braid_html_waits *w, const struct braid_html_task *task, u32 lane);

/** braid_html_waits_gone - the task has ended */
void braid_html_waits_gone(struct braid_html_waits *w, const struct braid_html_task *task);

/** braid_html_waits_lost - events of a group were lost: what its tasks did is unknown */
void braid_html_waits_lost(struct braid_html_waits *w, u32 group);

/** braid_html_waits_end - write the rest */
int braid_html_waits_end(struct braid_html_waits *w);

#endif /* BRAID_EXPORT_HTML_WAITS_H */
