// SPDX-License-Identifier: GPL-2.0-or-later
/* Whether two ratios differ by more than chance. */
#include <math.h>

#include "host_agent/analyze/compare.h"

#define QUANTILE	2.5758293035489	/* of the normal distribution, at 0.995 */

struct braid_estimate braid_estimate_of(const u64 *part, const u64 *whole, u32 nr)
{
	struct braid_estimate e = { .variance = -1 };
	double parts = 0, wholes = 0, residual, squares = 0;
	u32 k;

	for (k = 0; k < nr; k++) {
		parts += part[k];
		wholes += whole[k];
		e.nr += !!whole[k];
	}
	if (!e.nr)
		return e;
	e.ratio = parts / wholes;
	if (e.nr < 2)
		return e;
	/* Of a ratio of sums: bins count by their whole. */
	for (k = 0; k < nr; k++) {
		residual = part[k] - e.ratio * whole[k];
		squares += residual * residual;
	}
	e.variance = squares * e.nr / (e.nr - 1) / (wholes * wholes);
	return e;
}

/* Student's t at 0.995, by the expansion of Cornish and Fisher: within 4 % from 3 on, 1 % from 5 on. */
static double quantile(double freedom)
{
	const double z = QUANTILE, z2 = z * z, n = freedom;

	return z + z * (z2 + 1) / (4 * n) +
	       z * ((5 * z2 + 16) * z2 + 3) / (96 * n * n) +
	       z * (((3 * z2 + 19) * z2 + 17) * z2 - 15) / (384 * n * n * n);
}

static double freedom_of(const struct braid_estimate *a, const struct braid_estimate *b)
{
	double variance = a->variance + b->variance;

	return variance * variance / (a->variance * a->variance / (a->nr - 1) +
				      b->variance * b->variance / (b->nr - 1));
}

double braid_chance_of(const struct braid_estimate *a, const struct braid_estimate *b)
{
	double variance = a->variance + b->variance, change = a->ratio - b->ratio, n, z;

	if (a->variance < 0 || b->variance < 0)
		return -1;
	if (variance <= 0)
		return change == 0;
	n = freedom_of(a, b);
	/* Student's t to the normal distribution, by Wallace: good far out in the tails, too. */
	z = (8 * n + 1) / (8 * n + 3) * sqrt(n * log1p(change * change / variance / n));
	return erfc(z / M_SQRT2);
}

double braid_interval_of(const struct braid_estimate *a, const struct braid_estimate *b)
{
	double variance = a->variance + b->variance;

	if (a->variance < 0 || b->variance < 0)
		return -1;
	return variance > 0 ? quantile(freedom_of(a, b)) * sqrt(variance) : 0;
}
