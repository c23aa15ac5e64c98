// SPDX-License-Identifier: GPL-2.0-or-later
/* Whether a guest lives; asks it to wake us; leaves it. */
#include "host_agent/clock_sync/host.h"
#include "host_agent/live/control.h"

#define CLOSE_TIMEOUT_NS	500000000ULL
#define WAKE_PERMILLE	125	/* of a ring: the rest is for events until we are awake */
#define SILENCE_NS	2000000000ULL	/* many times BRAID_POLL_MS, also of a busy guest */

int braid_live_heartbeat(struct braid_live_control *c, struct braid_live_stream *s)
{
	struct braid_mailbox *box =
		braid_mapping_section(s->mapping, &s->sb, BRAID_SECTION_MAILBOX);
	u64 now_ns = braid_host_clock_ns(), beat = braid_load(&box->guest_heartbeat);

	if (beat != c->heartbeat || !c->heartbeat_ns) {
		bool was_silent = s->silent;

		c->heartbeat = beat;
		c->heartbeat_ns = now_ns;
		s->silent = false;
		if (!was_silent)
			return 0;
		return braid_live_note(s, "the guest's heartbeat moves again") ?: 1;
	}
	if (s->silent || now_ns - c->heartbeat_ns < SILENCE_NS)
		return 0;
	s->silent = true;
	return braid_live_note(s, "the guest has been silent since %llu.%03llu s of the host's clock: it hangs, is paused, or has died; %s",
			       (unsigned long long)(c->heartbeat_ns / 1000000000),
			       (unsigned long long)(c->heartbeat_ns / 1000000 % 1000),
			       braid_live_takes(s) ? "its events are still read" :
			       "events from before the start stay in its rings, for --backlog or 'tracebraid recover'");
}

bool braid_live_wake(struct braid_live_control *c, struct braid_live_stream *s, u32 doorbell,
		     bool idle)
{
	struct braid_mailbox *box =
		braid_mapping_section(s->mapping, &s->sb, BRAID_SECTION_MAILBOX);

	/* An answer to a command does not ring. A flight recorder's rings are always full. */
	if (!doorbell || !idle || s->o.flight || !braid_live_control_idle(c, s)) {
		braid_live_wake_not(c, s);
		return false;
	}
	if (c->wake_asked)
		return false;
	c->wake_asked = true;
	braid_store(&box->wake_permille, WAKE_PERMILLE);
	braid_store(&box->wake_doorbell, doorbell);
	braid_store_release(&box->wake_seq, braid_load(&box->wake_seq) + 1);	/* (W1) */
	braid_fence();		/* the last check of the rings comes after that store */
	return true;
}

void braid_live_wake_not(struct braid_live_control *c, struct braid_live_stream *s)
{
	struct braid_mailbox *box =
		braid_mapping_section(s->mapping, &s->sb, BRAID_SECTION_MAILBOX);

	if (c->wake_asked)
		braid_store(&box->wake_doorbell, 0);
	c->wake_asked = false;
}

void braid_live_control_leave(struct braid_live_control *c, const struct braid_live_stream *s)
{
	braid_control_begin(&c->control, s->mapping, &s->sb, BRAID_CMD_DISABLE, 0, NULL,
			    CLOSE_TIMEOUT_NS);
}

int braid_live_control_left(struct braid_live_control *c)
{
	struct braid_control_answer answer;

	return braid_control_poll(&c->control, &answer);
}
