/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What lasts: running tasks, system calls, interrupts, guest mode, losses; made of events. */
#ifndef BRAID_EXPORT_HTML_SPANS_H
#define BRAID_EXPORT_HTML_SPANS_H

#include "host_agent/analyze/states.h"
#include "host_agent/export/html/lanes.h"
#include "host_agent/export/html/names.h"

/* The rows of a lane. html/model.js has the same numbers. */
enum braid_html_row {
	BRAID_HTML_ROW_RUN = 0,		/* tasks on a CPU; of a thread: on which CPU it is */
	BRAID_HTML_ROW_SYSCALL = 1,
	BRAID_HTML_ROW_IRQ = 2,		/* and the following ones: nested */
	BRAID_HTML_ROW_KVM = 6,		/* guest mode, and why it ended */
	BRAID_HTML_ROW_LOST = 7,
	BRAID_HTML_ROWS = 8,
};

#define BRAID_HTML_IRQ_DEPTH	(BRAID_HTML_ROW_KVM - BRAID_HTML_ROW_IRQ)

struct braid_html_spans;

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
 * braid_html_spans_new - start without open spans
 * @lanes: stays; threads may be added
 * @names: stays
 * @out: stays
 *
 * Return: NULL: out of memory.
 */
struct braid_html_spans *braid_html_spans_new(struct braid_html_lanes *lanes,
					      struct braid_html_names *names,
					      struct braid_html_out *out);

/** braid_html_spans_free - free them; NULL is fine */
void braid_html_spans_free(struct braid_html_spans *s);

/** braid_html_spans_base - set the origin of spans' times; before the first item */
void braid_html_spans_base(struct braid_html_spans *s, s64 ns);

/** braid_html_spans_waits_base - set the origin of starts' times; before the first start */
void braid_html_spans_waits_base(struct braid_html_spans *s, s64 ns);

/**
 * braid_html_spans_started - process a task's start, before its event
 * @s: the spans
 * @start: the start
 *
 * A row of the page has: lane, time, what it waited (0: not known; else its ns + 1, times two, plus
 * 1 if it was preempted), the system call it was in or 0, the ns + 1 since it was woken or 0, and
 * then the waker's lane and name.
 *
 * Return: as braid_html_spans_event().
 */
int braid_html_spans_started(struct braid_html_spans *s, const struct braid_html_start *start);

/**
 * braid_html_spans_windows - set the recorded times: no span lasts beyond the stop of one
 * @s: the spans, without an item
 * @windows: by the clock that is shown, sorted, apart from each other; INT64_MAX: no stop. They stay
 * @nr: how many; 0: nothing is known
 */
void braid_html_spans_windows(struct braid_html_spans *s, const struct braid_window *windows,
			      size_t nr);

/**
 * braid_html_spans_event - process an event
 * @s: the spans
 * @seen: the event; events are in order. Its role is set
 *
 * Return: 0, -EPIPE, or -errno with braid_fail().
 */
int braid_html_spans_event(struct braid_html_spans *s, struct braid_html_seen *seen);

/**
 * braid_html_spans_lost - process a loss: open spans of that CPU become unknown
 * @s: the spans
 * @lane: its lane
 * @from_ns: of it ...
 * @to_ns: ... to here
 *
 * Return: as braid_html_spans_event().
 */
int braid_html_spans_lost(struct braid_html_spans *s, u32 lane, s64 from_ns, s64 to_ns);

/** braid_html_spans_end - end open spans, and write the rest; returns likewise */
int braid_html_spans_end(struct braid_html_spans *s, s64 ns);

#endif /* BRAID_EXPORT_HTML_SPANS_H */
