/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Ties guest counters to the host clock: ping-pong bursts through the clock cells.
 *
 * Invariants, of the whole room:
 * - Each sample states h1 <= host time of counter <= h2, by CLOCK_MONOTONIC_RAW (host.h), for any delay between the
 *   reads. A guest's counter and vCPU number are passed on as the guest wrote them, unchecked.
 * - The room accesses a region under braid_guard_run() only.
 * - Only the exchange's thread pings. It holds no lock while it is in a region: of the functions below, only
 *   braid_exchange_remove() and braid_exchange_stop() wait for a burst.
 * - A guest cannot keep the thread busy: a burst ends after about 30 ms, the guest's next one begins at least nine
 *   times the burst's duration later, and at most four guests have a request at a time.
 * - At most 256 samples of a guest wait to be taken; a new one replaces the oldest.
 * - Functions of kvm.h return -errno without braid_fail(); those of exchange.h and sampler.h call it.
 */
#ifndef BRAID_CLOCK_SYNC_EXCHANGE_H
#define BRAID_CLOCK_SYNC_EXCHANGE_H

#include <stddef.h>

#include "host_agent/clock_model/timeline.h"

struct braid_exchange;
struct braid_exchange_peer;

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

/* A guest to be pinged. */
struct braid_exchange_guest {
	const void *base;		/* the mapping, which must stay until braid_exchange_remove() */
	u64 bytes;
	struct braid_clock_cells *cells;	/* in it */
	u32 nr_vcpus;
	bool emulated;			/* its counter does not keep a line for long */
};

/**
 * braid_exchange_add - ping one more guest
 * @x: the thread
 * @guest: copied
 * @out: set on success
 *
 * At once, then once on each vCPU, after 0.1 s and 0.3 s, each second, and at rest every 8 s; an
 * emulated counter every 2 s. A guest that does not answer is asked with growing delays; one that
 * does not poll its cells is not asked until it does.
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_exchange_add(struct braid_exchange *x, const struct braid_exchange_guest *guest,
		       struct braid_exchange_peer **out);

/**
 * braid_exchange_soon - ping a guest as soon as may be
 * @x: the thread
 * @p: the guest
 * @all_vcpus: each of them: something happened to its time
 */
void braid_exchange_soon(struct braid_exchange *x, struct braid_exchange_peer *p, bool all_vcpus);

/** braid_exchange_pending - whether the burst of braid_exchange_soon() is still to end */
bool braid_exchange_pending(struct braid_exchange *x, struct braid_exchange_peer *p);

/**
 * braid_exchange_remove - stop pinging a guest
 * @x: the thread
 * @p: from braid_exchange_add(), freed; NULL: no effect
 *
 * On return the thread no longer accesses the mapping. May wait for some milliseconds.
 */
void braid_exchange_remove(struct braid_exchange *x, struct braid_exchange_peer *p);

/**
 * braid_exchange_take - the samples since the last call
 * @x: the thread
 * @p: the guest
 * @to: room for @max
 * @max: samples
 *
 * Return: their number.
 */
size_t braid_exchange_take(struct braid_exchange *x, struct braid_exchange_peer *p,
			   struct braid_round_trip *to, size_t max);

/**
 * braid_exchange_bursts - bursts that gave at least one sample
 * @x: the thread
 * @p: the guest
 */
u64 braid_exchange_bursts(struct braid_exchange *x, struct braid_exchange_peer *p);

#endif /* BRAID_CLOCK_SYNC_EXCHANGE_H */
