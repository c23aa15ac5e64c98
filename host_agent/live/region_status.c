// SPDX-License-Identifier: GPL-2.0-or-later
/* What a recorded guest's source answers about itself and its guest. */
#include <string.h>

#include "host_agent/live/region_private.h"

void braid_region_source_status(const struct braid_region_source *s,
				struct braid_region_status *status)
{
	bool recording = s->phase == BRAID_PHASE_RECORDING;
	bool idle = !recording || braid_live_control_idle(&s->control, &s->stream);

	memset(status, 0, sizeof(*status));
	status->phase = s->phase;
	status->armed = idle || s->control.reported_timeout;
	status->disarmed = s->control.disarming && idle &&
			   (!recording || braid_live_clock_idle(&s->clock, &s->stream));
	status->silent = recording && s->stream.silent;
	status->unconfirmed = s->control.unconfirmed || s->control.was_unconfirmed;
	strcpy(status->name, s->stream.name);
	status->stream = s->stream.number;
	status->nr_streams = s->nr_streams;
	status->events = s->rings.events;
	status->lost = s->rings.lost + braid_live_lost(&s->rings, &s->stream);
	status->bytes = s->rings.bytes;
	status->skipped = s->rings.skipped;
	status->sums = s->rings.sums;
	status->unreadable = s->rings.unreadable;
	status->leaving = recording && s->end.ending && s->stream.o.flight && !s->let_go;
	status->noticed = s->watch.noticed;
	status->noticed_event = s->watch.event;
	status->no_buffer = s->stream.o.buffer && s->nr_streams && !s->rings.buffer_came;
}

size_t braid_region_source_fds(const struct braid_region_source *s, struct pollfd *fds)
{
	return braid_endpoint_fds(s->endpoint, fds);
}

bool braid_region_source_rings(const struct braid_region_source *s)
{
	return s->control.wake_asked;
}

u64 braid_region_source_complete(const struct braid_region_source *s)
{
	return s->phase == BRAID_PHASE_RECORDING ? braid_live_complete(&s->rings) :
						   BRAID_TAKEN_UNKNOWN;
}

bool braid_region_source_confirmed(const struct braid_region_source *s, size_t index)
{
	return s->phase == BRAID_PHASE_RECORDING && s->control.matched[index];
}

static int measure_fill(void *arg)
{
	const struct braid_region_source *s = arg;

	return braid_live_fill(&s->rings, &s->stream);
}

u32 braid_region_source_fill(struct braid_region_source *s)
{
	int permille = s->phase == BRAID_PHASE_RECORDING ?
		       braid_live_guard(&s->stream, measure_fill, s) : 0;

	return permille > 0 ? permille : 0;
}

int braid_region_source_check(struct braid_region_source *s, size_t index)
{
	const struct braid_pattern *pattern = &s->stream.o.patterns[index];
	struct braid_directory_copy copy;
	int ret = 1;

	if (!s->stream.mapping || !s->stream.sb.incarnation)
		return 0;
	if (braid_directory_load(&copy, s->stream.mapping, &s->stream.sb, 0))
		return 0;
	if (!braid_pattern_count(pattern, &copy))
		ret = braid_directory_suggest(&copy, pattern, s->stream.name);
	braid_directory_free(&copy);
	return ret;
}
