/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Ties guest counters to the host clock: ping-pong bursts through the clock cells. */
#ifndef BRAID_CLOCK_EXCHANGE_H
#define BRAID_CLOCK_EXCHANGE_H

#include <stddef.h>

#include "host_agent/capture/chunk.h"

struct braid_exchange;
struct braid_exchange_peer;

#define BRAID_EXCHANGE_PINGS	64	/* in a burst, at most */
#define BRAID_EXCHANGE_BEST	8	/* samples kept of a burst, the tightest */

/**
 * braid_exchange_start - start the thread that pings
 * @out: set on success
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_exchange_start(struct braid_exchange **out);

/** braid_exchange_stop - end the thread and free; all peers are removed; NULL is fine */
void braid_exchange_stop(struct braid_exchange *x);

/**
 * braid_exchange_add - ping one more guest: at once, after 100 ms, 300 ms, then each second
 * @x: the thread
 * @base: the mapping, which must stay until braid_exchange_remove()
 * @bytes: of the mapping
 * @cells: in the mapping
 * @out: set on success
 *
 * A guest that does not answer is asked ever less often, down to every 8 s.
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_exchange_add(struct braid_exchange *x, const void *base, u64 bytes,
		       struct braid_clock_cells *cells, struct braid_exchange_peer **out);

/**
 * braid_exchange_soon - ping a guest as soon as may be
 * @x: the thread
 * @p: the guest
 */
void braid_exchange_soon(struct braid_exchange *x, struct braid_exchange_peer *p);

/** braid_exchange_pending - whether the burst of braid_exchange_soon() is still to end */
bool braid_exchange_pending(struct braid_exchange *x, struct braid_exchange_peer *p);

/**
 * braid_exchange_remove - ping a guest no more
 * @x: the thread
 * @p: what braid_exchange_add() gave, afterwards freed; NULL is fine
 *
 * On return the thread touches the mapping no more. May wait for some milliseconds.
 */
void braid_exchange_remove(struct braid_exchange *x, struct braid_exchange_peer *p);

/**
 * braid_exchange_take - the samples since the last call
 * @x: the thread
 * @p: the guest
 * @to: room for @max
 * @max: samples
 *
 * Return: how many.
 */
size_t braid_exchange_take(struct braid_exchange *x, struct braid_exchange_peer *p,
			   struct braid_clock_sample *to, size_t max);

/**
 * braid_exchange_bursts - bursts that gave at least one sample
 * @x: the thread
 * @p: the guest
 */
u64 braid_exchange_bursts(struct braid_exchange *x, struct braid_exchange_peer *p);

#endif /* BRAID_CLOCK_EXCHANGE_H */
