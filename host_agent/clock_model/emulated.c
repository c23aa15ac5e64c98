// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The model of a counter that an emulator makes of the host's: host counter + offset, where the
 * offset grows by small steps when two vCPUs read it in a race, and never shrinks while the guest
 * runs. So each sample bounds the offset from below for all later times, and from above for all
 * earlier ones.
 */
#include <errno.h>
#include <stdlib.h>

#include "host_agent/clock_model/model.h"
#include "host_agent/util/array.h"

#define ROUNDING	4	/* counter steps: of a map there and back */
/*
 * From one round-trip sample to the next: at most this much plus an eighth of the time between them.
 * More is a jump. vCPUs that do nothing but read the counter make it gain 6 ms a second.
 */
#define MOST_GAIN_NS	1000000
#define MOST_GAIN_SHIFT	3
#define BEYOND		4	/* before the first and after the last: multiples of the total
				   drift */
#define OVERLAP		1000	/* samples that a wide one is compared with, at most */
#define FAR_BITS	58	/* offsets farther apart are impossible */

struct builder {
	struct braid_clock *clock;
	struct braid_clock_track *track;
	const struct braid_clock *host;
	struct braid_stretch stretch;
	struct braid_clock_gain *gains;	/* low and high are the sample's own at first */
	size_t nr_gains, capacity;
	u64 offset;			/* that low and high are relative to */
	s64 narrow;			/* a sample is narrow if its bounds are closer than this */
};

/*
 * How far the host's counter can be from what its map says, at a value of it; in steps. -1: too far for a sample to show
 * anything.
 */
static s64 map_error(const struct builder *b, u64 at)
{
	struct braid_clock_time t = braid_clock_convert(b->host, 0, at, BRAID_TAKEN_UNKNOWN, 0);
	struct braid_clock_map rate = { .mult = b->host->nominal.mult };

	if (t.bound_ns > MOST_GAIN_NS)
		return -1;
	return (s64)braid_clock_to_counter(&rate, (s64)t.bound_ns) + ROUNDING;
}

/* A sample's bounds of the offset: between low and high. Return: false when they are impossible. */
static bool gain_of(const struct builder *b, const struct braid_clock_sample *s,
		    struct braid_clock_gain *gain)
{
	const struct braid_clock_map *map = &b->host->tracks->epochs->map;
	u64 at_h1 = braid_clock_to_counter(map, s->h1_ns);
	u64 at_h2 = braid_clock_to_counter(map, s->h2_ns);
	s64 low = (s64)(s->counter - at_h2 - b->offset);
	s64 low_error = map_error(b, at_h2), high_error = map_error(b, at_h1);

	if ((at_h2 - at_h1) >> FAR_BITS || low >> FAR_BITS != low >> 63 || low_error < 0 || high_error < 0)
		return false;
	gain->counter = s->counter;
	gain->low = low - low_error;
	gain->high = low + (s64)(at_h2 - at_h1) + high_error;
	return gain->low <= gain->high;
}

/* An offset that a round-trip sample allows. */
static u64 offset_of(const struct builder *b, const struct braid_clock_sample *s)
{
	return s->counter - braid_clock_to_counter(&b->host->tracks->epochs->map, s->h2_ns);
}

/* Whether a round-trip sample can be of any epoch. */
static bool is_usable(const struct builder *b, const struct braid_clock_sample *s)
{
	struct braid_clock_gain gain;
	struct builder alone = *b;

	if (!braid_sample_sane(s))
		return false;
	alone.offset = offset_of(b, s);
	return gain_of(&alone, s, &gain);
}

/* Whether a sample is narrow enough to show a jump. */
static bool is_narrow(const struct builder *b, size_t k)
{
	return b->gains[k].high - b->gains[k].low < b->narrow;
}

/*
 * Puts a gain in its place by counter. Return: false when it contradicts those that
 * are there: the offset would have shrunk, or jumped.
 */
static bool fits(const struct builder *b, const struct braid_clock_gain *gain)
{
	const struct braid_clock_gain *other;
	size_t k = b->nr_gains, last;
	s64 most;

	/* Nearly all come in order; wide ones overlap a few. */
	for (; k && (s64)(b->gains[k - 1].counter - gain->counter) > 0; k--)
		if (gain->low > b->gains[k - 1].high || b->nr_gains - k >= OVERLAP)
			return false;
	last = k > OVERLAP ? k - OVERLAP : 0;
	while (k > last) {
		other = &b->gains[--k];
		if (other->low > gain->high)
			return false;
		/* The nearest one of these decides. */
		if (is_narrow(b, k)) {
			most = b->narrow + ((s64)(gain->counter - other->counter) >> MOST_GAIN_SHIFT);
			if (gain->low - other->high > most)
				return false;
			break;
		}
	}
	return true;
}

static int insert(struct builder *b, const struct braid_clock_gain *gain)
{
	size_t k;

	if (braid_array_push(b->gains, b->nr_gains, b->capacity, *gain))
		return -ENOMEM;
	for (k = b->nr_gains - 1; k && (s64)(b->gains[k - 1].counter - gain->counter) > 0; k--)
		b->gains[k] = b->gains[k - 1];
	b->gains[k] = *gain;
	return 0;
}

/* Combines what the samples say one by one. Return: false when they contradict each other. */
static bool tighten(struct builder *b)
{
	size_t k;

	for (k = 1; k < b->nr_gains; k++)
		if (b->gains[k].low < b->gains[k - 1].low)
			b->gains[k].low = b->gains[k - 1].low;
	for (k = b->nr_gains - 1; k--;)
		if (b->gains[k].high > b->gains[k + 1].high)
			b->gains[k].high = b->gains[k + 1].high;
	for (k = 0; k < b->nr_gains; k++)
		if (b->gains[k].low > b->gains[k].high)
			return false;
	return true;
}

/*
 * The most gain from one sample to the next. An agent that was not scheduled for a long time has wide
 * samples, which show none: they count only if all are wide.
 */
static void measure(const struct builder *b, struct braid_clock_epoch *e)
{
	size_t first = 0, last, k;
	bool all;

	while (first < b->nr_gains && !is_narrow(b, first))
		first++;
	all = first == b->nr_gains;
	first = last = all ? 0 : first;
	for (k = first + 1; k < b->nr_gains; k++) {
		if (!all && !is_narrow(b, k))
			continue;
		if ((u64)(b->gains[k].low - b->gains[last].low) > e->most_gain)
			e->most_gain = b->gains[k].low - b->gains[last].low;
		last = k;
	}
	e->first_narrow = all ? -1 : (ssize_t)first;
	e->last_narrow = all ? b->nr_gains : last;
}

static int end_epoch(struct builder *b)
{
	struct braid_clock_epoch e = {
		.model = &braid_model_emulated,
		.from_ns = INT64_MIN,
		.begun_ns = INT64_MIN,
		.host = b->host,
		.offset.offset = b->offset,
		.nr_samples = b->nr_gains,
		.drift_ppm = braid_clock_drift(b->host),
		.nr_gains = b->nr_gains,
	};

	if (!tighten(b))
		return -ENODATA;
	measure(b, &e);
	e.gains = b->gains;
	if (braid_epoch_put(b->clock, b->track, &b->stretch, &e))
		return -ENOMEM;
	b->gains = NULL;
	b->capacity = 0;
	b->nr_gains = 0;
	return 0;
}

static void begin_epoch(struct builder *b, size_t index, const struct braid_clock_mark *brk)
{
	braid_stretch_begin(&b->stretch, index, NULL, brk);
	b->offset = offset_of(b, &b->stretch.samples[index].s);
}

/* Whether the counter can be the host's at all. */
static bool is_the_hosts(const struct braid_clock_inputs *in)
{
	const struct braid_clock_track *track = in->host->tracks;

	return track->nr_epochs == 1 && braid_same_rate(braid_clock_nominal_mult(in->counter_hz),
							track->epochs->map.mult);
}

int braid_emulated_track(struct braid_clock *clock, struct braid_clock_track *track,
			 const struct braid_clock_inputs *in,
			 const struct braid_round_trip *samples, size_t nr)
{
	struct builder b = {
		.clock = clock, .track = track, .host = in->host, .stretch.samples = samples,
	};
	struct braid_clock_mark brk;
	struct braid_clock_gain gain;
	int err = is_the_hosts(in) ? 0 : -ENODATA;
	bool broken;
	u32 era = 0;
	size_t k;

	b.narrow = (s64)(in->counter_hz / (1000000000 / MOST_GAIN_NS));
	for (k = 0; k < nr && !err; k++) {
		const struct braid_clock_sample *s = &samples[k].s;

		if (!is_usable(&b, s)) {
			clock->nr_refused++;
			continue;
		}
		broken = b.nr_gains && braid_break_between(in, era, &samples[k], &brk);
		era = samples[k].era;
		if (!b.nr_gains && !track->nr_epochs)
			begin_epoch(&b, k, NULL);
		if (broken || !gain_of(&b, s, &gain) || !fits(&b, &gain)) {
			/* Not a counter of this kind, if this occurs repeatedly. */
			err = track->nr_epochs >= BRAID_MAX_EPOCHS / 4 ? -ENODATA : end_epoch(&b);
			begin_epoch(&b, k, broken ? &brk : NULL);
			gain_of(&b, s, &gain);
		}
		if (!err)
			err = insert(&b, &gain);
		b.stretch.end = k + 1;
	}
	if (!err)
		err = b.nr_gains ? end_epoch(&b) : -ENODATA;
	free(b.gains);
	return err;
}

/* The last gain that is not after a counter value; or -1. */
static ssize_t gain_before(const struct braid_clock_epoch *e, u64 counter)
{
	size_t low = 0, high = e->nr_gains;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if ((s64)(counter - e->gains[middle].counter) < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return (ssize_t)low - 1;
}

/*
 * Where between low and high the offset is, after the gain @k: before the first narrow sample and
 * after the last, it is near to what that one shows.
 */
static s64 guess(const struct braid_clock_epoch *e, ssize_t k, s64 low, s64 high)
{
	const struct braid_clock_gain *narrow = k < e->first_narrow ? &e->gains[e->first_narrow] :
						k >= e->last_narrow ? &e->gains[e->last_narrow] : NULL;
	s64 half = (high - low) / 2, usual;

	if (!narrow)
		return low + half;
	usual = (narrow->high - narrow->low + BEYOND * (s64)e->most_gain) / 2;
	usual = usual < half ? usual : half;
	return k < e->first_narrow ? high - usual : low + usual;
}

static struct braid_clock_time emulated_to_host(const struct braid_clock *clock,
						const struct braid_clock_epoch *e, u64 counter)
{
	struct braid_clock_map rate = { .mult = e->host->nominal.mult };
	ssize_t k = gain_before(e, counter);
	s64 beyond = BEYOND * (s64)e->most_gain;
	s64 low = k >= 0 ? e->gains[k].low : e->gains[0].low - beyond;
	s64 high = k + 1 < (ssize_t)e->nr_gains ? e->gains[k + 1].high :
		   e->gains[e->nr_gains - 1].high + beyond;
	s64 offset = guess(e, k, low, high);
	u64 error = offset - low > high - offset ? offset - low : high - offset;
	struct braid_clock_time t;

	(void)clock;
	t = braid_clock_convert(e->host, 0, counter - e->offset.offset - (u64)offset, BRAID_TAKEN_UNKNOWN, 0);
	if ((high - low) >> (FAR_BITS - 4))
		t.bound_ns = BRAID_BOUND_UNKNOWN;
	if (t.bound_ns != BRAID_BOUND_UNKNOWN)
		t.bound_ns += (u64)braid_clock_to_ns(&rate, error + ROUNDING) + 1;
	return t;
}

/*
 * After the last sample the assumption about the gain may fail. An event that was there at
 * @taken_ns shows how much the counter has gained at least; four times that is allowed for.
 */
static void existed(const struct braid_clock_epoch *e, u64 counter, u64 taken_ns,
		    struct braid_clock_time *t)
{
	struct braid_clock_map rate = { .mult = e->host->nominal.mult };
	s64 most_gain = braid_clock_to_ns(&rate, e->most_gain);
	s64 early = braid_clock_earliest(t->ns, t->bound_ns);
	s64 late = braid_clock_latest(t->ns, t->bound_ns);
	s64 gain = BEYOND * most_gain + early - (s64)taken_ns;
	s64 since = braid_clock_to_ns(&rate, counter - e->gains[e->nr_gains - 1].counter);

	if (gain_before(e, counter) + 1 < (ssize_t)e->nr_gains ||
	    gain <= most_gain || gain > MOST_GAIN_NS + (since >> MOST_GAIN_SHIFT))
		return;
	early -= BEYOND * (gain - most_gain);
	if (late > (s64)taken_ns)
		late = taken_ns;
	t->ns = early + (late - early) / 2;
	t->bound_ns = (u64)(late - early) / 2 + 1;
}

/* The largest between its round-trip samples. */
static u64 emulated_bound_of(const struct braid_clock *clock, const struct braid_clock_epoch *e,
			     u64 end_ns)
{
	u64 worst = emulated_to_host(clock, e, e->gains[e->nr_gains - 1].counter).bound_ns, bound;
	size_t k;

	(void)end_ns;
	for (k = 0; k + 1 < e->nr_gains; k++) {
		bound = emulated_to_host(clock, e, e->gains[k].counter + 1).bound_ns;
		worst = bound > worst ? bound : worst;
	}
	return worst;
}

/* The offset where it is known best. */
static u64 best_offset(const struct braid_clock_epoch *e)
{
	const struct braid_clock_gain *best = e->gains;
	size_t k;

	for (k = 1; k < e->nr_gains; k++)
		if (e->gains[k].high - e->gains[k].low < best->high - best->low)
			best = &e->gains[k];
	return e->offset.offset + (u64)(best->low + (best->high - best->low) / 2);
}

static s64 step_of(const struct braid_clock_epoch *before, const struct braid_clock_epoch *e)
{
	struct braid_clock_map rate = { .mult = e->host->nominal.mult };

	return braid_clock_to_ns(&rate, best_offset(before) - best_offset(e));
}

const struct braid_clock_model braid_model_emulated = {
	.to_host = emulated_to_host,
	.existed = existed,
	.bound = emulated_bound_of,
	.step = step_of,
};
