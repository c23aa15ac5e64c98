// SPDX-License-Identifier: GPL-2.0-or-later
/* Hands the states of a recording's file on to those of its next file, of the same host. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/analyze/grow.h"
#include "host_agent/analyze/private.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

/* From one to the other; what the former one names by number has another number. */
struct joint {
	struct braid_states *s, *former;
	u32 *vcpus;		/* by number in the former one; BRAID_NO_VCPU: not there any more */
	u32 *streams;		/* likewise; BRAID_NO_STREAM */
	s64 ns;
};

#define BRAID_NO_STREAM	0xffffffffu

static bool go_on_same(const struct braid_stream *a, const struct braid_stream *b)
{
	return a->kind == b->kind && (a->kind == BRAID_STREAM_HOST ||
				      (a->incarnation == b->incarnation &&
				       !memcmp(a->boot_id, b->boot_id, sizeof(a->boot_id))));
}

const struct braid_stream *braid_states_again(const struct braid_source *source,
					      const struct braid_stream *former)
{
	size_t k;

	if (former->end_reason && former->end_reason != BRAID_END_STOPPED)
		return NULL;
	for (k = 0; k < source->nr_streams; k++)
		if (go_on_same(source->streams[k], former))
			return source->streams[k];
	return NULL;
}

/* What is named by number --------------------------------------------------------------------- */

static u32 vcpu_now(const struct joint *j, u32 vcpu)
{
	return vcpu == BRAID_NO_VCPU ? vcpu : j->vcpus[vcpu];
}

static u32 quota_now(const struct joint *j, u32 quota)
{
	return braid_quota_of(j->s, 0, j->former->quotas[quota].id);
}

/* A vCPU that is not there any more is a thread. */
static void translate_culprit(const struct joint *j, struct braid_culprit *culprit)
{
	if (culprit->kind == BRAID_CULPRIT_QUOTA)
		culprit->id = quota_now(j, culprit->id);
	culprit->vcpu = vcpu_now(j, culprit->vcpu);
	if (culprit->kind == BRAID_CULPRIT_VCPU && culprit->vcpu == BRAID_NO_VCPU) {
		culprit->kind = BRAID_CULPRIT_TASK;
		culprit->task = BRAID_PID_UNKNOWN;
	}
}

static void translate_span(const struct joint *j, struct braid_state_span *span)
{
	span->vcpu = vcpu_now(j, span->vcpu);
	translate_culprit(j, &span->culprit);
	if (span->culprit.kind != BRAID_CULPRIT_QUOTA || (u32)span->culprit.id < j->s->nr_quotas)
		return;
	/* The cgroup is gone, or has no quota any more. */
	span->state = BRAID_VCPU_STOLEN;
	span->culprit.kind = BRAID_CULPRIT_UNKNOWN;
	span->culprit.id = 0;
	span->within = false;
}

/* Which is which ----------------------------------------------------------------------------- */

/* A guest's vCPUs go on; each stream is the next one of at most one. */
static void pair_guest(struct joint *j, u32 of, u32 to)
{
	const struct braid_guest_state *former = &j->former->guests[of];
	const struct braid_guest_state *guest = &j->s->guests[to];
	u32 k;

	for (k = 0; k < former->nr_vcpus && k < guest->nr_vcpus; k++)
		j->vcpus[former->first_vcpu + k] = guest->first_vcpu + k;
}

/* Return: 0 or -ENOMEM with braid_fail(). */
static int pair(struct joint *j)
{
	const struct braid_stream *next;
	bool *taken = calloc(j->s->nr_streams + 1, sizeof(*taken));
	u32 k;

	j->streams = calloc(j->former->nr_streams + 1, sizeof(*j->streams));
	if (!taken || !j->streams) {
		free(taken);
		return braid_out_of_memory();
	}
	for (k = 0; k < j->former->nr_vcpus; k++)
		j->vcpus[k] = BRAID_NO_VCPU;
	for (k = 0; k < j->former->nr_streams; k++) {
		next = braid_states_again(j->s->source, j->former->source->streams[k]);
		j->streams[k] = BRAID_NO_STREAM;
		if (!next || next->number >= j->s->nr_streams || taken[next->number])
			continue;
		taken[next->number] = true;
		j->streams[k] = next->number;
		pair_guest(j, k, next->number);
	}
	free(taken);
	return 0;
}

/* The observation ---------------------------------------------------------------------------- */

/* Of those that are not there any more it ends here. Return: 0 or the op's error. */
static int end_others(struct joint *j)
{
	int err = 0;
	u32 k;

	for (k = 0; k < j->former->nr_vcpus && !err; k++)
		if (j->vcpus[k] == BRAID_NO_VCPU)
			err = braid_observe_leave(j->former, k, j->ns);
	return err;
}

static void begin_at(struct braid_observed *w, s64 ns)
{
	w->start_ns = w->from_ns = ns;
}

/* Of those that go on it has begun already; of new ones it begins here. */
static void join_windows(struct joint *j)
{
	struct braid_states *s = j->s;
	u32 k;

	s->begin_ns = j->former->begin_ns;
	for (k = 0; k < s->nr_windows; k++)
		begin_at(&s->windows[k], j->ns);
	begin_at(&s->windows[0], s->begin_ns);
	for (k = 0; k < s->nr_recorded; k++)
		begin_at(&s->recorded[k], s->begin_ns);
	for (k = 0; k < j->former->nr_streams; k++) {
		const struct braid_guest_state *of = &j->former->guests[k];
		struct braid_guest_state *to;

		if (j->streams[k] == BRAID_NO_STREAM)
			continue;
		to = &s->guests[j->streams[k]];
		if (to->windows != s->windows)
			begin_at(to->windows, of->windows[of->window].from_ns);
	}
}

/* What is known ------------------------------------------------------------------------------ */

static int join_guest(struct joint *j, u32 of)
{
	const struct braid_guest_state *former = &j->former->guests[of];
	struct braid_guest_state *to;
	int err = 0;
	u32 k;

	if (j->streams[of] == BRAID_NO_STREAM)
		return 0;
	to = &j->s->guests[j->streams[of]];
	to->gaps = former->gaps;
	to->any_switch = former->any_switch;
	to->any_wakeup = former->any_wakeup;
	to->any_call = former->any_call;
	to->any_handler = former->any_handler;
	to->entries_missing = former->entries_missing;
	for (k = 0; k < former->nr_vcpus && k < to->nr_vcpus && !err; k++)
		err = braid_mark_set_id(j->s, &j->s->vcpus[to->first_vcpu + k],
					j->former->vcpus[former->first_vcpu + k].kvm_id);
	return err;
}

static void join_vcpu(struct joint *j, u32 of)
{
	const struct braid_vcpu *former = &j->former->vcpus[of];
	struct braid_vcpu *v = &j->s->vcpus[j->vcpus[of]], new = *v;

	*v = *former;
	v->guest = new.guest;
	v->part = new.part;
	v->host = new.host;
	v->number = new.number;
	v->kvm_id = new.kvm_id;
	v->last_ns = new.last_ns;
	v->list = BRAID_LIST_NONE;
	v->touched = false;
	v->exit.vcpu = j->vcpus[of];
	translate_culprit(j, &v->waker);
	translate_span(j, &v->now);
	braid_list_vcpu(j->s, v, former->thread, former->cpu);
	if (former->touched)
		braid_list_touch(j->s, j->vcpus[of]);
}

static void join_cpu(struct joint *j, u32 number)
{
	const struct braid_host_cpu *former = &j->former->hosts->cpus[number];
	struct braid_host_state *host = j->s->hosts;
	struct braid_host_cpu *cpu = &host->cpus[number];

	cpu->known = former->known;
	cpu->tid = former->tid;
	cpu->vcpu = vcpu_now(j, former->vcpu);
	cpu->left = former->left;
	cpu->hides = vcpu_now(j, former->hides);
	cpu->call = former->call;
	cpu->irqs = former->irqs;
	cpu->irq = former->irq;
	cpu->softirq = former->softirq;
	cpu->vector = former->vector;
	cpu->in_gap = former->in_gap;
	cpu->any_vcpu = former->any_vcpu;
	if (former->any_kvm)
		braid_cpu_has_kvm(host, number);
	if (former->throttles)
		cpu->throttles_quota = quota_now(j, former->throttles_quota);
	if (former->throttles && cpu->throttles_quota < j->s->nr_quotas) {
		cpu->throttles = former->throttles;
		cpu->throttles_cpu = former->throttles_cpu;
	}
	host->open_gaps += cpu->in_gap;
	if (former->touched)
		braid_list_touch_cpu(host, number);
}

/* A guest that is new may run already. */
static void find_running(struct joint *j, u32 number)
{
	struct braid_host_cpu *cpu = &j->s->hosts->cpus[number];
	struct braid_vcpu *v;

	v = cpu->known && cpu->vcpu == BRAID_NO_VCPU ?
	    braid_vcpu_of_thread(j->s, j->s->hosts, cpu->tid, j->ns) : NULL;
	if (!v || v->thread != BRAID_THREAD_UNKNOWN || cpu->in_gap)
		return;
	cpu->vcpu = v - j->s->vcpus;
	v->tid = cpu->tid;
	braid_vcpu_set_thread(j->s, v, BRAID_THREAD_ON, number);
}

/* Not those that have exited or are unknown: the table would only grow. */
static int join_task(struct joint *j, const struct braid_guest_task *former)
{
	u32 stream = j->streams[former->stream], *first;
	struct braid_guest_task *task;
	int err;

	if (stream == BRAID_NO_STREAM || former->exited || !former->known ||
	    former->gaps != braid_task_gaps(j->former, former->stream) ||
	    j->s->nr_tasks >= BRAID_STATES_MAX_TASKS / 2)
		return 0;
	err = braid_task_of(j->s, stream, former->pid, &task);
	if (err || !task)
		return err;
	*task = *former;
	task->stream = stream;
	task->waker = vcpu_now(j, former->waker);
	task->queue = vcpu_now(j, former->queue);
	first = j->s->guests[stream].nr_vcpus ? &j->s->guests[stream].first_known :
						&j->s->hosts->first_task;
	task->next_known = *first;
	*first = task - j->s->tasks;
	return 0;
}

static int join_queue(struct joint *j, struct braid_quota_queue queue)
{
	struct braid_host_state *host = j->s->hosts;

	queue.quota = quota_now(j, queue.quota);
	return queue.quota == j->s->nr_quotas ? 0 :
	       braid_array_push(host->throttled, host->nr_throttled, host->throttled_capacity,
				queue);
}

static void join_whole(struct joint *j)
{
	struct braid_states *s = j->s, *former = j->former;

	s->hosts->seen = former->hosts->seen;
	s->hosts->gaps = former->hosts->gaps;
	s->hosts->moved_unseen = former->hosts->moved_unseen;
	s->tasks_left_out |= former->tasks_left_out;
	s->renamed = former->renamed + 1;
	s->last_ns = former->last_ns;
	s->paused_ns = j->ns;
	/* Calls keep their numbers. */
	s->roles.calls = former->roles.calls;
	s->roles.nr_calls = former->roles.nr_calls;
	s->roles.calls_capacity = former->roles.calls_capacity;
	former->roles.calls = NULL;
	former->roles.nr_calls = former->roles.calls_capacity = 0;
}

/* Spans that are held, and free ones. */
static void join_held(struct joint *j)
{
	struct braid_states *s = j->s, *former = j->former;
	u32 k, number;

	s->held = former->held;
	s->nr_held = former->nr_held;
	s->held_capacity = former->held_capacity;
	s->free_held = former->free_held;
	former->held = NULL;
	former->nr_held = former->held_capacity = former->free_held = 0;
	for (k = 0; k < s->nr_vcpus; k++)
		for (number = s->vcpus[k].first_held; number; number = braid_held_next(s, number))
			translate_span(j, braid_held_span(s, number - 1));
}

static int join_all(struct joint *j)
{
	const struct braid_host_state *former = j->former->hosts;
	u32 cpus = j->s->hosts->nr_cpus < former->nr_cpus ? j->s->hosts->nr_cpus :
							    former->nr_cpus, k;
	size_t n;
	int err = 0;

	join_whole(j);
	for (k = 0; k < j->former->nr_streams && !err; k++)
		err = join_guest(j, k);
	for (k = 0; k < cpus; k++)
		join_cpu(j, k);
	for (k = 0; k < j->former->nr_vcpus; k++)
		if (j->vcpus[k] != BRAID_NO_VCPU)
			join_vcpu(j, k);
	join_held(j);
	for (n = 0; n < j->former->nr_tasks && !err; n++)
		err = join_task(j, &j->former->tasks[n]);
	for (n = 0; n < former->nr_throttled && !err; n++)
		err = join_queue(j, former->throttled[n]);
	for (k = 0; k < cpus; k++)
		find_running(j, k);
	return err;
}

int braid_states_go_on(struct braid_states *s, struct braid_states *former, u32 *vcpus)
{
	struct joint j = { .s = s, .former = former, .vcpus = vcpus, .ns = former->paused_ns };
	int err = pair(&j);
	u32 k;

	if (!err)
		err = end_others(&j);
	if (!err && join_all(&j))
		err = braid_out_of_memory();
	if (!err) {
		s->went_on = true;
		join_windows(&j);
		braid_states_limit(s, INT64_MIN, INT64_MAX);
	}
	/* What is known of a culprit, or of a quota, may be another thing now. */
	for (k = 0; k < s->nr_vcpus && !err; k++)
		err = braid_vcpu_refresh(s, &s->vcpus[k], j.ns, 0);
	free(j.streams);
	return err;
}
