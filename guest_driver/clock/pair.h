/* SPDX-License-Identifier: GPL-2.0 */
/* Wall time that belongs to a counter value. */
#ifndef BRAID_CLOCK_PAIR_H
#define BRAID_CLOCK_PAIR_H

#include "tracebraid/abi.h"

struct braid_pair {
	u64 counter;
	u64 realtime_ns;
	u64 boottime_ns;		/* the guest's own */
	enum braid_pair_source source;	/* source of realtime_ns */
};

/* A host's answer: its wall time, and the guest's counter at that moment. */
struct braid_pair_answer {
	s64 sec;
	s64 nsec;
	u64 counter;
};

/**
 * braid_pair_use_answer - replace the guest's own pair by the host's, if that is plausible
 * @pair: the guest's own, read shortly before
 * @reply: the host's answer
 * @before: the counter just before the request
 * @after: the counter just after it
 * @mult: the counter's, as in struct braid_clock_map
 *
 * Return: true; false: implausible, @pair is unchanged.
 */
bool braid_pair_use_answer(struct braid_pair *pair, const struct braid_pair_answer *reply,
			u64 before, u64 after, u64 mult);

/**
 * braid_pair_start - prepare for braid_pair_take()
 *
 * Context: may sleep.
 */
void braid_pair_start(void);

/** braid_pair_stop - the reverse; no braid_pair_take() may follow */
void braid_pair_stop(void);

/**
 * braid_pair_take - read counter and clocks as one pair
 * @pair: filled
 * @mult: the counter's, as in struct braid_clock_map
 *
 * Asks KVM for the host's wall time; where KVM cannot give it, reads the guest's own. Causes a VM
 * exit: only for a thread, at a low rate.
 * Context: process; callers serialize.
 */
void braid_pair_take(struct braid_pair *pair, u64 mult);

#endif /* BRAID_CLOCK_PAIR_H */
