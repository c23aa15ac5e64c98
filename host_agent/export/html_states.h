/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The states of vCPUs, for the lanes of guests: what was not the guest's own running. */
#ifndef BRAID_EXPORT_HTML_STATES_H
#define BRAID_EXPORT_HTML_STATES_H

#include "host_agent/export/html_lanes.h"
#include "host_agent/export/html_names.h"

/* A chunk's states: those of enum braid_vcpu_state, and these. html/states.js has the same. */
enum braid_html_state {
	BRAID_HTML_STATE_IDLE = 10,	/* BRAID_VCPU_SLEEPS, and the guest had nothing to run */
	BRAID_HTML_STATE_MERGED = 11,	/* several states: too short to be kept one by one */
	BRAID_HTML_STATES = 16,
};

/* Up to so many spans of a page are exact; beyond that, short ones are merged. */
#define BRAID_HTML_EXACT_STATES	(1u << 20)

/* The part of the timeline that the page shows. */
struct braid_html_range {
	s64 base_ns;		/* the page's origin, by the clock that is shown */
	s64 first_ns, last_ns;	/* of the host's clock: of the first and last row */
	u32 exact;		/* spans; BRAID_HTML_EXACT_STATES */
};

/**
 * braid_html_states_write - walk again, over all events, and write the states of vCPUs
 * @shown: the walk that the page was made by, over
 * @lanes: its lanes
 * @names: the culprits are added
 * @out: gets chunks of columns: lane * BRAID_HTML_STATES + state, end, length, culprit, and of a
 *	merged span the number of states and the ns of each. Time that a vCPU executed is left out
 * @range: what the page shows
 *
 * Nothing is written of a vCPU whose state is never proven, as without events of the host.
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_html_states_write(const struct braid_walk *shown, const struct braid_html_lanes *lanes,
			    struct braid_html_names *names, struct braid_html_out *out,
			    const struct braid_html_range *range);

#endif /* BRAID_EXPORT_HTML_STATES_H */
