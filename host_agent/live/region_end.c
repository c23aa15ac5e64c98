// SPDX-License-Identifier: GPL-2.0-or-later
/* Ends the stream of a recorded guest: the rest is taken, the rings are accounted for. */
#include <errno.h>
#include <time.h>

#include "host_agent/clock_sync/host.h"
#include "host_agent/live/region_private.h"

#define SETTLE_TRIES	4
#define END_TRIES	16	/* turns in which buffers move */
#define SHARE	9	/* minimum delay before the next stream, as a multiple of the time spent on
			   the last begin and end */

void braid_live_settle(struct braid_region_source *s)
{
	u32 k;

	braid_endpoint_settle(s->endpoint);
	/* Some is copied only when what precedes it is proven. */
	for (k = 0; k < SETTLE_TRIES && s->phase == BRAID_PHASE_RECORDING &&
	     braid_endpoint_unproven(s->endpoint) &&
	     braid_live_clock_unreset(&s->clock, &s->stream); k++) {
		braid_endpoint_vouch(s->endpoint, s->clock.written_ns);
		if (braid_endpoint_unproven(s->endpoint))
			break;		/* its last heartbeat is older than that */
		braid_endpoint_settle(s->endpoint);
	}
}

/* The guest may have been reset before these were copied. */
static void note_unproven(struct braid_region_source *s)
{
	u64 events = braid_endpoint_unproven(s->endpoint);

	if (events)
		braid_live_note(&s->stream, "%llu events were copied that are not proven to be the guest's, which may have been reset: they are left out",
				(unsigned long long)events);
}

static int end_stream(struct braid_region_source *s, enum braid_end_reason reason)
{
	struct braid_chunk_stream_end end = {
		.reason = reason, .flags = s->control.unconfirmed ? BRAID_END_UNCONFIRMED : 0,
		.host_ns = braid_live_now_ns(&s->stream),
	};
	int err;

	braid_live_detach(&s->rings, &s->stream);
	s->end.ending = false;
	/* What fails is in ->fatal, and fails the next one too. */
	braid_live_off_note(&s->rings, &s->stream);
	if (!s->end.moves)	/* else they are read there */
		note_unproven(s);
	braid_live_notes_poll(&s->stream, true);
	err = braid_live_threads_finish(&s->threads, &s->stream);
	if (!err)
		err = braid_live_emit(&s->stream, BRAID_CHUNK_STREAM_END, &end, sizeof(end), NULL,
				      0);
	braid_live_clock_end(&s->clock, &s->stream);
	s->ended_incarnation = s->stream.sb.incarnation;
	s->stream.silent = false;
	return err;
}

u64 braid_live_cpu_ns(void)
{
	return braid_clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* A guest that restarts its streams repeatedly is delayed, in favor of the others. */
static void charge(struct braid_region_source *s, u64 end_start_ns)
{
	u64 spent_ns = s->end.begin_cost_ns + braid_live_cpu_ns() - end_start_ns;

	s->retry_due_ns = braid_host_clock_ns() + SHARE * spent_ns;
}

int braid_live_cut(struct braid_region_source *s, enum braid_region_phase phase,
		   enum braid_end_reason reason)
{
	u64 start_ns = braid_live_cpu_ns();
	int err = braid_live_clock_finish(&s->clock, &s->stream);

	if (!err)
		err = braid_live_account(&s->rings, &s->stream, false);
	if (!err)
		err = end_stream(s, reason);
	s->phase = phase;
	charge(s, start_ns);
	return err;
}

static int take_rest(void *arg)
{
	struct braid_region_source *s = arg;
	int err = braid_live_tables_send(&s->tables, &s->stream, true);

	if (!err && !s->end.ending)
		err = braid_live_drain_rest(&s->rings, &s->stream);
	if (!err)
		err = braid_live_tables_note_missed(&s->tables, &s->stream);
	if (!err)
		braid_live_wake_not(&s->control, &s->stream);
	if (!err)
		err = braid_live_clock_pair(&s->clock, &s->stream, true);
	if (!err)
		err = braid_live_clock_finish(&s->clock, &s->stream);
	if (!err)
		err = braid_live_account(&s->rings, &s->stream, true);
	return err;
}

static int store_drained(void *arg)
{
	struct braid_region_source *s = arg;
	struct braid_mailbox *box =
		braid_mapping_section(s->stream.mapping, &s->stream.sb, BRAID_SECTION_MAILBOX);

	if (braid_mapping_same(s->stream.mapping, s->stream.sb.incarnation))
		braid_store_release(&box->agent_drained, s->stream.sb.incarnation);	/* (B3) */
	return 0;
}

void braid_live_end_begin(struct braid_region_source *s, enum braid_region_phase phase,
			  enum braid_end_reason reason)
{
	s->end.ending = true;
	s->end.phase = phase;
	s->end.reason = reason;
	s->end.tries = 0;
	s->end.began_ns = braid_host_clock_ns();
	s->end.bytes = braid_live_rings_bytes(&s->rings);
	braid_live_drain_again(&s->rings);
}

static int drain_end(void *arg)
{
	struct braid_region_source *s = arg;
	struct braid_live_rings *r = &s->rings;
	u64 before = r->bytes;
	int ret, err = 0;

	if (!braid_mapping_same(s->stream.mapping, s->stream.sb.incarnation))
		return -ESTALE;
	braid_live_beat(&s->stream);
	if (braid_live_held_up(&s->stream))
		return BRAID_POLL_BUSY;
	ret = braid_live_buffers(r, &s->stream, true);
	if (!ret)
		ret = braid_live_ring_roles(r, &s->stream, true);
	if (!ret)
		ret = braid_live_drain(r, &s->stream, true);
	if (ret >= 0)
		err = braid_live_close(r, &s->stream);
	if (err)
		return err;
	/* Buffers that never stop changing are the guest's fault. */
	if (ret == -EAGAIN || (ret > BRAID_POLL_IDLE && r->bytes == before && !r->nr_quiet))
		return ++s->end.tries < END_TRIES ? BRAID_POLL_BUSY : BRAID_POLL_IDLE;
	if (ret < 0)
		return ret;
	s->end.bytes -= r->bytes - before;
	return s->end.bytes > 0 ? ret : BRAID_POLL_IDLE;
}

int braid_live_end_turn(struct braid_region_source *s)
{
	return braid_live_guard(&s->stream, drain_end, s);
}

int braid_live_end(struct braid_region_source *s)
{
	u64 start_ns = braid_live_cpu_ns();
	int err = braid_live_guard(&s->stream, take_rest, s);

	if (s->stream.fatal)
		return s->stream.fatal;
	if (err == -ESTALE)
		return braid_live_cut(s, BRAID_PHASE_WAITING, BRAID_END_REINIT);
	if (err)
		return braid_live_cut(s, BRAID_PHASE_GONE, BRAID_END_GONE);
	err = end_stream(s, s->end.reason);
	s->phase = s->end.phase;
	if (!err && s->phase == BRAID_PHASE_DOWN)
		braid_live_guard(&s->stream, store_drained, s);
	charge(s, start_ns);
	return err;
}
