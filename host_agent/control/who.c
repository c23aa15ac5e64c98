// SPDX-License-Identifier: GPL-2.0-or-later
/* Makes expressions of tasks and CPUs. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/control/compile.h"
#include "host_agent/util/error.h"
#include "host_agent/util/text.h"

#define MAX_PIDS	8u	/* each is two comparisons of a switch */
#define MAX_CPU		65535ul

bool braid_who_any(const struct braid_who *who)
{
	return !who->nr_pids && !who->comm && !who->cpus;
}

/* "3" or "0-3", and a comma. Return: what follows, or NULL. */
static const char *take_range(const char *at, unsigned long *first, unsigned long *last)
{
	char *end;

	if (!isdigit((unsigned char)*at))
		return NULL;
	*first = *last = strtoul(at, &end, 10);
	if (*end == '-' && isdigit((unsigned char)end[1]))
		*last = strtoul(end + 1, &end, 10);
	if (*first > *last || *last > MAX_CPU || (*end && (*end != ',' || !end[1])))
		return NULL;
	return end + (*end == ',');
}

static void put_cpus(struct braid_text *t, const char *cpus)
{
	unsigned long first = 0, last = 0;
	const char *at = cpus;

	while (at && *at) {
		braid_text_printf(t, at == cpus ? "(" : " || ");
		at = take_range(at, &first, &last);
		if (first == last)
			braid_text_printf(t, "CPU == %lu", first);
		else
			braid_text_printf(t, "CPU >= %lu && CPU <= %lu", first, last);
	}
	braid_text_printf(t, ")");
}

static void put_comm(struct braid_text *t, const char *field, const char *glob)
{
	braid_text_printf(t, "%s ~ \"", field);
	for (; *glob; glob++)
		braid_text_printf(t, *glob == '"' ? "\\\"" : "%c", *glob);
	braid_text_printf(t, "\"");
}

/* Fields of the other task that an event is about; NULL: it is about the current one alone. */
static const char *other_pid(const char *system, const char *event)
{
	if (strcmp(system, "sched"))
		return NULL;
	return !strcmp(event, "sched_switch") ? "next_pid" :
	       !strncmp(event, "sched_wak", 9) ? "pid" : NULL;
}

static void put_tasks(struct braid_text *t, const struct braid_who *who, const char *other)
{
	const char *comm = other && !strcmp(other, "next_pid") ? "next_comm" : "comm";
	size_t k;

	for (k = 0; k < who->nr_pids; k++) {
		braid_text_printf(t, "%scommon_pid == %d", k ? " || " : "(", who->pids[k]);
		if (other)
			braid_text_printf(t, " || %s == %d", other, who->pids[k]);
	}
	braid_text_printf(t, who->nr_pids && who->comm ? ") && (" : who->nr_pids ? ")" :
			  who->comm ? "(" : "");
	if (!who->comm)
		return;
	put_comm(t, "COMM", who->comm);
	if (other) {
		braid_text_printf(t, " || ");
		put_comm(t, comm, who->comm);
	}
	braid_text_printf(t, ")");
}

int braid_who_expression(char **out, const struct braid_who *who, const char *system,
			 const char *event, const char *filter)
{
	struct braid_text t = { 0 };

	if (who->cpus)
		put_cpus(&t, who->cpus);
	if (who->cpus && (who->nr_pids || who->comm))
		braid_text_printf(&t, " && ");
	put_tasks(&t, who, other_pid(system, event));
	if (filter)
		braid_text_printf(&t, braid_who_any(who) ? "%s" : " && (%s)", filter);
	braid_text_putc(&t, 0);
	if (t.failed) {
		free(t.data);
		return braid_out_of_memory();
	}
	*out = t.data;
	return 0;
}

int braid_who_check(const struct braid_who *who)
{
	const char *at = who->cpus;
	unsigned long first, last;
	char *text;
	int err;

	if (who->nr_pids > MAX_PIDS)
		return braid_fail(-EINVAL, "--pid: more than %u tasks", MAX_PIDS);
	if (at && !*at)
		return braid_fail(-EINVAL, "expected CPUs, as in 0-3,5");
	while (at && *at) {
		at = take_range(at, &first, &last);
		if (!at)
			return braid_fail(-EINVAL, "expected CPUs, as in 0-3,5");
	}
	if (braid_who_any(who))
		return 0;
	err = braid_who_expression(&text, who, "sched", "sched_switch", NULL);
	if (err)
		return err;
	err = braid_filter_syntax(text);
	free(text);
	return err;
}
