// SPDX-License-Identifier: GPL-2.0-or-later
/* Clips a convex polygon of lines. */
#include <math.h>

#include "host_agent/clock_model/polygon.h"

void braid_polygon_box(struct braid_polygon *p, double low_ns, double high_ns, double slope)
{
	p->nr = 4;
	p->corner[0] = (struct braid_clock_line){ low_ns, -slope };
	p->corner[1] = (struct braid_clock_line){ low_ns, slope };
	p->corner[2] = (struct braid_clock_line){ high_ns, slope };
	p->corner[3] = (struct braid_clock_line){ high_ns, -slope };
}

/* Whether a cut removes a corner, or the polygon is empty. Most cuts remove nothing. */
static bool polygon_is_cut(const struct braid_polygon *p, double x, double limit, double sign)
{
	u32 k;

	for (k = 0; k < p->nr; k++)
		if (!(sign * (braid_line_at(&p->corner[k], x) - limit) <= 0))
			return true;
	return !p->nr;
}

/* New corners are on edges between two known ones, so that nearly parallel cuts are harmless. */
bool braid_polygon_clip(struct braid_polygon *p, double x, double limit, double sign)
{
	struct braid_polygon out;
	u32 k;

	if (!polygon_is_cut(p, x, limit, sign))
		return true;
	out.nr = 0;
	for (k = 0; k < p->nr; k++) {
		const struct braid_clock_line *a = &p->corner[k], *b = &p->corner[(k + 1) % p->nr];
		double da = sign * (braid_line_at(a, x) - limit);
		double db = sign * (braid_line_at(b, x) - limit);

		if (out.nr + 2 > BRAID_POLYGON_CORNERS)
			return true;	/* skip the cut: the set stays larger, so the bound stays
					   valid */
		if (da <= 0)
			out.corner[out.nr++] = *a;
		if ((da < 0 && db > 0) || (da > 0 && db < 0)) {
			double t = da / (da - db);

			out.corner[out.nr].offset_ns =
				a->offset_ns + t * (b->offset_ns - a->offset_ns);
			out.corner[out.nr++].slope = a->slope + t * (b->slope - a->slope);
		}
	}
	if (!out.nr)
		return false;
	braid_polygon_copy(p, &out);
	return true;
}

void braid_polygon_range(const struct braid_polygon *p, double x, double *low, double *high)
{
	u32 k;

	*low = INFINITY;
	*high = -INFINITY;
	for (k = 0; k < p->nr; k++) {
		*low = fmin(*low, braid_line_at(&p->corner[k], x));
		*high = fmax(*high, braid_line_at(&p->corner[k], x));
	}
}
