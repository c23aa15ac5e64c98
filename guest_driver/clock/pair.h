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

/* What a host tells: its wall time, and the guest's counter at that moment. */
struct braid_pair_answer {
	s64 sec;
	s64 nsec;
	u64 counter;
};

/**
 * braid_pair_believe - make a guest's own pair its host's
 * @pair: the guest's own, read shortly before
 * @told: what the host told
 * @before: the counter just before it was asked
 * @after: and just behind
 * @mult: the counter's, as in struct braid_clock_map
 *
 * Return: true; false: it can't be true, and @pair is as it was.
 */
bool braid_pair_believe(struct braid_pair *pair, const struct braid_pair_answer *told,
			u64 before, u64 after, u64 mult);

/**
 * braid_pair_start - get ready to take pairs
 *
 * Context: may sleep.
 */
void braid_pair_start(void);

/** braid_pair_stop - the reverse; nobody takes pairs any more */
void braid_pair_stop(void);

/**
 * braid_pair_take - read counter and clocks as one
 * @pair: filled
 * @mult: the counter's, as in struct braid_clock_map
 *
 * Asks KVM for its host's wall time, and where there is no KVM that tells it reads the
 * guest's. That is an exit: for a thread, now and then.
 * Context: process; callers serialize.
 */
void braid_pair_take(struct braid_pair *pair, u64 mult);

#endif /* BRAID_CLOCK_PAIR_H */
