/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Compiles a filter's expression to the program that a guest runs over the records of one event. */
#ifndef BRAID_CONTROL_COMPILE_H
#define BRAID_CONTROL_COMPILE_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/schema.h"

/**
 * braid_filter_compile - compile an expression for an event
 * @out: filled on success; braid_filter_check() accepts it
 * @text: the expression
 * @event: its format has the fields; strings of the guest, which may be anything
 *
 * As in the kernel's filters, CPU and COMM are the number of the CPU and the name of the current
 * task, where the event has no such field. CGROUP is the path or the id of a cgroup that it is in;
 * CGROUP_OF_x and CHOSEN_OF_x ask that of the task whose number is in the field x.
 *
 * Return: 0, -EINVAL, -ENOENT or -ENOMEM with braid_fail().
 */
int braid_filter_compile(struct braid_filter_program *out, const char *text,
			 const struct braid_schema_event *event);

/* Whose records are wanted, of any event: all that is set must hold. */
struct braid_who {
	const s32 *pids;	/* of the guest's initial namespace; none: any */
	size_t nr_pids;
	bool children;		/* and what they fork from then on: they are chosen in the guest */
	const char *cgroup;	/* path or id, of v2: tasks in it or below; NULL: any */
	const char *comm;	/* a glob of the task's name; NULL: any */
	const char *cpus;	/* "0-3,5"; NULL: any */
};

/** braid_who_any - whether nothing is set */
bool braid_who_any(const struct braid_who *who);

/**
 * braid_who_check - whether an expression can be made of it
 * @who: as given by the user
 *
 * Return: 0, -EINVAL or -ENOMEM with braid_fail().
 */
int braid_who_check(const struct braid_who *who);

/**
 * braid_who_check_cpus - whether a guest has one of the CPUs
 * @who: checked; without CPUs it is 0
 * @nr_cpus: of the guest, at least 1
 *
 * Return: 0, or -ENOENT with braid_fail().
 */
int braid_who_check_cpus(const struct braid_who *who, u32 nr_cpus);

/**
 * braid_who_expression - the expression for an event
 * @out: set on success; to be freed
 * @who: checked
 * @system: of the event, by which other tasks than the current one concern it: a switch concerns
 *	both tasks, a wake-up the one that is woken, too
 * @event: its name
 * @filter: an expression that must be true too, or NULL
 *
 * Return: 0 or -ENOMEM with braid_fail().
 */
int braid_who_expression(char **out, const struct braid_who *who, const char *system,
			 const char *event, const char *filter);

/**
 * braid_filter_syntax - whether an expression is one, for whatever event
 * @text: the expression
 *
 * Return: 0, -EINVAL or -ENOMEM with braid_fail().
 */
int braid_filter_syntax(const char *text);

#endif /* BRAID_CONTROL_COMPILE_H */
