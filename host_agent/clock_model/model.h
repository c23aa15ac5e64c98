/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Between the files that make a timeline: the ops of a model, and what builders share. */
#ifndef BRAID_CLOCK_MODEL_MODEL_H
#define BRAID_CLOCK_MODEL_MODEL_H

#include "host_agent/clock_model/timeline.h"

#define BRAID_MAX_EPOCHS	256	/* of a track: no clock steps that often */

/* Whether a sample is possible. */
static inline bool braid_sample_sane(const struct braid_clock_sample *s)
{
	return s->h2_ns >= s->h1_ns && !(s->h2_ns >> 62);
}

/* Whether a stated rate may be an inexact measurement of the other: within 0.5 %. */
static inline bool braid_same_rate(u64 mult, u64 other)
{
	return mult > other - other / 200 && mult < other + other / 200;
}

/* The samples that an epoch is made of, and where those of the one before begin. */
struct braid_stretch {
	const struct braid_round_trip *samples;
	size_t before;
	size_t first;
	size_t end;			/* after the last one */
	const struct braid_clock_mark *mark;	/* the pause that it began with; or NULL */
	bool parted;			/* it began with: */
	struct braid_clock_mark brk;
};

/* What an epoch's model is: mathematics alone. */
struct braid_clock_model {
	bool any_counter;	/* it has no counter range of its own: it matches any value */

	/* The host time of a counter that is of the epoch. Fills ns and bound_ns. */
	struct braid_clock_time (*to_host)(const struct braid_clock *clock,
					   const struct braid_clock_epoch *e, u64 counter);

	/* Corrects @t by the fact that the event was there at a host time. NULL: nothing to do. */
	void (*existed)(const struct braid_clock_epoch *e, u64 counter, u64 taken_ns,
			struct braid_clock_time *t);

	/* The counter at a host time. NULL: not known. */
	struct braid_clock_reading (*to_guest)(const struct braid_clock *clock,
					       const struct braid_clock_epoch *e, s64 ns);

	/* The largest bound up to a host time; 0: within the epoch. */
	u64 (*bound)(const struct braid_clock *clock, const struct braid_clock_epoch *e, u64 end_ns);

	/* What host time gained from an epoch to the next one of this model. NULL: as to_host() says. */
	s64 (*step)(const struct braid_clock_epoch *before, const struct braid_clock_epoch *e);
};

extern const struct braid_clock_model braid_model_line;		/* line.c */
extern const struct braid_clock_model braid_model_emulated;	/* emulated.c */
extern const struct braid_clock_model braid_model_chords;	/* chords.c: by breakpoints */

#define BRAID_MOST_NS	9e17		/* a bound this large is meaningless */

/* Host ns for each of the clock's, from a breakpoint to the next. */
double braid_chord_slope(const struct braid_clock_breakpoint *k);

/* convert.c: makes tracks of a clock, without epochs; 0 or -ENOMEM. Frees tracks and epochs. */
int braid_clock_make_tracks(struct braid_clock *clock, u32 nr);
void braid_clock_free_tracks(struct braid_clock_track *tracks, u32 nr);

/* epoch.c: whether an epoch's model can be that of a sample. */
bool braid_epoch_explains(const struct braid_clock *clock, const struct braid_clock_epoch *e,
			  const struct braid_clock_sample *s);

/* epoch.c: a sample begins an epoch; so did a pause or a break, or NULL. */
void braid_stretch_begin(struct braid_stretch *stretch, size_t index,
			 const struct braid_clock_mark *mark,
			 const struct braid_clock_mark *brk);

/*
 * epoch.c: puts an epoch after its track's others: sets what its samples cover, parts it from the
 * one before it, and names the cause. Both have their models. Return: 0 or -ENOMEM.
 */
int braid_epoch_put(struct braid_clock *clock, struct braid_clock_track *track,
		    const struct braid_stretch *stretch, struct braid_clock_epoch *e);

/* Why an epoch begins with a break, if samples show no step. */
static inline enum braid_epoch_cause braid_break_cause(const struct braid_clock_mark *brk)
{
	return brk->kind == BRAID_MARK_DISRUPTED ? BRAID_EPOCH_DISRUPTED : BRAID_EPOCH_UNSEEN;
}

/* epoch.c: the pause before a sample that did not begin an epoch yet; or NULL. */
const struct braid_clock_mark *braid_pause_before(const struct braid_clock_inputs *in, size_t *at,
						  const struct braid_clock_sample *s);

/*
 * breaks.c: whether there is a break between a sample of an era and the next sample. Fills @found;
 * if there are several, with the time that they take together.
 */
bool braid_break_between(const struct braid_clock_inputs *in, u32 era,
			 const struct braid_round_trip *next, struct braid_clock_mark *found);

/*
 * emulated.c: likewise braid_line_track(), of a counter that is the host's plus its drift.
 * Return: 0, -ENODATA when it is not, or -ENOMEM.
 */
int braid_emulated_track(struct braid_clock *clock, struct braid_clock_track *track,
			 const struct braid_clock_inputs *in,
			 const struct braid_round_trip *samples, size_t nr);

/*
 * line.c: puts the epochs that @samples (by h1, of one track) give. Counts into
 * clock->nr_samples and nr_refused. Return: 0 or -ENOMEM.
 */
int braid_line_track(struct braid_clock *clock, struct braid_clock_track *track,
		    const struct braid_clock_inputs *in, const struct braid_round_trip *samples,
		    size_t nr);

#endif /* BRAID_CLOCK_MODEL_MODEL_H */
