// SPDX-License-Identifier: GPL-2.0-or-later
/* Keeps the longest of many items in bounded memory. */
#include <stdlib.h>
#include <string.h>

#include "host_agent/analyze/analysis.h"
#include "host_agent/util/error.h"

int braid_longest_begin(struct braid_longest *l, u32 max, size_t bytes,
			int (*compare)(const void *a, const void *b))
{
	/* One more: room for a swap. */
	*l = (struct braid_longest){
		.items = calloc((size_t)max + 1, bytes), .bytes = bytes, .max = max,
		.compare = compare,
	};
	return l->items ? 0 : braid_out_of_memory();
}

static u8 *at(const struct braid_longest *l, u32 k)
{
	return l->items + k * l->bytes;
}

static void swap(struct braid_longest *l, u32 a, u32 b)
{
	memcpy(at(l, l->max), at(l, a), l->bytes);
	memcpy(at(l, a), at(l, b), l->bytes);
	memcpy(at(l, b), at(l, l->max), l->bytes);
}

static void sift_down(struct braid_longest *l)
{
	u32 k, child;

	for (k = 0; (child = 2 * k + 1) < l->nr; k = child) {
		if (child + 1 < l->nr && l->compare(at(l, child + 1), at(l, child)) < 0)
			child++;
		if (l->compare(at(l, child), at(l, k)) > 0)
			return;
		swap(l, k, child);
	}
}

bool braid_longest_takes(const struct braid_longest *l, const void *item)
{
	return l->nr < l->max || (l->max && l->compare(at(l, 0), item) <= 0);
}

void braid_longest_add(struct braid_longest *l, const void *item)
{
	u32 k;

	if (!braid_longest_takes(l, item))
		return;
	if (l->nr == l->max) {
		memcpy(at(l, 0), item, l->bytes);
		sift_down(l);
		return;
	}
	k = l->nr++;
	memcpy(at(l, k), item, l->bytes);
	for (; k && l->compare(at(l, k), at(l, (k - 1) / 2)) < 0; k = (k - 1) / 2)
		swap(l, k, (k - 1) / 2);
}

void braid_longest_sort(struct braid_longest *l)
{
	u32 k;

	if (!l->nr)
		return;
	qsort(l->items, l->nr, l->bytes, l->compare);
	for (k = 0; k < l->nr / 2; k++)
		swap(l, k, l->nr - 1 - k);
}

void braid_longest_free(struct braid_longest *l)
{
	free(l->items);
	l->items = NULL;
	l->nr = 0;
}
