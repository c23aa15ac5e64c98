/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Every name in a page is stored once and referenced by number. */
#ifndef BRAID_EXPORT_HTML_NAMES_H
#define BRAID_EXPORT_HTML_NAMES_H

#include "host_agent/analyze/roles.h"
#include "host_agent/export/html/out.h"

/* What a name is of; html/model.js has the same numbers. */
enum braid_html_name_type {
	BRAID_HTML_OTHER = 0,	/* the lines of no event: LOST, NOTE */
	BRAID_HTML_SYSTEM = 1,	/* of events */
	BRAID_HTML_EVENT = 2,	/* number: its system's name */
	BRAID_HTML_TASK = 3,	/* number: its pid */
	BRAID_HTML_IRQ = 4,
	BRAID_HTML_SYSCALL = 5,
	BRAID_HTML_GUEST = 6,	/* a vCPU in guest mode */
	BRAID_HTML_EXIT = 7,	/* likewise not: the reason */
	BRAID_HTML_ON_CPU = 8,	/* number: of the host */
	BRAID_HTML_WAITING = 9,	/* for a CPU */
	BRAID_HTML_LOSS = 10,
	BRAID_HTML_CULPRIT = 11, /* number: its lane, group: the host's CPU; each + 1, 0: none */
};

/* The first names, which are always there. */
#define BRAID_HTML_NAME_LOST	0u
#define BRAID_HTML_NAME_NOTE	1u
#define BRAID_HTML_NAME_MANY	2u	/* for all beyond the limit */

struct braid_html_names;

/** braid_html_names_new - names with the first ones in them; NULL: out of memory */
struct braid_html_names *braid_html_names_new(void);

/** braid_html_names_free - free them; NULL is fine */
void braid_html_names_free(struct braid_html_names *n);

/**
 * braid_html_name - the number of a name
 * @n: the names
 * @type: its type
 * @group: its group of streams in the page; 0 if irrelevant
 * @number: see enum braid_html_name_type; else 0
 * @text: untrusted; unsafe characters become '?'
 * @bytes: of it; at most some hundred are used
 *
 * Return: its number; BRAID_HTML_NAME_MANY when there are too many, or out of memory.
 */
u32 braid_html_name(struct braid_html_names *n, enum braid_html_name_type type, u32 group,
		    s64 number, const char *text, size_t bytes);

/** braid_html_names_flush - write the new names; returns as a chunk */
int braid_html_names_flush(struct braid_html_names *n, struct braid_html_out *o);

/* What spans are called, by the events that begin them -------------------------------------------- */

/* An event as spans are made of it. */
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

#endif /* BRAID_EXPORT_HTML_NAMES_H */
