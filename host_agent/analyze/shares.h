/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What several culprits took of one time: the largest exactly, and the sum of all others. */
#ifndef BRAID_ANALYZE_SHARES_H
#define BRAID_ANALYZE_SHARES_H

#include "host_agent/analyze/states.h"
#include "host_agent/analyze/table.h"
#include "host_agent/util/hash.h"

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

/** braid_shares_put - the same as the next value of a table, in a LIST column */
void braid_shares_put(const struct braid_states *s, const struct braid_shares *p,
		      enum braid_table_form form, struct braid_table *t);

/*
 * A tally: what all culprits took of the open time of each vCPU, exactly.
 *
 * A time may have as many culprits as the trace has threads. A culprit is found by a hash, so
 * the cost of a span does not depend on their number. Memory grows with the culprits of the times that
 * are open, up to BRAID_TALLY_MOST; what comes beyond that is "others".
 */
#define BRAID_TALLY_MOST	(1u << 17)	/* culprits of all open times */

struct braid_tally_cell {
	struct braid_share share;
	u32 lane;
	u32 next;		/* cell of this lane, + 1; or of the free ones; 0: none */
};

struct braid_tally {
	struct braid_tally_lane {
		u32 first;	/* cell + 1; 0: none */
		u64 others_ns;	/* of culprits without a cell */
	} *lanes;
	struct braid_tally_cell *cells;
	size_t nr_cells, capacity;
	u32 first_free;		/* cell + 1 */
	struct braid_hash table;	/* numbers in cells */
};

/** braid_tally_begin - prepare, of all vCPUs; free it in any case. Return: 0, or -ENOMEM with braid_fail() */
int braid_tally_begin(struct braid_tally *t, u32 nr_vcpus);

/** braid_tally_add - a culprit takes @ns more of a vCPU's time. Return: likewise */
int braid_tally_add(struct braid_tally *t, u32 vcpu, const struct braid_culprit *culprit, u64 ns);

/** braid_tally_next - a vCPU's culprits one by one; @at: 0 at first. Return: NULL after the last */
const struct braid_share *braid_tally_next(const struct braid_tally *t, u32 vcpu, u32 *at);

/** braid_tally_others - what culprits took beyond the limit */
u64 braid_tally_others(const struct braid_tally *t, u32 vcpu);

/** braid_tally_shares - the largest of a vCPU's culprits */
void braid_tally_shares(const struct braid_tally *t, u32 vcpu, struct braid_shares *out);

/** braid_tally_clear - another time of the vCPU begins */
void braid_tally_clear(struct braid_tally *t, u32 vcpu);

/** braid_tally_free - free all */
void braid_tally_free(struct braid_tally *t);

#endif /* BRAID_ANALYZE_SHARES_H */
