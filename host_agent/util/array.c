// SPDX-License-Identifier: GPL-2.0-or-later
/* Grows arrays by doubling. */
#include <stdlib.h>
#include <string.h>

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

void *braid_array_extend(void *items, size_t *nr, size_t index, size_t item_bytes)
{
	size_t more = *nr ? *nr : 16;
	char *grown;

	while (more <= index)
		more *= 2;
	grown = reallocarray(items, more, item_bytes);
	if (grown) {
		memset(grown + *nr * item_bytes, 0, (more - *nr) * item_bytes);
		*nr = more;
	}
	return grown;
}
