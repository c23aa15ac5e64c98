/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files of the analysis profile share. */
#ifndef BRAID_ANALYZE_PROFILE_PRIVATE_H
#define BRAID_ANALYZE_PROFILE_PRIVATE_H

#include "host_agent/analyze/functions.h"
#include "host_agent/analyze/user_code.h"

#define BRAID_PROFILE_FRAMES	66u	/* the kernel's, the user's, and the mark where they end */
#define BRAID_PROFILE_STACKS	(1u << 14)	/* samples of further ones count for none */
#define BRAID_PROFILE_NO_STACK	UINT32_MAX

/* Functions, by braid_function_of() or braid_user_code_of(), the innermost one first. */
struct braid_profile_stack {
	const struct braid_stream *of;	/* whose functions */
	u32 nr;
	/* The sample came late. Interrupts were off; not in user code, which cannot switch them. */
	enum { BRAID_PROFILE_IN_TIME, BRAID_PROFILE_OFF, BRAID_PROFILE_LATE } late;
	u64 functions[BRAID_PROFILE_FRAMES];
};

enum braid_profile_event {
	BRAID_PROFILE_UNSEEN, BRAID_PROFILE_OTHER,
	BRAID_PROFILE_CPU, BRAID_PROFILE_MAPPING, BRAID_PROFILE_HOST,
};

/* Where the fields are, by the number of the event's type. */
struct braid_profile_places {
	enum braid_profile_event event;
	const struct braid_field *ip, *missed, *user, *stack, *user_stack, *space, *ends, *late;
	const struct braid_field *start, *end, *offset, *path, *id_bytes, *id;
};

struct braid_profile {
	const struct braid_states *s;
	struct braid_analysis_options o;
	struct braid_functions functions;
	struct braid_user_code user;
	struct braid_profile_places *places;
	size_t nr_places, places_capacity;
	struct braid_profile_stack *stacks;
	size_t nr_stacks, stacks_capacity;
	struct braid_hash by_stack;
	struct braid_profile_vcpu {
		s64 sampled_ns;		/* when the last sample was due; 0: none */
		u64 executed_ns;	/* by then */
	} *vcpus;
	struct braid_sums times;	/* by vCPU, task, state (level), reason, culprit */
	/* By vCPU, task, stack (detail); in ns executed, and periods (returned): */
	struct braid_sums samples;
	struct braid_sums host_samples;	/* by state and reason, too: of its thread; in samples */
	u64 nr_samples, nr_missed, nr_others, nr_host_samples;
};

static inline bool braid_profile_executes(enum braid_vcpu_state state)
{
	return state == BRAID_VCPU_GUEST || state == BRAID_VCPU_RUNS;
}

/* profile_samples.c: the analysis' event() and end(). */
int braid_profile_take_event(void *state, const struct braid_item *item,
			     const struct braid_event_type_info *info);
int braid_profile_settle(void *state);

#endif /* BRAID_ANALYZE_PROFILE_PRIVATE_H */
