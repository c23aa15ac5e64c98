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
#define MAX_PATH	200u	/* twice in a switch's texts */

bool braid_who_any(const struct braid_who *who)
{
	return !who->nr_pids && !who->comm && !who->cpus && !who->cgroup;
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
	       !strcmp(event, "sched_waking") || !strncmp(event, "sched_wakeup", 12) ? "pid" : NULL;
}

/* All digits: an id. */
static bool is_id(const char *cgroup)
{
	return *cgroup && cgroup[strspn(cgroup, "0123456789")] == 0;
}

static void put_cgroup(struct braid_text *t, const char *cgroup, const char *other)
{
	const char *quote = is_id(cgroup) ? "" : "\"";

	braid_text_printf(t, "(CGROUP == %s%s%s", quote, cgroup, quote);
	if (other)
		braid_text_printf(t, " || CGROUP_OF_%s == %s%s%s", other, quote, cgroup, quote);
	braid_text_printf(t, ")");
}

static void put_chosen(struct braid_text *t, const char *other)
{
	braid_text_printf(t, "(CHOSEN_OF_common_pid == 1");
	if (other)
		braid_text_printf(t, " || CHOSEN_OF_%s == 1", other);
}

static void put_tasks(struct braid_text *t, const struct braid_who *who, const char *other)
{
	const char *comm = other && !strcmp(other, "next_pid") ? "next_comm" : "comm";
	size_t k;

	if (who->children)
		put_chosen(t, other);
	for (k = 0; k < who->nr_pids && !who->children; k++) {
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
	if (who->cpus && (who->nr_pids || who->comm || who->cgroup))
		braid_text_printf(&t, " && ");
	if (who->cgroup)
		put_cgroup(&t, who->cgroup, other_pid(system, event));
	if (who->cgroup && (who->nr_pids || who->comm))
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

int braid_who_check_cpus(const struct braid_who *who, u32 nr_cpus)
{
	unsigned long first = 0, last = 0;
	const char *at = who->cpus;

	while (at && *at) {
		at = take_range(at, &first, &last);
		if (first < nr_cpus)
			return 0;
	}
	return !who->cpus ? 0 : braid_fail(-ENOENT, "--cpus: the guest has no CPU of %s: it has CPUs 0 to %u",
					   who->cpus, nr_cpus - 1);
}

int braid_who_check(const struct braid_who *who)
{
	const char *at = who->cpus;
	unsigned long first, last;
	char *text;
	int err;

	if (who->nr_pids > MAX_PIDS)
		return braid_fail(-EINVAL, "--pid: more than %u tasks", MAX_PIDS);
	if (who->children && !who->nr_pids)
		return braid_fail(-EINVAL, "--children needs --pid: the tasks whose children are wanted");
	if (who->cgroup && !is_id(who->cgroup) &&
	    (*who->cgroup != '/' || strlen(who->cgroup) > MAX_PATH || strpbrk(who->cgroup, "\"\\")))
		return braid_fail(-EINVAL, "--cgroup: expected a path below the guest's cgroup2 file system, as /system.slice/nginx.service, or an id");
	if (who->comm && !*who->comm)
		return braid_fail(-EINVAL, "--comm: expected a task's name or a glob, as in 'nginx*'");
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
