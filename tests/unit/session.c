// SPDX-License-Identifier: GPL-2.0-or-later
/* Records a fake guest's region, turn by turn. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "host_agent/clock_sync/host.h"
#include "host_agent/trace/vcpu.h"
#include "tests/unit/need.h"
#include "tests/unit/session.h"

#define LIMIT_NS	60000000000ULL	/* limit of a wait */

static void hear(void *arg, const char *name, const char *line)
{
	struct session *s = arg;

	(void)name;
	if (!strcmp(line, BRAID_VCPUS_UNKNOWN))	/* no QEMU maps a fake's region */
		return;
	s->notes++;
	snprintf(s->last_note, sizeof(s->last_note), "%s", line);
	if (s->heard)
		s->heard(s);
}

void session_begin(struct session *s, const char *region, const char *capture,
		   const char *buffer)
{
	const struct braid_chunk_file head = {
		.version_major = BRAID_CAPTURE_MAJOR, .version_minor = BRAID_CAPTURE_MINOR,
		.clock = "mono_raw", .start_host_ns = braid_host_clock_ns(),
		.start_realtime_ns = braid_clock_read_ns(CLOCK_REALTIME),
	};
	struct braid_region_options o = {
		.path = region, .name = "fake", .sink = &s->sink, .say = hear, .say_arg = s,
		.buffer = buffer, .exchange = s->exchange, .patterns = s->pattern,
		.nr_patterns = !!s->pattern, .window = s->window, .backlog = s->backlog,
	};

	s->sink.next_stream = 1;
	NEED(!braid_capture_create_queued(&s->sink.capture, capture, &head, s->flusher));
	NEED(!braid_capture_publish(s->sink.capture));
	NEED(!braid_region_source_open(&s->source, &o));
}

int session_turn(struct session *s)
{
	int ret = braid_region_source_poll(s->source);

	s->status = braid_region_source_status(s->source);
	return ret;
}

void session_until(struct session *s, bool (*done)(struct session *s))
{
	u64 start_ns = braid_host_clock_ns();
	int ret;

	do {
		ret = session_turn(s);
		NEED(ret >= 0 && braid_host_clock_ns() - start_ns < LIMIT_NS);
		if (ret == BRAID_POLL_IDLE)
			braid_sleep_ns(500000);
	} while (!done(s));
}

void session_settle(struct session *s)
{
	int idle = 0, ret;

	while (idle < 3) {
		ret = session_turn(s);
		NEED(ret >= 0);
		idle = ret == BRAID_POLL_IDLE ? idle + 1 : 0;
	}
}

void session_end(struct session *s)
{
	NEED(!braid_region_source_finish(s->source));
	s->status = braid_region_source_status(s->source);
	braid_region_source_close(s->source);
	NEED(!braid_capture_finish(s->sink.capture));
}
