/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The set of all lines that a clock may be: a convex polygon of (offset, slope), which each
 * inequality that is known of the clock makes smaller.
 */
#ifndef BRAID_CLOCK_MODEL_POLYGON_H
#define BRAID_CLOCK_MODEL_POLYGON_H

#include <stdbool.h>
#include <string.h>

#include "tracebraid/types.h"

#define BRAID_POLYGON_CORNERS	256
#define BRAID_SLOPE_LIMIT	2e7	/* ns for a second: 2 % off the nominal frequency */

struct braid_clock_line {
	double offset_ns;
	double slope;			/* ns for each unit of x */
};

/* In order around its edge. */
struct braid_polygon {
	u32 nr;
	struct braid_clock_line corner[BRAID_POLYGON_CORNERS];
};

/** braid_line_at - value of a line */
static inline double braid_line_at(const struct braid_clock_line *line, double x)
{
	return line->offset_ns + line->slope * x;
}

/** braid_polygon_copy - only the corners that it has */
static inline void braid_polygon_copy(struct braid_polygon *to, const struct braid_polygon *from)
{
	to->nr = from->nr;
	memcpy(to->corner, from->corner, from->nr * sizeof(*from->corner));
}

/** braid_polygon_box - all lines within limits of offset, and a limit of the slope's size */
void braid_polygon_box(struct braid_polygon *p, double low_ns, double high_ns, double slope);

/**
 * braid_polygon_clip - keep the lines on one side of a point
 * @p: the set
 * @x: of the point
 * @limit: its value
 * @sign: 1: lines stay that are not above the point; -1: those not below
 *
 * Return: false when the set would be empty; @p is then unchanged.
 */
bool braid_polygon_clip(struct braid_polygon *p, double x, double limit, double sign);

/** braid_polygon_range - least and greatest value of the set's lines at a place */
void braid_polygon_range(const struct braid_polygon *p, double x, double *low, double *high);

#endif /* BRAID_CLOCK_MODEL_POLYGON_H */
