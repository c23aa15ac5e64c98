// SPDX-License-Identifier: GPL-2.0-or-later
/* vCPUs that KVM runs for guests that are not in the trace. */
#include <errno.h>

#include "host_agent/analyze/private.h"
#include "host_agent/util/error.h"

int braid_vcpu_add_other(struct braid_states *s, const struct braid_item *item,
			 struct braid_vcpu **out)
{
	struct braid_host_state *host = braid_states_host(s, item->stream);
	struct braid_host_cpu *cpu = &host->cpus[item->ring->cpu];
	s32 tid = braid_format_pid(item);
	struct braid_vcpu *v = &s->vcpus[s->nr_vcpus];
	int err;

	*out = NULL;
	if (!s->whole_host || tid <= 0 ||
	    braid_vcpu_map_find(&s->threads, braid_host_number(s, host), tid, item->host_ns))
		return 0;
	err = braid_hash_reserve(&s->others, BRAID_STATES_MAX_OTHERS);
	if (err)
		return err == -ENOSPC ? 0 : braid_out_of_memory();
	braid_observe_vcpu(s, s->nr_vcpus, item->stream, BRAID_NO_VCPU);
	v->tid = tid;
	braid_hash_put(&s->others, braid_hash_of_number(tid), s->nr_vcpus++);
	if (cpu->known && cpu->tid == tid) {
		cpu->vcpu = v - s->vcpus;
		braid_vcpu_set_thread(s, v, BRAID_THREAD_ON, item->ring->cpu);
	}
	braid_list_touch(s, v - s->vcpus);
	*out = v;
	return braid_task_take_host_current(s, item);
}
