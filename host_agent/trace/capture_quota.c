// SPDX-License-Identifier: GPL-2.0-or-later
/* What a capture says of CPU time that was held back: by quotas of cgroups, or by the host's own host. */
#include "host_agent/trace/capture_private.h"
#include "host_agent/util/array.h"
#include "host_agent/util/text.h"

static int take_cgroups(struct braid_capture_stream *s, const struct braid_chunk_view *v)
{
	struct braid_stream *to = &s->stream;
	struct braid_cgroup row;
	int err = 0;
	u32 at = 0;

	while (!err && to->nr_cgroups < BRAID_MAX_TABLE &&
	       braid_view_take(v, &at, &row, sizeof(row))) {
		row.path[sizeof(row.path) - 1] = 0;
		braid_text_clean(row.path);
		err = braid_array_push(to->cgroups, to->nr_cgroups, s->cgroups_capacity, row);
	}
	return err;
}

static int take_throttled(struct braid_capture_stream *s, const struct braid_chunk_view *v)
{
	struct braid_stream *to = &s->stream;
	struct braid_throttled row;
	int err = 0;
	u32 at = 0;

	while (!err && to->nr_throttled < BRAID_MAX_TABLE &&
	       braid_view_take(v, &at, &row, sizeof(row)))
		err = braid_array_push(to->throttled, to->nr_throttled, s->throttled_capacity, row);
	return err;
}

static void take_steal(struct braid_stream *s, const struct braid_chunk_view *v)
{
	u32 at = 0;

	if (!braid_view_take(v, &at, &s->steal_last, sizeof(s->steal_last)))
		return;
	if (!s->steal_first.host_ns)
		s->steal_first = s->steal_last;
}

int braid_capture_take_quota(struct braid_capture_stream *s, const struct braid_chunk_view *v)
{
	if (v->type == BRAID_CHUNK_CGROUPS)
		return take_cgroups(s, v);
	if (v->type == BRAID_CHUNK_THROTTLED)
		return take_throttled(s, v);
	if (v->type == BRAID_CHUNK_HOST_STEAL)
		take_steal(&s->stream, v);
	return 0;
}
