// SPDX-License-Identifier: GPL-2.0-or-later
/* Takes the moments of interrupts on their way to tasks, and adds up the times between them. */
#include <stdlib.h>
#include <string.h>

#include "host_agent/analyze/stages_private.h"
#include "host_agent/util/error.h"

#define FIRST_SYSTEM	0xecu	/* vectors from here on are no devices', on Linux */
#define NONE		INT64_MIN

static bool stages_wants(const struct braid_stages *x, u32 vcpu)
{
	return braid_analysis_wants(x->s, &x->o, vcpu, x->o.task);
}

/*
 * One more from @from_ns to @to_ns, as far as that is observed; the time between two clocks may be
 * too small by their bound.
 */
static void stages_add(struct braid_stages *x, u32 vcpu, enum braid_stage_kind kind, s64 from_ns,
		       s64 to_ns,
		       u64 bound_ns)
{
	const struct braid_vcpu *v = &x->s->vcpus[vcpu];
	struct braid_stage *stage = &x->all[v->guest->number * BRAID_NR_STAGES + kind];
	u64 ns, limit = 1000;
	u32 k;

	if (to_ns < v->begin_ns || from_ns > v->end_ns || !stages_wants(x, vcpu))
		return;
	from_ns = from_ns > v->begin_ns ? from_ns : v->begin_ns;
	to_ns = to_ns < v->end_ns ? to_ns : v->end_ns;
	ns = to_ns > from_ns ? to_ns - from_ns : 0;
	for (k = 0; k < BRAID_NR_DECADES - 1 && ns >= limit; k++)
		limit *= 10;
	stage->decades[k]++;
	stage->bound_ns = bound_ns > stage->bound_ns ? bound_ns : stage->bound_ns;
	braid_histogram_add(&stage->histogram, ns);
	if (ns >= stage->worst_ns) {
		stage->worst_ns = ns;
		stage->worst_at_ns = from_ns;
	}
}

/* From a moment that is used up by this, if there is one. */
static void stages_finish(struct braid_stages *x, const struct braid_mark *mark,
			  enum braid_stage_kind kind, s64 *from_ns)
{
	if (*from_ns != NONE)
		stages_add(x, mark->vcpu, kind, *from_ns, mark->ns, mark->bound_ns);
	*from_ns = NONE;
}

static void forget_host(struct braid_stage_vcpu *v)
{
	u32 k;

	for (k = 0; k < BRAID_NR_VECTORS; k++)
		v->raised_ns[k] = NONE;
	v->first_raise_ns = v->woken_ns = v->on_cpu_ns = v->injected_ns = v->entered_ns = NONE;
	v->on_cpu_sum_ns = 0;
}

static void take_raise(const struct braid_stages *x, struct braid_stage_vcpu *v,
		       const struct braid_mark *mark)
{
	/* A second one of a vector that is pending is not another interrupt. */
	if (v->raised_ns[mark->value] == NONE) {
		v->raised_ns[mark->value] = mark->ns;
		v->if_alone[mark->value] = mark->if_alone;
	}
	if (v->first_raise_ns == NONE && x->s->vcpus[mark->vcpu].thread == BRAID_THREAD_SLEEPS) {
		v->first_raise_ns = mark->ns;
		v->first_if_alone = mark->if_alone;
	}
}

static void take_inject(struct braid_stages *x, struct braid_stage_vcpu *v,
			const struct braid_mark *mark)
{
	stages_finish(x, mark, BRAID_STAGE_ON_CPU_INJECTED, &v->on_cpu_ns);
	stages_finish(x, mark, v->if_alone[mark->value] ? BRAID_STAGE_RAISED_INJECTED_IF_ALONE :
		      BRAID_STAGE_RAISED_INJECTED, &v->raised_ns[mark->value]);
	v->injected_ns = mark->ns;
	v->vector = mark->value;
}

static bool stages_is_of(u32 handler, u32 vector)
{
	return handler == BRAID_MARK_DEVICE ? vector < FIRST_SYSTEM : handler == vector;
}

/* The handler is the next one of this vector; if the last one may be after this, it is unsure. */
static void take_entry(struct braid_stages *x, struct braid_stage_vcpu *v,
		       const struct braid_mark *mark)
{
	bool injected = v->injected_ns != NONE;

	v->on_cpu_ns = NONE;
	v->first_raise_ns = NONE;
	if (!injected)
		return;
	stages_finish(x, mark, BRAID_STAGE_INJECTED_ENTERED, &v->injected_ns);
	v->entered_ns = v->handled && stages_is_of(v->handler, v->vector) &&
			(u64)(mark->ns - v->handler_ns) < v->handler_bound_ns ? NONE : mark->ns;
}

static void take_handler(struct braid_stages *x, struct braid_stage_vcpu *v,
			 const struct braid_mark *mark)
{
	v->handled = v->in_handler = true;
	v->handler = mark->value;
	v->handler_ns = mark->ns;
	v->handler_bound_ns = mark->bound_ns;
	if (stages_is_of(v->handler, v->vector))
		stages_finish(x, mark, BRAID_STAGE_ENTERED_HANDLER, &v->entered_ns);
}

static void take_halted(const struct braid_stages *x, struct braid_stage_vcpu *v,
			const struct braid_mark *mark)
{
	const struct braid_vcpu *of = &x->s->vcpus[mark->vcpu];

	if (mark->ns < of->begin_ns || mark->ns > of->end_ns)
		return;
	if (mark->value) {
		v->slept++;
		return;
	}
	v->polls++;
	v->polled_ns += v->on_cpu_sum_ns;
	if (of->now.state == BRAID_VCPU_KVM)
		v->polled_ns += mark->ns - (of->now.from_ns > of->begin_ns ? of->now.from_ns : of->begin_ns);
}

void braid_stages_mark(struct braid_stages *x, const struct braid_mark *mark)
{
	struct braid_stage_vcpu *v = &x->vcpus[mark->vcpu];

	switch (mark->kind) {
	case BRAID_MARK_RAISED:
		take_raise(x, v, mark);
		break;
	case BRAID_MARK_WOKEN:
		stages_finish(x, mark, v->first_if_alone ? BRAID_STAGE_RAISED_WOKEN_IF_ALONE :
			      BRAID_STAGE_RAISED_WOKEN, &v->first_raise_ns);
		v->woken_ns = mark->ns;
		break;
	case BRAID_MARK_ON_CPU:
		v->on_cpu_ns = v->woken_ns == NONE ? NONE : mark->ns;
		stages_finish(x, mark, BRAID_STAGE_WOKEN_ON_CPU, &v->woken_ns);
		break;
	case BRAID_MARK_INJECTED:
		take_inject(x, v, mark);
		break;
	case BRAID_MARK_ENTERED:
		take_entry(x, v, mark);
		break;
	case BRAID_MARK_HALTED:
		take_halted(x, v, mark);
		break;
	case BRAID_MARK_HANDLER:
		take_handler(x, v, mark);
		break;
	case BRAID_MARK_HANDLER_END:
		v->in_handler = false;
		break;
	case BRAID_MARK_WAKES:
		if (v->in_handler)
			stages_add(x, mark->vcpu, BRAID_STAGE_HANDLER_WAKES, v->handler_ns,
				   mark->ns, 0);
		break;
	case BRAID_MARK_LOST:
		forget_host(v);
		break;
	case BRAID_MARK_LOST_GUEST:
		v->handled = v->in_handler = false;
		v->entered_ns = NONE;
		break;
	}
}

/* What it does on its CPU from the exit on, before it sleeps: it handles the exit, and polls. */
void braid_stages_span(struct braid_stages *x, const struct braid_state_span *span)
{
	struct braid_stage_vcpu *v = &x->vcpus[span->vcpu];

	if (span->state == BRAID_VCPU_KVM) {
		v->on_cpu_sum_ns += span->to_ns - span->from_ns;
	} else if (span->state == BRAID_VCPU_HALTED) {
		v->in_vain_ns += v->on_cpu_sum_ns;
		v->on_cpu_sum_ns = 0;
	} else if (span->state != BRAID_VCPU_STOLEN) {
		v->on_cpu_sum_ns = 0;
	}
}

void braid_stages_queued(struct braid_stages *x, const struct braid_queue_wait *wait)
{
	if (wait->woken)
		stages_add(x, wait->vcpu, BRAID_STAGE_WAKES_RUNS, wait->from_ns, wait->to_ns, 0);
}

static void merge(struct braid_stage *to, const struct braid_stage *from)
{
	u32 k;

	braid_histogram_merge(&to->histogram, &from->histogram);
	for (k = 0; k < BRAID_NR_DECADES; k++)
		to->decades[k] += from->decades[k];
	if (from->histogram.nr && from->worst_ns >= to->worst_ns) {
		to->worst_ns = from->worst_ns;
		to->worst_at_ns = from->worst_at_ns;
	}
}

void braid_stages_end(struct braid_stages *x)
{
	struct braid_stage *of;
	size_t k;

	for (k = 0; k < x->s->source->nr_streams && !x->s->other_vms; k++) {
		of = &x->all[k * BRAID_NR_STAGES];
		merge(&of[BRAID_STAGE_RAISED_WOKEN], &of[BRAID_STAGE_RAISED_WOKEN_IF_ALONE]);
		merge(&of[BRAID_STAGE_RAISED_INJECTED], &of[BRAID_STAGE_RAISED_INJECTED_IF_ALONE]);
	}
}

int braid_stages_begin(struct braid_stages *x, const struct braid_states *s,
		       const struct braid_analysis_options *options)
{
	u32 k;

	x->s = s;
	x->o = *options;
	x->all = calloc((s->source->nr_streams + 1) * BRAID_NR_STAGES, sizeof(*x->all));
	x->vcpus = calloc((size_t)s->nr_vcpus + 1, sizeof(*x->vcpus));
	if (!x->all || !x->vcpus)
		return braid_out_of_memory();
	for (k = 0; k < s->nr_vcpus; k++)
		forget_host(&x->vcpus[k]);
	return 0;
}

void braid_stages_free(struct braid_stages *x)
{
	free(x->all);
	free(x->vcpus);
}
