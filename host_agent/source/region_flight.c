// SPDX-License-Identifier: GPL-2.0-or-later
/* A guest as a flight recorder: its rings are left alone till all in them is taken at once. */
#include <errno.h>
#include <string.h>

#include "host_agent/source/region_private.h"
#include "host_agent/util/error.h"

/* A buffer that stops when it is full is none. */
static int tell_modes(struct braid_region_source *s)
{
	int err = 0;
	u32 k;

	for (k = 0; k < s->sb.nr_buffers && !err; k++)
		if (s->sb.buffers[k].nr_rings &&
		    !(s->sb.buffers[k].flags & BRAID_BUFFER_OVERWRITE) &&
		    (!s->o.buffer || !strcmp(s->sb.buffers[k].name, s->o.buffer)))
			err = braid_live_note(s, "buffer %s keeps the oldest events, and loses the newest when it is full; load its driver with overwrite=1",
					      braid_live_buffer_name(s, k).text);
	return err;
}

int braid_live_flight_begin(struct braid_region_source *s)
{
	int err = tell_modes(s);

	s->let_go = s->took = false;
	if (err)
		return err;
	err = braid_live_watch_reset(s);
	return err ? s->fatal = err : 0;
}

static int take_rings(void *arg)
{
	struct braid_region_source *s = arg;
	int err = braid_live_tables_reset(s);

	if (!err)
		err = braid_live_tables_send(s, true);
	if (!err)
		err = braid_live_attach(s);
	if (!err)
		err = braid_live_drain_rest(s);
	if (!err)
		err = braid_live_clock_pair(s, true);
	if (!err)
		err = braid_live_account(s, true);
	if (!err)	/* what was taken needs no second look */
		err = braid_live_watch_reset(s);
	return err;
}

int braid_region_source_take(struct braid_region_source *s)
{
	int err;

	if (s->fatal || s->phase != BRAID_PHASE_RECORDING)
		return s->fatal;
	err = braid_live_put_stream(s);
	if (err)
		return err;
	braid_capture_replay(s->o.sink->capture, s->stream);
	s->took = s->taking = true;
	err = braid_guard_run(s->mapping->base, s->mapping->bytes, take_rings, s);
	/* The region went meanwhile: the next turn sees, and says so. */
	if (err && !s->fatal)
		braid_live_account(s, false);
	s->taking = false;
	s->nr_rings = 0;
	memset(s->follow, 0, sizeof(s->follow));
	return s->fatal;
}

int braid_region_source_took(struct braid_region_source *s, struct braid_capture_writer *to)
{
	struct braid_chunk_stream_end end = {
		.reason = BRAID_END_STOPPED, .host_ns = braid_live_now_ns(s),
	};
	int err = 0;

	if (s->fatal || !s->took || s->phase != BRAID_PHASE_RECORDING)
		return s->fatal;
	s->took = false;
	err = braid_live_clock_finish(s);
	if (err)
		return err;
	return braid_capture_put(to, BRAID_CHUNK_STREAM_END, s->stream, &end, sizeof(end), NULL, 0);
}

void braid_region_source_ask(struct braid_region_source *s)
{
	if (s->clock.peer && !s->silent)
		braid_exchange_soon(s->o.exchange, s->clock.peer, false);
}

bool braid_region_source_asked(const struct braid_region_source *s)
{
	return !s->clock.peer || s->silent ||
	       !braid_exchange_pending(s->o.exchange, s->clock.peer);
}

void braid_region_source_let_go(struct braid_region_source *s)
{
	if (s->ending)
		s->let_go = true;
}
