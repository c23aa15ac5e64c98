// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Clips the set of lines that explain all samples. A line is (offset, slope) as a deviation from
 * the nominal line: residual = offset + slope * x, in ns, with x in seconds of nominal time since
 * the epoch's first sample. Each sample cuts two half planes off a convex polygon, whose corners
 * are kept.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/clock_model/model.h"
#include "host_agent/clock_model/polygon.h"
#include "host_agent/util/array.h"

#define ROUNDING_NS	1.0	/* of the host's clock; the counter has its step beside */
#define MOST_SLACK_NS	512.0	/* samples that fit no line even with that begin a new epoch */
#define MOST_JITTER_NS	1e6	/* the same of an emulated counter */
#define TIGHT_NS	20000	/* a sample this narrow shows how far it jittery */
#define NS_PER_SECOND	1e9
#define SIGHT_NS	3e8	/* without a sample of a guest that is only read: a gap */
#define STEP_NS		1e6	/* smaller ones may be hidden in its wide samples */

/* Small against every sample's width; keeps a set that is a mere line alive. */
#define TOUCH_NS	1e-3

/* An epoch while samples are added. */
struct builder {
	struct braid_clock *clock;
	struct braid_clock_track *track;
	struct braid_clock_sample first;
	u64 last_counter;
	struct braid_stretch stretch;	/* the samples that it is made of */
	double slack_ns;		/* the counter is a line to within this */
	s64 first_ns;			/* host time that residuals are relative to */
	s64 first_nominal_ns;
	u32 nr_samples;
	bool gave_up;			/* it is not the last epoch, but no more are made */
	struct braid_polygon set;
	struct {			/* what each epoch of the track was made of */
		size_t first, end;
		double slack_ns;
	} made[BRAID_MAX_EPOCHS];
};

/* The error of an exact line: the counter is constant within a step. */
static double least_slack(const struct braid_clock *clock)
{
	return ROUNDING_NS + fmax(1, ldexp((double)clock->nominal.mult, -BRAID_CLOCK_SHIFT));
}

/* Seconds of nominal time since the epoch's first sample. */
static double seconds_since(const struct braid_clock *clock, u64 ref_counter, u64 counter)
{
	s64 ns = (s64)((u64)braid_clock_to_ns(&clock->nominal, counter) -
		       (u64)braid_clock_to_ns(&clock->nominal, ref_counter));

	return ns / NS_PER_SECOND;
}

static bool cut_by_sample(struct builder *b, const struct braid_clock_sample *s)
{
	struct braid_polygon before;
	double x = seconds_since(b->clock, b->first.counter, s->counter);
	s64 nominal = (s64)((u64)braid_clock_to_ns(&b->clock->nominal, s->counter) -
			    (u64)b->first_nominal_ns);
	double low = (double)(s64)(s->h1_ns - b->first_ns - nominal) - b->slack_ns;
	double high = (double)(s64)(s->h2_ns - b->first_ns - nominal) + b->slack_ns;

	braid_polygon_copy(&before, &b->set);
	if (braid_polygon_clip(&b->set, x, low - TOUCH_NS, -1) &&
	    braid_polygon_clip(&b->set, x, high + TOUCH_NS, 1))
		return true;
	braid_polygon_copy(&b->set, &before);
	return false;
}

/* The set that one sample leaves. */
static void begin_set(struct builder *b, double slack_ns)
{
	double width = (double)(b->first.h2_ns - b->first.h1_ns) + slack_ns;

	b->slack_ns = slack_ns;
	braid_polygon_box(&b->set, -slack_ns, width, BRAID_SLOPE_LIMIT);
}

/* Makes a sample the reference of all others. */
static void set_first(struct builder *b, size_t index)
{
	b->first = b->stretch.samples[index].s;
	b->last_counter = b->first.counter;
	b->first_ns = b->first.h1_ns;
	b->first_nominal_ns = braid_clock_to_ns(&b->clock->nominal, b->first.counter);
}

static void begin_epoch(struct builder *b, size_t index, const struct braid_clock_mark *mark,
			const struct braid_clock_mark *brk)
{
	braid_stretch_begin(&b->stretch, index, mark, brk);
	set_first(b, index);
	b->nr_samples = 1;
	begin_set(b, least_slack(b->clock));
}

/*
 * No line explains all samples up to @index: the counter may be off a line by some ns, like
 * emulated ones. The least slack that explains them is found by doubling twice. Return: false when
 * none does; @b is then unchanged.
 */
static bool loosen(struct builder *b, size_t index)
{
	struct braid_polygon before = b->set;
	double most = b->clock->jittery ? MOST_JITTER_NS : MOST_SLACK_NS;
	double slack_before = b->slack_ns, slack;
	size_t k;

	for (slack = slack_before; slack < most;) {
		slack = fmin(4 * slack, most);
		begin_set(b, slack);
		for (k = b->stretch.first + 1; k <= index; k++)
			if (braid_sample_sane(&b->stretch.samples[k].s) && !cut_by_sample(b, &b->stretch.samples[k].s))
				break;
		if (k > index)
			return true;
	}
	b->set = before;
	b->slack_ns = slack_before;
	return false;
}

/*
 * Where the nominal rate is possible, it is the best estimate: a short or noisy interval determines
 * the slope poorly. Return: false when it is not in the set.
 */
static bool at_nominal(const struct braid_polygon *p, struct braid_clock_line *line)
{
	double low = INFINITY, high = -INFINITY, offset;
	u32 k;

	for (k = 0; k < p->nr; k++) {
		const struct braid_clock_line *a = &p->corner[k], *b = &p->corner[(k + 1) % p->nr];

		if ((a->slope > 0) == (b->slope > 0))
			continue;
		offset = a->offset_ns + (b->offset_ns - a->offset_ns) * (a->slope / (a->slope - b->slope));
		low = fmin(low, offset);
		high = fmax(high, offset);
	}
	line->offset_ns = (low + high) / 2;
	return low <= high;
}

/*
 * The line with the least maximum distance to the set's lines over the sampled interval: through
 * the middle of the set's range at either end.
 */
static struct braid_clock_line middle(const struct builder *b)
{
	double x = seconds_since(b->clock, b->first.counter, b->last_counter);
	struct braid_clock_line line = { 0 };
	double low, high, end;

	if (at_nominal(&b->set, &line))
		return line;
	braid_polygon_range(&b->set, 0, &low, &high);
	line.offset_ns = (low + high) / 2;
	if (x < 1e-6)
		return line;		/* one moment does not determine the slope */
	braid_polygon_range(&b->set, x, &low, &high);
	end = (low + high) / 2;
	line.slope = (end - line.offset_ns) / x;
	/* A short interval determines it poorly; the bound includes that. */
	line.slope = fmax(-BRAID_SLOPE_LIMIT, fmin(BRAID_SLOPE_LIMIT, line.slope));
	return line;
}

/*
 * The most that the counter gained or lost against its nominal line between two
 * samples in a row. An emulated one moves by itself, and only one way: in between it
 * is off the line by no more than that.
 */
static double jitter(const struct builder *b)
{
	double worst = 0, low, high, last_low = 0, last_high = 0;
	bool any = false;
	size_t k;

	for (k = b->stretch.first; k < b->stretch.end; k++) {
		const struct braid_clock_sample *s = &b->stretch.samples[k].s;
		s64 nominal = (s64)((u64)braid_clock_to_ns(&b->clock->nominal, s->counter) -
				    (u64)b->first_nominal_ns);

		if (!braid_sample_sane(s) || s->h2_ns - s->h1_ns > TIGHT_NS)
			continue;
		low = (double)(s64)(s->h1_ns - b->first_ns - nominal);
		high = (double)(s64)(s->h2_ns - b->first_ns - nominal);
		if (any)
			worst = fmax(worst, fmax(high - last_low, last_high - low));
		last_low = low;
		last_high = high;
		any = true;
	}
	return worst;
}

/*
 * Where a line needed slack the counter is not a line: the true value may be anywhere in each
 * narrow sample's interval, not just at the end near the line.
 */
static double off_line(const struct builder *b, const struct braid_clock_map *map)
{
	double worst = b->slack_ns;
	size_t k;

	for (k = b->stretch.first; k < b->stretch.end && b->slack_ns > least_slack(b->clock); k++) {
		const struct braid_clock_sample *s = &b->stretch.samples[k].s;
		s64 ns = braid_clock_to_ns(map, s->counter);

		if (braid_sample_sane(s) && s->h2_ns - s->h1_ns <= TIGHT_NS)
			worst = fmax(worst, fmax((double)(s64)((u64)ns - s->h1_ns),
						 (double)(s64)(s->h2_ns - (u64)ns)));
	}
	return worst;
}

/* Stores the model: its integer line, and its corners for the bound. */
static int put_model(struct builder *b, struct braid_clock_epoch *e)
{
	const struct braid_clock *clock = b->clock;
	struct braid_clock_line line = middle(b);
	double off_ns;

	free(e->lines);
	e->lines = malloc(b->set.nr * sizeof(*e->lines));
	if (!e->lines)
		return -ENOMEM;
	memcpy(e->lines, b->set.corner, b->set.nr * sizeof(*e->lines));
	e->nr_lines = b->set.nr;
	e->base_ns = b->first_ns;
	e->ref_counter = b->first.counter;
	e->ref_nominal_ns = b->first_nominal_ns;
	e->drift_ppm = line.slope / 1e3;
	e->map = (struct braid_clock_map){
		.ref_counter = b->first.counter,
		.ref_ns = b->first_ns + (s64)llrint(line.offset_ns),
		.mult = clock->nominal.mult +
			(s64)((double)clock->nominal.mult * line.slope / 1e9),
	};
	off_ns = off_line(b, &e->map) + (clock->jittery ? jitter(b) : 0);
	if (off_ns < UINT32_MAX)
		e->slack_ns = (u32)off_ns;
	else
		e->nr_lines = 0;	/* no finite bound is valid */
	return 0;
}

static int end_epoch(struct builder *b)
{
	size_t k = b->track->nr_epochs;
	struct braid_clock_epoch e = {
		.model = &braid_model_line,
		.cause = BRAID_EPOCH_FIRST,
		.from_ns = INT64_MIN,
		.begun_ns = INT64_MIN,
		.nr_samples = b->nr_samples,
	};

	if (put_model(b, &e))
		return -ENOMEM;
	b->made[k].first = b->stretch.first;
	b->made[k].end = b->stretch.end;
	b->made[k].slack_ns = b->slack_ns;
	if (!braid_epoch_put(b->clock, b->track, &b->stretch, &e))
		return 0;
	free(e.lines);
	return -ENOMEM;
}

/* Whether a sample certainly belongs to an epoch: not one near a step, which may be past it. */
static bool is_sure(const struct builder *b, size_t k, const struct braid_clock_sample *s)
{
	const struct braid_clock_epoch *e = &b->track->epochs[k];

	if (!braid_sample_sane(s))
		return false;
	if (k && !e->parted && (s64)s->h1_ns < e->begun_ns &&
	    braid_epoch_explains(b->clock, e - 1, s))
		return false;
	return k + 1 == b->track->nr_epochs || e[1].parted || (s64)s->h2_ns <= e[1].from_ns ||
	       !braid_epoch_explains(b->clock, e + 1, s);
}

/*
 * A wide sample from beyond a step may leave the set nonempty but cut off the true line. Now that
 * the steps are known, the epoch is rebuilt from its own samples.
 */
static int fit_again(struct builder *b, size_t k)
{
	const struct braid_round_trip *samples = b->stretch.samples;
	bool any = false;
	size_t at;

	b->stretch.first = b->made[k].first;
	b->stretch.end = b->made[k].end;
	for (at = b->stretch.first; at < b->stretch.end; at++) {
		const struct braid_clock_sample *s = &samples[at].s;

		if (!is_sure(b, k, s))
			continue;
		if (!any) {
			set_first(b, at);
			begin_set(b, b->made[k].slack_ns);
			any = true;
		} else if (cut_by_sample(b, s) && (s64)(s->counter - b->last_counter) > 0) {
			b->last_counter = s->counter;
		}
	}
	return any ? put_model(b, &b->track->epochs[k]) : 0;
}

/* The pause before a sample, unless it is part of the break that the epoch began with. */
static const struct braid_clock_mark *pause_before(const struct builder *b,
						   const struct braid_clock_inputs *in, size_t *at,
						   const struct braid_clock_sample *s)
{
	const struct braid_clock_mark *pause = braid_pause_before(in, at, s);
	const struct braid_clock_mark *brk = &b->stretch.brk;

	if (pause && b->stretch.parted && pause[0].from_ns <= brk->to_ns &&
	    pause[1].to_ns >= brk->from_ns)
		return NULL;
	return pause;
}

/*
 * Whether there was no sample for so long that the set's lines, which few samples before have
 * bounded, could take a step in that gap for another slope. Samples that are narrow beside the step
 * would soon contradict that; those of a guest that is only read are wide.
 */
static bool was_unseen(const struct builder *b, const struct braid_clock_sample *s,
		       struct braid_clock_mark *found)
{
	double last = seconds_since(b->clock, b->first.counter, b->last_counter);
	double x = seconds_since(b->clock, b->first.counter, s->counter);
	double low, high, wide;

	if ((x - last) * NS_PER_SECOND < SIGHT_NS)
		return false;
	braid_polygon_range(&b->set, last, &low, &high);
	wide = high - low;
	braid_polygon_range(&b->set, x, &low, &high);
	*found = (struct braid_clock_mark){
		.kind = BRAID_MARK_UNSEEN,
		.from_ns = b->stretch.samples[b->stretch.end - 1].s.h1_ns, .to_ns = s->h2_ns,
	};
	return high - low > 2 * wide + STEP_NS;
}

int braid_line_track(struct braid_clock *clock, struct braid_clock_track *track,
		    const struct braid_clock_inputs *in, const struct braid_round_trip *samples,
		    size_t nr)
{
	struct builder b = { .clock = clock, .track = track, .stretch.samples = samples };
	const struct braid_clock_mark *pause;
	struct braid_clock_mark brk;
	size_t k, mark = 0;
	bool broken;
	u32 era = 0;
	int err;

	for (k = 0; k < nr; k++) {
		const struct braid_clock_sample *s = &samples[k].s;

		if (!braid_sample_sane(s)) {
			clock->nr_refused++;
			continue;
		}
		pause = pause_before(&b, in, &mark, s);
		broken = b.nr_samples && braid_break_between(in, era, &samples[k], &brk);
		era = samples[k].era;
		if (!b.nr_samples) {
			begin_epoch(&b, k, NULL, NULL);
			continue;
		}
		broken |= in->reads && !broken && !pause && was_unseen(&b, s, &brk);
		if (!broken && !pause &&
		    (cut_by_sample(&b, s) || (!b.gave_up && loosen(&b, k)))) {
			if ((s64)(s->counter - b.last_counter) > 0)
				b.last_counter = s->counter;
			b.stretch.end = k + 1;
			b.nr_samples++;
			continue;
		}
		if (track->nr_epochs >= BRAID_MAX_EPOCHS - 1) {
			clock->nr_refused++;	/* no clock steps that often */
			b.gave_up = true;
			continue;
		}
		err = end_epoch(&b);
		if (err)
			return err;
		begin_epoch(&b, k, pause, broken ? &brk : NULL);
	}
	err = b.nr_samples ? end_epoch(&b) : 0;
	for (k = 0; k < track->nr_epochs && track->nr_epochs > 1 && !err; k++)
		err = fit_again(&b, k);
	if (!err && b.gave_up)
		track->epochs[track->nr_epochs - 1].nr_lines = 0;	/* its end is unknown */
	return err;
}

/* Hot path, once per event: no value is computed twice and no function is called. */
static u64 bound_at(const struct braid_clock *clock, const struct braid_clock_epoch *e, u64 counter,
		    s64 ns)
{
	double x, residual, low, high, worst;
	s64 nominal;
	u64 whole;
	u32 k;

	if (!e->nr_lines)
		return BRAID_BOUND_UNKNOWN;
	nominal = (s64)((u64)braid_clock_to_ns(&clock->nominal, counter) -
			(u64)e->ref_nominal_ns);
	x = nominal / NS_PER_SECOND;
	residual = (double)(s64)((u64)ns - (u64)e->base_ns - (u64)nominal);
	low = high = braid_line_at(&e->lines[0], x);
	for (k = 1; k < e->nr_lines; k++) {
		double value = braid_line_at(&e->lines[k], x);

		low = value < low ? value : low;
		high = value > high ? value : high;
	}
	worst = residual - low > high - residual ? residual - low : high - residual;
	worst += e->slack_ns;
	if (!(worst < 9e17))
		return BRAID_BOUND_UNKNOWN;
	whole = (u64)worst;
	return whole + ((double)whole < worst);
}

static u64 bound_by_line(const struct braid_clock *clock, const struct braid_clock_epoch *e, u64 counter)
{
	return bound_at(clock, e, counter, braid_clock_to_ns(&e->map, counter));
}

static struct braid_clock_time line_to_host(const struct braid_clock *clock,
					    const struct braid_clock_epoch *e, u64 counter)
{
	struct braid_clock_time t = { .ns = braid_clock_to_ns(&e->map, counter) };

	t.bound_ns = bound_at(clock, e, counter, t.ns);
	return t;
}

static struct braid_clock_reading to_guest(const struct braid_clock *clock,
					   const struct braid_clock_epoch *e, s64 ns)
{
	struct braid_clock_reading r = { .value = braid_clock_to_counter(&e->map, ns) };

	r.bound_ns = bound_by_line(clock, e, r.value);
	return r;
}

/* The largest from the first sample to the last, or to a later end. */
static u64 line_bound_of(const struct braid_clock *clock, const struct braid_clock_epoch *e,
			 u64 end_ns)
{
	u64 worst = bound_by_line(clock, e, e->first_counter);
	u64 bound = bound_by_line(clock, e, e->last_counter);

	worst = bound > worst ? bound : worst;
	if (!end_ns || end_ns >> 62)
		return worst;
	bound = bound_by_line(clock, e, braid_clock_to_counter(&e->map, end_ns));
	return bound > worst ? bound : worst;
}

const struct braid_clock_model braid_model_line = {
	.to_host = line_to_host,
	.to_guest = to_guest,
	.bound = line_bound_of,
};
