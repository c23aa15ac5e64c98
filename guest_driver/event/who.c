// SPDX-License-Identifier: GPL-2.0
/*
 * Answers filters' questions about tasks. They come from any context, with preemption off, which is
 * a read side of RCU. No lockdep check is made of that, because it knows rcu_read_lock() alone.
 */
#include <linux/cgroup.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/sched.h>
#include <linux/threads.h>
#include <linux/tracepoint.h>
#include <linux/vmalloc.h>

#include "guest_driver/core/buffer.h"
#include "guest_driver/event/who.h"

#define MOST_LEVELS	64	/* of cgroups; what is deeper is not found */

/* A bit for each number; NULL: no task is chosen. Changed by the poll thread alone. */
static unsigned long *chosen;
static struct tracepoint *forked, *freed;

/* Cgroups ----------------------------------------------------------------------------------- */

#ifdef CONFIG_CGROUPS
static struct task_struct *braid_who_task(s32 number)
{
	struct hlist_node *first;
	struct pid *pid;

	if (number == current->pid)
		return current;
	pid = number > 0 ? find_pid_ns(number, &init_pid_ns) : NULL;
	first = pid ? rcu_dereference_raw(hlist_first_rcu(&pid->tasks[PIDTYPE_PID])) : NULL;
	return first ? hlist_entry(first, struct task_struct, pid_links[PIDTYPE_PID]) : NULL;
}

static bool braid_who_in_cgroup(s32 number, u64 id)
{
	struct task_struct *task = braid_who_task(number);
	struct cgroup *group = task ? rcu_dereference_raw(task->cgroups)->dfl_cgrp : NULL;
	u32 k;

	for (k = 0; group && k < MOST_LEVELS; k++, group = cgroup_parent(group))
		if (cgroup_id(group) == id)
			return true;
	return false;
}

static int braid_who_find_cgroup(const char *path, u64 *id, struct braid_refusal *refusal)
{
	struct cgroup *group = cgroup_get_from_path(path);

	if (IS_ERR(group))
		return braid_refuse(refusal, PTR_ERR(group), "%.80s: no such cgroup (v2) in the guest",
				    path);
	*id = cgroup_id(group);
	cgroup_put(group);
	return 0;
}
#else
static bool braid_who_in_cgroup(s32 number, u64 id)
{
	return false;
}

static int braid_who_find_cgroup(const char *path, u64 *id, struct braid_refusal *refusal)
{
	return braid_refuse(refusal, -EOPNOTSUPP, "the guest's kernel has no cgroups");
}
#endif

int braid_who_resolve(struct braid_filter_program *program, struct braid_refusal *refusal)
{
	u32 k;
	int err = 0;

	for (k = 0; !err && k < program->nr_insns; k++) {
		struct braid_filter_insn *insn = &program->insns[k];

		if (insn->op != BRAID_FILTER_CGROUP_PATH)
			continue;
		err = braid_who_find_cgroup(program->texts + insn->low, &insn->low, refusal);
		insn->op = BRAID_FILTER_CGROUP;
	}
	return err;
}

/* Chosen tasks ------------------------------------------------------------------------------ */

static bool braid_who_is_chosen(s32 number)
{
	unsigned long *map = READ_ONCE(chosen);

	return map && number >= 0 && number < PID_MAX_LIMIT && test_bit(number, map);
}

static void braid_who_on_fork(void *data, struct task_struct *parent, struct task_struct *child)
{
	if (braid_who_is_chosen(parent->pid))
		set_bit(child->pid, chosen);
}

/* Its number may be another task's next. */
static void braid_who_on_free(void *data, struct task_struct *task)
{
	clear_bit(task->pid, chosen);
}

static void braid_who_find_tracepoint(struct tracepoint *tp, void *unused)
{
	if (!strcmp(tp->name, "sched_process_fork"))
		forked = tp;
	else if (!strcmp(tp->name, "sched_process_free"))
		freed = tp;
}

static int braid_who_begin(void)
{
	unsigned long *map;
	int err;

	if (!forked)
		for_each_kernel_tracepoint(braid_who_find_tracepoint, NULL);
	if (!forked || !freed)
		return -EOPNOTSUPP;
	map = vzalloc(BITS_TO_LONGS(PID_MAX_LIMIT) * sizeof(*map));
	if (!map)
		return -ENOMEM;
	WRITE_ONCE(chosen, map);
	err = tracepoint_probe_register(forked, braid_who_on_fork, NULL);
	if (!err) {
		err = tracepoint_probe_register(freed, braid_who_on_free, NULL);
		if (!err)
			return 0;
		tracepoint_probe_unregister(forked, braid_who_on_fork, NULL);
		tracepoint_synchronize_unregister();
	}
	WRITE_ONCE(chosen, NULL);
	braid_synchronize_writers();
	vfree(map);
	return err;
}

int braid_who_choose(u64 task, struct braid_refusal *refusal)
{
	int err = chosen ? 0 : braid_who_begin();

	if (err)
		return err;
	if (task >= PID_MAX_LIMIT)
		return braid_refuse(refusal, -EINVAL, "%llu: numbers of tasks are below %u", task,
				    (u32)PID_MAX_LIMIT);
	set_bit(task, chosen);
	return 0;
}

void braid_who_choose_none(void)
{
	unsigned long *map = chosen;

	if (!map)
		return;
	tracepoint_probe_unregister(freed, braid_who_on_free, NULL);
	tracepoint_probe_unregister(forked, braid_who_on_fork, NULL);
	tracepoint_synchronize_unregister();
	WRITE_ONCE(chosen, NULL);
	braid_synchronize_writers();
	vfree(map);
}

const struct braid_filter_tasks braid_who_tasks = {
	.in_cgroup = braid_who_in_cgroup,
	.is_chosen = braid_who_is_chosen,
};
