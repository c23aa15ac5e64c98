/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How long each stage takes from an interrupt's raise to the task that it wakes; and halt polling. */
#ifndef BRAID_ANALYZE_STAGES_H
#define BRAID_ANALYZE_STAGES_H

#include "host_agent/analyze/analysis.h"

enum braid_stage_kind {
	BRAID_STAGE_RAISED_WOKEN,	/* a vCPU that slept */
	BRAID_STAGE_WOKEN_ON_CPU,
	BRAID_STAGE_ON_CPU_INJECTED,	/* after it was woken */
	BRAID_STAGE_RAISED_INJECTED,	/* slept or not: the whole up to the injection */
	BRAID_STAGE_INJECTED_ENTERED,
	BRAID_STAGE_ENTERED_HANDLER,
	BRAID_STAGE_HANDLER_WAKES,
	BRAID_STAGE_WAKES_RUNS,
	BRAID_SHOWN_STAGES,
	/* Likewise, but the raise is the guest's only if no other VM runs: added at the end, then. */
	BRAID_STAGE_RAISED_WOKEN_IF_ALONE = BRAID_SHOWN_STAGES,
	BRAID_STAGE_RAISED_INJECTED_IF_ALONE,
	BRAID_NR_STAGES
};

struct braid_stage;
struct braid_stage_vcpu;

struct braid_stages {
	const struct braid_states *s;
	struct braid_analysis_options o;
	struct braid_stage *all;	/* BRAID_NR_STAGES of each stream */
	struct braid_stage_vcpu *vcpus;
};

/** braid_stages_begin - prepare. Return: 0, or -ENOMEM with braid_fail() */
int braid_stages_begin(struct braid_stages *x, const struct braid_states *s,
		       const struct braid_analysis_options *options);

/** braid_stages_mark - the next mark of the states */
void braid_stages_mark(struct braid_stages *x, const struct braid_mark *mark);

/** braid_stages_span - the next span of the states: what a vCPU does before it sleeps */
void braid_stages_span(struct braid_stages *x, const struct braid_state_span *span);

/** braid_stages_queued - a woken task got its vCPU */
void braid_stages_queued(struct braid_stages *x, const struct braid_queue_wait *wait);

/** braid_stages_end - after all marks, before braid_stages_write() */
void braid_stages_end(struct braid_stages *x);

/** braid_stages_write - the tables of stages and of halt polling, for people and as JSON members */
void braid_stages_write(const struct braid_stages *x, struct braid_text *out);

/** braid_stages_free - free all */
void braid_stages_free(struct braid_stages *x);

#endif /* BRAID_ANALYZE_STAGES_H */
