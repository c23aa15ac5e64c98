// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Spans of a vCPU that waits for a host CPU. Without sched_migrate_task events, where it waited is
 * certain only once it runs: if that is on another CPU, it was moved unseen, and what ran on the
 * first one may not have delayed it. Until then its spans are held.
 */
#include "host_agent/analyze/private.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

#define MAX_HELD	(1u << 18)	/* of all vCPUs: a longer wait has unknown culprits */

/* Spans of a vCPU are a list; so are those that are free. */
struct braid_held {
	struct braid_state_span span;
	u32 next;		/* + 1; 0: none */
};

static int held_hand_on(const struct braid_states *s, const struct braid_state_span *span)
{
	return s->ops && s->ops->span ? s->ops->span(s->arg, span) : 0;
}

/* A quota holds a thread back wherever it is. */
static void make_unknown(struct braid_state_span *span)
{
	if (span->state == BRAID_VCPU_THROTTLED)
		return;
	span->culprit = (struct braid_culprit){
		.kind = BRAID_CULPRIT_UNKNOWN, .vcpu = BRAID_NO_VCPU, .task = BRAID_PID_UNKNOWN,
	};
	span->cpu = BRAID_NO_CPU;
}

/* One that ends where another one begins is the same wait, unless it is of another task or exit. */
static bool joins(const struct braid_state_span *a, const struct braid_state_span *b)
{
	return a->task == b->task && a->reason == b->reason && a->state == BRAID_VCPU_STOLEN &&
	       b->state == BRAID_VCPU_STOLEN;
}

/* A span that is not free any more; 0: there are too many. Return: 0 or -ENOMEM. */
static int held_take(struct braid_states *s, u32 *number)
{
	*number = s->free_held;
	if (*number) {
		s->free_held = s->held[*number - 1].next;
		return 0;
	}
	if (s->nr_held == MAX_HELD)
		return 0;
	if (braid_array_push(s->held, s->nr_held, s->held_capacity, (struct braid_held){ 0 }))
		return braid_out_of_memory();
	*number = s->nr_held;
	return 0;
}

int braid_held_add(struct braid_states *s, struct braid_vcpu *v,
		   const struct braid_state_span *span)
{
	struct braid_state_span last = *span;
	u32 number;
	int err = held_take(s, &number);

	if (err)
		return err;
	if (!number) {
		err = braid_held_release(s, v, true);
		make_unknown(&last);
		return err ? err : held_hand_on(s, &last);
	}
	s->held[number - 1] = (struct braid_held){ .span = last };
	if (v->last_held)
		s->held[v->last_held - 1].next = number;
	else
		v->first_held = number;
	v->last_held = number;
	return 0;
}

struct braid_state_span *braid_held_span(const struct braid_states *s, size_t number)
{
	return &s->held[number].span;
}

u32 braid_held_next(const struct braid_states *s, u32 number)
{
	return s->held[number - 1].next;
}

int braid_held_release(struct braid_states *s, struct braid_vcpu *v, bool moved)
{
	struct braid_state_span open = { 0 };
	u32 number = v->first_held, next;
	int err = 0;

	v->first_held = v->last_held = 0;
	for (; number; number = next) {
		struct braid_held *held = &s->held[number - 1];

		next = held->next;
		if (moved)
			make_unknown(&held->span);
		if (moved && open.to_ns && joins(&open, &held->span)) {
			open.to_ns = held->span.to_ns;
			open.to_bound_ns = held->span.to_bound_ns;
		} else {
			err = err || !open.to_ns ? err : held_hand_on(s, &open);
			open = held->span;
		}
		held->next = s->free_held;
		s->free_held = number;
	}
	return err || !open.to_ns ? err : held_hand_on(s, &open);
}
