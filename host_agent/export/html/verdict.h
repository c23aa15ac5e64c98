/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the page opens with: the results of the analyses 'summary' and 'stalls', as they compute them. */
#ifndef BRAID_EXPORT_HTML_VERDICT_H
#define BRAID_EXPORT_HTML_VERDICT_H

#include "host_agent/analyze/analysis.h"
#include "host_agent/walk/walk.h"

#define BRAID_HTML_WORST	3u	/* stalls */

/* Both subscribe to the states of one walk. */
struct braid_html_verdict {
	struct braid_analysis_options wants;
	void *summary, *stalls;
};

/**
 * braid_html_verdict_begin - prepare both
 * @v: zeroed; braid_html_verdict_free() it in any case
 * @states: begun; pass on their spans and waits
 * @options: of the walk; guest and vCPU that they select apply
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_html_verdict_begin(struct braid_html_verdict *v, struct braid_states *states,
			     const struct braid_walk_options *options);

/** braid_html_verdict_span - of struct braid_states_ops; the next ones likewise */
int braid_html_verdict_span(struct braid_html_verdict *v, const struct braid_state_span *span);
int braid_html_verdict_queued(struct braid_html_verdict *v, const struct braid_queue_wait *wait);
int braid_html_verdict_cut(struct braid_html_verdict *v, u32 vcpu, s64 ns);

/** braid_html_verdict_event - each event, after the states took it */
int braid_html_verdict_event(struct braid_html_verdict *v, const struct braid_item *item,
			     const struct braid_event_type_info *info);

/** braid_html_verdict_end - after the states have ended; returns likewise */
int braid_html_verdict_end(struct braid_html_verdict *v);

/**
 * braid_html_verdict_write - append both as {"summary":{...},"stalls":{...}}
 * @v: ended
 * @walk: converts times to the clock that is shown
 * @base_ns: times are relative to it
 * @out: extended
 */
void braid_html_verdict_write(struct braid_html_verdict *v, const struct braid_walk *walk,
			      s64 base_ns, struct braid_text *out);

/** braid_html_verdict_free - free both */
void braid_html_verdict_free(struct braid_html_verdict *v);

#endif /* BRAID_EXPORT_HTML_VERDICT_H */
