/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The states of vCPUs, for the lanes of guests: what was not the guest's own running. */
#ifndef BRAID_EXPORT_HTML_STATES_H
#define BRAID_EXPORT_HTML_STATES_H

#include "host_agent/export/html/lanes.h"
#include "host_agent/export/html/names.h"
#include "host_agent/export/html/spans.h"
#include "host_agent/walk/walk.h"

/* A chunk's states: those of enum braid_vcpu_state, and these. html/states.js has the same. */
enum braid_html_state {
	BRAID_HTML_STATE_IDLE = 12,	/* BRAID_VCPU_SLEEPS, and the guest had nothing to run */
	BRAID_HTML_STATE_MERGED = 13,	/* several states: too short to be kept one by one */
	BRAID_HTML_STATES = 16,
};

/* Up to so many spans of a page are exact; beyond that, short ones are merged. */
#define BRAID_HTML_EXACT_STATES	(1u << 20)

struct braid_html_states;

/**
 * braid_html_states_begin - prepare to write the states of vCPUs
 * @out: set; braid_html_states_free() it in any case
 * @shown: the walk that the page is made by, begun and not started: gets ->states and, if the
 *	trace has a guest, ->watch
 * @lanes: its lanes
 * @names: the culprits are added
 * @spans: get the starts of tasks; or NULL
 * @page: gets chunks of columns: lane * BRAID_HTML_STATES + state, end, length, culprit, and of a
 *	merged span the number of states and the ns of each. Time that a vCPU executed is left out
 * @exact: spans; BRAID_HTML_EXACT_STATES
 *
 * All must stay valid. Nothing is written of a vCPU whose state is never proven, as without events
 * of the host.
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_html_states_begin(struct braid_html_states **out, struct braid_walk *shown,
			    const struct braid_html_lanes *lanes, struct braid_html_names *names,
			    struct braid_html_spans *spans, struct braid_html_out *page, u32 exact);

/** braid_html_states_recorded - the recorded times, in order and apart; 0: not known */
const struct braid_observed *braid_html_states_recorded(const struct braid_html_states *x,
							size_t *nr);

/** braid_html_states_origin - what the times of states and starts are relative to, as shown */
s64 braid_html_states_origin(const struct braid_html_states *x);

/** braid_html_states_end - after the walk: write the rest; returns likewise */
int braid_html_states_end(struct braid_html_states *x);

/**
 * braid_html_states_verdict - append what the page opens with: {"summary":{...},"stalls":{...}}
 * @x: ended
 * @base_ns: times are relative to it, by the clock that is shown
 * @out: extended; not if the trace has no guest
 */
void braid_html_states_verdict(struct braid_html_states *x, s64 base_ns, struct braid_text *out);

/** braid_html_states_free - free all; NULL is fine */
void braid_html_states_free(struct braid_html_states *x);

#endif /* BRAID_EXPORT_HTML_STATES_H */
