/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What tasks did before they ran, as a page has it. */
#ifndef BRAID_EXPORT_HTML_WAITS_H
#define BRAID_EXPORT_HTML_WAITS_H

#include "host_agent/analyze/states.h"
#include "host_agent/export/html/out.h"

enum { BRAID_HTML_WAITS_COLUMNS = 7 };

struct braid_html_waits {
	struct braid_html_out *out;
	struct braid_text columns[BRAID_HTML_WAITS_COLUMNS];
	u64 rows;
	s64 last_ns;		/* of the last row; at first, what times are relative to */
};

/* A start of a task, its times by the clock that is shown. */
struct braid_html_start {
	struct braid_task_start of;
	u32 group, lane;
	u32 waker_lane;		/* 0: the page has none */
	const char *call;	/* its name, if it is not a number */
	const char *waker;	/* likewise */
	const char *machine;	/* that the call is of */
};

/**
 * braid_html_waits_put - write a task's start in a lane
 * @w: zeroed but for ->out and ->last_ns
 * @start: the start
 * @call: name of the system call that the task was in meanwhile, or 0
 * @waker: name of the waker
 *
 * A row of the page has: lane, time, what it waited (0: not known; else its ns + 1, times two, plus
 * 1 if it was preempted), the system call it was in or 0, the ns + 1 since it was woken or 0, and
 * then the waker's lane and name.
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_html_waits_put(struct braid_html_waits *w, const struct braid_html_start *start,
			 u32 call, u32 waker);

/** braid_html_waits_flush - write the rows, if there are @at_least so many; returns likewise */
int braid_html_waits_flush(struct braid_html_waits *w, u64 at_least);

/** braid_html_waits_free - free what it holds */
void braid_html_waits_free(struct braid_html_waits *w);

#endif /* BRAID_EXPORT_HTML_WAITS_H */
