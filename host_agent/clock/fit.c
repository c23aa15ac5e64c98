// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Clips the set of lines that explain all samples. A line is (offset, slope) as a
 * deviation from the nominal line: residual = offset + slope * x, in ns, with x in
 * seconds of nominal time since the epoch's first sample. Each sample cuts two half
 * planes off a convex polygon, whose corners are kept.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/clock/fit.h"

#define SLOPE_LIMIT	2e7	/* ns for a second: 2 % off the nominal frequency */
#define LEAST_SLACK_NS	2.0	/* rounding of host clock and counter */
#define MOST_SLACK_NS	512.0	/* what is no line even with that begins a new epoch */
#define MOST_WAVER_NS	1e6	/* the same of an emulated counter */
#define TIGHT_NS	20000	/* a sample this narrow shows how far it wavers */
#define MAX_CORNERS	256
#define MAX_EPOCHS	256
#define NS_PER_SECOND	1e9

/* Small against every sample's width; keeps a set that is a mere line alive. */
#define TOUCH_NS	1e-3

struct braid_clock_line {
	double offset_ns;
	double slope;
};

/* A polygon being clipped, in order around its edge. */
struct polygon {
	u32 nr;
	struct braid_clock_line corner[MAX_CORNERS];
};

/* What an epoch is while samples come in. */
struct builder {
	struct braid_clock *clock;
	size_t capacity;
	struct braid_clock_sample first;
	struct braid_clock_sample last;
	const struct braid_clock_sample *samples;
	size_t first_index;		/* of first in the samples */
	size_t last_index;
	double slack_ns;		/* the counter is a line to within this */
	s64 first_ns;			/* host time that residuals are relative to */
	s64 first_nominal_ns;
	u32 nr_samples;
	struct polygon set;
};

/* Seconds of nominal time since the epoch's first sample. */
static double seconds_since(const struct braid_clock *clock, u64 ref_counter, u64 counter)
{
	s64 ns = (s64)((u64)braid_clock_to_ns(&clock->nominal, counter) -
		       (u64)braid_clock_to_ns(&clock->nominal, ref_counter));

	return ns / NS_PER_SECOND;
}

static double value_at(const struct braid_clock_line *line, double x)
{
	return line->offset_ns + line->slope * x;
}

/*
 * Keeps what has sign * (offset + slope * x - limit) <= 0. The new corners lie on
 * edges between two corners known, so that nearly parallel cuts do no harm.
 * Return: false when nothing is left; @p is then as it was.
 */
static bool clip(struct polygon *p, double x, double limit, double sign)
{
	struct polygon out = { 0 };
	u32 k;

	for (k = 0; k < p->nr; k++) {
		const struct braid_clock_line *a = &p->corner[k], *b = &p->corner[(k + 1) % p->nr];
		double da = sign * (value_at(a, x) - limit), db = sign * (value_at(b, x) - limit);

		if (out.nr + 2 > MAX_CORNERS)
			return true;	/* leave the cut out: the set stays too large, so true */
		if (da <= 0)
			out.corner[out.nr++] = *a;
		if ((da < 0 && db > 0) || (da > 0 && db < 0)) {
			double t = da / (da - db);

			out.corner[out.nr].offset_ns = a->offset_ns + t * (b->offset_ns - a->offset_ns);
			out.corner[out.nr++].slope = a->slope + t * (b->slope - a->slope);
		}
	}
	if (!out.nr)
		return false;
	*p = out;
	return true;
}

static bool cut_by_sample(struct builder *b, const struct braid_clock_sample *s)
{
	struct polygon before = b->set;
	double x = seconds_since(b->clock, b->first.counter, s->counter);
	s64 nominal = (s64)((u64)braid_clock_to_ns(&b->clock->nominal, s->counter) -
			    (u64)b->first_nominal_ns);
	double low = (double)(s64)(s->h1_ns - b->first_ns - nominal) - b->slack_ns;
	double high = (double)(s64)(s->h2_ns - b->first_ns - nominal) + b->slack_ns;

	if (clip(&b->set, x, low - TOUCH_NS, -1) && clip(&b->set, x, high + TOUCH_NS, 1))
		return true;
	b->set = before;
	return false;
}

/* The set that one sample leaves. */
static void begin_set(struct builder *b, double slack_ns)
{
	double width = (double)(b->first.h2_ns - b->first.h1_ns) + slack_ns;

	b->slack_ns = slack_ns;
	b->set = (struct polygon){
		.nr = 4,
		.corner = {
			{ -slack_ns, -SLOPE_LIMIT }, { -slack_ns, SLOPE_LIMIT },
			{ width, SLOPE_LIMIT }, { width, -SLOPE_LIMIT },
		},
	};
}

static void begin_epoch(struct builder *b, const struct braid_clock_sample *samples, size_t index)
{
	b->samples = samples;
	b->first_index = b->last_index = index;
	b->first = samples[index];
	b->last = b->first;
	b->first_ns = b->first.h1_ns;
	b->first_nominal_ns = braid_clock_to_ns(&b->clock->nominal, b->first.counter);
	b->nr_samples = 1;
	begin_set(b, LEAST_SLACK_NS);
}

static bool makes_sense(const struct braid_clock_sample *s)
{
	return s->h2_ns >= s->h1_ns && !(s->h2_ns >> 62);
}

/*
 * No line explains all samples up to @index: perhaps the counter is one but for some
 * ns, as emulated ones are. The least slack that explains them is found by doubling
 * twice. Return: false when none does; @b is then as it was.
 */
static bool loosen(struct builder *b, const struct braid_clock_sample *samples, size_t index)
{
	struct polygon before = b->set;
	double most = b->clock->wavers ? MOST_WAVER_NS : MOST_SLACK_NS;
	double slack_before = b->slack_ns, slack;
	size_t k;

	for (slack = 4 * slack_before; slack <= most; slack *= 4) {
		begin_set(b, slack);
		for (k = b->first_index + 1; k <= index; k++)
			if (makes_sense(&samples[k]) && !cut_by_sample(b, &samples[k]))
				break;
		if (k > index)
			return true;
	}
	b->set = before;
	b->slack_ns = slack_before;
	return false;
}

/* Least and greatest value of the set's lines at x. */
static void range_at(const struct polygon *p, double x, double *low, double *high)
{
	u32 k;

	*low = INFINITY;
	*high = -INFINITY;
	for (k = 0; k < p->nr; k++) {
		*low = fmin(*low, value_at(&p->corner[k], x));
		*high = fmax(*high, value_at(&p->corner[k], x));
	}
}

/*
 * The line whose greatest distance to the set's lines is least over what the
 * samples cover: through the middle of the set's range at either end.
 */
static struct braid_clock_line middle(const struct builder *b)
{
	double x = seconds_since(b->clock, b->first.counter, b->last.counter);
	struct braid_clock_line line = { 0 };
	double low, high, end;

	range_at(&b->set, 0, &low, &high);
	line.offset_ns = (low + high) / 2;
	if (x < 1e-6)
		return line;		/* one moment tells nothing of the slope */
	range_at(&b->set, x, &low, &high);
	end = (low + high) / 2;
	line.slope = (end - line.offset_ns) / x;
	/* A short stretch tells little of it; the bound says how little. */
	line.slope = fmax(-SLOPE_LIMIT, fmin(SLOPE_LIMIT, line.slope));
	return line;
}

/*
 * The most that the counter gained or lost against its nominal line between two
 * samples in a row. An emulated one moves by itself, and only one way: in between it
 * is off the line by no more than that.
 */
static double waver(const struct builder *b)
{
	double worst = 0, low, high, last_low = 0, last_high = 0;
	bool any = false;
	size_t k;

	for (k = b->first_index; k <= b->last_index; k++) {
		const struct braid_clock_sample *s = &b->samples[k];
		s64 nominal = (s64)((u64)braid_clock_to_ns(&b->clock->nominal, s->counter) -
				    (u64)b->first_nominal_ns);

		if (!makes_sense(s) || s->h2_ns - s->h1_ns > TIGHT_NS)
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

/* Writes the epoch down: its integer line, and its corners for the bound. */
static int end_epoch(struct builder *b)
{
	struct braid_clock *clock = b->clock;
	struct braid_clock_line line = middle(b);
	struct braid_clock_epoch *e;

	if (clock->nr_epochs == b->capacity) {
		size_t more = b->capacity ? 2 * b->capacity : 4;

		e = reallocarray(clock->epochs, more, sizeof(*e));
		if (!e)
			return -ENOMEM;
		clock->epochs = e;
		b->capacity = more;
	}
	e = &clock->epochs[clock->nr_epochs];
	memset(e, 0, sizeof(*e));
	e->lines = malloc(b->set.nr * sizeof(*e->lines));
	if (!e->lines)
		return -ENOMEM;
	memcpy(e->lines, b->set.corner, b->set.nr * sizeof(*e->lines));
	e->nr_lines = b->set.nr;
	e->from_counter = clock->nr_epochs ? b->first.counter : 0;
	e->from_host_ns = clock->nr_epochs ? b->first.h1_ns : 0;
	e->first_counter = b->first.counter;
	e->base_ns = b->first_ns;
	e->slack_ns = (u32)(b->slack_ns + (clock->wavers ? waver(b) : 0));
	e->last_counter = b->last.counter;
	e->nr_samples = b->nr_samples;
	e->drift_ppm = line.slope / 1e3;
	e->map.ref_counter = b->first.counter;
	e->map.ref_ns = b->first_ns + (s64)llrint(line.offset_ns);
	e->map.mult = clock->nominal.mult +
		      (s64)((long double)clock->nominal.mult * line.slope / 1e9L);
	clock->nr_samples += b->nr_samples;
	clock->nr_epochs++;
	return 0;
}

static int fit_samples(struct builder *b, const struct braid_clock_sample *samples, size_t nr)
{
	size_t k;
	int err;

	for (k = 0; k < nr; k++) {
		const struct braid_clock_sample *s = &samples[k];

		if (!makes_sense(s)) {
			b->clock->nr_refused++;
			continue;
		}
		if (!b->nr_samples) {
			begin_epoch(b, samples, k);
			continue;
		}
		if (s->counter >= b->last.counter && s->h2_ns >= b->last.h1_ns &&
		    (cut_by_sample(b, s) || loosen(b, samples, k))) {
			b->last = *s;
			b->last_index = k;
			b->nr_samples++;
			continue;
		}
		if (b->clock->nr_epochs >= MAX_EPOCHS - 1) {
			b->clock->nr_refused++;	/* no clock steps that often */
			continue;
		}
		err = end_epoch(b);
		if (err)
			return err;
		begin_epoch(b, samples, k);
	}
	return b->nr_samples ? end_epoch(b) : 0;
}

/* No sample: the stated frequency through an anchor. */
static int fit_nominal(struct braid_clock *clock, u64 counter, s64 ns)
{
	clock->epochs = calloc(1, sizeof(*clock->epochs));
	if (!clock->epochs)
		return -ENOMEM;
	clock->nr_epochs = 1;
	clock->kind = BRAID_CLOCK_NOMINAL;
	clock->epochs->map = clock->nominal;
	clock->epochs->map.ref_counter = counter;
	clock->epochs->map.ref_ns = ns;
	return 0;
}

int braid_clock_fit(struct braid_clock *clock, u64 counter_hz, u32 counter_type,
		    const struct braid_clock_sample *samples, size_t nr, u64 anchor_counter,
		    s64 anchor_ns)
{
	struct builder b = { .clock = clock };
	int err;

	memset(clock, 0, sizeof(*clock));
	clock->kind = BRAID_CLOCK_EXCHANGE;
	clock->wavers = counter_type == BRAID_COUNTER_TSC_EMULATED;
	clock->nominal.mult = braid_clock_nominal_mult(counter_hz);
	if (!clock->nominal.mult)	/* impossible: any line is as good, and has no bound */
		clock->nominal.mult = 1ULL << BRAID_CLOCK_SHIFT;
	clock->nominal.ref_counter = nr ? samples[0].counter : anchor_counter;
	err = fit_samples(&b, samples, nr);
	if (!err && !clock->nr_epochs)
		err = fit_nominal(clock, anchor_counter, anchor_ns);
	if (err)
		braid_clock_free(clock);
	return err;
}

void braid_clock_free(struct braid_clock *clock)
{
	u32 k;

	for (k = 0; k < clock->nr_epochs; k++)
		free(clock->epochs[k].lines);
	free(clock->epochs);
	memset(clock, 0, sizeof(*clock));
}

const struct braid_clock_epoch *braid_clock_epoch_of(const struct braid_clock *clock, u64 counter,
						     u64 taken_ns)
{
	u32 k;

	for (k = clock->nr_epochs; k-- > 1;) {
		const struct braid_clock_epoch *e = &clock->epochs[k];

		if (e->from_counter <= counter && e->from_host_ns <= taken_ns)
			return e;
	}
	return clock->epochs;
}

u64 braid_clock_bound(const struct braid_clock *clock, const struct braid_clock_epoch *epoch,
		      u64 counter)
{
	double x, residual, worst = 0;
	s64 nominal;
	u32 k;

	if (!epoch || !epoch->nr_lines)
		return BRAID_BOUND_UNKNOWN;
	if (counter > epoch->last_counter && epoch + 1 < clock->epochs + clock->nr_epochs)
		return BRAID_BOUND_UNKNOWN;
	if (epoch > clock->epochs && counter < epoch->first_counter)
		return BRAID_BOUND_UNKNOWN;
	x = seconds_since(clock, epoch->first_counter, counter);
	nominal = (s64)((u64)braid_clock_to_ns(&clock->nominal, counter) -
			(u64)braid_clock_to_ns(&clock->nominal, epoch->first_counter));
	residual = (double)((s64)((u64)braid_clock_to_ns(&epoch->map, counter) -
				  (u64)epoch->base_ns) - nominal);
	for (k = 0; k < epoch->nr_lines; k++)
		worst = fmax(worst, fabs(residual - value_at(&epoch->lines[k], x)));
	worst += epoch->slack_ns;
	return worst < 9e18 ? (u64)ceil(worst) : BRAID_BOUND_UNKNOWN;
}

u64 braid_clock_worst_bound(const struct braid_clock *clock, u64 end_ns)
{
	u64 worst = 0, bound;
	u32 k;

	if (!clock->nr_epochs)
		return clock->kind == BRAID_CLOCK_HOST ? 0 : BRAID_BOUND_UNKNOWN;
	for (k = 0; k < clock->nr_epochs; k++) {
		const struct braid_clock_epoch *e = &clock->epochs[k];

		bound = braid_clock_bound(clock, e, e->first_counter);
		worst = bound > worst ? bound : worst;
		bound = braid_clock_bound(clock, e, e->last_counter);
		worst = bound > worst ? bound : worst;
		if (!end_ns || k + 1 < clock->nr_epochs || end_ns >> 62)
			continue;
		bound = braid_clock_bound(clock, e, braid_clock_to_counter(&e->map, end_ns));
		worst = bound > worst ? bound : worst;
	}
	return worst;
}
