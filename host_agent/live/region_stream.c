// SPDX-License-Identifier: GPL-2.0-or-later
/* The stream that a region becomes: its chunks, its time, and the heartbeat of its reader. */
#include <stdio.h>
#include <string.h>

#include "host_agent/clock/host.h"
#include "host_agent/live/stream.h"
#include "host_agent/util/text.h"

int braid_live_emit(struct braid_live_stream *s, u16 type, const void *head, u32 head_bytes,
		    const void *body, u32 body_bytes)
{
	int err = braid_capture_put(s->o.sink->capture, type, s->number, head, head_bytes, body,
				    body_bytes);

	if (err)
		s->fatal = err;
	return err;
}

u64 braid_live_now_ns(const struct braid_live_stream *s)
{
	return s->o.dead_ns ?: braid_host_clock_ns();
}

int braid_live_put_stream(struct braid_live_stream *s)
{
	struct braid_chunk_stream head = {
		.kind = BRAID_STREAM_GUEST,
		.nr_cpus = s->sb.nr_vcpus,
		.host_ns = braid_live_now_ns(s),
	};

	if (!*s->name) {
		snprintf(s->name, sizeof(s->name), "%.63s",
			 *s->sb.guest_name ? s->sb.guest_name : "guest");
		braid_text_clean(s->name);
	}
	strcpy(head.name, s->name);
	return braid_live_emit(s, BRAID_CHUNK_STREAM, &head, sizeof(head), &s->sb, sizeof(s->sb));
}

void braid_live_beat(struct braid_live_stream *s)
{
	struct braid_mailbox *box =
		braid_mapping_section(s->mapping, &s->sb, BRAID_SECTION_MAILBOX);

	braid_store(&box->agent_heartbeat, braid_load(&box->agent_heartbeat) + 1);
}
