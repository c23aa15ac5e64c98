// SPDX-License-Identifier: GPL-2.0-or-later
/* Switches that the host's trace omits: what cannot be known until the next event. */
#include <string.h>

#include "host_agent/analyze/gaps.h"
#include "host_agent/analyze/private.h"
#include "host_agent/util/error.h"

/* Whether an event's task, which is not the one that was switched to, is the current one. */
static int shows_switch(struct braid_states *s, const struct braid_item *item, bool *shows)
{
	const struct braid_host_cpu *cpu = braid_states_cpu_of(s, item);
	const struct braid_event_type_info *type;
	const struct braid_role_info *info;
	int err = 0;

	*shows = false;
	if (!s->gaps.format)
		err = braid_format_open(&s->gaps.format, s->source);
	if (err)
		return err;
	type = braid_format_event(s->gaps.format, item);
	info = type ? braid_roles_find(&s->gaps.roles, type) : NULL;
	if (!info)
		return braid_out_of_memory();
	*shows = info->role != BRAID_ROLE_NONE ||
		 (type->layout && !type->raw &&
		  (!strcmp(type->system, "sched") || braid_format_pid(item) != cpu->left));
	return 0;
}

/* The vCPU that is current at the gap's end: since when is not known, nor where it waited until then. */
static int hide(struct braid_states *s, u32 number, struct braid_vcpu *v, s64 ns)
{
	v->host->cpus[number].hides = v - s->vcpus;
	v->hidden++;
	if (v->thread == BRAID_THREAD_WAITS && v->cpu != number && !v->host->seen.migrations) {
		v->moved_unseen = true;
		v->host->moved_unseen++;
	}
	return braid_vcpu_refresh(s, v, ns, 0);
}

static int open_gap(struct braid_states *s, const struct braid_item *item, s64 ns)
{
	struct braid_host_state *host = braid_states_host(s, item->stream);
	u32 number = item->ring->cpu;
	struct braid_host_cpu *cpu = &host->cpus[number];
	struct braid_vcpu *before = cpu->vcpu == BRAID_NO_VCPU ? NULL : &s->vcpus[cpu->vcpu];
	struct braid_vcpu *after = braid_vcpu_of_thread(s, host, braid_format_pid(item),
							item->host_ns);
	int err = 0;

	braid_cpu_settle(s, cpu, ns);
	cpu->known = false;
	cpu->irqs = 0;
	cpu->softirq = false;
	if (before && before->thread == BRAID_THREAD_ON && before->cpu == number) {
		braid_vcpu_set_thread(s, before, BRAID_THREAD_UNKNOWN, number);
		err = braid_vcpu_refresh(s, before, ns, 0);
	}
	if (!err && after)
		err = hide(s, number, after, ns);
	return err ? err : braid_vcpu_refresh_waiters(s, host, number, ns, 0);
}

int braid_gaps_check(struct braid_states *s, const struct braid_item *item, s64 since_ns)
{
	const struct braid_host_cpu *cpu = braid_states_cpu_of(s, item);
	s32 tid = braid_format_pid(item);
	bool shows = false;
	int err;

	if (!cpu->known || cpu->tid == tid || tid == BRAID_PID_UNKNOWN)
		return 0;
	err = shows_switch(s, item, &shows);
	return err || !shows ? err : open_gap(s, item, since_ns);
}

int braid_gaps_close(struct braid_states *s, struct braid_host_cpu *cpu, s64 ns)
{
	struct braid_vcpu *v = cpu->hides == BRAID_NO_VCPU ? NULL : &s->vcpus[cpu->hides];

	if (!v)
		return 0;
	cpu->hides = BRAID_NO_VCPU;
	v->hidden--;
	return braid_vcpu_refresh(s, v, ns, 0);
}

void braid_gaps_free(struct braid_gaps *g)
{
	braid_format_close(g->format);
	braid_roles_free(&g->roles);
	*g = (struct braid_gaps){ 0 };
}
