// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Eras: the times between breaks, which are disruptions that the hypervisor reports, and times in
 * which a guest was not followed. No model spans two of them.
 */
#include <stdlib.h>

#include "host_agent/clock_model/model.h"

static int by_begin(const void *a, const void *b)
{
	const struct braid_clock_mark *x = a, *y = b;

	if (x->from_ns != y->from_ns)
		return x->from_ns < y->from_ns ? -1 : 1;
	return x->to_ns < y->to_ns ? -1 : x->to_ns > y->to_ns;
}

size_t braid_breaks_merge(struct braid_clock_mark *breaks, size_t nr)
{
	size_t k, at = 0;

	if (nr)
		qsort(breaks, nr, sizeof(*breaks), by_begin);
	for (k = 0; k < nr; k++) {
		const struct braid_clock_mark *b = &breaks[k];

		if (b->to_ns < b->from_ns || b->to_ns >> 62)
			continue;
		if (!at || b->from_ns >= breaks[at - 1].to_ns) {
			breaks[at++] = *b;
			continue;
		}
		if (b->to_ns > breaks[at - 1].to_ns)
			breaks[at - 1].to_ns = b->to_ns;
		if (b->kind == BRAID_MARK_DISRUPTED)
			breaks[at - 1].kind = b->kind;
	}
	return at;
}

/* How many breaks end by a host time. */
static size_t nr_over(const struct braid_clock_mark *breaks, size_t nr, u64 ns)
{
	size_t low = 0, high = nr;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (breaks[middle].to_ns <= ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Return: false when the sample may be of either side of a break. */
static bool find_era(struct braid_round_trip *r, const struct braid_clock_mark *breaks, size_t nr)
{
	const struct braid_clock_mark *b;

	r->era = nr_over(breaks, nr, r->s.h1_ns);
	if (r->era == nr)
		return true;
	b = &breaks[r->era];
	/* The last sample with the former marker begins with the break. */
	if (r->s.h2_ns <= b->from_ns || r->s.h1_ns == b->from_ns)
		return true;
	/* The first with the new marker ends with it; no other reading has that nanosecond. */
	if (r->s.h2_ns != b->to_ns)
		return false;
	r->era++;
	return true;
}

static int by_era(const void *a, const void *b)
{
	const struct braid_round_trip *x = a, *y = b;

	if (x->era != y->era)
		return x->era < y->era ? -1 : 1;
	if (x->s.h1_ns != y->s.h1_ns)
		return x->s.h1_ns < y->s.h1_ns ? -1 : 1;
	return x->s.h2_ns < y->s.h2_ns ? -1 : x->s.h2_ns > y->s.h2_ns;
}

size_t braid_breaks_part(struct braid_round_trip *samples, size_t nr,
			 const struct braid_clock_mark *breaks, size_t nr_breaks)
{
	size_t k, at = 0;

	for (k = 0; k < nr; k++)
		if (find_era(&samples[k], breaks, nr_breaks))
			samples[at++] = samples[k];
	if (at)
		qsort(samples, at, sizeof(*samples), by_era);
	return at;
}

bool braid_break_between(const struct braid_clock_inputs *in, u32 era,
			 const struct braid_round_trip *next, struct braid_clock_mark *found)
{
	if (next->era <= era || next->era > in->nr_breaks)
		return false;
	*found = in->breaks[era++];
	for (; era < next->era; era++) {
		found->to_ns = in->breaks[era].to_ns;
		if (in->breaks[era].kind == BRAID_MARK_DISRUPTED)
			found->kind = BRAID_MARK_DISRUPTED;
	}
	return true;
}
