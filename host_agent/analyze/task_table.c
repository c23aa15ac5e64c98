// SPDX-License-Identifier: GPL-2.0-or-later
/* The tasks of guests by pid, and of the host's for their names; what is added up for each. */
#include <errno.h>
#include <stdlib.h>

#include "host_agent/analyze/private.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

/* The slot of a task, or the free one where it belongs. */
static u32 *slot_of(const struct braid_states *s, u32 stream, s32 pid)
{
	u64 hash = ((u64)stream << 32 | (u32)pid) * 0x9e3779b97f4a7c15ULL;
	u32 at = (hash >> 32) & (s->nr_slots - 1);

	while (s->slots[at]) {
		const struct braid_guest_task *task = &s->tasks[s->slots[at] - 1];

		if (task->stream == stream && task->pid == pid)
			break;
		at = (at + 1) & (s->nr_slots - 1);
	}
	return &s->slots[at];
}

static struct braid_guest_task *find(const struct braid_states *s, u32 stream, s32 pid)
{
	u32 *slot = s->nr_slots ? slot_of(s, stream, pid) : NULL;

	return slot && *slot ? &s->tasks[*slot - 1] : NULL;
}

const struct braid_guest_task *braid_states_task(const struct braid_states *s, u32 stream,
						 s32 pid)
{
	return find(s, stream, pid);
}

/* Twice as many slots; half of them stay free at least. */
static int grow(struct braid_states *s)
{
	u32 *old = s->slots, nr = s->nr_slots;
	size_t k;

	s->slots = calloc(nr ? 2 * nr : 1024, sizeof(*s->slots));
	if (!s->slots) {
		s->slots = old;
		return braid_out_of_memory();
	}
	s->nr_slots = nr ? 2 * nr : 1024;
	for (k = 0; k < s->nr_tasks; k++)
		*slot_of(s, s->tasks[k].stream, s->tasks[k].pid) = k + 1;
	free(old);
	return 0;
}

int braid_task_of(struct braid_states *s, u32 stream, s32 pid, struct braid_guest_task **out)
{
	struct braid_guest_task task = {
		.stream = stream, .pid = pid, .gaps = s->guests[stream].gaps,
	};

	*out = find(s, stream, pid);
	if (*out && (*out)->gaps != task.gaps) {
		(*out)->gaps = task.gaps;
		(*out)->state = BRAID_GUEST_TASK_UNKNOWN;
		(*out)->call = BRAID_CALL_UNKNOWN;
	}
	if (*out)
		return 0;
	if (s->nr_tasks == BRAID_STATES_MAX_TASKS) {
		s->tasks_left_out = true;
		return 0;
	}
	if (2 * s->nr_tasks >= s->nr_slots && grow(s))
		return -ENOMEM;
	if (braid_array_push(s->tasks, s->nr_tasks, s->tasks_capacity, task))
		return braid_out_of_memory();
	*slot_of(s, stream, pid) = s->nr_tasks;
	*out = &s->tasks[s->nr_tasks - 1];
	return 0;
}

void braid_task_take_span(struct braid_states *s, const struct braid_state_span *span)
{
	const struct braid_vcpu *v = &s->vcpus[span->vcpu];
	struct braid_guest_task *task = span->task == BRAID_PID_UNKNOWN ? NULL :
					find(s, v->guest->number, span->task);

	if (task)
		task->ns[span->state] += span->to_ns - span->from_ns;
}

void braid_task_add_bound(struct braid_states *s, u32 stream, s32 pid, u64 ns)
{
	struct braid_guest_task *task = pid == BRAID_PID_UNKNOWN ? NULL : find(s, stream, pid);

	if (task)
		task->bound_sum_ns += ns;
}
