/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How much of a vCPU's exits is so close to a guest's event that the clocks cannot order them. */
#ifndef BRAID_ANALYZE_NEAR_H
#define BRAID_ANALYZE_NEAR_H

#include "tracebraid/types.h"

#define BRAID_NEAR_EXITS	64u	/* kept; those before count as too close if they may be */

/* Of one vCPU; zeroed. An edge is an event of the guest that changes what exits are counted for. */
struct braid_near {
	bool any_edge;
	s64 edge_ns;		/* the last one, ... */
	u64 edge_bound_ns;	/* ... with its error bound */
	struct braid_near_exit {
		s64 at_ns;
		u64 ns;
	} exits[BRAID_NEAR_EXITS];	/* since then, farther from it than its bound */
	u32 first, nr;
	u64 near_ns;		/* the result: the time of exits within the bound of an edge */
};

/** braid_near_edge - the guest's next edge, in the merge's order */
void braid_near_edge(struct braid_near *n, s64 ns, u64 bound_ns);

/**
 * braid_near_exit - the next exit, in the merge's order
 * @n: the vCPU's
 * @at_ns: when the vCPU left the guest
 * @ns: how long it was away
 * @worst_bound_ns: of all of the guest's events
 */
void braid_near_exit(struct braid_near *n, s64 at_ns, u64 ns, u64 worst_bound_ns);

#endif /* BRAID_ANALYZE_NEAR_H */
