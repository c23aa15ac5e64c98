// SPDX-License-Identifier: GPL-2.0-or-later
/* What a recorded guest's source answers about itself and its guest. */
#include <errno.h>
#include <string.h>

#include "host_agent/live/region_private.h"
#include "host_agent/util/error.h"

#define PROBES_BUFFER	"trace"		/* tracebraid/probe.h */

struct braid_region_status braid_region_source_status(const struct braid_region_source *s)
{
	bool recording = s->phase == BRAID_PHASE_RECORDING;
	bool idle = !recording || braid_live_control_idle(&s->control, &s->stream);
	struct braid_region_status status = {
		.phase = s->phase,
		.over = s->over,
		.armed = (idle && !s->control.triggers.resume) || s->control.reported_timeout,
		.disarmed = s->control.disarming && idle &&
			    (!recording || braid_live_clock_idle(&s->clock, &s->stream)),
		.progress_ns = s->control.busy ? s->control.control.beat_ns :
						 s->control.answered_ns,
		.only_read = recording && s->stream.mapping->one_way,
		.silent = recording && s->stream.silent,
		.refused = s->control.refused,
		.unconfirmed = s->control.unconfirmed || s->control.was_unconfirmed,
		.stream = s->stream.number,
		.nr_streams = s->nr_streams,
		.qemu_pid = s->stream.qemu_pid,
		.incarnation = s->nr_streams ? s->stream.sb.incarnation : 0,
		.begun_ns = s->begun_ns,
		.events = s->rings.events,
		.lost = s->rings.lost + braid_live_lost(&s->rings, &s->stream),
		.bytes = s->rings.bytes,
		.skipped = s->rings.skipped,
		.sums = s->rings.sums,
		.unreadable = s->rings.unreadable,
		.leaving = recording && s->end.ending && s->stream.o.flight && !s->let_go,
		.noticed = s->watch.noticed,
		.noticed_event = s->watch.event,
		.trigger = recording ?
			   braid_live_triggers_waiting(&s->control.triggers, &s->stream) : NULL,
		.held = recording && s->control.triggers.was_set &&
			s->control.triggers.state == BRAID_TRIGGER_HELD,
		.no_buffer = s->stream.o.buffer && s->nr_streams && !s->rings.buffer_came,
	};

	strcpy(status.name, s->stream.name);
	return status;
}

size_t braid_region_source_fds(const struct braid_region_source *s, struct pollfd *fds)
{
	return braid_endpoint_fds(s->endpoint, fds);
}

bool braid_region_source_rings(const struct braid_region_source *s)
{
	return s->control.wake_asked;
}

bool braid_region_source_gather(struct braid_region_source *s)
{
	return s->phase == BRAID_PHASE_RECORDING && !s->end.ending &&
	       braid_endpoint_gather(s->endpoint);
}

u64 braid_region_source_rest_ns(const struct braid_region_source *s)
{
	return s->phase == BRAID_PHASE_RECORDING ? braid_endpoint_rest_ns(s->endpoint) : 0;
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

int braid_region_source_directory(struct braid_region_source *s,
				  struct braid_directory_copy *copy)
{
	return braid_directory_load(copy, s->stream.mapping, &s->stream.sb, 0);
}

const struct braid_superblock *
braid_region_source_superblock(const struct braid_region_source *s)
{
	return &s->stream.sb;
}

bool braid_region_source_more(struct braid_region_source *s)
{
	bool more = s->control.more_events;

	s->control.more_events = false;
	return more;
}

int braid_region_source_enabled(struct braid_region_source *s, bool all)
{
	return s->stream.fatal ? s->stream.fatal :
				 braid_live_control_enabled(&s->control, &s->stream, all);
}

void braid_region_source_resume(struct braid_region_source *s, bool resume, bool arm)
{
	s->control.triggers.acted = true;
	s->control.triggers.resume = resume;
	s->control.triggers.arm = arm;
}

int braid_region_source_check_filters(const struct braid_region_source *s)
{
	struct braid_live_triggers triggers = { 0 };
	struct braid_live_filters filters = { 0 };
	int err = 0;

	if (s->stream.mapping && s->stream.sb.incarnation)
		err = braid_live_filters_find(&filters, &s->stream) ?:
		      braid_live_triggers_find(&triggers, &filters, &s->stream);
	braid_live_filters_free(&filters);
	braid_live_triggers_free(&triggers);
	return err;
}

/* Whether the one buffer that is recorded has events of a pattern. 1, or -ENOENT. */
static int status_check_buffer(const struct braid_region_source *s, const struct braid_pattern *p,
			       const struct braid_directory_copy *copy)
{
	const char *buffer = s->stream.o.buffer, *colon = *p->event ? ":" : "";
	struct braid_schema_event event;
	u32 at = 0, other = BRAID_MAX_BUFFERS;

	while (buffer && braid_schema_next(copy->data, copy->bytes, &at, &event) > 0) {
		if (event.flags & (BRAID_EVENT_GONE | BRAID_EVENT_SUB) ||
		    event.buffer >= BRAID_MAX_BUFFERS ||
		    !braid_pattern_matches(p, event.system, event.name))
			continue;
		if (!strcmp(braid_live_buffer_name(&s->stream, event.buffer).text, buffer))
			return 1;
		other = event.buffer;
	}
	if (other == BRAID_MAX_BUFFERS)
		return 1;
	return braid_fail(-ENOENT, "%s: the events of %.63s%s%.63s are in buffer %s, not in %s, the only one to be recorded (-B)",
			  *s->stream.name ? s->stream.name : "the guest", p->system, colon,
			  p->event, braid_live_buffer_name(&s->stream, other).text, buffer);
}

int braid_region_source_check(struct braid_region_source *s, size_t index)
{
	const struct braid_pattern *pattern = &s->stream.o.patterns[index];
	const char *buffer = s->stream.o.buffer;
	struct braid_directory_copy copy;
	int ret = 1;

	if (pattern->probe)		/* it will make its event */
		return !buffer || !strcmp(buffer, PROBES_BUFFER) ? 1 :
		       braid_fail(-ENOENT, "probes are in buffer " PROBES_BUFFER ", not in %s, the only one to be recorded (-B)",
				  buffer);
	if (!s->stream.mapping || !s->stream.sb.incarnation)
		return 0;
	if (braid_directory_load(&copy, s->stream.mapping, &s->stream.sb, 0))
		return 0;
	if (braid_pattern_count(pattern, &copy))
		ret = braid_who_check_cpus(&s->stream.o.who, s->stream.sb.nr_vcpus) ?:
		      status_check_buffer(s, pattern, &copy);
	else
		ret = braid_directory_suggest(&copy, pattern,
					      *s->stream.name ? s->stream.name : "the guest");
	braid_directory_free(&copy);
	return ret;
}
