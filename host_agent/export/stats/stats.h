/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Private interface of the statistics: counts, durations, and wait times. */
#ifndef BRAID_EXPORT_STATS_STATS_H
#define BRAID_EXPORT_STATS_STATS_H

#include "host_agent/store/vcpu.h"
#include "host_agent/util/hash.h"
#include "host_agent/util/text.h"
#include "host_agent/walk/walk.h"

#define BRAID_STATS_MAX_TASKS	(1u << 18)	/* in all streams; the rest is not shown */
#define BRAID_STATS_MAX_REASONS	128u		/* of one vCPU's exits; likewise */

/* An event type. */
struct braid_stats_type {
	const struct braid_event_type_info *info;	/* NULL: never met */
	u32 stream;
	u64 events;
	enum {
		BRAID_STATS_OTHER, BRAID_STATS_SWITCH, BRAID_STATS_WAKEUP, BRAID_STATS_ENTRY,
		BRAID_STATS_EXIT,
	} role;
	const struct braid_field *fields[4];	/* that the role needs */
};

struct braid_stats_cpu {
	u64 events;
	u64 lost;		/* without those of unknown number */
	bool some_lost;
	u64 busy_ns, idle_ns;	/* from its first switch of tasks to its last event, except for
				   gaps */
	u64 switches;
	bool known;		/* the running task, and its start: */
	s32 pid;
	s64 since_ns;
	s64 last_ns;		/* its last event */
};

struct braid_stats_reason {
	u64 number;		/* isa << 32 | reason */
	char name[32];		/* sanitized */
	u64 count;		/* exits, including those without a later entry */
	u64 returned;		/* of those: with a later entry */
	u64 total_ns, max_ns;	/* of these, from exit to entry */
};

/* A vCPU's states as traced by KVM. */
struct braid_stats_kvm {
	u64 entries, exits;
	u64 guest_ns;		/* from entry to exit */
	u32 vcpu;		/* ~0: unknown */
	enum { BRAID_KVM_UNKNOWN, BRAID_KVM_IN, BRAID_KVM_OUT } state;
	s64 since_ns;
	size_t reason;		/* of the exit it is out by; in reasons */
	struct braid_stats_reason *reasons;
	size_t nr_reasons, capacity;
};

struct braid_stats_task {
	u32 stream;
	s32 pid;
	char comm[16];		/* sanitized */
	enum { BRAID_TASK_UNKNOWN, BRAID_TASK_RUNS, BRAID_TASK_WAITS, BRAID_TASK_SLEEPS } state;
	s64 since_ns;
	u64 gaps;		/* of its stream, when it was last seen: more make it unknown */
	u64 runs_ns;
	u64 waits_ns;		/* it could run, and did not: a vCPU's steal time */
	u64 sleeps_ns;
	u64 switches;		/* to it */
	struct braid_stats_kvm *kvm;	/* NULL: not a vCPU's thread */
};

struct braid_stats_stream {
	struct braid_stats_cpu *cpus;
	size_t nr_cpus;
	u64 events;
	u64 gaps;		/* losses up to now */
	s64 last_ns;		/* its last event */
	bool any_switch, any_wakeup, any_kvm;
};

struct braid_stats {
	struct braid_walk walk;
	const struct braid_source *source;
	struct braid_walk_totals *totals;
	struct braid_stats_type *types;		/* by number */
	size_t nr_types;
	struct braid_stats_stream *streams;	/* by number */
	struct braid_stats_task *tasks;		/* as they were met */
	size_t nr_tasks, tasks_capacity;
	struct braid_hash by_pid;		/* numbers in tasks */
	bool tasks_left_out;
	struct braid_text text;			/* scratch */
	s64 first_ns, last_ns;			/* by the clock that is shown */
	bool any;
};

/* tasks.c: applies an event to tasks and vCPUs. Return: 0 or -ENOMEM. */
int braid_stats_take_switch(struct braid_stats *s, const struct braid_item *item,
			    const struct braid_stats_type *type);
int braid_stats_take_wakeup(struct braid_stats *s, const struct braid_item *item,
			    const struct braid_stats_type *type);
int braid_stats_take_kvm(struct braid_stats *s, const struct braid_item *item,
			 const struct braid_stats_type *type);

/* Something of a stream's CPU was lost: what its tasks do is not known any more. */
void braid_stats_forget(struct braid_stats_stream *stream, struct braid_stats_cpu *cpu);

/* The end of the trace: closes open states. */
void braid_stats_close(struct braid_stats *s);

/* The task of a stream, or NULL. */
struct braid_stats_task *braid_stats_find_task(const struct braid_stats *s, u32 stream, s32 pid);

void braid_stats_free_tasks(struct braid_stats *s);

/* query.c ----------------------------------------------------------------------------- */

/* Data on a vCPU's thread in the host's streams. NULL: none. */
const struct braid_stats_task *braid_stats_vcpu(const struct braid_stats *s, s32 tid);

/* Whether a vCPU's thread is that of a guest in the trace, which braid_stats_vcpu() covers. */
bool braid_stats_is_covered(const struct braid_stats *s, const struct braid_stats_task *task);

/* Tasks of a stream, those that ran longest first; free() it. NULL: none, or out of memory. */
const struct braid_stats_task **braid_stats_tasks_of(const struct braid_stats *s, u32 stream,
						     size_t *nr);

/* Event types of a stream, the most frequent first; likewise. */
const struct braid_stats_type **braid_stats_types_of(const struct braid_stats *s, u32 stream,
						     size_t *nr);

/* What is unknown of a stream: sentences, numbered from 0; NULL after the last. */
const char *braid_stats_unknown(const struct braid_stats *s, const struct braid_stream *stream,
			       u32 number);

/* How they are written. */
void braid_stats_text(const struct braid_stats *s, struct braid_text *t);
void braid_stats_json(const struct braid_stats *s, struct braid_text *t);

#endif /* BRAID_EXPORT_STATS_STATS_H */
