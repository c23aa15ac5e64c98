/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Analyses: what subscribes to the states of vCPUs and tasks, and answers a question.
 *
 * Invariants; those of the states are in states.h:
 * - The room opens and writes no file, and starts no thread. A result is text that write() appends for the caller.
 * - The caller owns an analysis' state. Calls are in this order: begin(), then the states' ops and event() along one
 *   walk, end(), write(), free(). After a failure free() is next, even if begin() was never called.
 * - After end() nothing is added; write() may sort.
 * - An event of a guest without a bound, or of an uncertain epoch, proves nothing: its vCPU's task becomes unknown.
 * - Memory grows with streams, CPUs, vCPUs and event types, and up to a limit with tasks and rows, but not with the
 *   number of events.
 */
#ifndef BRAID_ANALYZE_ANALYSIS_H
#define BRAID_ANALYZE_ANALYSIS_H

#include "host_agent/analyze/shares.h"
#include "host_agent/analyze/states.h"
#include "host_agent/analyze/sums.h"
#include "host_agent/analyze/table.h"

#define BRAID_NAME_TEXT	128u	/* capacity of a name as output shows it */

struct braid_binaries;

/* What of the results is wanted. */
struct braid_analysis_options {
	u32 top;		/* rows of lists of the longest */
	const char *stream;	/* only this guest; NULL: all */
	bool one_cpu;		/* only this vCPU of each guest: */
	u32 cpu;
	bool one_task;		/* only this task of a guest: */
	s32 task;
	bool by_task;		/* rows are of tasks; else of vCPUs and threads */
	bool by_guest;		/* rows are of guests */
	bool by_call;		/* rows are of system calls */
	bool by_function;	/* rows are of the guest's functions */
	bool folded;		/* stacks for flame graphs instead of tables ... */
	bool by_count;		/* ... with counts; else with durations in ns */
	bool speedscope;	/* folded: as a file for speedscope */
	struct braid_binaries *binaries;	/* of guests' user code; or NULL */
	enum braid_table_form form;
	u32 compares;		/* by braid_analysis_compare: its analysis' */
	const char *names[2];	/* of the two captures that are compared */
};

/* Options that not every analysis takes. */
enum braid_analysis_option {
	BRAID_ANALYSIS_ANY,		/* none of them: every analysis */
	BRAID_ANALYSIS_BY_TASK,
	BRAID_ANALYSIS_BY_GUEST,
	BRAID_ANALYSIS_BY_CALL,		/* and by_function */
	BRAID_ANALYSIS_FOLDED,
	BRAID_ANALYSIS_ONE_TASK,
	BRAID_ANALYSIS_SYMBOLS,
	BRAID_ANALYSIS_COMPARES,	/* it compares two captures */
};

/* One analysis. Its state is allocated zeroed, and is the arg of its functions. */
struct braid_analysis {
	const char *name;
	const char *help;	/* the question that it answers */
	u32 takes;		/* 1 << BRAID_ANALYSIS_*, but for COMPARES */
	u32 compares;		/* 1 << BRAID_MEASURE_*, of two captures; 0: it does not compare */
	size_t state_bytes;
	/* Return: 0, or -errno with braid_fail(); free() is called in any case. */
	int (*begin)(void *state, struct braid_states *s,
		     const struct braid_analysis_options *options);
	struct braid_states_ops states;
	/*
	 * Any event of guests and host, in the merge's order and of any time, after the states took
	 * it; NULL: ignored. As struct braid_states_ops.
	 */
	int (*event)(void *state, const struct braid_item *item,
		     const struct braid_event_type_info *info);
	int (*end)(void *state);	/* after all spans; NULL: nothing to do. Likewise */
	/* JSON: members of an object, without a comma before or after. */
	void (*write)(void *state, struct braid_text *out);
	void (*free)(void *state);
};

/** braid_analysis_by_number - iterate over the analyses from 0; NULL after the last */
const struct braid_analysis *braid_analysis_by_number(size_t number);

/** braid_analysis_by_name - the analysis of that name; NULL with braid_fail(): none has it */
const struct braid_analysis *braid_analysis_by_name(const char *name);

/** braid_analysis_takes - whether an analysis takes such an option */
bool braid_analysis_takes(const struct braid_analysis *analysis, enum braid_analysis_option option);

#define BRAID_ANALYSIS_NAMES	512u	/* capacity of a list of names */

/** braid_analysis_names - those that take an option: "states, steal or exits" */
const char *braid_analysis_names(enum braid_analysis_option option,
				 char names[BRAID_ANALYSIS_NAMES]);

extern const struct braid_analysis braid_analysis_exits;
extern const struct braid_analysis braid_analysis_profile;
extern const struct braid_analysis braid_analysis_steal;
extern const struct braid_analysis braid_analysis_stalls;
extern const struct braid_analysis braid_analysis_states;
extern const struct braid_analysis braid_analysis_summary;
extern const struct braid_analysis braid_analysis_wake;

/* folded.c: stacks for flame graphs, a line each ------------------------------------------------ */

/** braid_folded_frame - append a frame to the line: a name from a trace; "": none */
void braid_folded_frame(struct braid_text *out, const char *name);

/** braid_folded_vcpu - the first frames: "guest1;vCPU 0"; "others" for the row of what came too late */
void braid_folded_vcpu(const struct braid_states *s, const struct braid_sum_key *key,
		       struct braid_text *out);

/** braid_folded_end - end the line with the row's weight; a line of weight 0 is removed from @from on */
void braid_folded_end(struct braid_text *out, size_t from, const struct braid_sum *sum,
		      const struct braid_analysis_options *options);

/**
 * braid_speedscope_write - folded stacks as a file for speedscope
 * @folded: lines of braid_folded_end()
 * @name: of the profile
 * @by_count: weights are counts, not durations
 * @out: it is appended to
 *
 * Return: 0, or -ENOMEM with braid_fail().
 */
int braid_speedscope_write(const struct braid_text *folded, const char *name, bool by_count,
			   struct braid_text *out);

/** braid_profile_samples - that the analysis 'profile' has taken, of guests and of the host */
u64 braid_profile_samples(const void *state);

/* longest.c: the longest of many -------------------------------------------------------------- */

/* A heap of at most @max items of @bytes each, the shortest on top. */
struct braid_longest {
	u8 *items;
	size_t bytes;
	u32 nr, max;
	/* Negative: a is shorter. Never 0 for two items. */
	int (*compare)(const void *a, const void *b);
};

/** braid_longest_begin - prepare. Return: 0, or -ENOMEM with braid_fail() */
int braid_longest_begin(struct braid_longest *l, u32 max, size_t bytes,
			int (*compare)(const void *a, const void *b));

/** braid_longest_takes - whether braid_longest_add() would keep an item */
bool braid_longest_takes(const struct braid_longest *l, const void *item);

/** braid_longest_add - keep a copy of an item, if it is one of the longest */
void braid_longest_add(struct braid_longest *l, const void *item);

/** braid_longest_sort - the longest first; nothing is added after */
void braid_longest_sort(struct braid_longest *l);

/** braid_longest_free - free them */
void braid_longest_free(struct braid_longest *l);

/* steal.c, stalls.c: for the summary ---------------------------------------------------------- */

/* A time without events of a vCPU. */
struct braid_gap {
	u32 vcpu;
	s32 task;		/* current when it began */
	s64 from_ns, to_ns;
	u64 ns[BRAID_NR_VCPU_STATES];
	u64 idle_ns;		/* of these: the guest had nothing to run, or the vCPU was offline */
	bool to_end;		/* no event follows */
	u64 slept_ns;		/* the longest sleep with work to do whose end is known, ... */
	struct braid_culprit waker;	/* ... and what ended it */
	struct braid_shares culprits;
};

/* What was taken from a guest. */
struct braid_stolen {
	const struct braid_culprit *culprit;	/* the known one, without its tasks, that took most; or NULL */
	u64 culprit_ns;
	u64 unknown_ns;		/* whose culprits are unknown */
	u64 own_ns;		/* by others of its own vCPUs */
};

/** braid_steal_of - of a guest, by its stream's number; at the end */
const struct braid_stolen *braid_steal_of(const void *state, u32 stream);

/** braid_steal_recorder_write - what the measurement took: a comment line; JSON: ,"recorder_ns":... */
void braid_steal_recorder_write(const void *state, struct braid_text *out);

/** braid_stall_ns - the time of a gap in which the guest had work */
static inline u64 braid_stall_ns(const struct braid_gap *g)
{
	return g->to_ns - g->from_ns - g->idle_ns;
}

/** braid_stall_cause - why, as "the guest was paused for 2.012 s"; "": nothing says more than the states */
void braid_stall_cause(const struct braid_states *s, const struct braid_gap *g,
		       char cause[2 * BRAID_NAME_TEXT]);

/** braid_stalls_worst - a guest's worst stall; NULL: none */
const struct braid_gap *braid_stalls_worst(const void *state, u32 stream);

/* summary.c --------------------------------------------------------------------------------- */

/** braid_summary_stalls - the state of braid_analysis_stalls that a summary takes its stalls from */
void *braid_summary_stalls(const void *state);

/* names.c ---------------------------------------------------------------------------------- */

/**
 * braid_lacks_switches - why tasks of a guest are unknown in all of the trace, and what to record
 * @s: the states, at the end
 *
 * Where a guest recorded nothing, other events would not have helped.
 *
 * Return: NULL: each guest has sched_switch events.
 */
const char *braid_lacks_switches(const struct braid_states *s);

/** braid_has_events - whether a stream recorded any; at the end */
bool braid_has_events(const struct braid_stream *stream);

/** braid_vcpu_name - "guest1/vCPU 0". Return: @name, as the next ones */
const char *braid_vcpu_name(const struct braid_states *s, u32 vcpu, char name[BRAID_NAME_TEXT]);

/** braid_tasks_known - whether a stream's events show which task is current; certain after the end */
bool braid_tasks_known(const struct braid_states *s, u32 stream);

/** braid_task_name - "dd[123]", "idle", or "?" when the task is unknown */
const char *braid_task_name(const struct braid_states *s, u32 stream, s32 pid,
			    char name[BRAID_NAME_TEXT]);

/** braid_sum_vcpu_name - of a row, or "others" */
const char *braid_sum_vcpu_name(const struct braid_states *s, const struct braid_sum_key *key,
				char name[BRAID_NAME_TEXT]);

/** braid_sum_task_name - likewise, or "" */
const char *braid_sum_task_name(const struct braid_states *s, const struct braid_sum_key *key,
				char name[BRAID_NAME_TEXT]);

/**
 * braid_culprit_name - "guest2/vCPU 1: cc1[45]", "kworker/1:2[99]", "irq 11", "nothing (idle CPU)"
 *
 * A thread of a guest's VMM is "guest2/qemu-system-x86[7]", one of the recorder
 * "recorder/tracebraid[8]", if the trace says whose it is.
 */
const char *braid_culprit_name(const struct braid_states *s, const struct braid_culprit *culprit,
			       char name[BRAID_NAME_TEXT]);

/** braid_culprit_group - the guest, or kind of others, that a culprit belongs to */
struct braid_culprit braid_culprit_group(const struct braid_states *s,
					 const struct braid_culprit *culprit);

/** braid_culprit_is_recorder - whether it is a thread of the recorder: the cost of the measurement */
bool braid_culprit_is_recorder(const struct braid_states *s, const struct braid_culprit *culprit);

/** braid_exit_name - "HLT", "EPT_VIOLATION", "WFx"; the number of an unknown reason */
const char *braid_exit_name(u64 reason, char name[BRAID_NAME_TEXT]);

/* Columns of a table: how long a vCPU was in each state, unknown ones last. */
#define BRAID_STATE_COLUMNS							\
	{ "GUEST", "guest_ns", BRAID_CELL_DURATION },				\
	{ "HYPERVISOR", "hypervisor_ns", BRAID_CELL_DURATION },			\
	{ "VMM", "vmm_ns", BRAID_CELL_DURATION },				\
	{ "RUNNING", "running_ns", BRAID_CELL_DURATION },			\
	{ "STOLEN", "stolen_ns", BRAID_CELL_DURATION },				\
	{ "THROTTLED", "throttled_ns", BRAID_CELL_DURATION },			\
	{ "HALTED", "halted_ns", BRAID_CELL_DURATION },				\
	{ "BLOCKED", "blocked_ns", BRAID_CELL_DURATION },			\
	{ "SLEEPING", "sleeping_ns", BRAID_CELL_DURATION },			\
	{ "STOPPED", "stopped_ns", BRAID_CELL_DURATION },			\
	{ "OFFLINE", "offline_ns", BRAID_CELL_DURATION },			\
	{ "UNKNOWN", "unknown_ns", BRAID_CELL_DURATION }

/** braid_state_of_column - the state of the @k-th of them: they are in the states' order */
static inline enum braid_vcpu_state braid_state_of_column(u32 k)
{
	static_assert(BRAID_VCPU_UNKNOWN == 0, "the first state is the last column");
	return (k + 1) % BRAID_NR_VCPU_STATES;
}

/** braid_state_needs_kvm - whether a state is known by KVM's events only */
static inline bool braid_state_needs_kvm(enum braid_vcpu_state state)
{
	return state == BRAID_VCPU_GUEST || state == BRAID_VCPU_KVM || state == BRAID_VCPU_VMM ||
	       state == BRAID_VCPU_HALTED || state == BRAID_VCPU_BLOCKED;
}

/** braid_analysis_wants - whether the options select a vCPU, and its current task */
bool braid_analysis_wants(const struct braid_states *s, const struct braid_analysis_options *o,
			  u32 vcpu, s32 task);

/* How much of the vCPUs' time is known how well; all three add up to the whole. */
struct braid_certainty {
	u64 proven_ns;
	u64 bound_ns;		/* the vCPU's state is proven; its task is within the clocks' bounds */
	u64 unknown_ns;
	u32 nr_vcpus;
};

/** braid_certainty_of - of the vCPUs that the options select; after the end */
struct braid_certainty braid_certainty_of(const struct braid_states *s,
					  const struct braid_analysis_options *o);

/** braid_certainty_write - as comment lines for people, with what to record for more; JSON members */
void braid_certainty_write(const struct braid_states *s, const struct braid_analysis_options *o,
			   struct braid_text *out);

#endif /* BRAID_ANALYZE_ANALYSIS_H */
