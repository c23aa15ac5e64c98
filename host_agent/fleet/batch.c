// SPDX-License-Identifier: GPL-2.0-or-later
/* Lines that wait to be sent. */
#include <string.h>

#include "host_agent/fleet/batch.h"

size_t braid_fleet_batch_next(const struct braid_text *pending, bool last)
{
	size_t n = pending->bytes;
	const char *end = memrchr(pending->data, '\n',
				  n < BRAID_FLEET_BATCH ? n : BRAID_FLEET_BATCH);

	if (!end)
		end = memchr(pending->data, '\n', n);
	return end ? (size_t)(end - pending->data) + 1 : last ? n : 0;
}

bool braid_fleet_batch_limit(struct braid_text *pending, size_t from, u64 *rows, u64 most)
{
	char *at = pending->data + from, *end = pending->data + pending->bytes;

	for (; (at = memchr(at, '\n', end - at)); at++)
		if (++*rows > most) {
			at = memrchr(pending->data, '\n', at - pending->data);
			pending->bytes = at ? at + 1 - pending->data : 0;
			return true;
		}
	return false;
}
