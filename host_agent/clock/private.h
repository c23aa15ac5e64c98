/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Between the files that make a stream's clock. */
#ifndef BRAID_CLOCK_PRIVATE_H
#define BRAID_CLOCK_PRIVATE_H

#include "host_agent/clock/clock.h"

#define BRAID_MAX_EPOCHS	256	/* of a track: no clock steps that often */

/* A sample that can be true. */
static inline bool braid_sample_sane(const struct braid_clock_sample *s)
{
	return s->h2_ns >= s->h1_ns && !(s->h2_ns >> 62);
}

/* Whether a stated rate may be the other one, told by who measured it badly: within 0.5 %. */
static inline bool braid_same_rate(u64 mult, u64 other)
{
	return mult > other - other / 200 && mult < other + other / 200;
}

/* The samples that an epoch is made of, and where those of the one before begin. */
struct braid_stretch {
	const struct braid_crossing *samples;
	size_t before;
	size_t first;
	size_t end;			/* behind the last one */
	const struct braid_clock_mark *mark;	/* the pause that it began with; or NULL */
};

/* clock.c: what the law of one epoch says, if the counter is of it. Fills ns and bound_ns. */
struct braid_clock_time braid_clock_law(const struct braid_clock *clock,
					const struct braid_clock_epoch *e, u64 counter);

/* epoch.c: the counters that an epoch's samples show, and the narrowest of them. */
void braid_epoch_cover(struct braid_clock_epoch *e, const struct braid_stretch *stretch);

/* epoch.c: whether an epoch's law can be that of a sample. */
bool braid_epoch_explains(const struct braid_clock *clock, const struct braid_clock_epoch *e,
			  const struct braid_clock_sample *s);

/* epoch.c: parts an epoch from the one before it, and names the cause. Both have their laws. */
void braid_epoch_part(const struct braid_clock *clock, const struct braid_stretch *stretch,
		      struct braid_clock_epoch *before, struct braid_clock_epoch *e);

/* epoch.c: the pause that lies before a sample and that no epoch began with yet; or NULL. */
const struct braid_clock_mark *braid_pause_before(const struct braid_clock_inputs *in, size_t *at,
						  const struct braid_clock_sample *s);

/*
 * emulated.c: likewise braid_fit_track(), of a counter that is the host's plus what it gains.
 * Return: 0, -ENODATA when it is not, or -ENOMEM.
 */
int braid_emulated_track(struct braid_clock *clock, struct braid_clock_track *track,
			 const struct braid_clock_inputs *in, const struct braid_crossing *samples,
			 size_t nr);

/* emulated.c: by such an epoch's gains. Fills ns and bound_ns. */
struct braid_clock_time braid_emulated_convert(const struct braid_clock_epoch *e, u64 counter);

/* emulated.c: what host time gained on an emulated counter from one epoch to the next. */
s64 braid_emulated_step(const struct braid_clock_epoch *before,
			const struct braid_clock_epoch *e);

/* emulated.c: the largest bound between its crossings. */
u64 braid_emulated_bound(const struct braid_clock_epoch *e);

/*
 * fit.c: puts the epochs that @samples (by h1, of one track) give. Counts into
 * clock->nr_samples and nr_refused. Return: 0 or -ENOMEM.
 */
int braid_fit_track(struct braid_clock *clock, struct braid_clock_track *track,
		    const struct braid_clock_inputs *in, const struct braid_crossing *samples,
		    size_t nr);

/* fit.c: by an epoch's line. Fills ns and bound_ns. */
struct braid_clock_time braid_fit_convert(const struct braid_clock *clock,
					  const struct braid_clock_epoch *e, u64 counter);

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
