/* SPDX-License-Identifier: GPL-2.0-or-later */
/* An event as spans are made of it, and the names that it has for them. */
#ifndef BRAID_EXPORT_HTML_SEEN_H
#define BRAID_EXPORT_HTML_SEEN_H

#include "host_agent/analyze/roles.h"
#include "host_agent/export/html/names.h"
#include "host_agent/walk/walk.h"

struct braid_html_seen {
	const struct braid_item *item;
	const struct braid_event_type_info *info;
	const struct braid_role_info *role;
	const char *text;		/* as it is printed; ends with NUL */
	s64 ns;
	u32 group, lane;
	s32 pid;
	u32 task;			/* its name ... */
	bool comm_known;		/* ... which is more than a number */
};

/* Names of system calls that were found: + 1, by machine and number. 0: not yet. */
#define BRAID_HTML_MACHINES	8u
#define BRAID_HTML_CALLS	512u
struct braid_html_calls {
	u32 names[BRAID_HTML_MACHINES][BRAID_HTML_CALLS];
};

/** braid_html_irq_name - what to call the interrupt, softirq or timer that begins */
u32 braid_html_irq_name(struct braid_html_names *n, const struct braid_html_seen *seen);

/**
 * braid_html_call_name - what to call a system call
 * @n: the names
 * @calls: those found earlier
 * @call: BRAID_CALL_* or a system call
 * @name: of it, if it is not a number
 * @machine: of its kernel, as uname(1) names it
 */
u32 braid_html_call_name(struct braid_html_names *n, struct braid_html_calls *calls,
			 u32 call, const char *name, const char *machine);

/** braid_html_exit_name - why a vCPU left guest mode */
u32 braid_html_exit_name(struct braid_html_names *n, const struct braid_html_seen *seen);

/** braid_html_next_name - the task that a switch is to; @pid: its */
u32 braid_html_next_name(struct braid_html_names *n, const struct braid_html_seen *seen, s32 pid);

#endif /* BRAID_EXPORT_HTML_SEEN_H */
