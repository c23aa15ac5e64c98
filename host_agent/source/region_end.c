// SPDX-License-Identifier: GPL-2.0-or-later
/* Ends the stream of a recorded guest: the rest is taken, the rings are accounted for. */
#include <errno.h>
#include <time.h>

#include "host_agent/clock/host.h"
#include "host_agent/source/region_private.h"

#define SHARE	9	/* times that a stream's begin and end took lie before the next stream */

static int end_stream(struct braid_region_source *s, enum braid_end_reason reason)
{
	struct braid_chunk_stream_end end = {
		.reason = reason, .flags = s->unconfirmed ? BRAID_END_UNCONFIRMED : 0,
		.host_ns = braid_live_now_ns(s),
	};
	int err;

	s->lost += braid_live_lost(s);
	s->nr_rings = 0;
	s->ending = false;
	braid_live_notes_poll(s, true);	/* what fails is in ->fatal, and fails the next one too */
	err = braid_live_emit(s, BRAID_CHUNK_STREAM_END, &end, sizeof(end), NULL, 0);
	braid_live_clock_end(s);
	s->ended_incarnation = s->sb.incarnation;
	s->silent = false;
	return err;
}

u64 braid_live_cpu_ns(void)
{
	return braid_clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* Who has streams begun and ended again and again pays for it: others are to be drained. */
static void charge(struct braid_region_source *s, u64 end_start_ns)
{
	u64 spent_ns = s->begin_cost_ns + braid_live_cpu_ns() - end_start_ns;

	s->retry_due_ns = braid_host_clock_ns() + SHARE * spent_ns;
}

int braid_live_cut(struct braid_region_source *s, enum braid_region_phase phase,
		   enum braid_end_reason reason)
{
	u64 start_ns = braid_live_cpu_ns();
	int err = braid_live_clock_finish(s);

	if (!err)
		err = braid_live_account(s, false);
	if (!err)
		err = end_stream(s, reason);
	s->phase = phase;
	charge(s, start_ns);
	return err;
}

static int take_rest(void *arg)
{
	struct braid_region_source *s = arg;
	int err = braid_live_tables_send(s, true);

	if (!err && !s->ending)
		err = braid_live_drain_rest(s);
	if (!err)
		braid_live_wake_not(s);
	if (!err)
		err = braid_live_clock_pair(s, true);
	if (!err)
		err = braid_live_clock_finish(s);
	if (!err)
		err = braid_live_account(s, true);
	return err;
}

static int store_drained(void *arg)
{
	struct braid_region_source *s = arg;
	struct braid_mailbox *box =
		braid_mapping_section(s->mapping, &s->sb, BRAID_SECTION_MAILBOX);

	if (braid_mapping_same(s->mapping, s->sb.incarnation))
		braid_store_release(&box->agent_drained, s->sb.incarnation);	/* (B3) */
	return 0;
}

void braid_live_end_begin(struct braid_region_source *s, enum braid_region_phase phase,
			  enum braid_end_reason reason)
{
	size_t k;

	s->ending = true;
	s->end_phase = phase;
	s->end_reason = reason;
	s->end_tries = 0;
	s->nr_quiet = 0;	/* all are looked at once more */
	s->end_began_ns = braid_host_clock_ns();
	s->end_bytes = 0;
	for (k = 0; k < s->nr_rings; k++)
		s->end_bytes += braid_live_ring_bytes(&s->rings[k]);
}

static int drain_end(void *arg)
{
	struct braid_region_source *s = arg;

	if (!braid_mapping_same(s->mapping, s->sb.incarnation))
		return -ESTALE;
	braid_live_beat(s);
	return braid_live_drain_end(s);
}

int braid_live_end_turn(struct braid_region_source *s)
{
	return braid_guard_run(s->mapping->base, s->mapping->bytes, drain_end, s);
}

int braid_live_end(struct braid_region_source *s)
{
	u64 start_ns = braid_live_cpu_ns();
	int err = braid_guard_run(s->mapping->base, s->mapping->bytes, take_rest, s);

	if (s->fatal)
		return s->fatal;
	if (err == -ESTALE)
		return braid_live_cut(s, BRAID_PHASE_WAITING, BRAID_END_REINIT);
	if (err)
		return braid_live_cut(s, BRAID_PHASE_GONE, BRAID_END_GONE);
	err = end_stream(s, s->end_reason);
	s->phase = s->end_phase;
	if (!err && s->phase == BRAID_PHASE_DOWN)
		braid_guard_run(s->mapping->base, s->mapping->bytes, store_drained, s);
	charge(s, start_ns);
	return err;
}
