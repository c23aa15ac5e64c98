/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which tasks of a guest ran while another one waited in its vCPU's run queue. */
#ifndef BRAID_ANALYZE_RECENT_RUNS_H
#define BRAID_ANALYZE_RECENT_RUNS_H

#include "host_agent/analyze/shares.h"

struct braid_recent_runs {
	struct braid_recent_lane *lanes;	/* by vCPU: what ran there last */
	u32 nr;
	struct braid_tally found;		/* of one lane: scratch space */
};

/** braid_recent_runs_begin - prepare; free it in any case. Return: 0, or -ENOMEM with braid_fail() */
int braid_recent_runs_begin(struct braid_recent_runs *b, u32 nr_vcpus);

/** braid_recent_runs_span - the next span of a vCPU. Return: 0, or -ENOMEM with braid_fail() */
int braid_recent_runs_span(struct braid_recent_runs *b, const struct braid_state_span *span);

/**
 * braid_recent_runs_find - the tasks that ran on a vCPU in a time before now
 * @b: the spans up to @to_ns were added
 * @vcpu: in braid_states.vcpus
 * @from_ns: of the host's clock
 * @to_ns: likewise
 * @out: filled. What was too long ago is missing: a vCPU's last 512 runs are kept
 *
 * Return: 0, or -ENOMEM with braid_fail().
 */
int braid_recent_runs_find(struct braid_recent_runs *b, u32 vcpu, s64 from_ns, s64 to_ns,
			   struct braid_shares *out);

/** braid_recent_runs_free - free all */
void braid_recent_runs_free(struct braid_recent_runs *b);

#endif /* BRAID_ANALYZE_RECENT_RUNS_H */
