/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is added up for each stage, and kept for each vCPU. */
#ifndef BRAID_ANALYZE_STAGES_PRIVATE_H
#define BRAID_ANALYZE_STAGES_PRIVATE_H

#include "host_agent/analyze/stages.h"

#define BRAID_NR_DECADES	7u	/* below 1 µs, below 10 µs, ..., from 100 ms on */
#define BRAID_NR_VECTORS	256u

struct braid_stage {
	struct braid_histogram histogram;
	u64 decades[BRAID_NR_DECADES];
	u64 worst_ns;
	s64 worst_at_ns;
	u64 bound_ns;		/* the worst, of the guest's events against the host's */
};

/* Moments that wait for the next one; INT64_MIN: none. */
struct braid_stage_vcpu {
	s64 raised_ns[BRAID_NR_VECTORS];	/* not injected yet */
	bool if_alone[BRAID_NR_VECTORS];	/* of each raise: as in struct braid_mark */
	s64 first_raise_ns;	/* while the vCPU sleeps */
	bool first_if_alone;
	s64 woken_ns, on_cpu_ns, injected_ns, entered_ns;
	u32 vector;		/* the last one injected */
	bool handled;		/* a handler began: */
	u32 handler;		/* its vector, or BRAID_MARK_DEVICE */
	s64 handler_ns;
	u64 handler_bound_ns;
	bool in_handler;
	u64 polls, polled_ns;	/* halts that ended while KVM polled, and its time on the CPU */
	u64 slept;		/* the others */
	u64 on_cpu_sum_ns;	/* in the hypervisor, since the exit; without the open span */
	u64 in_vain_ns;		/* the same before all sleeps */
};

#endif /* BRAID_ANALYZE_STAGES_PRIVATE_H */
