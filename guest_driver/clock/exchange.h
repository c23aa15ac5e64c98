/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The guest's side of the clock exchange.
 *
 * Invariants:
 * - Only the poll thread calls this room; braid_exchange_start() and braid_exchange_stop() are
 *   called before it starts and after it has ended. So no locks are needed, and sequence numbers
 *   are private.
 * - Writers do not wait for it: they convert by region->external, a latch that only this room sets.
 * - It spins only in a burst that the host began, for 30 ms at most, on the CPU that the host
 *   requests; that CPU's number is checked, and an isolated CPU is left alone unless
 *   clock_isolated=1.
 * - Cells that have a sequence number change while it is odd (K3, K6, K8). What the host writes is
 *   copied, compared or checked.
 * - The hypercall for the host's wall time is made once a second at most, and after a disruption.
 * - The vmclock page is only read, in a bounded number of tries; one that keeps changing gives
 *   nothing.
 */
#ifndef BRAID_CLOCK_EXCHANGE_H
#define BRAID_CLOCK_EXCHANGE_H

#include "guest_driver/core/region.h"

/**
 * braid_exchange_start - publish the first wall pair
 * @region: live; not polled yet
 *
 * Later events are in sub-buffers that begin with a TIME_STAMP.
 * Context: process.
 */
void braid_exchange_start(struct braid_guest_region *region);

/** braid_exchange_stop - call after the last poll */
void braid_exchange_stop(void);

/**
 * braid_exchange_poll - sample the host's clock; answer a burst if the host began one; refresh the
 *	wall pair
 * @region: live
 *
 * Context: the poll thread; may sleep.
 */
void braid_exchange_poll(struct braid_guest_region *region);

#endif /* BRAID_CLOCK_EXCHANGE_H */
