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

struct braid_html_states;

/**
 * braid_html_states_begin - prepare to write the states of vCPUs
 * @out: set; braid_html_states_free() it in any case
 * @shown: the walk that the page is made by; its source is rewound, and not being merged
 * @lanes: its lanes
 * @names: the culprits are added
 * @page: gets chunks of columns: lane * BRAID_HTML_STATES + state, end, length, culprit, and of a
 *	merged span the number of states and the ns of each. Time that a vCPU executed is left out
 * @exact: spans; BRAID_HTML_EXACT_STATES
 *
 * All must stay valid. Nothing is written of a vCPU whose state is never proven, as without events
 * of the host.
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_html_states_begin(struct braid_html_states **out, const struct braid_walk *shown,
			    const struct braid_html_lanes *lanes, struct braid_html_names *names,
			    struct braid_html_out *page, u32 exact);

/** braid_html_states_base - set the page's origin, by the clock that is shown; before the first event */
void braid_html_states_base(struct braid_html_states *x, s64 ns);

/** braid_html_states_event - the next event of all; returns 0, or -errno with braid_fail() */
int braid_html_states_event(struct braid_html_states *x, const struct braid_item *item,
			    const struct braid_event_type_info *info);

/** braid_html_states_lost - likewise a loss, before the event that it is reported with */
int braid_html_states_lost(struct braid_html_states *x, const struct braid_item *item);

/**
 * braid_html_states_walk - walk over all events, if the page's walk has not delivered all
 * @x: begun
 * @first_ns: the page's first row, by the host's clock ...
 * @last_ns: ... and its last one
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_html_states_walk(struct braid_html_states *x, s64 first_ns, s64 last_ns);

/** braid_html_states_end - after the last event: write the rest; returns likewise */
int braid_html_states_end(struct braid_html_states *x);

/** braid_html_states_free - free all; NULL is fine */
void braid_html_states_free(struct braid_html_states *x);

#endif /* BRAID_EXPORT_HTML_STATES_H */
