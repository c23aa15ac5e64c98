// SPDX-License-Identifier: GPL-2.0-or-later
/* A host CPU's switch that the kernel did not record, and did not count as lost. */
#include "host_agent/analyze/private.h"

/*
 * Some kernels omit a sched_switch now and then. It is noticed at the CPU's next event, whose task is
 * not the one that was switched to last. In between, since the last event that agrees with that
 * switch:
 * - the culprit of those that wait on the CPU is unknown;
 * - the thread that was current has left, at an unknown moment;
 * - the event's thread has come, at another one: possibly it was woken and moved there meanwhile.
 * A thread that comes to a CPU while it is thought to run on another has left that one since that
 * CPU's last certain event.
 * Spans that were handed on before it is noticed stay as they are: their ends are events of other
 * CPUs, or the vCPU's own.
 */

int braid_gap_came(struct braid_states *s, u32 number, struct braid_vcpu *v)
{
	if (v->thread != BRAID_THREAD_ON || v->cpu == number || v->cpu >= s->nr_cpus)
		return 0;
	return braid_vcpu_doubt(s, v, s->cpus[v->cpu].seen_ns, false);
}

int braid_gap_omitted_switch(struct braid_states *s, u32 number, struct braid_vcpu *v)
{
	const struct braid_host_cpu *cpu = &s->cpus[number];
	struct braid_vcpu *before = cpu->vcpu != BRAID_NO_VCPU ? &s->vcpus[cpu->vcpu] : NULL;
	s64 since = cpu->seen_ns;
	u32 k;
	int err = 0;

	for (k = cpu->first_waiter; k != BRAID_NO_VCPU && !err; k = s->vcpus[k].next_waiter)
		if (&s->vcpus[k] != v)
			err = braid_vcpu_doubt(s, &s->vcpus[k], since, true);
	if (!err && before && before != v && before->thread == BRAID_THREAD_ON &&
	    before->cpu == number)
		err = braid_vcpu_doubt(s, before, since, false);
	if (err || !v)
		return err;
	return v->thread == BRAID_THREAD_ON ? braid_gap_came(s, number, v) :
					      braid_vcpu_doubt(s, v, since, false);
}
