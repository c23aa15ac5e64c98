// SPDX-License-Identifier: GPL-2.0-or-later
/* The stream that a region becomes: its chunks, its time, and whether its buffers are as they were. */
#include <stdio.h>
#include <string.h>

#include "host_agent/clock/host.h"
#include "host_agent/source/region_private.h"
#include "host_agent/util/text.h"

int braid_live_emit(struct braid_region_source *s, u16 type, const void *head, u32 head_bytes,
		    const void *body, u32 body_bytes)
{
	int err = braid_capture_put(s->o.sink->capture, type, s->stream, head, head_bytes, body,
				    body_bytes);

	if (err)
		s->fatal = err;
	return err;
}

u64 braid_live_now_ns(const struct braid_region_source *s)
{
	return s->o.dead_ns ?: braid_host_clock_ns();
}

int braid_live_put_stream(struct braid_region_source *s)
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

bool braid_live_settled(const struct braid_region_source *s)
{
	u32 seq;

	braid_fence();
	seq = braid_mapping_buffers_seq(s->mapping);
	return seq == s->sb.buffers_seq || seq == s->refused_seq;
}
