/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * In which state each vCPU and each guest task was, at each nanosecond of a trace.
 *
 * One pass over the merge. Invariants:
 * - Windows are sets: when each guest was recorded, and the host. A vCPU is in exactly one state at
 *   each time of its observation, which is within its guest's windows; the lengths of its spans add
 *   up to that time (struct braid_vcpu.ns, checked by braid_states_end()). Outside there is nothing.
 * - When a window ends, all that its recording showed is forgotten, so nothing spans a time that
 *   was not recorded (edges.c).
 * - A vCPU's state comes from the host's events alone, which are of one clock: it has no bound. A
 *   guest contributes, to its own vCPUs only, which of its tasks was current, and which vCPUs are
 *   offline: that replaces a state in which the thread neither runs nor is runnable.
 * - After lost events a state is unknown until an event proves it. The gap begins at the ring's
 *   last event before the loss, not when the loss is reported.
 * - A vCPU is throttled from its cgroup's own moments, or else, while its CPU is idle, within the
 *   intervals in which the cgroup's cpu.stat counted; the latter is never proven (quota.c).
 * - Without sched_migrate_task events, a vCPU's wait is handed on when it runs: if that is on
 *   another CPU than where it waited, its culprits since its last event are unknown (held.c).
 * - Where the host's events contradict each other, the kernel omitted a switch: what that hides is
 *   unknown (gaps.h).
 * - If a recording states its start, a vCPU's first events after it prove its state from then on
 *   (start.c). They are looked for before the pass, in a limited number of events of each window.
 * - A guest that the trace sees end, by a reset or otherwise, has tasks until its last sign of
 *   life: an event, or an answer about its clock. Then none is current, up to its stream's end.
 * - Nothing is inferred from the absence of events whose kind the trace does not have: without
 *   kvm_entry and kvm_exit a vCPU whose thread runs is in BRAID_VCPU_RUNS.
 * - Memory is that of vCPUs, host CPUs and guest tasks; the latter have a limit.
 * - The work for an event does not depend on how many vCPUs there are, or wait (lists.c); that for
 *   a start or stop only on what is recorded there.
 */
#ifndef BRAID_ANALYZE_STATES_H
#define BRAID_ANALYZE_STATES_H

#include "host_agent/analyze/gaps.h"
#include "host_agent/analyze/host_state.h"
#include "host_agent/analyze/roles.h"
#include "host_agent/trace/vcpu.h"
#include "host_agent/util/hash.h"

#define BRAID_STATES_MAX_TASKS	(1u << 18)	/* of all guests; later ones are ignored */
#define BRAID_STATES_MAX_OTHERS	1024u	/* vCPUs of no guest of the trace; likewise */
#define BRAID_MAX_WAITERS	64u	/* on a host CPU that are followed one by one */
#define BRAID_PID_NOT_TRACED	(-2)	/* no task of the trace (life.c) */
#define BRAID_NO_VCPU		0xffffffffu
#define BRAID_NO_CPU		0xffffffffu
#define BRAID_NO_TASK		0xffffffffu

enum braid_vcpu_state {
	BRAID_VCPU_UNKNOWN = 0,	/* events were lost, or none has proven a state yet */
	BRAID_VCPU_GUEST,	/* executes guest code: between kvm_entry and kvm_exit */
	BRAID_VCPU_KVM,		/* its thread runs in the hypervisor: after kvm_exit */
	BRAID_VCPU_VMM,		/* its thread runs in user space: after kvm_userspace_exit */
	BRAID_VCPU_RUNS,	/* its thread runs, without KVM events: one of the three above */
	BRAID_VCPU_STOLEN,	/* its thread is runnable, or current, and something else runs */
	BRAID_VCPU_THROTTLED,	/* its thread is runnable; its cgroup's CPU quota holds it back */
	BRAID_VCPU_HALTED,	/* its thread sleeps in KVM after HLT */
	BRAID_VCPU_BLOCKED,	/* its thread sleeps in the hypervisor or the VMM, not halted */
	BRAID_VCPU_SLEEPS,	/* its thread sleeps, without KVM events: one of the two above */
	BRAID_VCPU_STOPPED,	/* its thread is stopped: by a signal or a debugger */
	BRAID_VCPU_OFFLINE,	/* the guest has taken the CPU off, and its thread does not run */
	BRAID_NR_VCPU_STATES
};

/* What ran on the host CPU where a stolen vCPU waited. */
enum braid_culprit_kind {
	BRAID_CULPRIT_NONE = 0,	/* the vCPU was not stolen */
	BRAID_CULPRIT_TASK,	/* a thread of the host that is not a vCPU */
	BRAID_CULPRIT_VCPU,	/* a vCPU, and its guest's current task */
	BRAID_CULPRIT_NOTHING,	/* the CPU was idle: about to be scheduled, or throttled unseen */
	BRAID_CULPRIT_IRQ,	/* a handler of the host's interrupt */
	BRAID_CULPRIT_SOFTIRQ,
	BRAID_CULPRIT_UNKNOWN,	/* its events were lost or omitted, or it has none yet */
	BRAID_CULPRIT_GUEST_TASK,	/* not of a vCPU, but of a task in its run queue: another one */
	BRAID_CULPRIT_OTHERS,	/* several, which a limit does not tell apart */
	BRAID_CULPRIT_QUOTA,	/* not of a stolen vCPU, but of a throttled one: a cgroup's */
	/* Those that an analysis counts as one: */
	BRAID_CULPRIT_GUEST,	/* vCPUs and the VMM's other threads */
	BRAID_CULPRIT_RECORDER,
	BRAID_CULPRIT_HOST,	/* its other threads */
	BRAID_CULPRIT_INTERRUPTS,
};

struct braid_culprit {
	enum braid_culprit_kind kind;
	s32 id;			/* TASK, VCPU: the thread; IRQ: its number; SOFTIRQ: its vector;
				   GUEST: the number of its stream; QUOTA: in braid_states.quotas */
	u32 vcpu;		/* VCPU, GUEST_TASK: in braid_states.vcpus */
	s32 task;		/* likewise: of its guest; or BRAID_PID_UNKNOWN */
	u32 host;		/* TASK: whose thread it is */
};

static inline bool braid_culprit_same(const struct braid_culprit *a, const struct braid_culprit *b)
{
	return a->kind == b->kind && a->id == b->id && a->vcpu == b->vcpu && a->task == b->task &&
	       a->host == b->host;
}

/* A vCPU was in one state, with the same current task, culprit and reason. */
struct braid_state_span {
	u32 vcpu;		/* in braid_states.vcpus */
	enum braid_vcpu_state state;
	s64 from_ns, to_ns;	/* of the host's clock; to_ns > from_ns */
	s32 task;		/* of the guest, current on the vCPU; or BRAID_PID_UNKNOWN */
	u64 reason;		/* KVM: isa << 32 | reason of the exit; 0: unknown */
	struct braid_culprit culprit;
	u32 cpu;		/* STOLEN: of its host, where the culprit ran; THROTTLED:
				   BRAID_NO_CPU; else 0 */
	bool within;		/* THROTTLED: by cpu.stat, within an interval; not proven */
	/*
	 * The task, or the culprit's task, came or went by a guest's event: by this much of the
	 * span's ends it may have been another one. 0: that end is an event of the host, or the
	 * span was handed on in parts, and they meet there (braid_states_settle()).
	 */
	u64 from_bound_ns, to_bound_ns;
};

/* A guest's task waited in its guest's run queue, and got its vCPU: what of that is observed. */
struct braid_queue_wait {
	u32 vcpu;		/* that it runs on */
	s32 pid;
	s64 from_ns, to_ns;
	u64 bound_ns;		/* of either end */
	bool woken;		/* since it was woken; else since it was preempted */
	u32 waker;		/* woken: the vCPU that recorded the wakeup */
	s64 queue_from_ns;	/* known: since when in the last queue */
	bool known;		/* the vCPUs in whose queues it was; they were, meanwhile: */
	u64 ns[BRAID_NR_VCPU_STATES];	/* GUEST, RUNS: another task ran; they add up to the time */
};

/* A task, of a guest or of the host, got a CPU: what is known of the time before. */
struct braid_task_start {
	u32 stream, cpu;
	s32 pid;
	s64 ns;
	bool off;		/* it had left a CPU, ... */
	bool preempted;		/* ... runnable; else it was blocked ... */
	s64 off_ns;		/* ... since then ... */
	u32 call;		/* ... in BRAID_CALL_* or a system call */
	bool woken;		/* it was, ... */
	s64 woken_ns;		/* ... then, or its waking is all that is known ... */
	u32 waker_cpu;		/* ... by what ran there: */
	s32 waker;
	u64 waker_counter;	/* of that event */
};

/* A vCPU left guest code, and came back, or did not until the end of its observation. */
struct braid_exit {
	u32 vcpu;
	s32 task;		/* of the guest, current when it left; or BRAID_PID_UNKNOWN */
	u64 reason;		/* isa << 32 | reason */
	u32 call;		/* of that task: BRAID_CALL_* or a system call */
	u32 level;		/* 2: it left a guest of the guest; else 1 */
	u64 ip;			/* where in the guest; 0: not recorded */
	s64 from_ns, to_ns;	/* kvm_exit, kvm_entry, or the end ... */
	bool returned;		/* ... it was the entry */
	u64 ns[BRAID_NR_VCPU_STATES];	/* what it did in between; they add up to that time */
};

/* A moment on the way of an interrupt to a guest's task. */
enum braid_mark_kind {
	BRAID_MARK_RAISED,	/* an interrupt for the vCPU; value: its vector */
	BRAID_MARK_WOKEN,	/* its thread, which slept: halted, if KVM's events are there */
	BRAID_MARK_ON_CPU,	/* its thread */
	BRAID_MARK_INJECTED,	/* value: the vector */
	BRAID_MARK_ENTERED,	/* the guest */
	BRAID_MARK_HALTED,	/* a halt is over; value: whether the thread slept */
	BRAID_MARK_HANDLER,	/* in the guest begins; value: vector, or BRAID_MARK_DEVICE */
	BRAID_MARK_HANDLER_END,
	BRAID_MARK_WAKES,	/* in the guest, in the context of an interrupt: a task is woken */
	BRAID_MARK_LOST,	/* events of the host */
	BRAID_MARK_LOST_GUEST,	/* events of the vCPU's ring */
};

#define BRAID_MARK_DEVICE	0u	/* a device's interrupt, whose vector is not known */

struct braid_mark {
	enum braid_mark_kind kind;
	u32 vcpu;
	s64 ns;
	u64 bound_ns;		/* of a guest's event */
	u64 value;
	bool if_alone;		/* RAISED: for this vCPU only if KVM runs no VM but the guest */
};

/* Called as soon as a fact is certain. NULL: ignored. Return: 0 or -errno with braid_fail(). */
struct braid_states_ops {
	/* Of each vCPU in time order, without a gap. */
	int (*span)(void *arg, const struct braid_state_span *span);
	int (*queued)(void *arg, const struct braid_queue_wait *wait);
	/* If it is set, tasks of the host are followed, too. */
	int (*started)(void *arg, const struct braid_task_start *start);
	/* Of exits, at the entry or the end: the part within the observation. */
	int (*exit)(void *arg, const struct braid_exit *exit);
	void (*mark)(void *arg, const struct braid_mark *mark);
	/* Of the vCPU's guest nothing more was recorded; later another recording follows. */
	int (*cut)(void *arg, u32 vcpu, s64 ns);
	/*
	 * Also follow what the host's CPUs and tasks do, and vCPUs of guests that are not in the
	 * trace: they are added when KVM runs them first, and their ->guest is the host.
	 */
	bool whole_host;
};

/* A time in which something was recorded. */
struct braid_observed {
	s64 start_ns, stop_ns;	/* INT64_MIN, INT64_MAX: not known */
	s64 from_ns, to_ns;	/* what of it is selected; to_ns < from_ns: nothing */
	u64 before_ns;		/* of a guest's, after the end: what is selected of earlier ones */
};

/* Of a guest; of the host, too, if its tasks are followed. */
struct braid_guest_task {
	u32 stream;
	s32 pid;
	char comm[BRAID_COMM_BYTES];	/* sanitized; "": unknown */
	enum {
		BRAID_GUEST_TASK_UNKNOWN, BRAID_GUEST_TASK_CURRENT, BRAID_GUEST_TASK_QUEUED,
		BRAID_GUEST_TASK_BLOCKED,
	} state;
	bool seen;		/* a switch or wakeup was about it, ... */
	bool exited;
	s64 begin_ns, end_ns;	/* ... its observation: from the first one until it exited */
	bool woken;		/* QUEUED: by a wakeup ... */
	u32 waker;		/* ... which this vCPU recorded */
	s64 since_ns;		/* QUEUED, BLOCKED */
	u64 bound_ns;		/* of since_ns */
	bool blocked;		/* QUEUED by a wakeup: it had been BLOCKED, ... */
	s64 blocked_from_ns;	/* ... since then */
	bool waking;		/* its wakeup has begun, ... */
	s64 waking_ns;		/* ... then */
	u32 waker_cpu;		/* of woken, waking */
	s32 waker_pid;
	u64 waker_counter;
	u32 gaps;		/* of its stream, when it was last seen: more make it unknown */
	u32 call;		/* not CURRENT: the system call it is in */
	u64 ns[BRAID_NR_VCPU_STATES];	/* CURRENT: by its vCPU's state; of the host: RUNS */
	u64 switches;		/* to it */
	u64 bound_sum_ns;	/* of these: within the bound of a switch, so perhaps another's */
	u64 queued_ns, blocked_ns;	/* what remains of its observation is unknown */
	s64 queue_from_ns;	/* QUEUED: since then ... */
	u32 queue;		/* ... on this vCPU, whose ->ns were ... */
	u64 queue_began_ns[BRAID_NR_VCPU_STATES];
	u64 queue_ns[BRAID_NR_VCPU_STATES];	/* before that, on others */
	bool known;		/* it is listed with its guest, ... */
	u32 next_known;		/* ... before this one */
};

/* The parts of a vCPU's state that events change one by one. */
struct braid_vcpu {
	const struct braid_stream *guest;
	struct braid_host_state *host;	/* that runs it ... */
	const struct braid_stream *part;	/* ... and what it knows of the guest */
	u32 number;		/* in the guest */
	s32 tid;		/* of its thread; 0: not seen yet */
	s64 first_ns, last_ns;	/* when its guest was there; INT64_MIN, INT64_MAX: at any time */
	s64 begin_ns, end_ns;	/* its observation, in the present window */
	u64 observed_ns;	/* the whole, in earlier ones; after the end, in all */
	enum { BRAID_THREAD_UNKNOWN, BRAID_THREAD_ON, BRAID_THREAD_WAITS, BRAID_THREAD_SLEEPS,
	       BRAID_THREAD_STOPPED } thread;
	enum { BRAID_KVM_UNSEEN, BRAID_KVM_GUEST, BRAID_KVM_HOST, BRAID_KVM_USER } kvm;
	u32 times_unseen;	/* that entries and exits of it may be missing from then on */
	u64 reason;
	bool halted;		/* KVM_HOST: also without a reason, since before the start */
	u64 exits, entries;	/* kvm_exit and kvm_entry events within its observation */
	s64 kvm_id;		/* KVM's number of it, on x86 its APIC's id; -1: not known yet */
	s64 ipi;		/* vector that it sends since it left the guest; -1: none */
	bool out;		/* it left guest code, in a known state since: */
	struct braid_exit exit;	/* ns: of the vCPU's ->ns at that time */
	u32 cpu;		/* of its host: where it runs or waits */
	struct braid_culprit waker;	/* what woke its thread last ... */
	s64 woken_ns;		/* ... at that time */
	enum { BRAID_LIST_NONE, BRAID_LIST_ON, BRAID_LIST_WAITS, BRAID_LIST_BEHIND } list;
	u32 next, prev;		/* in that list of that CPU; or BRAID_NO_VCPU */
	bool touched;		/* an event changed it since the last loss of the host: it is listed, */
	u32 next_touched;	/* ... before this one */
	s32 task;
	u32 call;		/* that the task is in */
	bool in_gap;		/* its guest's ring lost events: the task is unknown */
	bool offline;		/* as its guest says; the thread may still run, or run again */
	struct braid_state_span now;	/* the open span; to_ns is not set */
	s64 since_ns;		/* its start, however often it was handed on in between ... */
	u64 since_bound_ns;	/* ... and the bound of that */
	u32 hidden;		/* host CPUs that have a gap at whose end it runs there (gaps.h) */
	bool moved_unseen;	/* it waited, but not on the CPU where it was thought to be */
	bool holds;		/* the open span is of a wait, perhaps on another CPU; ... */
	u32 first_held, last_held;	/* ... that wait's earlier ones, + 1 (held.c); 0: none */
	u64 ns[BRAID_NR_VCPU_STATES];	/* of all spans */
	u64 bound_sum_ns;	/* of these, except UNKNOWN: within the bound of a guest's switch,
				   or an interval of cpu.stat */
	/* By "held_back", until it goes on. PERHAPS: counts if a quota comes into force */
	enum { BRAID_HELD_NOT, BRAID_HELD_PERHAPS, BRAID_HELD } held_back;
	struct braid_cpu_sums sums;	/* by its tasks */
};

/* KVM's number of a vCPU. */
struct braid_kvm_id {
	s64 id;
	u32 vcpu;
};

struct braid_guest_state {
	u32 first_vcpu;
	u32 nr_vcpus;		/* 0: the host's, or its threads are not known one by one */
	u32 gaps;
	bool any_switch, any_wakeup, any_call, any_handler;
	struct braid_kvm_id *ids;	/* of its vCPUs, as far as known, by id */
	size_t nr_ids, ids_capacity;
	bool entries_missing;	/* a vCPU left guest code twice, without a kvm_entry in between */
	s64 alive_ns;		/* its last sign of life; INT64_MAX: its end is not in the trace */
	bool reboots;		/* it ends with the boot */
	struct braid_observed *windows;	/* its recordings, in order, apart from each other */
	u32 nr_windows, window;	/* at least one; the present one, or the next */
	u32 first_known;	/* task of which something is known since the last one stopped, or
				   BRAID_NO_TASK */
};

/* A cgroup with a CPU quota. */
struct braid_quota {
	u32 host;
	u64 id;
	const char *path;	/* in its stream's table */
	u32 nr_intervals;	/* of its cpu.stat that go on */
};

struct braid_edge;
struct braid_held;
struct braid_start;

struct braid_states {
	struct braid_source *source;
	const struct braid_states_ops *ops;
	void *arg;
	struct braid_roles roles;
	struct braid_vcpu_map threads;
	struct braid_gaps gaps;
	struct braid_guest_state *guests;	/* by stream's number */
	u32 nr_streams;		/* of the source, at the beginning */
	size_t nr_cgroups;	/* rows of its streams that the quotas are made of */
	s64 paused_ns;		/* of a source that grows: the last pause; INT64_MIN: none */
	struct braid_vcpu *vcpus;
	u32 nr_vcpus;
	struct braid_hash others;	/* numbers in vcpus, of those of no guest, by thread */
	struct braid_host_state *hosts;	/* by number in the source; at least one */
	u32 nr_hosts;
	struct braid_guest_task *tasks;
	size_t nr_tasks, tasks_capacity;
	struct braid_hash by_pid;	/* numbers in tasks */
	bool tasks_left_out;
	bool whole_host;	/* of the ops */
	u64 renamed;		/* whenever names that were made of culprits and tasks may be outdated */
	struct braid_quota *quotas;	/* by host, then id; of all guests */
	u32 nr_quotas;
	struct braid_held *held;	/* spans of waits that may have been on other CPUs */
	size_t nr_held, held_capacity;
	u32 free_held;		/* the first that is free, + 1; 0: none */
	const struct braid_ring *last;	/* ring of the last event, ... */
	s64 last_ns;			/* ... and what identifies that event */
	u64 last_seq;
	const u8 *last_payload;
	s64 alive_ns;		/* the next guest's that has not passed; INT64_MAX: none has */
	u32 *ended_guests;	/* guests whose end is in the trace, by their last sign of life */
	u32 nr_ended, nr_past;
	struct braid_observed *windows;	/* each host's whole, from its first start to its last stop,
					   which is that of guests without one; then each guest's */
	u32 nr_windows;
	struct braid_observed *recorded;	/* when anything was, in order, apart from each other ... */
	u32 nr_recorded;		/* ... 0: that is not known */
	struct braid_edge *edges;	/* where what is recorded changes, in order ... */
	size_t nr_edges, edges_capacity, edge;	/* ... and the next one ... */
	s64 edge_ns;			/* ... which is then; INT64_MAX: none */
	struct braid_start *starts;	/* what was found out about the starts of recordings */
	u32 nr_starts;
	s64 begin_ns, end_ns;	/* of the whole; INT64_MAX until they are known */
	bool ended;
	bool windowed;		/* both are the recording's, or within; else the trace's last event
				   is the latest possible end */
	bool went_on;		/* they began where those of a former file were (grow.h) */
};

/**
 * braid_states_begin - prepare for a pass over a trace
 * @s: filled; braid_states_free() it in any case
 * @source: not being merged; rewound. If it grows, see grow.h
 * @ops: subscribed; may be NULL
 * @arg: passed to them
 *
 * vCPUs are observed within the windows of their guest's recordings, or from the first item on if
 * the trace has none, and as long as their guest's stream lasts.
 *
 * Return: 0, or -ENOMEM with braid_fail().
 */
int braid_states_begin(struct braid_states *s, struct braid_source *source,
		       const struct braid_states_ops *ops, void *arg);

/**
 * braid_states_limit - observe vCPUs within a part of the trace only
 * @s: begun, before the first event
 * @from_ns: of the host's clock; INT64_MIN: from the start
 * @to_ns: likewise; INT64_MAX: up to the end
 */
void braid_states_limit(struct braid_states *s, s64 from_ns, s64 to_ns);

/** braid_states_within - how much of a time a guest's vCPUs are observed; after the end */
u64 braid_states_within(const struct braid_states *s, u32 stream, s64 from_ns, s64 to_ns);

/** braid_states_recorded - how much of a time is in any recording */
u64 braid_states_recorded(const struct braid_states *s, s64 from_ns, s64 to_ns);

/** braid_states_cut - of the trace's events, no more will follow: the last one ends the observation */
void braid_states_cut(struct braid_states *s);

/* Differences of times within this fit into an s64; a clock that gives others is broken. */
#define BRAID_STATES_MAX_NS	(1LL << 61)

static inline bool braid_states_takes(s64 ns)
{
	return ns > -BRAID_STATES_MAX_NS && ns < BRAID_STATES_MAX_NS;
}

/**
 * braid_states_event - the next event of the merge
 * @s: the states
 * @item: the event, of a time that braid_states_takes(); all events of the host's and guests' rings
 *	in the merge's order
 * @info: its type
 *
 * Return: 0, or -errno with braid_fail(): out of memory, or from an op.
 */
int braid_states_event(struct braid_states *s, const struct braid_item *item,
		       const struct braid_event_type_info *info);

/** braid_states_lost - a loss, before the event that it is reported with. As braid_states_event() */
int braid_states_lost(struct braid_states *s, const struct braid_item *item);

/**
 * braid_states_settle - close a vCPU's open span now, and open the same again, without bounds there
 * @s: the states
 * @vcpu: in s->vcpus
 * @ns: at least the time of the last item
 *
 * Return: 0, or -errno of the op.
 */
int braid_states_settle(struct braid_states *s, u32 vcpu, s64 ns);

/** braid_vcpu_sums - how long a vCPU was in each state of its observation, up to now; begun */
void braid_vcpu_sums(const struct braid_vcpu *v, s64 now_ns, u64 ns[BRAID_NR_VCPU_STATES]);

/**
 * braid_states_end - the end of the trace: close all spans
 * @s: the states
 *
 * Return: 0, or -errno of an op; -EINVAL with braid_fail() when the states of a vCPU do not add up
 * to its time, which is a defect of this program.
 */
int braid_states_end(struct braid_states *s);

/** braid_states_vcpu_of - the vCPU that recorded an event; BRAID_NO_VCPU: none, as for a host */
static inline u32 braid_states_vcpu_of(const struct braid_states *s, const struct braid_item *item)
{
	const struct braid_guest_state *guest = &s->guests[item->stream->number];

	return item->ring->cpu < guest->nr_vcpus ? guest->first_vcpu + item->ring->cpu :
						   BRAID_NO_VCPU;
}

/**
 * braid_states_traced_until - the end of a vCPU's observation, or before it its guest's last sign of
 * life
 */
static inline s64 braid_states_traced_until(const struct braid_states *s, u32 vcpu)
{
	const struct braid_vcpu *v = &s->vcpus[vcpu];
	s64 alive_ns = s->guests[v->guest->number].alive_ns;

	return alive_ns < v->end_ns ? alive_ns : v->end_ns;
}

/** braid_states_free - free all */
void braid_states_free(struct braid_states *s);

/** braid_states_seen_of - what the hosts where a guest was have shown of any of their vCPUs */
struct braid_seen braid_states_seen_of(const struct braid_states *s,
				       const struct braid_stream *guest);

/** braid_states_host - the host where a stream was recorded; not of a guest that moved */
static inline struct braid_host_state *braid_states_host(const struct braid_states *s,
							 const struct braid_stream *stream)
{
	return &s->hosts[braid_stream_host_number(stream)];
}

/** braid_states_seen - which kinds of events the trace has of any host */
struct braid_seen braid_states_seen(const struct braid_states *s);

/** braid_states_lack_kvm - whether vCPUs ran on a CPU without kvm events, and others have */
bool braid_states_lack_kvm(const struct braid_host_state *host);

/** braid_states_knows_throttled - whether the trace shows what quotas hold back of a guest */
bool braid_states_knows_throttled(const struct braid_states *s, const struct braid_stream *guest);

/** braid_vcpu_state_name - "guest", "hypervisor", ...: one word */
const char *braid_vcpu_state_name(enum braid_vcpu_state state);

/** braid_states_task - a guest's task by pid, or NULL */
const struct braid_guest_task *braid_states_task(const struct braid_states *s, u32 stream,
						 s32 pid);

/** braid_states_sum - the time in all states together */
static inline u64 braid_states_sum(const u64 ns[BRAID_NR_VCPU_STATES])
{
	u64 sum = 0;
	u32 k;

	for (k = 0; k < BRAID_NR_VCPU_STATES; k++)
		sum += ns[k];
	return sum;
}

/** braid_states_ran - of that, the time in which the thread of a vCPU ran */
static inline u64 braid_states_ran(const u64 ns[BRAID_NR_VCPU_STATES])
{
	return ns[BRAID_VCPU_GUEST] + ns[BRAID_VCPU_KVM] + ns[BRAID_VCPU_VMM] + ns[BRAID_VCPU_RUNS];
}

/** braid_states_asleep - and the time in which it slept, or was stopped */
static inline u64 braid_states_asleep(const u64 ns[BRAID_NR_VCPU_STATES])
{
	return ns[BRAID_VCPU_HALTED] + ns[BRAID_VCPU_BLOCKED] + ns[BRAID_VCPU_SLEEPS] +
	       ns[BRAID_VCPU_STOPPED];
}

/** braid_task_current_ns - the time in which it was current on a vCPU; of the host: on a CPU */
static inline u64 braid_task_current_ns(const struct braid_guest_task *task)
{
	return braid_states_sum(task->ns);
}

/** braid_states_cpu - what a stream's CPU did; of the host with ops->whole_host. NULL: not known */
const struct braid_cpu_sums *braid_states_cpu(const struct braid_states *s, u32 stream, u32 cpu);

#endif /* BRAID_ANALYZE_STATES_H */
