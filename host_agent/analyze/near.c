// SPDX-License-Identifier: GPL-2.0-or-later
/* Finds exits that are within the error bound of a guest's event. */
#include "host_agent/analyze/near.h"

static bool is_near(s64 a_ns, s64 b_ns, u64 bound_ns)
{
	return (u64)(a_ns > b_ns ? a_ns - b_ns : b_ns - a_ns) < bound_ns;
}

void braid_near_edge(struct braid_near *n, s64 ns, u64 bound_ns)
{
	const struct braid_near_exit *exit;

	for (; n->nr; n->nr--) {
		exit = &n->exits[(n->first + n->nr - 1) % BRAID_NEAR_EXITS];
		if (!is_near(exit->at_ns, ns, bound_ns))
			break;
		n->near_ns += exit->ns;
	}
	n->nr = 0;
	n->any_edge = true;
	n->edge_ns = ns;
	n->edge_bound_ns = bound_ns;
}

void braid_near_exit(struct braid_near *n, s64 at_ns, u64 ns, u64 worst_bound_ns)
{
	if (n->any_edge && is_near(at_ns, n->edge_ns, n->edge_bound_ns)) {
		n->near_ns += ns;
		return;
	}
	if (n->nr == BRAID_NEAR_EXITS) {
		if (is_near(at_ns, n->exits[n->first].at_ns, worst_bound_ns))
			n->near_ns += n->exits[n->first].ns;
		n->first = (n->first + 1) % BRAID_NEAR_EXITS;
		n->nr--;
	}
	n->exits[(n->first + n->nr++) % BRAID_NEAR_EXITS] =
		(struct braid_near_exit){ .at_ns = at_ns, .ns = ns };
}
