// SPDX-License-Identifier: GPL-2.0-or-later
/* What the tasks of guests do: current, queued or blocked; and what their vCPUs did meanwhile. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "host_agent/analyze/private.h"

/* A time within the observation of the task's guest, in the present window. */
static s64 within(const struct braid_states *s, const struct braid_guest_task *task, s64 ns)
{
	const struct braid_guest_state *guest = &s->guests[task->stream];
	s64 begin_ns = s->begin_ns, end_ns = s->end_ns;	/* the host's */

	if (guest->nr_vcpus) {
		begin_ns = s->vcpus[guest->first_vcpu].begin_ns;
		end_ns = braid_states_traced_until(s, guest->first_vcpu);
	}
	ns = ns < end_ns ? ns : end_ns;
	return ns > begin_ns ? ns : begin_ns;
}

/* What it did in its guest's queue, or blocked, up to now. */
static void task_settle(const struct braid_states *s, struct braid_guest_task *task, s64 now_ns)
{
	u64 ns = within(s, task, now_ns) - within(s, task, task->since_ns);

	if (task->state == BRAID_GUEST_TASK_QUEUED)
		task->queued_ns += ns;
	else if (task->state == BRAID_GUEST_TASK_BLOCKED)
		task->blocked_ns += ns;
}

static void turn(struct braid_states *s, struct braid_guest_task *task, int state,
		 const struct braid_item *item)
{
	struct braid_guest_state *guest = &s->guests[task->stream];
	u32 *first = guest->nr_vcpus ? &guest->first_known :
		     &braid_states_host(s, item->stream)->first_task;

	if (!task->known) {
		task->known = true;
		task->next_known = *first;
		*first = task - s->tasks;
	}
	if (!task->seen)
		task->begin_ns = item->host_ns;
	else if (!task->exited)
		task_settle(s, task, item->host_ns);
	task->seen = true;
	task->exited = false;	/* if it had: its pid is another task's now */
	task->state = state;
	task->waking = false;
	task->woken = false;
	task->since_ns = item->host_ns;
	task->bound_ns = braid_item_bound_of_host(item);
}

/* Queues ------------------------------------------------------------------------------------ */

static bool follows_queues(const struct braid_states *s)
{
	return s->ops && s->ops->queued;
}

/* It is in a vCPU's queue from now on, after @moved in another one's. */
static void enter_queue(const struct braid_states *s, struct braid_guest_task *task, u32 vcpu,
			s64 ns, bool moved)
{
	if (!follows_queues(s))
		return;
	if (!moved)
		memset(task->queue_ns, 0, sizeof(task->queue_ns));
	task->queue = vcpu;
	task->queue_from_ns = ns;
	if (vcpu != BRAID_NO_VCPU)
		braid_vcpu_sums(&s->vcpus[vcpu], ns, task->queue_began_ns);
}

/* Adds what the vCPU did while it was in its queue. */
static void leave_queue(const struct braid_states *s, struct braid_guest_task *task, s64 ns)
{
	u64 sums[BRAID_NR_VCPU_STATES];
	u32 k;

	if (!follows_queues(s) || task->queue == BRAID_NO_VCPU)
		return;
	braid_vcpu_sums(&s->vcpus[task->queue], ns, sums);
	for (k = 0; k < BRAID_NR_VCPU_STATES; k++)
		task->queue_ns[k] += sums[k] - task->queue_began_ns[k];
}

/* The vCPU of a guest that a field names; or BRAID_NO_VCPU. */
static u32 vcpu_in(const struct braid_states *s, const struct braid_item *item,
		   const struct braid_role_info *info)
{
	const struct braid_guest_state *guest = &s->guests[item->stream->number];
	s64 cpu;

	return braid_role_number(info, 1, item, &cpu) && cpu >= 0 && cpu < guest->nr_vcpus ?
	       guest->first_vcpu + (u32)cpu : BRAID_NO_VCPU;
}

/* What was not in queues that are known is unknown. A guest may claim more than there was. */
static void add_up(struct braid_queue_wait *wait, const u64 ns[BRAID_NR_VCPU_STATES])
{
	u64 whole = wait->to_ns - wait->from_ns, sum = braid_states_sum(ns);

	if (wait->known && sum <= whole) {
		memcpy(wait->ns, ns, sizeof(wait->ns));
		wait->ns[BRAID_VCPU_UNKNOWN] += whole - sum;
	} else {
		wait->ns[BRAID_VCPU_UNKNOWN] = whole;
	}
}

/* It gets its vCPU: how long did it wait for that, and what did the vCPU do? */
static int report_wait(struct braid_states *s, struct braid_guest_task *task, u32 vcpu,
		       const struct braid_item *item)
{
	const struct braid_vcpu *v = &s->vcpus[vcpu];
	u64 bound_ns = braid_item_bound_of_host(item);
	struct braid_queue_wait wait = {
		.vcpu = vcpu, .pid = task->pid,
		.from_ns = task->since_ns > v->begin_ns ? task->since_ns : v->begin_ns,
		.to_ns = item->host_ns < v->end_ns ? item->host_ns : v->end_ns,
		.bound_ns = task->bound_ns > bound_ns ? task->bound_ns : bound_ns,
		.woken = task->woken, .waker = task->waker, .known = task->queue == vcpu,
		.queue_from_ns = task->queue_from_ns,
	};

	if (task->state != BRAID_GUEST_TASK_QUEUED || !follows_queues(s) ||
	    item->host_ns < v->begin_ns || task->since_ns > v->end_ns)
		return 0;
	leave_queue(s, task, item->host_ns);
	add_up(&wait, task->queue_ns);
	return s->ops->queued(s->arg, &wait);
}

/* Tasks -------------------------------------------------------------------------------------- */

/* The vCPU executes a task from here on. */
static void set_current(struct braid_vcpu *v, s32 pid, const struct braid_guest_task *task)
{
	v->task = pid;
	v->call = !pid ? BRAID_CALL_NONE : task ? task->call : BRAID_CALL_UNKNOWN;
}

/* Each CPU's idle task has another name, which is not shown. */
static void note_comm(struct braid_states *s, struct braid_guest_task *task,
		      const struct braid_role_info *info, u32 field, const struct braid_item *item)
{
	if (braid_role_comm(info, field, item, task->comm) && task->pid)
		s->renamed++;
}

/* Hands on what is known of the time before it got this CPU. */
static int report_start(struct braid_states *s, const struct braid_guest_task *task,
			const struct braid_item *item)
{
	bool blocked = task->state == BRAID_GUEST_TASK_BLOCKED && !task->exited;
	bool queued = task->state == BRAID_GUEST_TASK_QUEUED;
	struct braid_task_start start = {
		.stream = task->stream, .cpu = item->ring->cpu, .pid = task->pid,
		.ns = item->host_ns, .off = blocked || (queued && (!task->woken || task->blocked)),
		.preempted = queued && !task->woken, .call = task->call,
		.off_ns = queued && task->woken ? task->blocked_from_ns : task->since_ns,
		.woken = (queued && task->woken) || task->waking, .waker_cpu = task->waker_cpu,
		.waker = task->waker_pid, .waker_counter = task->waker_counter,
		.woken_ns = task->waking ? task->waking_ns : task->since_ns,
	};

	return task->pid && (start.off || start.woken) && s->ops && s->ops->started ?
	       s->ops->started(s->arg, &start) : 0;
}

/* A task leaves its CPU, in a system call. */
static void leave_cpu(struct braid_states *s, struct braid_guest_task *task, enum braid_left left,
		      u32 call, const struct braid_item *item)
{
	task->call = left == BRAID_LEFT_DEAD ? BRAID_CALL_UNKNOWN : call;
	turn(s, task, left == BRAID_LEFT_RUNNABLE ? BRAID_GUEST_TASK_QUEUED :
						    BRAID_GUEST_TASK_BLOCKED, item);
	task->exited = left == BRAID_LEFT_DEAD;
	task->end_ns = item->host_ns;
}

/* And this one gets it. */
static int enter_cpu(struct braid_states *s, struct braid_guest_task *task,
		     const struct braid_item *item, const struct braid_role_info *info)
{
	int err = report_start(s, task, item);

	turn(s, task, BRAID_GUEST_TASK_CURRENT, item);
	note_comm(s, task, info, 3, item);
	task->switches += within(s, task, item->host_ns) == item->host_ns;
	return err;
}

/* An event's task is current. *out: NULL if there are too many. */
static int show_current(struct braid_states *s, const struct braid_item *item,
			struct braid_guest_task **out)
{
	s32 pid = braid_format_pid(item);
	int err = braid_task_of(s, item->stream->number, pid, out);

	if (err || !*out)
		return err;
	if (pid)
		turn(s, *out, BRAID_GUEST_TASK_CURRENT, item);
	if (!*(*out)->comm) {
		snprintf((*out)->comm, sizeof((*out)->comm), "%s", braid_format_comm(item, pid));
		s->renamed++;
	}
	return 0;
}

int braid_task_take_host_current(struct braid_states *s, const struct braid_item *item)
{
	struct braid_guest_task *task;

	return s->whole_host && braid_format_pid(item) > 0 ? show_current(s, item, &task) : 0;
}

int braid_task_take_host_switch(struct braid_states *s, const struct braid_item *item,
				const struct braid_role_info *info, u32 *call)
{
	u32 stream = item->stream->number, in = *call;
	s64 prev = 0, state = 0, next = 0;
	struct braid_guest_task *task;
	int err;

	braid_role_number(info, 0, item, &prev);
	braid_role_number(info, 1, item, &state);
	braid_role_number(info, 2, item, &next);
	*call = next ? BRAID_CALL_UNKNOWN : BRAID_CALL_NONE;
	err = prev && braid_task_follows_host(s) ? braid_task_of(s, stream, prev, &task) : 0;
	if (!err && prev && braid_task_follows_host(s) && task)
		leave_cpu(s, task, braid_role_left(state), in, item);
	if (!err && next)
		err = braid_task_of(s, stream, next, &task);
	if (err || !next || !task)
		return err;
	if (braid_task_follows_host(s)) {
		*call = task->call;
		return enter_cpu(s, task, item, info);
	}
	note_comm(s, task, info, 3, item);
	return 0;
}

int braid_task_take_switch(struct braid_states *s, const struct braid_item *item,
			   const struct braid_role_info *info)
{
	struct braid_guest_state *guest = &s->guests[item->stream->number];
	u32 number = guest->first_vcpu + item->ring->cpu;
	struct braid_vcpu *v = &s->vcpus[number];
	s64 prev, state, next;
	struct braid_guest_task *task;
	int err;

	if (!braid_role_number(info, 0, item, &prev) || !braid_role_number(info, 1, item, &state) ||
	    !braid_role_number(info, 2, item, &next))
		return 0;
	guest->any_switch = true;
	v->sums.switches += braid_vcpu_observes(v, item->host_ns);
	err = braid_task_of(s, item->stream->number, prev, &task);
	if (err)
		return err;
	if (task && prev) {
		leave_cpu(s, task, braid_role_left(state),
			  v->task == prev ? v->call : BRAID_CALL_UNKNOWN, item);
		enter_queue(s, task, number, item->host_ns, false);
	}
	err = braid_task_of(s, item->stream->number, next, &task);
	if (!err && task)
		err = report_wait(s, task, number, item) ?: enter_cpu(s, task, item, info);
	if (err)
		return err;
	set_current(v, next, task);
	err = braid_vcpu_refresh(s, v, item->host_ns, braid_item_bound_of_host(item));
	/* Those whose culprit this vCPU is have another one now. */
	if (!err)
		err = braid_vcpu_refresh_behind(s, v, item->host_ns,
						braid_item_bound_of_host(item));
	return err;
}

/* One that is current or queued may be woken too: that changes nothing. */
static bool may_be_woken(const struct braid_guest_task *task)
{
	return task->state == BRAID_GUEST_TASK_BLOCKED || task->state == BRAID_GUEST_TASK_UNKNOWN;
}

static void note_waker(struct braid_guest_task *task, const struct braid_item *item)
{
	task->waker_cpu = item->ring->cpu;
	task->waker_pid = braid_format_pid(item);
	task->waker_counter = item->counter;
}

int braid_task_take_waking(struct braid_states *s, const struct braid_item *item,
			   const struct braid_role_info *info)
{
	struct braid_guest_task *task;
	s64 pid;
	int err;

	if (!braid_task_follows_host(s) || !braid_role_number(info, 0, item, &pid))
		return 0;
	err = braid_task_of(s, item->stream->number, pid, &task);
	if (err || !task || !may_be_woken(task))
		return err;
	note_waker(task, item);
	task->waking = true;
	task->waking_ns = item->host_ns;
	return 0;
}

static void wake(struct braid_states *s, struct braid_guest_task *task,
		 const struct braid_item *item)
{
	task->blocked = task->state == BRAID_GUEST_TASK_BLOCKED && !task->exited;
	task->blocked_from_ns = task->since_ns;
	if (!task->waking)
		note_waker(task, item);
	turn(s, task, BRAID_GUEST_TASK_QUEUED, item);
	task->woken = true;
}

int braid_task_take_wakeup(struct braid_states *s, const struct braid_item *item,
			   const struct braid_role_info *info)
{
	struct braid_guest_state *guest = &s->guests[item->stream->number];
	struct braid_guest_task *task;
	s64 pid;
	int err;

	if (!braid_role_number(info, 0, item, &pid))
		return 0;
	guest->any_wakeup = true;
	err = braid_task_of(s, item->stream->number, pid, &task);
	if (err || !task)
		return err;
	note_comm(s, task, info, 2, item);
	if (!may_be_woken(task))
		return 0;
	wake(s, task, item);
	if (item->ring->cpu >= guest->nr_vcpus)
		return 0;
	task->waker = guest->first_vcpu + item->ring->cpu;
	braid_mark_wakes(s, task->waker, item);
	enter_queue(s, task, vcpu_in(s, item, info), item->host_ns, false);
	return 0;
}

int braid_task_take_migrate(struct braid_states *s, const struct braid_item *item,
			    const struct braid_role_info *info)
{
	struct braid_guest_task *task;
	s64 pid;
	int err;

	if (!braid_role_number(info, 0, item, &pid))
		return 0;
	err = braid_task_of(s, item->stream->number, pid, &task);
	if (err || !task || task->state != BRAID_GUEST_TASK_QUEUED)
		return err;
	leave_queue(s, task, item->host_ns);
	enter_queue(s, task, vcpu_in(s, item, info), item->host_ns, true);
	return 0;
}

int braid_task_take_current(struct braid_states *s, const struct braid_item *item, u32 vcpu)
{
	struct braid_guest_task *task;
	int err = show_current(s, item, &task);

	if (err)
		return err;
	set_current(&s->vcpus[vcpu], braid_format_pid(item), task);
	return braid_vcpu_refresh(s, &s->vcpus[vcpu], item->host_ns,
				  braid_item_bound_of_host(item));
}

int braid_task_take_call(struct braid_states *s, const struct braid_item *item,
			 const struct braid_role_info *info, u32 vcpu)
{
	struct braid_vcpu *v = &s->vcpus[vcpu];
	int err = 0;

	s->guests[item->stream->number].any_call = true;
	if (v->task != braid_format_pid(item))
		err = braid_task_take_current(s, item, vcpu);
	v->call = info->role == BRAID_ROLE_CALL_EXIT ? BRAID_CALL_NONE :
						       braid_role_call(info, item);
	return err;
}

void braid_task_forget(struct braid_states *s, u32 *first, s64 ns)
{
	struct braid_guest_task *task;

	while (*first != BRAID_NO_TASK) {
		task = &s->tasks[*first];
		*first = task->next_known;
		task->known = false;
		if (!task->exited && task->gaps == braid_task_gaps(s, task->stream))
			task_settle(s, task, ns);
		task->state = BRAID_GUEST_TASK_UNKNOWN;
		task->call = BRAID_CALL_UNKNOWN;
	}
}

/* A time within the whole. */
static s64 within_all(const struct braid_states *s, const struct braid_guest_task *task, s64 ns)
{
	const struct braid_vcpu *v = &s->vcpus[s->guests[task->stream].first_vcpu];
	s64 from_ns = s->begin_ns > v->first_ns ? s->begin_ns : v->first_ns;
	s64 to_ns = s->end_ns < v->last_ns ? s->end_ns : v->last_ns;
	s64 alive_ns = s->guests[task->stream].alive_ns;

	to_ns = alive_ns < to_ns ? alive_ns : to_ns;
	ns = ns < to_ns ? ns : to_ns;
	return ns > from_ns ? ns : from_ns;
}

void braid_task_end(struct braid_states *s)
{
	size_t k;

	for (k = 0; k < s->nr_tasks; k++) {
		struct braid_guest_task *task = &s->tasks[k];

		if (!task->seen)
			continue;
		if (!task->exited && task->gaps == braid_task_gaps(s, task->stream))
			task_settle(s, task, INT64_MAX);
		if (!s->guests[task->stream].nr_vcpus)
			continue;
		task->begin_ns = within_all(s, task, task->begin_ns);
		task->end_ns = within_all(s, task, task->exited ? task->end_ns : INT64_MAX);
	}
}
