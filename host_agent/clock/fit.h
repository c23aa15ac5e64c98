/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Fits a guest's counter to host time, with a bound that holds whatever the delays were. */
#ifndef BRAID_CLOCK_FIT_H
#define BRAID_CLOCK_FIT_H

#include "host_agent/capture/chunk.h"
#include "shared/clock.h"

#define BRAID_BOUND_UNKNOWN	(~0ULL)	/* in place of a bound in ns */

/* How a stream's times became host times. */
enum braid_clock_kind {
	BRAID_CLOCK_HOST = 0,		/* they are host times */
	BRAID_CLOCK_EXCHANGE = 1,	/* shared-memory exchange */
	BRAID_CLOCK_NOMINAL = 2,	/* the frequency that the guest stated; bound unknown */
};

struct braid_clock_line;

/*
 * A stretch of a guest's life in which its counter ran as one line. Its samples
 * h1 <= f(counter) <= h2 leave a convex set of lines; the bound is the distance
 * from the one chosen to the farthest of them.
 */
struct braid_clock_epoch {
	u64 from_counter;		/* valid from here on; the first epoch from 0 */
	u64 from_host_ns;		/* no event that was taken earlier is of this epoch */
	u64 first_counter;		/* covered by samples: from ... */
	u64 last_counter;		/* ... to */
	struct braid_clock_map map;
	s64 base_ns;			/* what the lines' offsets are relative to */
	u32 nr_samples;
	u32 slack_ns;			/* it is a line to within this; part of every bound */
	u32 nr_lines;
	struct braid_clock_line *lines;	/* the corners of the feasible set */
	double drift_ppm;		/* of the counter against its nominal frequency */
};

struct braid_clock {
	enum braid_clock_kind kind;
	struct braid_clock_map nominal;	/* reference of all residuals */
	struct braid_clock_epoch *epochs;
	u32 nr_epochs;
	u32 nr_samples;			/* used */
	bool wavers;			/* an emulated counter */
	u32 nr_refused;			/* impossible in themselves: h2 before h1 */
};

/**
 * braid_clock_fit - fit a stream's samples
 * @clock: filled on success; braid_clock_free() it
 * @counter_hz: what the guest says; any
 * @counter_type: enum braid_counter_type. An emulated one runs ahead of a line between
 *	samples; what it gained from one to the next is added to the bound
 * @samples: in the order taken
 * @nr: of them; 0 gives BRAID_CLOCK_NOMINAL
 * @anchor_counter: for NOMINAL: a counter value ...
 * @anchor_ns: ... and its assumed host time
 *
 * A counter within 2 % of @counter_hz is followed. Where no line explains all samples,
 * the counter may be off a line by some ns (512 at most, the least that does); a sample
 * that even that does not explain begins a new epoch.
 *
 * Return: 0 or -ENOMEM.
 */
int braid_clock_fit(struct braid_clock *clock, u64 counter_hz, u32 counter_type,
		    const struct braid_clock_sample *samples, size_t nr, u64 anchor_counter,
		    s64 anchor_ns);

/** braid_clock_free - free what a fit allocated */
void braid_clock_free(struct braid_clock *clock);

/**
 * braid_clock_epoch_of - the epoch of an event
 * @clock: a fit
 * @counter: the event's
 * @taken_ns: host time at which the event was already there; ~0 when unknown
 *
 * Return: never NULL for a fit that has epochs.
 */
const struct braid_clock_epoch *braid_clock_epoch_of(const struct braid_clock *clock, u64 counter,
						     u64 taken_ns);

/**
 * braid_clock_bound - how far from the truth a converted time can be
 * @clock: the fit
 * @epoch: of it
 * @counter: any
 *
 * Guaranteed as long as the counter is within slack_ns of a line in the epoch. Between the last
 * sample of an epoch and the first of the next nothing is known.
 *
 * Return: ns, or BRAID_BOUND_UNKNOWN.
 */
u64 braid_clock_bound(const struct braid_clock *clock, const struct braid_clock_epoch *epoch,
		      u64 counter);

/**
 * braid_clock_worst_bound - the largest bound among the times that samples cover
 * @clock: a fit
 * @end_ns: host time up to which there are events; 0: the last sample's
 * @clock: the fit
 *
 * Return: ns, or BRAID_BOUND_UNKNOWN.
 */
u64 braid_clock_worst_bound(const struct braid_clock *clock, u64 end_ns);

#endif /* BRAID_CLOCK_FIT_H */
