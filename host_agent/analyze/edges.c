// SPDX-License-Identifier: GPL-2.0-or-later
/* Where what is recorded starts and stops: what a recording showed does not hold after it. */
#include <stdlib.h>

#include "host_agent/analyze/private.h"
#include "host_agent/util/array.h"

/* At the same time, stops come before starts. */
static int edges_by_time(const void *a, const void *b)
{
	const struct braid_edge *x = a, *y = b;

	return braid_compare(x->due_ns, y->due_ns) ?: braid_compare(x->kind, y->kind) ?:
	       braid_compare(x->which, y->which);
}

static void show_next(struct braid_states *s)
{
	s->edge_ns = s->edge < s->nr_edges ? s->edges[s->edge].due_ns : INT64_MAX;
}

void braid_edges_sort(struct braid_states *s)
{
	if (s->nr_edges)
		qsort(s->edges, s->nr_edges, sizeof(*s->edges), edges_by_time);
	show_next(s);
}

/* What a host's events have shown of its CPUs. */
static void forget_cpus(struct braid_states *s, struct braid_host_state *host, s64 ns)
{
	while (host->first_cpu != BRAID_NO_CPU) {
		struct braid_host_cpu *cpu = &host->cpus[host->first_cpu];

		host->first_cpu = cpu->next_touched;
		cpu->touched = false;
		braid_cpu_settle(s, cpu, ns);
		if (cpu->hides != BRAID_NO_VCPU) {
			s->vcpus[cpu->hides].hidden--;
			braid_list_touch(s, cpu->hides);
		}
		cpu->hides = BRAID_NO_VCPU;
		cpu->left = BRAID_PID_UNKNOWN;
		cpu->known = cpu->in_gap = cpu->softirq = false;
		cpu->irqs = 0;
	}
	host->open_gaps = 0;
}

/* Of a host nothing more is recorded. */
static int stop_host(struct braid_states *s, struct braid_host_state *host, s64 ns)
{
	struct braid_vcpu *v;
	u32 cpu, k;
	int err = 0;

	for (cpu = host->first_cpu; cpu != BRAID_NO_CPU; cpu = host->cpus[cpu].next_touched)
		for (k = host->cpus[cpu].first_on; k != BRAID_NO_VCPU; k = s->vcpus[k].next)
			braid_list_touch(s, k);
	for (k = host->first_touched; k != BRAID_NO_VCPU && !err; k = s->vcpus[k].next_touched)
		if (s->vcpus[k].out)	/* no entry follows */
			err = braid_vcpu_settle(s, &s->vcpus[k], ns) ?:
			      braid_vcpu_report_exit(s, &s->vcpus[k], ns);
	braid_task_forget(s, &host->first_task, ns);
	host->gaps++;
	braid_throttle_forget(host);
	forget_cpus(s, host, ns);
	while (host->first_touched != BRAID_NO_VCPU && !err) {
		v = &s->vcpus[host->first_touched];
		host->first_touched = v->next_touched;
		v->touched = false;
		err = braid_vcpu_forget_thread(s, v, ns);
	}
	return err;
}

/* Subscribers see a guest's vCPUs as they were up to then. */
static int edges_cut(struct braid_states *s, u32 stream, s64 ns)
{
	struct braid_guest_state *guest = &s->guests[stream];
	int err = 0;
	u32 k;

	for (k = 0; k < guest->nr_vcpus && !err && s->ops && s->ops->cut; k++)
		err = s->ops->cut(s->arg, guest->first_vcpu + k, ns);
	braid_task_forget(s, &guest->first_known, ns);
	return err;
}

/* Of a guest nothing more is recorded, until its next window. */
static int stop_guest(struct braid_states *s, u32 stream, s64 ns)
{
	struct braid_guest_state *guest = &s->guests[stream];
	struct braid_vcpu *v = &s->vcpus[guest->first_vcpu], *past = v + guest->nr_vcpus;
	int err = 0;

	for (; v < past && !err; v++) {
		v->in_gap = v->offline = false;
		v->task = guest->alive_ns < ns ? BRAID_PID_NOT_TRACED : BRAID_PID_UNKNOWN;
		v->call = BRAID_CALL_UNKNOWN;
		braid_mark(s, BRAID_MARK_LOST_GUEST, v - s->vcpus, ns, 0, 0);
		err = braid_vcpu_refresh(s, v, ns, 0);
		if (!err)
			err = braid_vcpu_refresh_behind(s, v, ns, 0);
	}
	return err ? err : braid_observe_next(s, stream);
}

/* All that stops at a time. It is of the trace up to then. */
static int take_stops(struct braid_states *s, s64 due_ns)
{
	size_t first = s->edge, k;
	s64 ns = due_ns - 1;
	int err = braid_life_pass(s, ns);

	for (; s->edge < s->nr_edges && s->edges[s->edge].due_ns == due_ns &&
	       s->edges[s->edge].kind < BRAID_EDGE_STARTS && !err; s->edge++)
		if (s->edges[s->edge].kind == BRAID_EDGE_GUEST_STOPS)
			err = edges_cut(s, s->edges[s->edge].which, ns);
	for (k = first; k < s->edge && !err; k++)
		if (s->edges[k].kind == BRAID_EDGE_HOST_STOPS)
			err = stop_host(s, &s->hosts[s->edges[k].which], ns);
	for (k = first; k < s->edge && !err; k++)
		if (s->edges[k].kind == BRAID_EDGE_GUEST_STOPS)
			err = stop_guest(s, s->edges[k].which, ns);
	return err;
}

int braid_edges_pass(struct braid_states *s, s64 ns)
{
	int err = 0;

	while (!err && s->edge < s->nr_edges && s->edges[s->edge].due_ns <= ns) {
		const struct braid_edge *e = &s->edges[s->edge];

		if (e->kind == BRAID_EDGE_STARTS)
			err = braid_start_apply(s, s->edges[s->edge++].which);
		else if (e->kind >= BRAID_EDGE_LEAVES)
			err = braid_moves_pass(s, &s->edges[s->edge++]);
		else if (e->kind > BRAID_EDGE_STARTS)
			err = braid_throttle_pass(s, &s->edges[s->edge++]);
		else
			err = take_stops(s, e->due_ns);
	}
	show_next(s);
	return err;
}
