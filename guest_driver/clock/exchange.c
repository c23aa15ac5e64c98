// SPDX-License-Identifier: GPL-2.0
/* Answers the host's pings with the counter, and tells the guest's wall time. */
#include <linux/irqflags.h>
#include <linux/ktime.h>
#include <linux/processor.h>
#include <linux/sched.h>
#include <linux/timekeeping.h>

#include "guest_driver/clock/exchange.h"
#include "guest_driver/core/counter.h"

/* A burst ends after this long without a ping, and after so much in all. */
#define BURST_QUIET_NS		(2 * NSEC_PER_MSEC)
#define BURST_WHOLE_NS		(10 * NSEC_PER_MSEC)
#define WALL_PERIOD_NS		NSEC_PER_SEC

static void serve_burst(struct braid_clock_cells *cells, u64 burst)
{
	u64 start = ktime_get_mono_fast_ns(), last = start, now = start;
	u64 answered = READ_ONCE(cells->ping), ping;

	braid_store_release(&cells->ready, burst);		/* (K4) */
	while (now - last < BURST_QUIET_NS && now - start < BURST_WHOLE_NS) {
		ping = braid_load_acquire(&cells->ping);	/* (K1) */
		if (ping != answered) {
			braid_store(&cells->pong_counter, braid_counter_ordered());
			braid_store_release(&cells->pong, ping);	/* (K2) */
			answered = ping;
			last = ktime_get_mono_fast_ns();
		} else {
			cpu_relax();
			if (need_resched())
				cond_resched();
		}
		now = ktime_get_mono_fast_ns();
		if (READ_ONCE(cells->burst) != burst)
			return;		/* the host is content */
	}
}

static void tell_wall(struct braid_clock_cells *cells)
{
	static u32 seq;
	unsigned long flags;
	u64 counter, real, boot;

	local_irq_save(flags);
	counter = braid_counter_ordered();
	real = ktime_get_real_fast_ns();
	boot = ktime_get_boot_fast_ns();
	local_irq_restore(flags);
	braid_store(&cells->wall_seq, ++seq | 1);
	braid_fence();					/* (K3) */
	cells->wall_counter = counter;
	cells->wall_realtime_ns = real;
	cells->wall_boottime_ns = boot;
	seq = (seq | 1) + 1;
	braid_store_release(&cells->wall_seq, seq);	/* (K3) */
}

void braid_exchange_poll(struct braid_guest_region *region)
{
	static u64 next_wall_ns;
	struct braid_clock_cells *cells = region->clock;
	u64 burst = braid_load_acquire(&cells->burst);
	u64 now = ktime_get_mono_fast_ns();

	if (burst != READ_ONCE(cells->ready))
		serve_burst(cells, burst);
	if (now >= next_wall_ns || !READ_ONCE(cells->wall_seq)) {
		tell_wall(cells);
		next_wall_ns = now + WALL_PERIOD_NS;
	}
}
