/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The states of vCPUs along a walk, as slices: consecutive spans of one state are one slice. */
#ifndef BRAID_WALK_SLICES_H
#define BRAID_WALK_SLICES_H

#include "host_agent/analyze/analysis.h"
#include "host_agent/walk/walk.h"

#define BRAID_SLICE_FLOWS	16u	/* of a slice; further ones are left out */

/* One end of an arrow between two slices. */
struct braid_flow {
	u64 id;			/* from 1; exactly two ends have it */
	u32 stolen;		/* at a stolen slice: the culprit's vCPU; else BRAID_NO_VCPU */
};

struct braid_flows {
	u32 nr;
	struct braid_flow of[BRAID_SLICE_FLOWS];
};

/* A vCPU was in one state, with the same task and exit reason, perhaps by several culprits. */
struct braid_slice {
	u32 vcpu;		/* its number among all of the trace */
	enum braid_vcpu_state state;
	s64 from_ns, to_ns;	/* of the host's clock */
	s32 task;		/* of the guest; or BRAID_PID_UNKNOWN */
	u64 reason;		/* of the exit; 0: unknown */
	struct braid_shares culprits;
	struct braid_flows flows;
};

/* A task of a guest was woken, and now gets its vCPU. */
struct braid_slice_wake {
	u32 vcpu;		/* that recorded the wakeup */
	s64 ns;			/* when */
	s32 pid;		/* of the woken task */
	u64 flow;		/* an end of it is here, the other one at the task's slice */
};

/* As struct braid_states_ops; NULL: ignored. */
struct braid_slices_ops {
	int (*slice)(void *arg, const struct braid_slice *slice);	/* of each vCPU in order */
	int (*wake)(void *arg, const struct braid_slice_wake *wake);
};

struct braid_slices;

/**
 * braid_slices_begin - make slices of a walk that is begun and did not run yet
 * @out: set; braid_slices_free() it in any case
 * @walk: its selection of a guest, of CPUs and of time applies to vCPUs, and no other
 * @ops: what takes the slices
 * @arg: passed to @ops
 *
 * Return: 0, or -ENOMEM with braid_fail().
 */
int braid_slices_begin(struct braid_slices **out, struct braid_walk *walk,
		       const struct braid_slices_ops *ops, void *arg);

/** braid_slices_missing - why a trace shows no states of vCPUs, and how to record them; NULL: it does */
const char *braid_slices_missing(const struct braid_source *source);

/** braid_slices_end - after the walk: the last slices. As braid_states_end() */
int braid_slices_end(struct braid_slices *x);

/** braid_slices_any - false: the trace shows no state, and there are no slices */
bool braid_slices_any(const struct braid_slices *x);

/** braid_slices_states - what they are made of: the vCPUs; and, while the walk runs, what names are of */
const struct braid_states *braid_slices_states(const struct braid_slices *x);

/** braid_slices_culprits - append those of a slice, "a 12 us, b 3 us"; "-": none. Likewise */
void braid_slices_culprits(const struct braid_slices *x, const struct braid_slice *slice,
			   struct braid_text *out);

/** braid_slices_task - the name of a task that ran on a vCPU. Likewise */
void braid_slices_task(const struct braid_slices *x, u32 vcpu, s32 pid, char name[BRAID_NAME_TEXT]);

/** braid_slices_has - whether there are slices of a vCPU */
bool braid_slices_has(const struct braid_slices *x, u32 vcpu);

/** braid_slice_name - "stolen"; of the hypervisor with its reason, "hypervisor: HLT" */
void braid_slice_name(const struct braid_slice *slice, char name[BRAID_NAME_TEXT]);

/** braid_slices_free - free all; NULL is fine */
void braid_slices_free(struct braid_slices *x);

#endif /* BRAID_WALK_SLICES_H */
