// SPDX-License-Identifier: GPL-2.0-or-later
/* Remembers the last runs of guests' tasks on each vCPU. */
#include <errno.h>
#include <stdlib.h>

#include "host_agent/analyze/recent_runs.h"
#include "host_agent/util/error.h"

#define MOST_RUNS	512u	/* of a vCPU ... */
#define FIRST_RUNS	4u	/* ... and at first; all capacities are powers of two */

struct run {
	s32 task;
	s64 from_ns, to_ns;
};

struct braid_recent_lane {
	u32 nr;			/* in all; the last one is (nr - 1) % capacity */
	u32 capacity;		/* MOST_RUNS, or at least nr; 0: the vCPU did not run yet */
	struct run *runs;
};

int braid_recent_runs_begin(struct braid_recent_runs *b, u32 nr_vcpus)
{
	b->lanes = calloc((size_t)nr_vcpus + 1, sizeof(*b->lanes));
	if (!b->lanes)
		return braid_out_of_memory();
	b->nr = nr_vcpus;
	return braid_tally_begin(&b->found, 1);
}

static bool runs(enum braid_vcpu_state state)
{
	return state == BRAID_VCPU_GUEST || state == BRAID_VCPU_KVM || state == BRAID_VCPU_VMM ||
	       state == BRAID_VCPU_RUNS;
}

/* Room for one more run. Return: 0 or -ENOMEM. */
static int recent_runs_grow(struct braid_recent_lane *lane)
{
	u32 capacity = lane->capacity ? 2 * lane->capacity : FIRST_RUNS;
	struct run *runs;

	if (lane->nr < lane->capacity || lane->capacity == MOST_RUNS)
		return 0;
	runs = realloc(lane->runs, capacity * sizeof(*runs));
	if (!runs)
		return -ENOMEM;
	lane->runs = runs;
	lane->capacity = capacity;
	return 0;
}

int braid_recent_runs_span(struct braid_recent_runs *b, const struct braid_state_span *span)
{
	struct braid_recent_lane *lane = &b->lanes[span->vcpu];
	struct run *last;

	if (!runs(span->state))
		return 0;
	last = lane->nr ? &lane->runs[(lane->nr - 1) % lane->capacity] : NULL;
	if (last && last->task == span->task && last->to_ns == span->from_ns) {
		last->to_ns = span->to_ns;
		return 0;
	}
	if (recent_runs_grow(lane))
		return braid_out_of_memory();
	lane->runs[lane->nr++ % lane->capacity] = (struct run){
		.task = span->task, .from_ns = span->from_ns, .to_ns = span->to_ns,
	};
	return 0;
}

int braid_recent_runs_find(struct braid_recent_runs *b, u32 vcpu, s64 from_ns, s64 to_ns,
			   struct braid_shares *out)
{
	const struct braid_recent_lane *lane = &b->lanes[vcpu];
	int err = 0;
	u32 k;

	braid_tally_clear(&b->found, 0);
	for (k = 0; k < lane->nr && k < lane->capacity && !err; k++) {
		const struct run *run = &lane->runs[(lane->nr - 1 - k) % lane->capacity];
		s64 since_ns = run->from_ns > from_ns ? run->from_ns : from_ns;
		s64 until_ns = run->to_ns < to_ns ? run->to_ns : to_ns;
		struct braid_culprit task = {
			.kind = BRAID_CULPRIT_GUEST_TASK, .vcpu = vcpu, .task = run->task,
		};

		if (run->to_ns <= from_ns)
			break;
		if (until_ns > since_ns)
			err = braid_tally_add(&b->found, 0, &task, until_ns - since_ns);
	}
	if (!err)
		braid_tally_shares(&b->found, 0, out);
	return err;
}

void braid_recent_runs_free(struct braid_recent_runs *b)
{
	u32 k;

	for (k = 0; b->lanes && k < b->nr; k++)
		free(b->lanes[k].runs);
	free(b->lanes);
	braid_tally_free(&b->found);
}
