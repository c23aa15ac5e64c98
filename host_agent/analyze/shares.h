/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What several culprits took of one time: the largest exactly, and the sum of all others. */
#ifndef BRAID_ANALYZE_SHARES_H
#define BRAID_ANALYZE_SHARES_H

#include "host_agent/analyze/states.h"
#include "host_agent/analyze/table.h"

#define BRAID_MAX_SHARES	15u

struct braid_share {
	struct braid_culprit culprit;
	u64 ns;
};

struct braid_shares {
	u32 nr;
	u32 others;		/* culprits that took less than each of these, ... */
	u64 others_ns;		/* ... together */
	struct braid_share of[BRAID_MAX_SHARES];	/* the largest first */
};

/** braid_shares_keep - add all that a culprit took of the time; once for each culprit */
void braid_shares_keep(struct braid_shares *p, const struct braid_share *share);

/**
 * braid_shares_write - "guest2/vCPU 1: cc1[45] (439 ms), kworker/1:2[9] (61 ms), 3 more"
 *
 * As JSON, an array: [{"culprit":"guest2/vCPU 1: cc1[45]","ns":439000000},...,{"culprit":"others","ns":7}]
 */
void braid_shares_write(const struct braid_states *s, const struct braid_shares *p,
			enum braid_table_form form, struct braid_text *out);

#endif /* BRAID_ANALYZE_SHARES_H */
