/* SPDX-License-Identifier: GPL-2.0-or-later */
/* An event's effect on spans, and their names. */
#ifndef BRAID_EXPORT_HTML_SEEN_H
#define BRAID_EXPORT_HTML_SEEN_H

#include "host_agent/export/html/names.h"
#include "host_agent/walk/walk.h"

/* An event, as spans are made of it. */
struct braid_html_seen {
	const struct braid_item *item;
	const struct braid_event_type_info *info;
	const struct braid_layout *layout;	/* NULL: its fields are unknown */
	const struct braid_html_meaning *meaning;
	const char *text;		/* as it is printed; ends with NUL */
	s64 ns;
	u32 group, lane;
	s32 pid;
	u32 task;			/* its name ... */
	bool comm_known;		/* ... which is more than a number */
};

enum braid_html_action {
	BRAID_HTML_NOTHING = 0,
	BRAID_HTML_SWITCH,		/* next_pid runs */
	BRAID_HTML_WAKE,		/* pid may run */
	BRAID_HTML_TASK_EXIT,
	BRAID_HTML_CALL_ENTER,
	BRAID_HTML_CALL_EXIT,
	BRAID_HTML_IRQ_BEGIN,		/* of interrupts and similar: nested */
	BRAID_HTML_IRQ_END,
	BRAID_HTML_KVM_ENTRY,
	BRAID_HTML_KVM_EXIT,
};

/* Fields that are examined at; the numbers of an event. */
enum braid_html_field {
	BRAID_HTML_FIELD_PID = 0,
	BRAID_HTML_FIELD_NEXT_PID,
	BRAID_HTML_FIELD_PREV_STATE,
	BRAID_HTML_FIELD_VCPU,
	BRAID_HTML_FIELD_CALL,		/* the system call's number */
	BRAID_HTML_FIELD_EXIT_REASON,
	BRAID_HTML_FIELDS
};

/* What events of one kind mean. */
struct braid_html_meaning {
	bool examined;
	enum braid_html_action action;
	u64 stem;			/* the same of IRQ_BEGIN and its IRQ_END */
	const struct braid_field *fields[BRAID_HTML_FIELDS];	/* NULL: it has none */
};

/* Names of system calls that were found: + 1, by machine and number. 0: not yet. */
#define BRAID_HTML_MACHINES	8u
#define BRAID_HTML_CALLS	512u
struct braid_html_calls {
	u32 names[BRAID_HTML_MACHINES][BRAID_HTML_CALLS];
};

/** braid_html_meaning_of - what events of a kind mean, by their names */
struct braid_html_meaning braid_html_meaning_of(const struct braid_event_type_info *info);

/**
 * braid_html_field - a number of an event
 * @seen: the event; its meaning is set
 * @field: which
 * @value: set on success
 *
 * Return: whether it has one.
 */
bool braid_html_field(const struct braid_html_seen *seen, enum braid_html_field field, u64 *value);

/** braid_html_irq_name - what to call the interrupt, softirq or timer that begins */
u32 braid_html_irq_name(struct braid_html_names *n, const struct braid_html_seen *seen);

/** braid_html_call_name - what to call the system call that begins */
u32 braid_html_call_name(struct braid_html_names *n, struct braid_html_calls *calls,
			 const struct braid_html_seen *seen);

/** braid_html_exit_name - why a vCPU left guest mode */
u32 braid_html_exit_name(struct braid_html_names *n, const struct braid_html_seen *seen);

/** braid_html_next_name - the task that a switch is to; @pid: its */
u32 braid_html_next_name(struct braid_html_names *n, const struct braid_html_seen *seen, s32 pid);

#endif /* BRAID_EXPORT_HTML_SEEN_H */
