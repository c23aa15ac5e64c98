// SPDX-License-Identifier: GPL-2.0
/* Reads the counter and wall time as one. */
#include <linux/irqflags.h>
#include <linux/ktime.h>
#include <linux/timekeeping.h>

#include "guest_driver/clock/pair.h"
#include "guest_driver/core/counter.h"

#define TRIES	3	/* the vCPU may lose its processor in the midst of one */

/* The clocks between two readings of the counter. Return: how far these are apart. */
static u64 read_once(struct braid_pair *pair)
{
	unsigned long flags;
	u64 before, after;

	local_irq_save(flags);
	before = braid_counter_ordered();
	pair->realtime_ns = ktime_get_real_fast_ns();
	pair->boottime_ns = ktime_get_boot_fast_ns();
	after = braid_counter_ordered();
	local_irq_restore(flags);
	pair->counter = before + (after - before) / 2;
	pair->source = BRAID_PAIR_GUEST_REALTIME;
	return after - before;
}

void braid_pair_take(struct braid_pair *pair)
{
	u64 best = ~0ULL, apart;
	struct braid_pair one;
	int tries;

	for (tries = 0; tries < TRIES; tries++) {
		apart = read_once(&one);
		if (apart >= best)
			continue;
		best = apart;
		*pair = one;
	}
}
