// SPDX-License-Identifier: GPL-2.0-or-later
/* The tasks of guests by pid, and of the host's for their names; what is added up for each. */
#include <errno.h>
#include <stdlib.h>

#include "host_agent/analyze/private.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

struct key {
	u32 stream;
	s32 pid;
};

static u32 task_table_hash_of(u32 stream, s32 pid)
{
	return braid_hash_of_number((u64)stream << 32 | (u32)pid);
}

static bool task_table_same(const void *in, u32 number, const void *of)
{
	const struct braid_guest_task *task = (const struct braid_guest_task *)in + number;
	const struct key *key = of;

	return task->stream == key->stream && task->pid == key->pid;
}

static struct braid_guest_task *task_table_find(const struct braid_states *s, u32 stream, s32 pid)
{
	const struct key key = { stream, pid };
	u32 number = braid_hash_find(&s->by_pid, task_table_hash_of(stream, pid), task_table_same,
				     s->tasks, &key);

	return number == BRAID_HASH_NONE ? NULL : &s->tasks[number];
}

const struct braid_guest_task *braid_states_task(const struct braid_states *s, u32 stream,
						 s32 pid)
{
	return task_table_find(s, stream, pid);
}

static noinline int add_task(struct braid_states *s, u32 stream, s32 pid,
			     struct braid_guest_task **out)
{
	struct braid_guest_task task = {
		.stream = stream, .pid = pid,
		.gaps = braid_task_gaps(s, stream),
	};
	int err = braid_hash_reserve(&s->by_pid, BRAID_STATES_MAX_TASKS);

	if (err == -ENOSPC) {
		s->tasks_left_out = true;
		return 0;
	}
	if (err || braid_array_push(s->tasks, s->nr_tasks, s->tasks_capacity, task))
		return braid_out_of_memory();
	braid_hash_put(&s->by_pid, task_table_hash_of(stream, pid), s->nr_tasks - 1);
	*out = &s->tasks[s->nr_tasks - 1];
	return 0;
}

int braid_task_of(struct braid_states *s, u32 stream, s32 pid, struct braid_guest_task **out)
{
	struct braid_guest_task *task = *out = task_table_find(s, stream, pid);

	if (!task)
		return add_task(s, stream, pid, out);
	if (task->gaps != braid_task_gaps(s, stream)) {
		task->gaps = braid_task_gaps(s, stream);
		task->state = BRAID_GUEST_TASK_UNKNOWN;
		task->call = BRAID_CALL_UNKNOWN;
		task->waking = false;
	}
	return 0;
}

void braid_task_take_span(struct braid_states *s, const struct braid_state_span *span)
{
	struct braid_vcpu *v = &s->vcpus[span->vcpu];
	struct braid_guest_task *task = span->task == BRAID_PID_UNKNOWN ? NULL :
					task_table_find(s, v->guest->number, span->task);

	if (task)
		task->ns[span->state] += span->to_ns - span->from_ns;
	if (span->task > 0)
		v->sums.busy_ns += span->to_ns - span->from_ns;
	else if (!span->task)
		v->sums.idle_ns += span->to_ns - span->from_ns;
}

void braid_task_add_run(struct braid_states *s, u32 stream, s32 pid, u64 ns)
{
	struct braid_guest_task *task = task_table_find(s, stream, pid);

	if (task)
		task->ns[BRAID_VCPU_RUNS] += ns;
}

void braid_task_add_bound(struct braid_states *s, u32 stream, s32 pid, u64 ns)
{
	struct braid_guest_task *task = pid == BRAID_PID_UNKNOWN ? NULL : task_table_find(s, stream,
											  pid);

	if (task)
		task->bound_sum_ns += ns;
}
