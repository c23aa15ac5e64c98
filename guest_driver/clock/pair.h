/* SPDX-License-Identifier: GPL-2.0 */
/* Wall time that belongs to a counter value. */
#ifndef BRAID_CLOCK_PAIR_H
#define BRAID_CLOCK_PAIR_H

#include "tracebraid/abi.h"

struct braid_pair {
	u64 counter;
	u64 realtime_ns;
	u64 boottime_ns;		/* the guest's own */
	enum braid_pair_source source;	/* whose realtime_ns is */
};

/**
 * braid_pair_take - read counter and clocks as one
 * @pair: filled
 *
 * Context: process; callers serialize.
 */
void braid_pair_take(struct braid_pair *pair);

#endif /* BRAID_CLOCK_PAIR_H */
