/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the events of one host show: its CPUs, threads and cgroups have numbers of its own. */
#ifndef BRAID_ANALYZE_HOST_STATE_H
#define BRAID_ANALYZE_HOST_STATE_H

#include "shared/platform.h"

struct braid_guest_state;

/* What a CPU of a stream did, as far as its task is known. */
struct braid_cpu_sums {
	u64 busy_ns, idle_ns;
	u64 switches;
};

struct braid_host_cpu {
	bool known;		/* its current thread is: */
	s32 tid;
	u32 vcpu;		/* that it is; or BRAID_NO_VCPU */
	s32 left;		/* the last switch's event was of this one; or BRAID_PID_UNKNOWN */
	u32 hides;		/* vCPU: in a gap, at whose end it is current; or BRAID_NO_VCPU */
	u32 call;		/* that the current thread is in, if tasks are followed */
	u32 irqs;		/* nested handlers of interrupts (Linux nests none) ... */
	s32 irq;		/* ... the innermost one's number */
	bool softirq;		/* a handler of a softirq runs, or is interrupted ... */
	s32 vector;		/* ... this one */
	bool in_gap;		/* events were lost from the last one on */
	/* Lists of vCPUs; the first of each, or BRAID_NO_VCPU: */
	u32 first_on;		/* their threads run here */
	u32 first_waiter;	/* they wait, and change with what runs; BRAID_MAX_WAITERS at most */
	u32 first_behind;	/* further ones: what runs is BRAID_CULPRIT_OTHERS for them */
	u32 nr_waiters;
	bool shows_switches;	/* its sched_switch events are in the trace */
	bool any_kvm;		/* kvm_entry or kvm_exit was recorded there */
	bool any_vcpu;		/* a vCPU's thread ran there */
	u64 throttles;		/* throttle_cfs_rq() of this run queue returns next; 0: none ... */
	u32 throttles_quota, throttles_cpu;	/* ... of this cgroup's, and of this CPU */
	bool touched;		/* something is known of it since the last stop: it is listed, ... */
	u32 next_touched;	/* ... before this one */
	u32 stream;		/* with ops->whole_host: whose task is current, ... */
	s64 since_ns;		/* ... since when, ... */
	struct braid_cpu_sums sums;	/* ... and what was before */
};

/* A run queue of a cgroup with a CPU quota, on a CPU, that is throttled now. */
struct braid_quota_queue {
	u64 address;		/* in the kernel: what names it in events */
	u32 quota;		/* in braid_states.quotas */
	u32 cpu;
};

/* Which kinds of events the trace has of a host, as far as it was read. */
struct braid_seen {
	bool switches, wakeups, migrations;
	bool kvm;		/* kvm_entry, kvm_exit, or: */
	bool user, nested;	/* kvm_userspace_exit, kvm_nested_vmexit */
	bool raises, injections, halts;	/* kvm_apic_accept_irq, kvm_inj_virq, kvm_vcpu_wakeup */
	bool other_vms;		/* KVM runs vCPUs that are of no guest of the trace */
};

struct braid_host_state {
	struct braid_seen seen;
	struct braid_host_cpu *cpus;
	u32 nr_cpus;
	u32 nr_silent;		/* CPUs of which there is neither sched_switch nor kvm_exit */
	u32 open_gaps;		/* CPUs with in_gap */
	u32 gaps;		/* losses and stops, for what its tasks do */
	u32 first_touched;	/* vCPUs that the next loss makes unknown; or BRAID_NO_VCPU */
	u32 first_cpu;		/* those that a stop makes unknown; or BRAID_NO_CPU */
	u32 first_task;		/* as ->first_known of guests */
	const struct braid_guest_state *only_guest;	/* with vCPUs; NULL: none, or several */
	struct braid_quota_queue *throttled;	/* run queues, in any order */
	size_t nr_throttled, throttled_capacity;
	bool quota_moments, quota_threads;	/* the trace has them: of run queues, of threads */
	u64 moved_unseen;	/* times that a waiting vCPU was moved to another CPU unseen */
};

#endif /* BRAID_ANALYZE_HOST_STATE_H */
