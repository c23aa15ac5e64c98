// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The clock of another host, by messages: what was sent was sent before it was received. Neither
 * clock is adjusted, but their crystals wander: within REACH_NS of a moment m the clock is
 *
 *	f(x) = f(m) + s (x - m) + w(x),	|w(x)| <= W |x - m|
 *
 * So each inequality about f(x) is one about the line (f(m), s), loosened by W |x - m|, and the
 * polygon of the lines that all of them leave has f(m) between its least and greatest offset. This
 * is done for a grid of moments, which become breakpoints.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/clock_model/model.h"
#include "host_agent/clock_model/polygon.h"
#include "host_agent/util/array.h"

#define REACH_NS	10000000000LL	/* an inequality says nothing of moments farther away */
#define NEAR		16u		/* inequalities on either side of a moment, all used */
#define CHOSEN		512u		/* in all */
#define LEVELS		32u
#define LEAST_STEP_NS	2500000.0	/* between two moments ... */
#define MOST_STEP_NS	250000000.0
#define BLOCK		64u		/* inequalities at an end, for a first guess of the rate */
#define NS_PER_SECOND	1e9
#define ROUNDING_NS	1.0		/* of each clock */
#define TOUCH_NS	1e-3		/* keeps a set that is a mere line alive */
#define MOST_MOMENTS	(1u << 24)

/* An inequality, relative to the first one of its stretch. */
struct point {
	double x_ns;
	double residual_ns;	/* of ns against value */
	bool later;		/* f(x) - x >= residual; else <= */
};

/* The tightest points of a block, of either side, by ->later; + 1; 0: none */
struct block {
	size_t best[2];
};

/* Crossings that follow each other without a gap. */
struct wander_stretch {
	u64 value;		/* origin of x ... */
	s64 ns;			/* ... and of residuals */
	struct point *points;	/* by x */
	size_t nr;
	struct block *blocks[LEVELS];	/* of 2^level points; level 0: the points */
	double x_ns;		/* of the present moment */
	size_t near;		/* the first point that is not before it */
	double first_ns, last_ns;	/* x of the first and the last point */
	double rate;		/* ns for a second; a guess */
	double wander;		/* ns for a second */
};

static int wander_by_value(const void *a, const void *b)
{
	const struct braid_clock_crossing *x = a, *y = b;

	return braid_compare(x->value, y->value) ?: braid_compare(x->ns, y->ns);
}

/* Guess of the rate ------------------------------------------------------------------------- */

/* The middle of the narrowest limits among some points. Return: false: only one side has any. */
static bool middle_of(const struct point *points, size_t nr, double *x_ns, double *residual_ns)
{
	double low = -INFINITY, high = INFINITY, low_x = 0, high_x = 0;
	size_t k;

	for (k = 0; k < nr; k++) {
		if (points[k].later && points[k].residual_ns > low) {
			low = points[k].residual_ns;
			low_x = points[k].x_ns;
		} else if (!points[k].later && points[k].residual_ns < high) {
			high = points[k].residual_ns;
			high_x = points[k].x_ns;
		}
	}
	*x_ns = (low_x + high_x) / 2;
	*residual_ns = (low + high) / 2;
	return isfinite(low) && isfinite(high);
}

/* Any guess is valid: it only decides which inequalities are used. */
static void guess_rate(struct wander_stretch *s)
{
	size_t n = s->nr / 2 < BLOCK ? s->nr / 2 : BLOCK;
	double x0, r0, x1, r1;

	s->rate = 0;
	if (middle_of(s->points, n, &x0, &r0) && middle_of(s->points + s->nr - n, n, &x1, &r1) &&
	    x1 - x0 > 1e6)
		s->rate = (r1 - r0) / (x1 - x0) * NS_PER_SECOND;
	s->rate = fmax(-BRAID_SLOPE_LIMIT, fmin(BRAID_SLOPE_LIMIT, s->rate));
}

/* Blocks ------------------------------------------------------------------------------------ */

/* How tight a point is, of its side: the higher the tighter. */
static double tightness(const struct wander_stretch *s, const struct point *p)
{
	double flat = p->residual_ns - s->rate * p->x_ns / NS_PER_SECOND;

	return p->later ? flat : -flat;
}

static void wander_choose(const struct wander_stretch *s, struct block *b, const struct block *of)
{
	u32 side;

	for (side = 0; side < 2; side++)
		if (of->best[side] &&
		    (!b->best[side] || tightness(s, &s->points[of->best[side] - 1]) >
				       tightness(s, &s->points[b->best[side] - 1])))
			b->best[side] = of->best[side];
}

/*
 * The tightest points of each 2^level that follow each other: far from a moment they stand for all
 * others. Which points are used never makes a bound wrong.
 */
static int make_blocks(struct wander_stretch *s)
{
	size_t nr = s->nr, k;
	u32 level;

	for (level = 1; level < LEVELS && nr > 1; level++, nr = (nr + 1) / 2) {
		s->blocks[level] = calloc((nr + 1) / 2, sizeof(**s->blocks));
		if (!s->blocks[level])
			return -ENOMEM;
		for (k = 0; k < nr; k++) {
			struct block one = { { 0 } };

			if (level == 1)
				one.best[s->points[k].later] = k + 1;
			wander_choose(s, &s->blocks[level][k / 2],
				      level > 1 ? &s->blocks[level - 1][k] : &one);
		}
	}
	return 0;
}

/* Those of the set's points that are used for a moment. */
struct chosen {
	size_t points[CHOSEN];
	u32 nr;
};

static void take_point(const struct wander_stretch *s, struct chosen *c, size_t point)
{
	if (c->nr < CHOSEN && fabs(s->points[point].x_ns - s->x_ns) < REACH_NS)
		c->points[c->nr++] = point;
}

static void take_block(const struct wander_stretch *s, struct chosen *c, u32 level, size_t block)
{
	const struct block *b;
	u32 side;

	if (!level)
		return take_point(s, c, block);
	b = &s->blocks[level][block];
	for (side = 0; side < 2; side++)
		if (b->best[side])
			take_point(s, c, b->best[side] - 1);
}

/* The level of the largest block at a place that is not large beside its distance. */
static u32 level_at(size_t place, size_t distance)
{
	u32 level = 0;

	while (level + 1 < LEVELS && !(place >> level & 1) && (4ULL << level) <= distance &&
	       distance > NEAR)
		level++;
	return level;
}

/* Nearby points one by one; farther away blocks, which grow with the distance. Moments ascend. */
static void choose(struct wander_stretch *s, struct chosen *c)
{
	size_t at;
	u32 level;

	c->nr = 0;
	while (s->near < s->nr && s->points[s->near].x_ns < s->x_ns)
		s->near++;
	for (at = s->near; at && s->points[at - 1].x_ns > s->x_ns - REACH_NS;) {
		level = level_at(at, s->near - at);
		at -= 1ULL << level;
		take_block(s, c, level, at >> level);
	}
	for (at = s->near; at < s->nr && s->points[at].x_ns < s->x_ns + REACH_NS;) {
		level = level_at(at, at - s->near);
		while (at + (1ULL << level) > s->nr)
			level--;
		take_block(s, c, level, at >> level);
		at += 1ULL << level;
	}
}

/* Moments ----------------------------------------------------------------------------------- */

/* Return: 1; 0: not limited on both sides; -EBADMSG: they contradict each other. */
static int moment_at(struct wander_stretch *s, double *low_ns, double *high_ns)
{
	double low = -INFINITY, high = INFINITY, base, d, loose, limit;
	struct braid_polygon set;
	struct chosen c;
	u32 k;

	choose(s, &c);
	for (k = 0; k < c.nr; k++) {
		const struct point *p = &s->points[c.points[k]];

		d = fabs(p->x_ns - s->x_ns) / NS_PER_SECOND;
		loose = d * (BRAID_SLOPE_LIMIT + s->wander) + ROUNDING_NS;
		if (p->later)
			low = fmax(low, p->residual_ns - loose);
		else
			high = fmin(high, p->residual_ns + loose);
	}
	if (!isfinite(low) || !isfinite(high))
		return 0;
	if (low > high)
		return -EBADMSG;
	base = low + (high - low) / 2;
	braid_polygon_box(&set, low - base, high - base, BRAID_SLOPE_LIMIT);
	for (k = 0; k < c.nr; k++) {
		const struct point *p = &s->points[c.points[k]];
		double sign = p->later ? -1 : 1;

		d = (p->x_ns - s->x_ns) / NS_PER_SECOND;
		loose = fabs(d) * s->wander + ROUNDING_NS + TOUCH_NS;
		limit = p->residual_ns - base + sign * loose;
		if (!braid_polygon_clip(&set, d, limit, sign))
			return -EBADMSG;
	}
	braid_polygon_range(&set, 0, low_ns, high_ns);
	*low_ns += base;
	*high_ns += base;
	return 1;
}

static int put_moment(struct wander_stretch *s, struct braid_clock_epoch *e, size_t *capacity,
		      double x_ns)
{
	struct braid_clock_breakpoint b = { .value = s->value + (u64)(s64)x_ns }, *last;
	double low, high, middle;
	int ret;

	s->x_ns = x_ns = (double)(s64)x_ns;
	ret = moment_at(s, &low, &high);
	if (ret <= 0)
		return ret;
	last = e->nr_breakpoints ? &e->breakpoints[e->nr_breakpoints - 1] : NULL;
	middle = rint(low + (high - low) / 2);
	b.ns = (s64)((u64)s->ns + (u64)(s64)x_ns + (u64)(s64)middle);
	b.error_ns = (u64)fmax(high - middle, middle - low) + 1;
	/* Order is kept: where limits are wide their middle may move fast. */
	if (last && b.ns < last->ns + (s64)(b.value - last->value) / 2) {
		s64 more = last->ns + (s64)(b.value - last->value) / 2 - b.ns;

		b.ns += more;
		b.error_ns += more;
	}
	if (last)
		last->bend_ns = (u64)(s->wander * (b.value - last->value) / NS_PER_SECOND / 2) + 1;
	return braid_array_push(e->breakpoints, e->nr_breakpoints, *capacity, b);
}

/* Moments before the first point, nearer and nearer; a grid; and moments after the last one. */
static int put_moments(struct wander_stretch *s, struct braid_clock_epoch *e, size_t nr)
{
	double span = s->last_ns - s->first_ns, step = span / nr, x, off;
	size_t capacity = 0;
	int err = 0;

	step = fmax(LEAST_STEP_NS, fmin(MOST_STEP_NS, step));
	if (span / step > MOST_MOMENTS)
		step = span / MOST_MOMENTS;
	for (off = REACH_NS - 1; off > step && !err; off /= 2)
		err = put_moment(s, e, &capacity, s->first_ns - off);
	for (x = s->first_ns; x < s->last_ns && !err; x += step)
		err = put_moment(s, e, &capacity, x);
	for (off = 0, x = step; !err; off = fmin(x, REACH_NS - 1), x *= 2) {
		err = put_moment(s, e, &capacity, s->last_ns + off);
		if (off >= REACH_NS - 1)
			break;
	}
	return err;
}

/* Stretches --------------------------------------------------------------------------------- */

static int begin_stretch(struct wander_stretch *s, const struct braid_clock_crossing *c, size_t nr)
{
	size_t k;

	s->points = calloc(nr, sizeof(*s->points));
	if (!s->points)
		return -ENOMEM;
	s->nr = nr;
	s->near = 0;
	s->value = c->value;
	s->ns = c->ns;
	for (k = 0; k < nr; k++) {
		s64 x = (s64)(c[k].value - s->value);

		s->points[k] = (struct point){
			.x_ns = x, .later = c[k].later,
			.residual_ns = (double)(s64)((u64)c[k].ns - (u64)s->ns - (u64)x),
		};
	}
	s->first_ns = s->points[0].x_ns;
	s->last_ns = s->points[nr - 1].x_ns;
	guess_rate(s);
	return make_blocks(s);
}

static void free_stretch(struct wander_stretch *s)
{
	u32 level;

	for (level = 0; level < LEVELS; level++)
		free(s->blocks[level]);
	free(s->points);
}

static int put_stretch(struct braid_clock *clock, const struct braid_clock_crossing *c, size_t nr,
		       double wander)
{
	struct braid_clock_track *track = clock->tracks;
	struct braid_clock_epoch e = {
		.model = &braid_model_chords, .cause = BRAID_EPOCH_FIRST,
		.from_ns = INT64_MIN, .begun_ns = INT64_MIN, .nr_samples = nr,
		.first_counter = c->value, .last_counter = c[nr - 1].value,
	};
	struct wander_stretch s = { .wander = wander };
	int err = begin_stretch(&s, c, nr);

	if (!err)
		err = put_moments(&s, &e, nr);
	if (!err && e.nr_breakpoints && track->nr_epochs) {
		const struct braid_clock_epoch *last = &track->epochs[track->nr_epochs - 1];

		e.cause = BRAID_EPOCH_UNSEEN;
		e.from_ns = last->breakpoints[last->nr_breakpoints - 1].ns;
		e.begun_ns = e.breakpoints->ns;
	}
	if (err == -EBADMSG)
		snprintf(clock->reason, sizeof(clock->reason),
			 "its times contradict each other: it lies, its clock was stopped, "
			 "or wanders by more than %.6g µs/s",
			 wander / 1e3);
	e.drift_ppm = s.rate / 1e3;
	free_stretch(&s);
	if (!err && e.nr_breakpoints && track->nr_epochs < BRAID_MAX_EPOCHS) {
		err = braid_array_push(track->epochs, track->nr_epochs, track->capacity, e);
		clock->nr_samples += err ? 0 : nr;
		if (!err)
			return 0;
	}
	free(e.breakpoints);
	return err;
}

int braid_clock_wander(struct braid_clock *clock, struct braid_clock_crossing *crossings, size_t nr,
		       double wander)
{
	size_t from = 0, k, kept = 0;
	int err;

	memset(clock, 0, sizeof(*clock));
	clock->kind = BRAID_CLOCK_PEER;
	clock->nominal.mult = braid_clock_nominal_mult(1000000000);
	err = braid_clock_make_tracks(clock, 1);
	for (k = 0; k < nr; k++) {
		if (crossings[k].value >> 62 || (u64)crossings[k].ns >> 62)
			clock->nr_refused++;
		else
			crossings[kept++] = crossings[k];
	}
	if (kept)
		qsort(crossings, kept, sizeof(*crossings), wander_by_value);
	for (k = 1; k <= kept && !err; k++) {
		if (k < kept && crossings[k].value - crossings[k - 1].value < 2 * (u64)REACH_NS)
			continue;
		err = put_stretch(clock, crossings + from, k - from, wander);
		from = k;
	}
	if (!err && !clock->tracks->nr_epochs) {
		err = -ENODATA;
		snprintf(clock->reason, sizeof(clock->reason),
			 "no message crossed in both directions");
	}
	if (err && clock->tracks) {
		braid_clock_free_tracks(clock->tracks, clock->nr_tracks);
		clock->tracks = NULL;
		clock->nr_tracks = 0;
	}
	return err;
}
