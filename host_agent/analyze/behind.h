/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which tasks of a guest ran while another one waited in its vCPU's run queue. */
#ifndef BRAID_ANALYZE_BEHIND_H
#define BRAID_ANALYZE_BEHIND_H

#include "host_agent/analyze/analysis.h"

struct braid_behind {
	struct braid_behind_lane *lanes;	/* by vCPU: what ran there last */
	u32 nr;
};

/** braid_behind_begin - prepare. Return: 0, or -ENOMEM with braid_fail(); free it in any case */
int braid_behind_begin(struct braid_behind *b, u32 nr_vcpus);

/** braid_behind_span - the next span of a vCPU. Return: 0, or -ENOMEM with braid_fail() */
int braid_behind_span(struct braid_behind *b, const struct braid_state_span *span);

/**
 * braid_behind_find - the tasks that ran on a vCPU in a time before now
 * @b: the spans up to @to_ns were added
 * @vcpu: in braid_states.vcpus
 * @from_ns: of the host's clock
 * @to_ns: likewise
 * @out: filled. What was too long ago is missing: a vCPU's last 512 runs are kept
 */
void braid_behind_find(const struct braid_behind *b, u32 vcpu, s64 from_ns, s64 to_ns,
		       struct braid_pieces *out);

/** braid_behind_free - free all */
void braid_behind_free(struct braid_behind *b);

#endif /* BRAID_ANALYZE_BEHIND_H */
