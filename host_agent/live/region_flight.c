// SPDX-License-Identifier: GPL-2.0-or-later
/* A guest as a flight recorder: its rings are not read until a snapshot reads them all at once. */
#include <errno.h>
#include <string.h>

#include "host_agent/live/region_private.h"
#include "host_agent/util/error.h"

/* overwrite= is for a device's memory: in the guest's own, a user of it has changed the mode. */
static int note_mode(struct braid_region_source *s, const char *buffer)
{
	const char *what = "keeps the oldest events, and loses the newest when it is full";

	if (!s->stream.mapping->one_way)
		return braid_live_note(&s->stream, "buffer %s %s; load its driver with overwrite=1",
				       buffer, what);
	return braid_live_note(&s->stream, "buffer %s %s; in the guest: echo overwrite >/sys/kernel/debug/tracebraid/%s/mode",
			       buffer, what, buffer);
}

/* Only overwrite buffers can be flight recorders. */
static int note_modes(struct braid_region_source *s)
{
	int err = 0;
	u32 k;

	for (k = 0; k < s->stream.sb.nr_buffers && !err; k++)
		if (s->stream.sb.buffers[k].nr_rings &&
		    !(s->stream.sb.buffers[k].flags & BRAID_BUFFER_OVERWRITE) &&
		    (!s->stream.o.buffer ||
		     !strcmp(s->stream.sb.buffers[k].name, s->stream.o.buffer)))
			err = note_mode(s, braid_live_buffer_name(&s->stream, k).text);
	return err;
}

int braid_live_flight_begin(struct braid_region_source *s)
{
	int err = note_modes(s);

	s->let_go = s->took = false;
	if (err)
		return err;
	err = braid_live_watch_reset(&s->watch, &s->stream);
	return err ? s->stream.fatal = err : 0;
}

/* What a file needs of a region that is recorded already. */
static int flight_attach(void *arg)
{
	struct braid_region_source *s = arg;
	int err = braid_live_tables_reset(&s->tables, &s->stream);

	if (!err)
		err = braid_live_tables_send(&s->tables, &s->stream, true);
	if (!err && s->control.confirmed)
		err = braid_live_accounts_begin(&s->control, &s->stream);
	return err ? err : braid_live_attach(&s->rings, &s->stream, true);
}

static int take_rings(void *arg)
{
	struct braid_region_source *s = arg;
	int err = flight_attach(s);

	if (!err)
		err = braid_live_tables_note_missed(&s->tables, &s->stream);
	if (!err)
		err = braid_live_drain_rest(&s->rings, &s->stream);
	if (!err)
		err = braid_live_clock_pair(&s->clock, &s->stream, true);
	if (!err)
		err = braid_live_account(&s->rings, &s->stream, true);
	if (!err)	/* events already read need no second check */
		err = braid_live_watch_reset(&s->watch, &s->stream);
	return err;
}

int braid_region_source_take(struct braid_region_source *s)
{
	int err;

	if (s->stream.fatal || s->phase != BRAID_PHASE_RECORDING)
		return s->stream.fatal;
	braid_live_settle(s);
	err = braid_live_put_stream(&s->stream);
	if (err)
		return err;
	braid_capture_replay(s->stream.o.sink->capture, s->stream.number);
	s->took = true;
	err = braid_live_guard(&s->stream, take_rings, s);
	/* The region is gone meanwhile: handled and reported in the next turn. */
	if (err && !s->stream.fatal)
		braid_live_account(&s->rings, &s->stream, false);
	braid_live_detach(&s->rings, &s->stream);
	return s->stream.fatal;
}

int braid_region_source_took(struct braid_region_source *s, struct braid_capture_writer *to)
{
	struct braid_chunk_stream_end end = {
		.reason = BRAID_END_STOPPED, .host_ns = braid_live_now_ns(&s->stream),
	};
	int err = 0;

	if (s->stream.fatal || !s->took || s->phase != BRAID_PHASE_RECORDING)
		return s->stream.fatal;
	s->took = false;
	err = braid_live_clock_finish(&s->clock, &s->stream);
	if (err)
		return err;
	return braid_capture_put(to, BRAID_CHUNK_STREAM_END, s->stream.number, &end, sizeof(end),
				 NULL, 0);
}

/* Files that follow each other ---------------------------------------------------------------- */

bool braid_region_source_ending(const struct braid_region_source *s)
{
	return s->phase == BRAID_PHASE_RECORDING && s->end.ending;
}

static int flight_account(void *arg)
{
	struct braid_region_source *s = arg;

	return braid_live_account(&s->rings, &s->stream, true);
}

int braid_region_source_leave_file(struct braid_region_source *s, struct braid_capture_writer *to)
{
	if (s->stream.fatal || s->phase != BRAID_PHASE_RECORDING)
		return s->stream.fatal;
	/* The region is gone meanwhile: handled and reported in the next turn. */
	if (braid_live_guard(&s->stream, flight_account, s) && !s->stream.fatal)
		braid_live_account(&s->rings, &s->stream, false);
	braid_live_detach(&s->rings, &s->stream);
	s->took = true;
	return braid_region_source_took(s, to);
}

int braid_region_source_enter_file(struct braid_region_source *s)
{
	int err;

	if (s->stream.fatal || s->phase != BRAID_PHASE_RECORDING)
		return s->stream.fatal;
	err = braid_live_put_stream(&s->stream);
	if (err)
		return err;
	braid_capture_replay(s->stream.o.sink->capture, s->stream.number);
	err = braid_live_guard(&s->stream, flight_attach, s);
	return s->stream.fatal;
}

void braid_region_source_ask(struct braid_region_source *s)
{
	braid_live_clock_soon(&s->clock, &s->stream);
}

bool braid_region_source_asked(const struct braid_region_source *s)
{
	return braid_live_clock_asked(&s->clock, &s->stream);
}

void braid_region_source_let_go(struct braid_region_source *s)
{
	if (s->end.ending)
		s->let_go = true;
}
