// SPDX-License-Identifier: GPL-2.0-or-later
/* Grows arrays by doubling. */
#include <stdlib.h>

#include "host_agent/util/array.h"

void *braid_array_reserve(void *items, size_t nr, size_t *capacity, size_t item_bytes)
{
	size_t more = *capacity ? 2 * *capacity : 16;
	void *grown;

	if (items && nr < *capacity)
		return items;
	grown = reallocarray(items, more, item_bytes);
	if (grown)
		*capacity = more;
	return grown;
}
