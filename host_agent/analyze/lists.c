// SPDX-License-Identifier: GPL-2.0-or-later
/* Lists of vCPUs: what an event changes is found without a look at all others. */
#include "host_agent/analyze/private.h"

static u32 *head_of(const struct braid_vcpu *v)
{
	struct braid_host_cpu *cpu = &v->host->cpus[v->cpu];

	switch (v->list) {
	case BRAID_LIST_ON:
		return &cpu->first_on;
	case BRAID_LIST_WAITS:
		return &cpu->first_waiter;
	default:
		return &cpu->first_behind;
	}
}

static void leave(struct braid_states *s, struct braid_vcpu *v)
{
	if (v->prev == BRAID_NO_VCPU)
		*head_of(v) = v->next;
	else
		s->vcpus[v->prev].next = v->next;
	if (v->next != BRAID_NO_VCPU)
		s->vcpus[v->next].prev = v->prev;
	v->host->cpus[v->cpu].nr_waiters -= v->list == BRAID_LIST_WAITS;
	v->list = BRAID_LIST_NONE;
}

static void lists_enter(struct braid_states *s, struct braid_vcpu *v, int list)
{
	u32 *first;

	v->list = list;
	first = head_of(v);
	v->prev = BRAID_NO_VCPU;
	v->next = *first;
	if (*first != BRAID_NO_VCPU)
		s->vcpus[*first].prev = v - s->vcpus;
	*first = v - s->vcpus;
	v->host->cpus[v->cpu].nr_waiters += list == BRAID_LIST_WAITS;
	braid_list_touch_cpu(v->host, v->cpu);
}

/* One of those beyond the limit can be followed from now on. */
static void advance(struct braid_states *s, struct braid_host_cpu *cpu)
{
	struct braid_vcpu *v = &s->vcpus[cpu->first_behind];

	if (cpu->first_behind == BRAID_NO_VCPU || cpu->nr_waiters == BRAID_MAX_WAITERS)
		return;
	leave(s, v);
	lists_enter(s, v, BRAID_LIST_WAITS);
}

void braid_list_vcpu(struct braid_states *s, struct braid_vcpu *v, int thread, u32 cpu)
{
	struct braid_host_state *host = v->host;
	struct braid_host_cpu *left = v->list == BRAID_LIST_NONE ? NULL : &host->cpus[v->cpu];

	if (left)
		leave(s, v);
	v->thread = thread;
	v->cpu = cpu;
	if (cpu < host->nr_cpus && thread == BRAID_THREAD_ON)
		lists_enter(s, v, BRAID_LIST_ON);
	else if (cpu < host->nr_cpus && thread == BRAID_THREAD_WAITS)
		lists_enter(s, v, host->cpus[cpu].nr_waiters < BRAID_MAX_WAITERS ?
				  BRAID_LIST_WAITS : BRAID_LIST_BEHIND);
	if (left)
		advance(s, left);
}

void braid_list_touch(struct braid_states *s, u32 vcpu)
{
	struct braid_vcpu *v = &s->vcpus[vcpu];

	if (v->touched)
		return;
	v->touched = true;
	v->next_touched = v->host->first_touched;
	v->host->first_touched = vcpu;
}

void braid_list_touch_cpu(struct braid_host_state *host, u32 number)
{
	struct braid_host_cpu *cpu = &host->cpus[number];

	if (cpu->touched)
		return;
	cpu->touched = true;
	cpu->next_touched = host->first_cpu;
	host->first_cpu = number;
}
