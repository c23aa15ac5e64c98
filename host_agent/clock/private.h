/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Between the files that make a stream's clock. */
#ifndef BRAID_CLOCK_PRIVATE_H
#define BRAID_CLOCK_PRIVATE_H

#include "host_agent/clock/clock.h"

/*
 * fit.c: puts the epochs that @samples (by h1, of one track) give. Counts into
 * clock->nr_samples and nr_refused. Return: 0 or -ENOMEM.
 */
int braid_fit_track(struct braid_clock *clock, struct braid_clock_track *track,
		    const struct braid_clock_inputs *in, const struct braid_crossing *samples,
		    size_t nr);

/* fit.c: how far a fitted epoch's line can be from the truth, if the epoch it is. */
u64 braid_fit_bound(const struct braid_clock *clock, const struct braid_clock_epoch *e,
		    u64 counter);

/* slewed.c: by an epoch's knots. Fills ns and bound_ns. */
struct braid_clock_time braid_knots_convert(const struct braid_clock_epoch *e, u64 value);

/* slewed.c: what the clock showed at a host time. */
struct braid_clock_reading braid_knots_reading(const struct braid_clock_epoch *e, s64 ns);

/* slewed.c: the largest bound up to a host time; 0: between the knots. */
u64 braid_knots_bound(const struct braid_clock_epoch *e, u64 end_ns);

/* offset.c: the largest bound up to a host time. */
u64 braid_offset_bound(const struct braid_clock_epoch *e, u64 end_ns);

/* offset.c: by an epoch's offset and the host's counter. Fills ns and bound_ns. */
struct braid_clock_time braid_offset_convert(const struct braid_clock_epoch *e, u64 counter);

#endif /* BRAID_CLOCK_PRIVATE_H */
