/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Private interface of the statistics. Selected events are counted here; what CPUs, tasks and vCPUs
 * did, in the selected time, is what the states have added up of all events.
 */
#ifndef BRAID_EXPORT_STATS_STATS_H
#define BRAID_EXPORT_STATS_STATS_H

#include "host_agent/analyze/analysis.h"
#include "host_agent/trace/host_streams.h"
#include "host_agent/walk/walk.h"

/* An event type. */
struct braid_stats_type {
	const struct braid_event_type_info *info;	/* NULL: never met */
	u32 stream;
	u64 events;
};

struct braid_stats_cpu {
	u64 events;
	u64 lost;		/* without those of unknown number */
	bool some_lost;
};

struct braid_stats_stream {
	struct braid_stats_cpu *cpus;
	size_t nr_cpus;
	u64 events;
};

/* A vCPU's thread, as the host saw it. */
struct braid_stats_vcpu {
	const struct braid_stream *stream;	/* of the guest; the host's: the trace has not got it */
	u32 number;		/* or BRAID_VCPU_ALL; BRAID_NO_VCPU: unknown */
	s32 tid;
	const char *comm;	/* "": unknown */
	u64 runs_ns;
	u64 waits_ns;		/* it could run, and did not: stolen */
	bool knows_throttled;
	u64 throttled_ns;	/* its quota held it back */
	u64 sleeps_ns;
	u64 switches;		/* to it */
	const struct braid_vcpu *kvm;	/* NULL: no events of KVM are about it */
	struct braid_sum *const *exits;	/* by reason, those that took longest first */
	size_t nr_exits;
};

struct braid_stats {
	struct braid_walk walk;
	struct braid_states states;
	struct braid_sums exits;		/* by vCPU and reason */
	const struct braid_source *source;
	struct braid_walk_totals *totals;
	struct braid_stats_type *types;		/* by number */
	size_t nr_types;
	struct braid_stats_stream *streams;	/* by number */
	struct braid_host_streams hosts;	/* of braid_stats_find_vcpus() */
	struct braid_stats_vcpu *vcpus;		/* guests' first */
	size_t nr_vcpus, vcpus_capacity;
	s64 first_ns, last_ns;			/* by the clock that is shown */
	bool any;
};

/* query.c: after the walk ----------------------------------------------------------------- */

/* Finds all vCPUs. Return: 0 or -ENOMEM with braid_fail(). */
int braid_stats_find_vcpus(struct braid_stats *s);

/* Tasks of a stream with switches, those that ran longest first; free() it. NULL: out of memory. */
const struct braid_guest_task **braid_stats_tasks_of(const struct braid_stats *s, u32 stream,
						     size_t *nr);

/* Event types of a stream, the most frequent first; likewise. */
const struct braid_stats_type **braid_stats_types_of(const struct braid_stats *s, u32 stream,
						     size_t *nr);

/* What a CPU did; NULL: not known, since no switches were traced. */
const struct braid_cpu_sums *braid_stats_cpu(const struct braid_stats *s, u32 stream, u32 cpu);

/* Exits beyond the limit of reasons: counted together, without their reasons. */
u64 braid_stats_other_exits(const struct braid_stats *s);

/* What is unknown of a stream: sentences, numbered from 0; NULL after the last. */
const char *braid_stats_unknown(const struct braid_stats *s, const struct braid_stream *stream,
			       u32 number);

/* How they are written. */
void braid_stats_text(const struct braid_stats *s, struct braid_text *t);
void braid_stats_json(const struct braid_stats *s, struct braid_text *t);

#endif /* BRAID_EXPORT_STATS_STATS_H */
