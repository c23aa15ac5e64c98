// SPDX-License-Identifier: GPL-2.0-or-later
/* Turns a guest's events on and off without waiting, and watches whether it lives. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "host_agent/clock/host.h"
#include "host_agent/source/region_private.h"
#include "host_agent/util/error.h"

#define WAKE_PERMILLE	125	/* of a ring: the rest is for what comes until we are awake */
#define SILENCE_NS	2000000000ULL	/* many times BRAID_POLL_MS, also of a busy guest */

/*
 * The commands of a stream, in order: 0 turns off what a dead agent left on (its
 * lock is gone, so it is dead), 1 to nr_patterns turn our events on. The last one,
 * sent when disarming, turns everything off.
 */
static u32 last_command(const struct braid_region_source *s)
{
	return s->o.nr_patterns + 1;
}

/* The first command that is not to be sent now. */
static u32 end_command(const struct braid_region_source *s)
{
	return last_command(s) + s->disarming;
}

void braid_live_control_reset(struct braid_region_source *s)
{
	s->control_busy = false;
	s->told_timeout = false;
	s->was_unconfirmed |= s->unconfirmed;
	s->unconfirmed = s->confirmed = false;
	if (s->matched)
		memset(s->matched, 0, s->o.nr_patterns * sizeof(*s->matched));
	s->more_events = false;
	s->asked_again = false;
	s->next_command = s->stale_events ? 0 : 1;
	if (s->disarming)	/* a new incarnation has nothing on */
		s->next_command = end_command(s);
}

void braid_live_control_disarm(struct braid_region_source *s)
{
	bool nothing_on = s->next_command <= 1 && !s->control_busy && !s->stale_events;

	s->disarming = true;
	s->control_busy = false;
	s->next_command = nothing_on || s->silent ? end_command(s) : last_command(s);
}

bool braid_live_control_idle(const struct braid_region_source *s)
{
	return !s->control_busy && s->next_command >= end_command(s);
}

static int tell_unconfirmed(struct braid_region_source *s)
{
	if (s->unconfirmed)
		return 0;
	s->unconfirmed = true;
	return braid_live_note(s, "the guest did not confirm the event change; it may still trace its former set");
}

int braid_live_control_stop(struct braid_region_source *s)
{
	if (s->phase != BRAID_PHASE_RECORDING || s->disarming || !s->o.nr_patterns || s->down ||
	    s->ending || s->confirmed)
		return 0;
	return tell_unconfirmed(s);
}

bool braid_region_source_confirmed(const struct braid_region_source *s, size_t index)
{
	return s->phase == BRAID_PHASE_RECORDING && s->matched && s->matched[index];
}

/* All are confirmed: the capture says what that is. */
static int tell_confirmed(struct braid_region_source *s)
{
	struct braid_chunk_note note = { .host_ns = braid_live_now_ns(s) };
	char line[512] = "events enabled:";
	size_t used = strlen(line), k;

	if (s->unconfirmed)
		braid_live_note(s, "the guest has now confirmed the event change, late");
	s->unconfirmed = false;
	s->confirmed = true;
	for (k = 0; k < s->o.nr_patterns && used < sizeof(line); k++) {
		const struct braid_pattern *p = &s->o.patterns[k];

		used += snprintf(line + used, sizeof(line) - used, "%s %s%s%s (%u)", k ? "," : "",
				 p->system, *p->event ? ":" : "", p->event, s->matched[k]);
	}
	return braid_live_emit(s, BRAID_CHUNK_NOTE, &note, sizeof(note), line, strlen(line));
}

static void begin(struct braid_region_source *s)
{
	const struct braid_pattern *pattern = NULL;
	u32 command = BRAID_CMD_DISABLE;

	if (s->next_command && s->next_command < last_command(s)) {
		command = BRAID_CMD_ENABLE;
		pattern = &s->o.patterns[s->next_command - 1];
	}
	braid_control_begin(&s->control, s->mapping, &s->sb, command, 0, pattern,
			    BRAID_CONTROL_TIMEOUT_NS);
	s->control_busy = true;
}

static int answered(struct braid_region_source *s, const struct braid_control_answer *answer)
{
	const struct braid_pattern *p = &s->control.pattern;
	const char *colon = *p->event ? ":" : "";

	int err = braid_live_emit(s, BRAID_CHUNK_CLOCK, NULL, 0, &answer->sample,
				  sizeof(answer->sample));

	if (err || s->control.command != BRAID_CMD_ENABLE)
		return err;
	if (!answer->result)
		s->matched[s->next_command - 2] = answer->matched;
	if (s->next_command == last_command(s) && !s->asked_again)
		err = tell_confirmed(s);
	if (err)
		return err;
	if (answer->result)
		return braid_live_note(s, "the guest does not enable %s%s%s: %s", p->system, colon,
				       p->event, strerror(-answer->result));
	if (!answer->matched && !s->asked_again)
		return braid_live_note(s, "no event of the guest matches %s%s%s", p->system, colon,
				       p->event);
	return 0;
}

int braid_live_control_poll(struct braid_region_source *s)
{
	struct braid_control_answer answer;
	bool sent;
	int err;

	if (!s->control_busy) {
		if (s->more_events && !s->disarming && s->next_command == last_command(s)) {
			s->more_events = false;	/* a module of the guest brought some */
			s->asked_again = true;
			s->next_command = 1;
		}
		if (s->next_command >= end_command(s) ||
		    (!s->disarming && !braid_live_clock_ready(s)))
			return 0;
		begin(s);
	}
	sent = s->control.sent;
	err = braid_control_poll(&s->control, &answer);
	if (s->control.sent && !sent)
		braid_port_ring(s->port);
	if (err == -EAGAIN)
		return 0;
	s->control_busy = false;
	if (err == -ETIMEDOUT) {	/* asked again, since it may wake up */
		s->next_command += s->disarming;
		s->told_timeout = true;
		if (!s->disarming)
			return tell_unconfirmed(s);
		return s->unconfirmed ? 0 :
		       braid_live_note(s, "the guest did not confirm that its events are disabled; it may still trace");
	}
	if (err)
		return err;
	s->next_command++;
	return answered(s, &answer);
}

static u64 guest_beat(const struct braid_mailbox *box)
{
	return braid_load(&box->guest_heartbeat);
}

void braid_live_beat(struct braid_region_source *s)
{
	struct braid_mailbox *box = braid_mapping_section(s->mapping, &s->sb, BRAID_SECTION_MAILBOX);

	braid_store(&box->agent_heartbeat, braid_load(&box->agent_heartbeat) + 1);
}

int braid_live_heartbeat(struct braid_region_source *s)
{
	struct braid_mailbox *box =
		braid_mapping_section(s->mapping, &s->sb, BRAID_SECTION_MAILBOX);
	u64 now_ns = braid_host_clock_ns(), beat = guest_beat(box);

	if (beat != s->heartbeat || !s->heartbeat_ns) {
		bool was_silent = s->silent;

		s->heartbeat = beat;
		s->heartbeat_ns = now_ns;
		s->silent = false;
		if (!was_silent)
			return 0;
		if (s->clock.peer)	/* nobody asked it meanwhile */
			braid_exchange_soon(s->o.exchange, s->clock.peer, false);
		return braid_live_note(s, "the guest's heartbeat moves again");
	}
	if (s->silent || now_ns - s->heartbeat_ns < SILENCE_NS)
		return 0;
	s->silent = true;
	return braid_live_note(s, "the guest has been silent since %llu.%03llu s of the host's clock: it hangs, is paused, or died; %s",
			       (unsigned long long)(s->heartbeat_ns / 1000000000),
			       (unsigned long long)(s->heartbeat_ns / 1000000 % 1000),
			       braid_live_takes(s) ? "its events are still read" :
			       "events from before the start stay in its rings, for --backlog or `tracebraid recover`");
}

int braid_live_wake(struct braid_region_source *s, int result)
{
	struct braid_mailbox *box =
		braid_mapping_section(s->mapping, &s->sb, BRAID_SECTION_MAILBOX);
	u32 doorbell = braid_port_doorbell(s->port);

	/* An answer to a command does not ring. A flight recorder's rings are always full. */
	if (!doorbell || result != BRAID_POLL_IDLE || s->o.flight || !braid_live_control_idle(s)) {
		braid_live_wake_not(s);
		return result;
	}
	if (s->wake_asked)
		return result;
	s->wake_asked = true;
	s->nr_quiet = 0;	/* all rings are looked at once more */
	braid_store(&box->wake_permille, WAKE_PERMILLE);
	braid_store(&box->wake_doorbell, doorbell);
	braid_store_release(&box->wake_seq, braid_load(&box->wake_seq) + 1);	/* (W1) */
	return BRAID_POLL_BUSY;
}

void braid_live_wake_not(struct braid_region_source *s)
{
	struct braid_mailbox *box =
		braid_mapping_section(s->mapping, &s->sb, BRAID_SECTION_MAILBOX);

	if (s->wake_asked)
		braid_store(&box->wake_doorbell, 0);
	s->wake_asked = false;
}
