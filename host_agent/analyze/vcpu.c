// SPDX-License-Identifier: GPL-2.0-or-later
/* A vCPU's state: from its parts to spans. */
#include <errno.h>
#include <string.h>

#include "host_agent/analyze/private.h"

/* Exit reasons of HLT, with the isa in the upper half as kvm_exit has it. */
#define HLT_VMX		(1ULL << 32 | 12)
#define HLT_SVM		(2ULL << 32 | 0x78)
#define WFX_ARM		0x01	/* without isa: the exception class of WFI and WFE */

static bool is_halted(const struct braid_vcpu *v)
{
	return v->halted || v->reason == HLT_VMX || v->reason == HLT_SVM || v->reason == WFX_ARM;
}

struct thread {
	const struct braid_host_state *host;
	s32 tid;
};

static bool is_thread(const void *in, u32 number, const void *of)
{
	const struct braid_vcpu *v = (const struct braid_vcpu *)in + number;
	const struct thread *thread = of;

	return v->tid == thread->tid && v->host == thread->host;
}

/* One of no guest of the trace. */
static struct braid_vcpu *other_of(const struct braid_states *s,
				   const struct braid_host_state *host, s32 tid)
{
	const struct thread thread = { host, tid };
	u32 number = BRAID_HASH_NONE;

	if (s->others.nr)
		number = braid_hash_find(&s->others, braid_hash_of_number(tid), is_thread, s->vcpus,
					 &thread);
	return number == BRAID_HASH_NONE ? NULL : &s->vcpus[number];
}

struct braid_vcpu *braid_vcpu_of_thread(const struct braid_states *s,
					const struct braid_host_state *host, s64 tid, s64 ns)
{
	const struct braid_vcpu_span *span = tid > 0 && tid <= INT32_MAX ?
		braid_vcpu_map_find(&s->threads, braid_host_number(s, host), tid, ns) : NULL;
	bool there = span && (!span->guest->nr_stays ||
			      braid_vcpu_part_on(span->guest, braid_host_number(s, host), ns));
	const struct braid_guest_state *guest = span ? &s->guests[span->guest->number] : NULL;
	u32 number = span && span->vcpu != BRAID_VCPU_ALL ? span->vcpu : 0;

	if (!guest)
		return tid == (s32)tid ? other_of(s, host, tid) : NULL;
	if (number >= guest->nr_vcpus || !there ||
	    (span->vcpu == BRAID_VCPU_ALL && guest->nr_vcpus != 1))
		return NULL;
	return &s->vcpus[guest->first_vcpu + number];
}

/* What runs on a host CPU, for those that wait there. */
static struct braid_culprit culprit_of(const struct braid_states *s,
				       const struct braid_host_state *host, u32 number)
{
	struct braid_culprit culprit = { .vcpu = BRAID_NO_VCPU, .task = BRAID_PID_UNKNOWN };
	const struct braid_host_cpu *cpu = number < host->nr_cpus ? &host->cpus[number] : NULL;

	if (!cpu || !cpu->known || cpu->in_gap) {
		culprit.kind = BRAID_CULPRIT_UNKNOWN;
	} else if (cpu->irqs) {
		culprit.kind = BRAID_CULPRIT_IRQ;
		culprit.id = cpu->irq;
	} else if (cpu->softirq) {
		culprit.kind = BRAID_CULPRIT_SOFTIRQ;
		culprit.id = cpu->vector;
	} else if (cpu->vcpu != BRAID_NO_VCPU) {
		culprit.kind = BRAID_CULPRIT_VCPU;
		culprit.id = cpu->tid;
		culprit.vcpu = cpu->vcpu;
		culprit.task = s->vcpus[cpu->vcpu].task;
	} else {
		culprit.kind = cpu->tid ? BRAID_CULPRIT_TASK : BRAID_CULPRIT_NOTHING;
		culprit.id = cpu->tid;
		culprit.host = cpu->tid ? braid_host_number(s, host) : 0;
	}
	return culprit;
}

#define COMMON_FLAGS	2u	/* where records have them, and ... */
#define IN_INTERRUPT	0x18u	/* ... hardirq or softirq, which may have no event of their own */

void braid_vcpu_note_waker(const struct braid_states *s, struct braid_vcpu *v,
			   const struct braid_item *item)
{
	v->waker = culprit_of(s, v->host, item->ring->cpu);
	v->woken_ns = item->host_ns;
	if (v->waker.kind != BRAID_CULPRIT_IRQ && v->waker.kind != BRAID_CULPRIT_SOFTIRQ &&
	    item->payload_bytes > COMMON_FLAGS && item->payload[COMMON_FLAGS] & IN_INTERRUPT)
		v->waker = (struct braid_culprit){
			.kind = BRAID_CULPRIT_INTERRUPTS, .vcpu = BRAID_NO_VCPU,
			.task = BRAID_PID_UNKNOWN,
		};
}

/* On its CPU: what it executes there, unless a handler of the host does. */
static void compute_running(const struct braid_states *s, const struct braid_vcpu *v,
			    struct braid_state_span *span)
{
	static const enum braid_vcpu_state states[] = {
		[BRAID_KVM_UNSEEN] = BRAID_VCPU_RUNS, [BRAID_KVM_GUEST] = BRAID_VCPU_GUEST,
		[BRAID_KVM_HOST] = BRAID_VCPU_KVM, [BRAID_KVM_USER] = BRAID_VCPU_VMM,
	};

	span->state = states[v->kvm];
	if (v->cpu >= v->host->nr_cpus ||
	    !(v->host->cpus[v->cpu].irqs || v->host->cpus[v->cpu].softirq))
		return;
	span->state = BRAID_VCPU_STOLEN;
	span->culprit = culprit_of(s, v->host, v->cpu);
	span->cpu = v->cpu;
}

/* A thread that is runnable has work: it brings the CPU up, or down. */
static bool is_offline(const struct braid_vcpu *v)
{
	return v->offline && v->thread != BRAID_THREAD_WAITS && !v->hidden &&
	       v->kvm != BRAID_KVM_GUEST;
}

/* Runnable, and another thread runs on its CPU, or none; or its quota holds it back. */
static void compute_waiting(const struct braid_states *s, const struct braid_vcpu *v, s64 now_ns,
			    struct braid_state_span *span)
{
	span->state = BRAID_VCPU_STOLEN;
	if (v->list == BRAID_LIST_BEHIND)
		span->culprit.kind = BRAID_CULPRIT_OTHERS;
	else
		span->culprit = culprit_of(s, v->host, v->cpu);
	span->cpu = v->cpu;
	if (braid_quota_holds(s, v, now_ns, span))
		span->state = BRAID_VCPU_THROTTLED;
}

/* The state that the parts make. Only what the key of a span has is set. */
static void compute(const struct braid_states *s, const struct braid_vcpu *v, s64 now_ns,
		    struct braid_state_span *span)
{
	bool unsure = v->host->open_gaps && v->thread != BRAID_THREAD_ON;

	*span = (struct braid_state_span){
		.vcpu = v - s->vcpus,
		.task = v->in_gap && v->task != BRAID_PID_NOT_TRACED ? BRAID_PID_UNKNOWN : v->task,
		.culprit = { .vcpu = BRAID_NO_VCPU, .task = BRAID_PID_UNKNOWN },
	};
	if (v->thread == BRAID_THREAD_ON) {
		compute_running(s, v, span);
	} else if (is_offline(v)) {
		span->state = BRAID_VCPU_OFFLINE;
	} else if (v->thread == BRAID_THREAD_UNKNOWN || unsure || v->hidden) {
		/* Between entry and exit nothing else can be. */
		span->state = v->kvm == BRAID_KVM_GUEST && !v->host->open_gaps && !v->hidden ?
			      BRAID_VCPU_GUEST : BRAID_VCPU_UNKNOWN;
	} else if (v->thread == BRAID_THREAD_WAITS) {
		compute_waiting(s, v, now_ns, span);
	} else if (v->thread == BRAID_THREAD_STOPPED) {
		span->state = BRAID_VCPU_STOPPED;
	} else if (v->kvm == BRAID_KVM_UNSEEN) {
		span->state = BRAID_VCPU_SLEEPS;
	} else {
		span->state = v->kvm == BRAID_KVM_HOST && is_halted(v) ?
			      BRAID_VCPU_HALTED : BRAID_VCPU_BLOCKED;
	}
	if (v->kvm == BRAID_KVM_HOST && span->state != BRAID_VCPU_UNKNOWN &&
	    span->state != BRAID_VCPU_OFFLINE)
		span->reason = v->reason;
}

static bool vcpu_same(const struct braid_state_span *a, const struct braid_state_span *b)
{
	return a->state == b->state && a->task == b->task && a->reason == b->reason &&
	       a->cpu == b->cpu && a->within == b->within &&
	       braid_culprit_same(&a->culprit, &b->culprit);
}

/* Hands the open span on, up to now. */
static int close_span(struct braid_states *s, struct braid_vcpu *v, s64 now_ns, u64 bound_ns)
{
	struct braid_state_span span = v->now;

	if (span.from_ns < v->begin_ns)
		span.from_ns = v->begin_ns;
	span.to_ns = now_ns < v->end_ns ? now_ns : v->end_ns;
	if (span.to_ns <= span.from_ns)
		return 0;
	span.to_bound_ns = bound_ns;
	v->ns[span.state] += span.to_ns - span.from_ns;
	braid_task_take_span(s, &span);
	if (v->holds)
		return braid_held_add(s, v, &span);
	return s->ops && s->ops->span ? s->ops->span(s->arg, &span) : 0;
}

/* A span is over: at its ends, its task may have been another one. */
static void add_bound(struct braid_states *s, struct braid_vcpu *v, s64 now_ns, u64 bound_ns)
{
	s64 from_ns = v->since_ns > v->begin_ns ? v->since_ns : v->begin_ns;
	s64 to_ns = now_ns < v->end_ns ? now_ns : v->end_ns;
	u64 ns = to_ns > from_ns ? to_ns - from_ns : 0, bound = v->since_bound_ns + bound_ns;

	if (v->now.state == BRAID_VCPU_UNKNOWN)
		return;
	bound = bound < ns && !v->now.within ? bound : ns;
	v->bound_sum_ns += bound;
	braid_task_add_bound(s, v->guest->number, v->now.task, bound);
}

int braid_vcpu_refresh(struct braid_states *s, struct braid_vcpu *v, s64 now_ns, u64 bound_ns)
{
	bool moved = v->moved_unseen, holds;
	struct braid_state_span next;
	int err;

	v->moved_unseen = false;
	compute(s, v, now_ns, &next);
	holds = (next.state == BRAID_VCPU_STOLEN || next.state == BRAID_VCPU_THROTTLED) &&
		v->thread == BRAID_THREAD_WAITS && !v->host->seen.migrations;
	if (vcpu_same(&v->now, &next) && v->holds == holds)
		return 0;
	err = close_span(s, v, now_ns, bound_ns);
	if (!err && !holds)
		err = braid_held_release(s, v, moved);
	add_bound(s, v, now_ns, bound_ns);
	next.from_ns = v->since_ns = now_ns;
	next.from_bound_ns = v->since_bound_ns = bound_ns;
	v->now = next;
	v->holds = holds;
	return err;
}

void braid_vcpu_sums(const struct braid_vcpu *v, s64 now_ns, u64 ns[BRAID_NR_VCPU_STATES])
{
	s64 from_ns = v->now.from_ns > v->begin_ns ? v->now.from_ns : v->begin_ns;
	s64 to_ns = now_ns < v->end_ns ? now_ns : v->end_ns;

	memcpy(ns, v->ns, sizeof(v->ns));
	if (to_ns > from_ns)
		ns[v->now.state] += to_ns - from_ns;
}

int braid_vcpu_settle(struct braid_states *s, struct braid_vcpu *v, s64 ns)
{
	int err = close_span(s, v, ns, 0);

	if (!err)
		err = braid_held_release(s, v, false);
	v->now.from_ns = ns;
	v->now.from_bound_ns = 0;
	return err;
}

int braid_vcpu_end(struct braid_states *s, struct braid_vcpu *v)
{
	int err = braid_vcpu_settle(s, v, v->end_ns);

	add_bound(s, v, v->end_ns, 0);
	return err;
}

int braid_vcpu_report_exit(struct braid_states *s, struct braid_vcpu *v, s64 ns)
{
	struct braid_exit exit = v->exit;
	u32 k;

	v->out = false;
	if (ns < v->begin_ns || exit.from_ns > v->end_ns)
		return 0;
	exit.from_ns = exit.from_ns > v->begin_ns ? exit.from_ns : v->begin_ns;
	exit.to_ns = ns < v->end_ns ? ns : v->end_ns;
	for (k = 0; k < BRAID_NR_VCPU_STATES; k++)
		exit.ns[k] = v->ns[k] - v->exit.ns[k];
	return s->ops && s->ops->exit ? s->ops->exit(s->arg, &exit) : 0;
}

void braid_vcpu_set_thread(struct braid_states *s, struct braid_vcpu *v, int thread, u32 cpu)
{
	braid_list_vcpu(s, v, thread, cpu);
	if (thread == BRAID_THREAD_ON && cpu < v->host->nr_cpus)
		v->host->cpus[cpu].any_vcpu = true;
	/* What its guest said about that may be lost. */
	if (thread == BRAID_THREAD_ON && v->in_gap)
		v->offline = false;
	if (thread == BRAID_THREAD_UNKNOWN) {
		v->kvm = BRAID_KVM_UNSEEN;
		v->times_unseen++;
		v->out = false;
	} else {
		braid_list_touch(s, v - s->vcpus);
	}
	v->times_unseen += braid_vcpu_may_hide(v);
}

int braid_vcpu_forget_thread(struct braid_states *s, struct braid_vcpu *v, s64 ns)
{
	v->ipi = -1;
	v->reason = 0;
	v->halted = false;
	braid_vcpu_set_thread(s, v, BRAID_THREAD_UNKNOWN, v->cpu);
	braid_mark(s, BRAID_MARK_LOST, v - s->vcpus, ns, 0, 0);
	return braid_vcpu_refresh(s, v, ns, 0);
}

int braid_vcpu_refresh_waiters(struct braid_states *s, struct braid_host_state *host, u32 cpu,
			       s64 now_ns, u64 bound_ns)
{
	u32 k = host->cpus[cpu].first_waiter;
	int err = 0;

	for (; k != BRAID_NO_VCPU && !err; k = s->vcpus[k].next)
		err = braid_vcpu_refresh(s, &s->vcpus[k], now_ns, bound_ns);
	return err;
}

int braid_vcpu_take_online(struct braid_states *s, const struct braid_item *item,
			   const struct braid_role_info *info)
{
	const struct braid_guest_state *guest = &s->guests[item->stream->number];
	bool sure = braid_item_is_sure(item);
	struct braid_vcpu *v;
	s64 cpu, online;

	if (!braid_role_number(info, 0, item, &cpu) || !braid_role_number(info, 1, item, &online) ||
	    cpu < 0 || cpu >= guest->nr_vcpus)
		return 0;
	v = &s->vcpus[guest->first_vcpu + cpu];
	v->offline = sure && !online;
	return braid_vcpu_refresh(s, v, item->host_ns,
				  sure ? braid_item_bound_of_host(item) : 0);
}

/* All that is unknown already stays so: only those that an event changed since then are of interest. */
int braid_vcpu_forget(struct braid_states *s, struct braid_host_state *host, u32 cpu, s64 now_ns)
{
	struct braid_vcpu *v;
	int err = 0;
	u32 k;

	for (k = host->cpus[cpu].first_on; k != BRAID_NO_VCPU; k = s->vcpus[k].next)
		braid_list_touch(s, k);
	while (host->first_touched != BRAID_NO_VCPU && !err) {
		k = host->first_touched;
		v = &s->vcpus[k];
		host->first_touched = v->next_touched;
		v->touched = false;
		if (!v->tid)	/* nothing is known of it */
			continue;
		v->ipi = -1;
		braid_mark(s, BRAID_MARK_LOST, k, now_ns, 0, 0);
		/* One that runs on another CPU could not leave it unseen. */
		if (v->thread != BRAID_THREAD_ON || v->cpu == cpu)
			braid_vcpu_set_thread(s, v, BRAID_THREAD_UNKNOWN, v->cpu);
		err = braid_vcpu_refresh(s, v, now_ns, 0);
	}
	return err;
}
