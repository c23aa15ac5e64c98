/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One burst of the exchange, as its thread drives it. */
#ifndef BRAID_CLOCK_SYNC_BURST_H
#define BRAID_CLOCK_SYNC_BURST_H

#include <sched.h>

#include "host_agent/clock_model/timeline.h"
#include "host_agent/clock_sync/exchange.h"
#include "shared/platform.h"

struct braid_burst {
	struct braid_clock_cells *cells;
	u64 number;
	struct braid_round_trip best[BRAID_EXCHANGE_BEST];	/* the tightest first */
	u32 nr;
	cpu_set_t allowed;	/* CPUs of this thread, except for hops */
	bool hopped;
};

static inline u64 braid_round_trip_width(const struct braid_round_trip *c)
{
	return c->s.h2_ns - c->s.h1_ns;
}

/* The first three touch the region: under braid_guard_run(). */

/* Asks the guest to spin, on a vCPU (+ 1; 0: any). */
void braid_burst_ask(struct braid_burst *b, u32 vcpu);

/* Whether it does. */
bool braid_burst_ready(const struct braid_burst *b);

/* Up to @pings; fewer when the guest is silent for that long, or *leaving becomes true. */
void braid_burst_run(struct braid_burst *b, u32 pings, u64 silent_ns, const bool *leaving);

/* Back to where this thread may run: after a run that was cut short by the guard, too. */
void braid_burst_end(struct braid_burst *b);

#endif /* BRAID_CLOCK_SYNC_BURST_H */
