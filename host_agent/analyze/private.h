/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files of the state machine share among themselves. */
#ifndef BRAID_ANALYZE_PRIVATE_H
#define BRAID_ANALYZE_PRIVATE_H

#include "host_agent/analyze/states.h"

#define BRAID_STATES_MAX_CPUS	65536u	/* of a host; a ring of a larger number is not one */

/* Whether a time is within the whole observation, which is that of the hosts. */
static inline bool braid_states_observes(const struct braid_states *s, s64 ns)
{
	return ns >= s->begin_ns && ns <= s->end_ns;
}

/* cpus.c ----------------------------------------------------------------------------------- */

static inline u32 braid_host_number(const struct braid_states *s,
				    const struct braid_host_state *host)
{
	return host - s->hosts;
}

/* The CPU of a host's event, of those below ->nr_cpus. */
static inline struct braid_host_cpu *braid_states_cpu_of(const struct braid_states *s,
							 const struct braid_item *item)
{
	return &braid_states_host(s, item->stream)->cpus[item->ring->cpu];
}

/* Makes the hosts and their CPUs. Returns 0 or -ENOMEM. */
int braid_cpus_begin(struct braid_states *s);

/* A kvm_entry or kvm_exit was recorded on a host CPU. */
void braid_cpu_has_kvm(struct braid_host_state *host, u32 number);

/* What runs on a host CPU changes, or is not known any more: adds up what did until then. */
void braid_cpu_settle(struct braid_states *s, struct braid_host_cpu *cpu, s64 now_ns);

/* Whether a vCPU may execute, where its thread is now, without kvm_entry and kvm_exit in the trace. */
bool braid_vcpu_may_hide(const struct braid_vcpu *v);

/* lists.c ---------------------------------------------------------------------------------- */

/* A vCPU's thread runs, waits, ... on @cpu from now on: it changes lists. */
void braid_list_vcpu(struct braid_states *s, struct braid_vcpu *v, int thread, u32 cpu);

/* Something of a vCPU is known that a loss of the host's events makes unknown. */
void braid_list_touch(struct braid_states *s, u32 vcpu);

/* Something of a host CPU is known that the stop of the host's recording makes unknown. */
void braid_list_touch_cpu(struct braid_host_state *host, u32 cpu);

/* losses.c --------------------------------------------------------------------------------- */

/* From here on a ring's events are missing. Returns 0 or the op's error. */
int braid_losses_open_gap(struct braid_states *s, const struct braid_ring *ring, s64 ns);

/*
 * The merge has moved the last event's ring on to its next event: if some are missing in between,
 * lost or omitted, that begins at the last event. Returns 0 or -errno with braid_fail().
 */
int braid_losses_look_ahead(struct braid_states *s);

/* What happens without an event, before one at a time; nothing before the first event. Likewise. */
int braid_losses_pass(struct braid_states *s, s64 ns);

/* observe.c -------------------------------------------------------------------------------- */

/* Where what is recorded changes. */
struct braid_edge {
	s64 due_ns;		/* before an item of this time */
	enum {
		BRAID_EDGE_HOST_STOPS, BRAID_EDGE_GUEST_STOPS,
		BRAID_EDGE_STARTS,	/* a host's recording */
		BRAID_EDGE_QUOTA_BEGINS, BRAID_EDGE_QUOTA_ENDS,	/* an interval of cpu.stat */
		BRAID_EDGE_LEAVES, BRAID_EDGE_ARRIVES,	/* a guest moves to another host */
	} kind;
	u32 which;		/* HOST_STOPS: the host; GUEST_STOPS, LEAVES, ARRIVES: the stream;
				   STARTS: of s->starts; QUOTA: of s->quotas */
};

/*
 * Takes the windows from the source, and makes the edges; s->guests is there. Returns 0 or -ENOMEM
 * with braid_fail().
 */
int braid_observe_begin(struct braid_states *s);

/* Makes a vCPU, the @number-th of a guest, and says when it is observed. */
void braid_observe_vcpu(struct braid_states *s, u32 vcpu, const struct braid_stream *guest,
			u32 number);

/*
 * A guest's present window is over: the next one, if there is one, is the present one. Returns 0 or
 * the op's error.
 */
int braid_observe_next(struct braid_states *s, u32 stream);

/*
 * The source has grown: the guests and the recording that have ended meanwhile are observed up to
 * then, or up to the last pause.
 */
void braid_observe_grown(struct braid_states *s);

/* The end of the trace: nothing is observed after it. */
void braid_observe_end(struct braid_states *s);

/*
 * Then the last window is over. Returns 0 or the op's error; each nanosecond must be in one state.
 */
int braid_observe_close(struct braid_states *s);

/* The same of one vCPU, at a time. */
int braid_observe_leave(struct braid_states *s, u32 vcpu, s64 ns);

/* Adds an edge, in any order before braid_edges_sort(). Returns 0 or -ENOMEM with braid_fail(). */
int braid_observe_edge(struct braid_states *s, struct braid_edge edge);

/* edges.c ---------------------------------------------------------------------------------- */

/* Once all are there. */
void braid_edges_sort(struct braid_states *s);

/* Passes all edges up to a time. Returns 0 or the op's error. */
int braid_edges_pass(struct braid_states *s, s64 ns);

/* moves.c ---------------------------------------------------------------------------------- */

/* Makes the edges of guests that moved between hosts. Returns 0, or -ENOMEM with braid_fail(). */
int braid_moves_begin(struct braid_states *s);

/* A guest leaves a host, or arrives on the next one. Returns 0 or the op's error. */
int braid_moves_pass(struct braid_states *s, const struct braid_edge *edge);

/* start.c ---------------------------------------------------------------------------------- */

/*
 * Finds out what the vCPUs did at the starts of recordings, by their first events; adds edges.
 * Reads a limited number of events, and rewinds the source. Returns 0 or -errno with braid_fail().
 */
int braid_start_find(struct braid_states *s);

/* A pass before the one over the whole trace, which reports its faults. Returns what @pass does. */
int braid_states_silently(struct braid_source *source, int (*pass)(void *arg), void *arg);

/*
 * What the first events of a recording of a host, perhaps by several files, prove of its start.
 */
struct braid_start {
	u32 host;
	s64 ns, until_ns;
	struct braid_start_vcpu {
		u32 vcpu;
		s32 tid;
		int thread, kvm;	/* as in struct braid_vcpu */
		bool halted;
		u32 cpu;
	} *vcpus;
	struct braid_start_cpu {
		u32 cpu;
		s32 tid;
	} *cpus;
	u32 nr_vcpus, nr_cpus;
};

/* A start: the vCPUs get the states that were found. Returns 0 or the op's error. */
int braid_start_apply(struct braid_states *s, u32 which);

void braid_start_free(struct braid_states *s);

/* life.c ----------------------------------------------------------------------------------- */

/* Finds out until when guests lived that the trace sees end. Rewinds the source. Likewise. */
int braid_life_find(struct braid_states *s);

/* Before an event at a time: guests whose last sign of life is before it have no task any more. */
int braid_life_pass(struct braid_states *s, s64 ns);

/* vcpu.c ----------------------------------------------------------------------------------- */

static inline bool braid_vcpu_observes(const struct braid_vcpu *v, s64 ns)
{
	return ns >= v->begin_ns && ns <= v->end_ns;
}

/** braid_vcpu_note_waker - a wakeup of its thread: @item, by what runs on that CPU */
void braid_vcpu_note_waker(const struct braid_states *s, struct braid_vcpu *v,
			   const struct braid_item *item);

/* The vCPU that a thread of a host is at a time; NULL: none, or one that is not known by itself. */
struct braid_vcpu *braid_vcpu_of_thread(const struct braid_states *s,
					const struct braid_host_state *host, s64 tid, s64 ns);

/*
 * Compares a vCPU's parts with its open span: if they differ, the span ends now. @bound_ns: of a
 * guest's event that is the reason; 0: the host's. Returns 0 or the op's error.
 */
int braid_vcpu_refresh(struct braid_states *s, struct braid_vcpu *v, s64 now_ns, u64 bound_ns);

/* All that wait on a host CPU, whose current thread or its task has changed. Likewise. */
int braid_vcpu_refresh_waiters(struct braid_states *s, struct braid_host_state *host, u32 cpu,
			       s64 now_ns, u64 bound_ns);

/* Those whose culprit a vCPU is: its task has changed. Likewise. */
static inline int braid_vcpu_refresh_behind(struct braid_states *s, const struct braid_vcpu *v,
					    s64 now_ns, u64 bound_ns)
{
	return v->thread == BRAID_THREAD_ON && v->cpu < v->host->nr_cpus ?
	       braid_vcpu_refresh_waiters(s, v->host, v->cpu, now_ns, bound_ns) : 0;
}

/* Its thread runs, waits (@cpu is where), sleeps, ...; call braid_vcpu_refresh() then. */
void braid_vcpu_set_thread(struct braid_states *s, struct braid_vcpu *v, int thread, u32 cpu);

/* What the host has shown of its thread and interrupts does not hold any more. Likewise. */
int braid_vcpu_forget_thread(struct braid_states *s, struct braid_vcpu *v, s64 ns);

/* Closes its open span now, and opens the same again. Returns 0 or the op's error. */
int braid_vcpu_settle(struct braid_states *s, struct braid_vcpu *v, s64 ns);

/*
 * One of a guest's vCPUs goes offline or online, or is stated to be: any of them may record that.
 * Returns 0 or the op's error.
 */
int braid_vcpu_take_online(struct braid_states *s, const struct braid_item *item,
			   const struct braid_role_info *info);

/*
 * The exit is over, or no more is recorded: its states are those that the vCPU went through since,
 * within its observation. Returns 0 or the op's error.
 */
int braid_vcpu_report_exit(struct braid_states *s, struct braid_vcpu *v, s64 ns);

/* The end of its observation in a window. Returns 0 or the op's error. */
int braid_vcpu_end(struct braid_states *s, struct braid_vcpu *v);

/* Events of a host CPU were lost: what depends on them is unknown. Returns 0 or the op's error. */
int braid_vcpu_forget(struct braid_states *s, struct braid_host_state *host, u32 cpu,
		      s64 now_ns);

/* quota.c ---------------------------------------------------------------------------------- */

/* Makes the table of cgroups. Returns 0, or -ENOMEM with braid_fail(). */
int braid_quota_begin(struct braid_states *s);

/* The source has grown: there may be more of them. Likewise; then all is as it was. */
int braid_quota_grown(struct braid_states *s);

/* The number of a host's cgroup; of one that no vCPU is in: the number of all. */
u32 braid_quota_of(const struct braid_states *s, u32 host, u64 id);

/* A vCPU waits: whether a quota holds it back. @span: as if none did; changed if one does */
bool braid_quota_holds(const struct braid_states *s, const struct braid_vcpu *v, s64 now_ns,
		       struct braid_state_span *span);

/* Whether a quota of its thread's cgroups is in force on the CPU where the thread runs or waits. */
bool braid_quota_is_in_force(const struct braid_states *s, const struct braid_vcpu *v, s64 now_ns);

/* throttle.c ------------------------------------------------------------------------------- */

/* Makes the edges of intervals. Returns 0, or -ENOMEM with braid_fail(). */
int braid_throttle_begin(struct braid_states *s);

/* An interval begins or ends. Returns 0 or the op's error. */
int braid_throttle_pass(struct braid_states *s, const struct braid_edge *edge);

/* An event about a run queue, on a CPU of the host. Returns 0, or -errno with braid_fail(). */
int braid_throttle_take(struct braid_states *s, u32 number, const struct braid_item *item,
		     const struct braid_role_info *info);

/* A vCPU's thread has its event "held_back": it counts if a quota is in force on its CPU. */
void braid_throttle_hold(const struct braid_states *s, struct braid_vcpu *v, s64 ns);

/* The vCPU moved, or a queue was unthrottled: whether "held_back" still counts. */
void braid_throttle_check(const struct braid_states *s, struct braid_vcpu *v, s64 ns);

/*
 * A vCPU's thread begins to run: its run queues on that CPU are not throttled, even if the event
 * that says so is missing. The caller refreshes the vCPUs that wait there.
 */
void braid_throttle_ran(struct braid_states *s, struct braid_vcpu *v, u32 cpu, s64 ns);

/* Events of a host are missing: what is throttled there is not known. */
void braid_throttle_forget(struct braid_host_state *host);

/* others.c -------------------------------------------------------------------------------- */

/*
 * An event of KVM, of a thread that is of no guest: it is a vCPU from now on. *out: NULL if those
 * are not followed. Returns 0 or -ENOMEM with braid_fail().
 */
int braid_vcpu_add_other(struct braid_states *s, const struct braid_item *item,
			 struct braid_vcpu **out);

/* held.c ----------------------------------------------------------------------------------- */

/* Keeps a closed span until its culprit is certain. Returns 0, -ENOMEM or the op's error. */
int braid_held_add(struct braid_states *s, struct braid_vcpu *v,
		   const struct braid_state_span *span);

/* Hands a vCPU's spans on. @moved: it was, unseen: their culprits are unknown. Likewise. */
int braid_held_release(struct braid_states *s, struct braid_vcpu *v, bool moved);

/* The span of one of s->nr_held, which may be free. */
struct braid_state_span *braid_held_span(const struct braid_states *s, size_t number);

/* The one after a vCPU's @number-th, + 1 as its ->first_held; 0: none. */
u32 braid_held_next(const struct braid_states *s, u32 number);

/* marks.c ---------------------------------------------------------------------------------- */

/* Finds the only guest of each host, if there is one. Returns 0, or -ENOMEM with braid_fail(). */
int braid_marks_begin(struct braid_states *s);

/* Hands a mark on. @value, @bound_ns: as in struct braid_mark. */
void braid_mark(struct braid_states *s, enum braid_mark_kind kind, u32 vcpu, s64 ns,
		u64 bound_ns, u64 value);

/* An event of KVM about interrupts and halts; @v: the vCPU whose thread runs, or NULL. */
void braid_mark_take_kvm(struct braid_states *s, struct braid_vcpu *v, const struct braid_item *item,
			 const struct braid_role_info *info);

/* An event of a guest's vCPU about interrupts. */
void braid_mark_take_guest(struct braid_states *s, u32 vcpu, const struct braid_item *item,
			   const struct braid_role_info *info);

/* KVM's number of a vCPU: the first one that an event states. Returns 0, or -ENOMEM with braid_fail(). */
int braid_mark_set_id(struct braid_states *s, struct braid_vcpu *v, s64 id);

/* A task is woken by an event on a guest's vCPU. */
void braid_mark_wakes(struct braid_states *s, u32 vcpu, const struct braid_item *item);

/* task_table.c ----------------------------------------------------------------------------- */

/*
 * The task, created if new; it moves when others are. *out: NULL when there are too many. Returns 0,
 * or -ENOMEM with braid_fail().
 */
int braid_task_of(struct braid_states *s, u32 stream, s32 pid, struct braid_guest_task **out);

/* Adds a closed span to the vCPU's current task. */
void braid_task_take_span(struct braid_states *s, const struct braid_state_span *span);

/* Of a guest's task, this much is within the bound of a switch. */
void braid_task_add_bound(struct braid_states *s, u32 stream, s32 pid, u64 ns);

/* The task that ran on a host CPU. */
void braid_task_add_run(struct braid_states *s, u32 stream, s32 pid, u64 ns);

/* task.c ----------------------------------------------------------------------------------- */

/* Whether somebody wants to know what tasks of the host do. */
static inline bool braid_task_follows_host(const struct braid_states *s)
{
	return s->whole_host || (s->ops && s->ops->started);
}

/* Losses after which what a stream's tasks did is unknown. */
static inline u32 braid_task_gaps(const struct braid_states *s, u32 stream)
{
	return s->guests[stream].nr_vcpus ? s->guests[stream].gaps :
	       braid_states_host(s, s->source->streams[stream])->gaps;
}

/*
 * A switch of tasks on the host, whose fields are there; @call: that the CPU's task is in, set to
 * the next one's. Returns 0 or -errno with braid_fail().
 */
int braid_task_take_host_switch(struct braid_states *s, const struct braid_item *item,
				const struct braid_role_info *info, u32 *call);

/* A switch of tasks in a guest. Returns 0 or -errno with braid_fail(). */
int braid_task_take_switch(struct braid_states *s, const struct braid_item *item,
			   const struct braid_role_info *info);

/* An event on a host CPU whose task was unknown: it is the event's, if those are added up. Likewise. */
int braid_task_take_host_current(struct braid_states *s, const struct braid_item *item);

/* Any event of a guest's vCPU whose current task is unknown: it is the event's. Likewise. */
int braid_task_take_current(struct braid_states *s, const struct braid_item *item, u32 vcpu);

/* A wakeup that begins, if somebody wants to know. Likewise. */
int braid_task_take_waking(struct braid_states *s, const struct braid_item *item,
			   const struct braid_role_info *info);

/* A wakeup in a guest, or on the host if its tasks are followed. Likewise. */
int braid_task_take_wakeup(struct braid_states *s, const struct braid_item *item,
			   const struct braid_role_info *info);

/* A task in a guest's queue is moved to another vCPU's. Likewise. */
int braid_task_take_migrate(struct braid_states *s, const struct braid_item *item,
			    const struct braid_role_info *info);

/* A system call begins or ends on a guest's vCPU. Likewise. */
int braid_task_take_call(struct braid_states *s, const struct braid_item *item,
			 const struct braid_role_info *info, u32 vcpu);

/* A recording ends: so does what its tasks do, which is unknown then. @first: of a list of them. */
void braid_task_forget(struct braid_states *s, u32 *first, s64 ns);

/* The end of the trace: closes what tasks do in their guests' queues. */
void braid_task_end(struct braid_states *s);

#endif /* BRAID_ANALYZE_PRIVATE_H */
