// SPDX-License-Identifier: GPL-2.0-or-later
/* Selects by stream, CPU, buffer and event. */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "host_agent/export/select.h"

bool braid_select_ring(void *options, const struct braid_ring *ring)
{
	const struct braid_export_options *o = options;

	if (o->stream && strcmp(o->stream, ring->stream->name))
		return false;
	if (o->buffer && ring->cpu != BRAID_RING_NOTES &&
	    strcmp(o->buffer, braid_ring_buffer_name(ring)))
		return false;
	return !o->one_cpu || ring->cpu == BRAID_RING_NOTES || ring->cpu == o->cpu;
}

static bool matches_name(const char *glob, const struct braid_event_type_info *info)
{
	return !fnmatch(glob, info->name, 0) ||
	       (info->subevent && !fnmatch(glob, info->subevent, 0));
}

/* "SYSTEM:EVENT", or one glob that may mean either. */
bool braid_select_event(const struct braid_export_options *o,
			const struct braid_event_type_info *info)
{
	size_t k;

	for (k = 0; k < o->nr_events; k++) {
		const char *glob = o->events[k], *colon = strchr(glob, ':');
		char system[128];

		if (!colon) {
			if (matches_name(glob, info) || !fnmatch(glob, info->system, 0))
				return true;
			continue;
		}
		snprintf(system, sizeof(system), "%.*s", (int)(colon - glob), glob);
		if ((!system[0] || !fnmatch(system, info->system, 0)) &&
		    (!colon[1] || matches_name(colon + 1, info)))
			return true;
	}
	return !o->nr_events;
}
