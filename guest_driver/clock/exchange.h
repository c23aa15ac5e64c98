/* SPDX-License-Identifier: GPL-2.0 */
/* The guest's side of the clock exchange. */
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
 * Spins for a few milliseconds at most, and only in a burst; for that the thread moves to the CPU
 * that the host requested, and back.
 * Context: the poll thread; may sleep.
 */
void braid_exchange_poll(struct braid_guest_region *region);

#endif /* BRAID_CLOCK_EXCHANGE_H */
