/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The lanes of a page: the CPUs of each stream, and the host threads that vCPUs are. */
#ifndef BRAID_EXPORT_HTML_LANES_H
#define BRAID_EXPORT_HTML_LANES_H

#include "host_agent/walk/walk.h"

/* html/model.js has the same numbers. */
enum braid_html_lane_kind {
	BRAID_HTML_LANE_GROUP = 0,	/* a host's or a guest's: its notes */
	BRAID_HTML_LANE_CPU = 1,
	BRAID_HTML_LANE_THREAD = 2,	/* of the host: a vCPU of this group */
};

struct braid_html_lane {
	enum braid_html_lane_kind kind;
	u32 group;
	u32 number;		/* of the CPU or vCPU; a group's: 0 */
	s32 tid;		/* THREAD */
};

/* A host, or a guest in all its incarnations. */
struct braid_html_group {
	const struct braid_stream *stream;	/* the first of it */
	u32 lane;
};

/* Where a ring's items go. */
struct braid_html_place {
	u32 lane;
	bool begun;		/* an event occurred: */
	s64 last_ns;		/* its time */
	bool named;		/* a task was met; the last one: */
	bool comm_known;
	s32 pid;
	u32 task;		/* its name ... */
	u64 from, until;	/* ... and the counter's values for which that is it */
};

/* A thread of some host that is a lane. */
struct braid_html_thread {
	u32 group;		/* of the host */
	s32 tid;
	u32 lane;
};

struct braid_html_lanes {
	struct braid_html_group *groups;
	size_t nr_groups, groups_capacity;
	struct braid_html_lane *lanes;
	size_t nr_lanes, lanes_capacity;
	struct braid_html_place *places;	/* by braid_ring.order */
	struct braid_html_thread *threads;	/* by group and tid */
	size_t nr_threads, threads_capacity;
	u32 *group_of;				/* by braid_stream.number */
};

/**
 * braid_html_lanes_make - the lanes of the selected part of a source
 * @l: filled; braid_html_lanes_free() it in any case
 * @source: must stay valid
 * @options: the selection
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_html_lanes_make(struct braid_html_lanes *l, const struct braid_source *source,
			  const struct braid_walk_options *options);

/** braid_html_lane_of - the lane of a group's CPU, or 0: it has none */
u32 braid_html_lane_of(const struct braid_html_lanes *l, u32 group, u32 cpu);

/** braid_html_thread_of - the lane of a host's thread, or NULL */
struct braid_html_thread *braid_html_thread_of(const struct braid_html_lanes *l, u32 group,
					       s32 tid);

/**
 * braid_html_thread_add - add a lane for a thread identified as a vCPU
 * @l: the lanes
 * @group: of the host
 * @tid: the thread, without a lane yet
 * @vcpu: the vCPU
 *
 * Return: NULL when there are too many, or out of memory.
 */
struct braid_html_thread *braid_html_thread_add(struct braid_html_lanes *l, u32 group, s32 tid,
						u32 vcpu);

/** braid_html_lanes_free - free them */
void braid_html_lanes_free(struct braid_html_lanes *l);

#endif /* BRAID_EXPORT_HTML_LANES_H */
