// SPDX-License-Identifier: GPL-2.0-or-later
/* Where what is recorded starts and stops: what a recording showed does not hold after it. */
#include <stdlib.h>

#include "host_agent/analyze/private.h"

/* At the same time, stops come before starts. */
static int by_time(const void *a, const void *b)
{
	const struct braid_edge *x = a, *y = b;

	if (x->due_ns != y->due_ns)
		return x->due_ns < y->due_ns ? -1 : 1;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	return x->which < y->which ? -1 : x->which > y->which;
}

static void show_next(struct braid_states *s)
{
	s->edge_ns = s->edge < s->nr_edges ? s->edges[s->edge].due_ns : INT64_MAX;
}

void braid_edges_sort(struct braid_states *s)
{
	if (s->nr_edges)
		qsort(s->edges, s->nr_edges, sizeof(*s->edges), by_time);
	show_next(s);
}

/* What the host's events have shown of its CPUs. */
static void forget_cpus(struct braid_states *s)
{
	u32 k;

	for (k = 0; k < s->nr_cpus; k++) {
		struct braid_host_cpu *cpu = &s->cpus[k];

		if (cpu->hides != BRAID_NO_VCPU)
			s->vcpus[cpu->hides].hidden--;
		cpu->hides = BRAID_NO_VCPU;
		cpu->left = BRAID_PID_UNKNOWN;
		cpu->known = cpu->in_gap = cpu->softirq = false;
		cpu->irqs = 0;
	}
	s->open_gaps = 0;
}

/* What they have shown of a vCPU's thread, and of its interrupts. */
static void forget_thread(struct braid_states *s, struct braid_vcpu *v, s64 ns)
{
	v->ipi = -1;
	v->reason = 0;
	v->halted = false;
	braid_vcpu_set_thread(s, v, BRAID_THREAD_UNKNOWN, v->cpu);
	braid_mark(s, BRAID_MARK_LOST, v - s->vcpus, ns, 0, 0);
}

/* What its guest has shown. */
static void forget_task(struct braid_states *s, struct braid_vcpu *v, s64 ns)
{
	v->in_gap = v->offline = false;
	v->task = s->guests[v->guest->number].alive_ns < ns ? BRAID_PID_NOT_TRACED :
							     BRAID_PID_UNKNOWN;
	v->call = BRAID_CALL_UNKNOWN;
	braid_mark(s, BRAID_MARK_LOST_GUEST, v - s->vcpus, ns, 0, 0);
}

/* Subscribers see the guests' vCPUs as they were up to then. */
static int cut(struct braid_states *s, s64 ns)
{
	int err = 0;
	u32 k;

	for (k = 0; k < s->nr_vcpus && !err && s->ops && s->ops->cut; k++)
		if (s->guests[s->vcpus[k].guest->number].stops)
			err = s->ops->cut(s->arg, k, ns);
	return err;
}

/* Of the guests that stop, and perhaps of the host, nothing more is recorded. */
static int stop(struct braid_states *s, s64 ns, bool host)
{
	int err = braid_life_pass(s, ns);
	u32 k;

	if (!err)
		err = cut(s, ns);
	if (err)
		return err;
	braid_task_forget(s, ns);
	for (k = 0; k < s->nr_vcpus && host && !err; k++) {
		struct braid_vcpu *v = &s->vcpus[k];

		if (v->out)	/* no entry follows */
			err = braid_vcpu_settle(s, v, ns) ?: braid_vcpu_report_exit(s, v, ns);
	}
	if (err)
		return err;
	if (host)
		forget_cpus(s);
	for (k = 0; k < s->nr_vcpus; k++) {
		if (host)
			forget_thread(s, &s->vcpus[k], ns);
		if (s->guests[s->vcpus[k].guest->number].stops)
			forget_task(s, &s->vcpus[k], ns);
	}
	for (k = 0; k < s->nr_vcpus && !err; k++)
		err = braid_vcpu_refresh(s, &s->vcpus[k], ns, 0);
	return err;
}

/* All that stops at a time. It is of the trace up to then. */
static int take_stops(struct braid_states *s, s64 due_ns)
{
	bool window = false, host = false;
	size_t k;
	int err;

	for (; s->edge < s->nr_edges && s->edges[s->edge].due_ns == due_ns &&
	       s->edges[s->edge].kind != BRAID_EDGE_STARTS; s->edge++) {
		const struct braid_edge *e = &s->edges[s->edge];

		window |= e->kind == BRAID_EDGE_WINDOW_STOPS;
		host |= e->kind != BRAID_EDGE_GUEST_STOPS;
		if (e->kind == BRAID_EDGE_GUEST_STOPS)
			s->guests[e->which].stops = true;
	}
	for (k = 0; k < s->source->nr_streams && window; k++)
		s->guests[k].stops = true;
	err = stop(s, due_ns - 1, host);
	if (!err && window)
		err = braid_observe_next(s);
	for (k = 0; k < s->source->nr_streams; k++)
		s->guests[k].stops = false;
	return err;
}

int braid_edges_pass(struct braid_states *s, s64 ns)
{
	int err = 0;

	while (!err && s->edge < s->nr_edges && s->edges[s->edge].due_ns <= ns) {
		const struct braid_edge *e = &s->edges[s->edge];

		if (e->kind == BRAID_EDGE_STARTS)
			err = braid_start_apply(s, s->edges[s->edge++].which);
		else
			err = take_stops(s, e->due_ns);
	}
	show_next(s);
	return err;
}
