// SPDX-License-Identifier: GPL-2.0-or-later
/* Records a fake guest's region, turn by turn. */
#include <stdio.h>

#include "tests/unit/need.h"
#include "tests/unit/session.h"

static void hear(void *arg, const char *name, const char *line)
{
	struct session *s = arg;

	(void)name;
	s->notes++;
	snprintf(s->last_note, sizeof(s->last_note), "%s", line);
}

void session_begin(struct session *s, const char *region, const char *capture,
		   const char *buffer)
{
	const struct braid_chunk_file head = {
		.version_major = BRAID_CAPTURE_MAJOR, .version_minor = BRAID_CAPTURE_MINOR,
		.clock = "mono_raw",
	};
	struct braid_region_options o = {
		.path = region, .name = "fake", .sink = &s->sink, .say = hear, .say_arg = s,
		.buffer = buffer,
	};

	s->sink.next_stream = 1;
	NEED(!braid_capture_create(&s->sink.capture, capture, &head));
	NEED(!braid_region_source_open(&s->source, &o));
}

int session_turn(struct session *s)
{
	int ret = braid_region_source_poll(s->source);

	braid_region_source_status(s->source, &s->status);
	return ret;
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
	braid_region_source_status(s->source, &s->status);
	braid_region_source_close(s->source);
	NEED(!braid_capture_finish(s->sink.capture));
}
