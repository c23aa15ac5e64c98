// SPDX-License-Identifier: GPL-2.0-or-later
/* Turns a guest's events on and off without waiting, and watches whether it lives. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/clock_sync/host.h"
#include "host_agent/live/control.h"
#include "host_agent/util/error.h"

#define CLOSE_TIMEOUT_NS	500000000ULL
#define WAKE_PERMILLE	125	/* of a ring: the rest is for events until we are awake */
#define SILENCE_NS	2000000000ULL	/* many times BRAID_POLL_MS, also of a busy guest */

/*
 * The commands of a stream, in order: 0 disables the events of a dead agent (its lock is gone, so
 * it is dead), 1 to nr_patterns enable ours. The last one, sent when disarming, disables all, and
 * waits for the tables.
 */
static u32 last_command(const struct braid_live_stream *s)
{
	return s->o.nr_patterns + 1;
}

/* The first command that is not to be sent now. */
static u32 end_command(const struct braid_live_control *c, const struct braid_live_stream *s)
{
	return last_command(s) + c->disarming;
}

/* Whether a former agent left events on. */
static bool find_stale_events(const struct braid_live_stream *s)
{
	struct braid_directory_copy copy;
	bool found;

	if (s->o.dead_ns || s->mapping->one_way ||
	    braid_directory_load(&copy, s->mapping, &s->sb, 0))
		return false;
	found = braid_directory_count(&copy).host_on;
	braid_directory_free(&copy);
	return found;
}

int braid_live_control_open(struct braid_live_control *c, const struct braid_live_stream *s)
{
	c->matched = calloc(s->o.nr_patterns + 1, sizeof(*c->matched));
	return c->matched ? 0 : braid_out_of_memory();
}

void braid_live_control_free(struct braid_live_control *c)
{
	free(c->matched);
	c->matched = NULL;
}

void braid_live_control_begin(struct braid_live_control *c, const struct braid_live_stream *s)
{
	c->busy = false;
	c->reported_timeout = false;
	c->was_unconfirmed |= c->unconfirmed;
	c->unconfirmed = c->confirmed = false;
	memset(c->matched, 0, s->o.nr_patterns * sizeof(*c->matched));
	c->more_events = false;
	c->asked_again = false;
	c->heartbeat_ns = 0;
	c->wake_asked = false;
	c->stale_events = find_stale_events(s);
	c->next_command = c->stale_events ? 0 : 1;
	/* A new incarnation has no events enabled. */
	if (c->disarming || s->mapping->one_way)
		c->next_command = end_command(c, s);
}

void braid_live_control_disarm(struct braid_live_control *c, const struct braid_live_stream *s)
{
	c->nothing_on = c->next_command <= 1 && !c->busy && !c->stale_events;
	c->disarming = true;
	c->busy = false;
	c->next_command = s->silent || (s->mapping && s->mapping->one_way) ? end_command(c, s) :
									     last_command(s);
}

bool braid_live_control_idle(const struct braid_live_control *c,
			     const struct braid_live_stream *s)
{
	return !c->busy && c->next_command >= end_command(c, s);
}

static int note_unconfirmed(struct braid_live_control *c, struct braid_live_stream *s)
{
	if (c->unconfirmed)
		return 0;
	c->unconfirmed = true;
	return braid_live_note(s, "the guest did not confirm the event change; it may still trace its former set");
}

/* Also of a change that a new module of the guest made necessary. */
static int note_late(struct braid_live_control *c, struct braid_live_stream *s)
{
	if (!c->unconfirmed)
		return 0;
	c->unconfirmed = false;
	return braid_live_note(s, "the guest has now confirmed the event change, late");
}

/* All are confirmed; the capture records which. */
static int note_confirmed(struct braid_live_control *c, struct braid_live_stream *s)
{
	struct braid_chunk_note note = { .host_ns = braid_live_now_ns(s) };
	char line[512] = "events enabled:";
	size_t used = strlen(line), k;

	c->confirmed = true;
	for (k = 0; k < s->o.nr_patterns && used < sizeof(line); k++) {
		const struct braid_pattern *p = &s->o.patterns[k];

		used += snprintf(line + used, sizeof(line) - used, "%s %s%s%s (%u)", k ? "," : "",
				 p->system, *p->event ? ":" : "", p->event, c->matched[k]);
	}
	return braid_live_emit(s, BRAID_CHUNK_NOTE, &note, sizeof(note), line, strlen(line));
}

static void region_control_begin(struct braid_live_control *c, struct braid_live_stream *s)
{
	const struct braid_pattern *pattern = NULL;
	u32 command = BRAID_CMD_DISABLE;

	if (c->next_command && c->next_command < last_command(s)) {
		command = BRAID_CMD_ENABLE;
		pattern = &s->o.patterns[c->next_command - 1];
	}
	if (c->disarming && c->nothing_on)
		command = BRAID_CMD_NONE;
	braid_control_begin(&c->control, s->mapping, &s->sb, command,
			    c->disarming ? BRAID_CONFIRM_TABLES : 0, pattern,
			    BRAID_CONTROL_TIMEOUT_NS);
	c->busy = true;
}

static int answered(struct braid_live_control *c, struct braid_live_stream *s,
		    const struct braid_control_answer *answer)
{
	const struct braid_pattern *p = &c->control.pattern;
	const char *colon = *p->event ? ":" : "";

	int err = braid_live_emit(s, BRAID_CHUNK_CLOCK, NULL, 0, &answer->sample,
				  sizeof(answer->sample));

	if (err || c->control.command != BRAID_CMD_ENABLE)
		return err;
	if (!answer->result)
		c->matched[c->next_command - 2] = answer->matched;
	if (c->next_command == last_command(s))
		err = note_late(c, s) ?: (c->asked_again ? 0 : note_confirmed(c, s));
	if (err)
		return err;
	if (answer->result)
		return braid_live_note(s, "the guest does not enable %s%s%s: %s", p->system, colon,
				       p->event, strerror(-answer->result));
	if (!answer->matched && !c->asked_again)
		return braid_live_note(s, "no event of the guest matches %s%s%s", p->system, colon,
				       p->event);
	return 0;
}

int braid_live_control_poll(struct braid_live_control *c, struct braid_live_stream *s,
			    struct braid_endpoint *endpoint, bool clock_ready)
{
	struct braid_control_answer answer;
	bool sent;
	int err;

	if (!c->busy) {
		if (c->more_events && !c->disarming && !s->mapping->one_way &&
		    c->next_command == last_command(s)) {
			c->more_events = false;	/* a module of the guest brought some */
			c->asked_again = true;
			c->next_command = 1;
		}
		if (c->next_command >= end_command(c, s) || (!c->disarming && !clock_ready))
			return 0;
		region_control_begin(c, s);
	}
	sent = c->control.sent;
	err = braid_control_poll(&c->control, &answer);
	if (c->control.sent && !sent)
		braid_endpoint_ring(endpoint);
	if (err == -EAGAIN)
		return 0;
	c->busy = false;
	if (err == -ETIMEDOUT) {	/* retried, since it may wake up */
		c->next_command += c->disarming;
		c->reported_timeout = true;
		if (!c->disarming)
			return note_unconfirmed(c, s);
		return c->unconfirmed ? 0 : braid_live_note(s, "%s", c->nothing_on ?
			"the guest did not answer at the stop; the formats of its latest events may be missing" :
			"the guest did not confirm that its events are disabled; it may still trace");
	}
	if (err)
		return err;
	c->next_command++;
	return answered(c, s, &answer);
}

int braid_live_control_check_confirmed(struct braid_live_control *c, struct braid_live_stream *s,
				       struct braid_endpoint *endpoint)
{
	int err;

	if (c->disarming || !s->o.nr_patterns || s->down || c->confirmed ||
	    (s->mapping->one_way && !s->o.asked_elsewhere))
		return 0;
	/* It may have answered since the last turn. */
	err = c->busy ? braid_live_control_poll(c, s, endpoint, true) : 0;
	return err || c->confirmed ? err : note_unconfirmed(c, s);
}

int braid_live_control_enabled(struct braid_live_control *c, struct braid_live_stream *s, bool all)
{
	struct braid_directory_copy copy;
	size_t k;
	int err;

	if (!all) {
		c->unconfirmed = true;
		return 0;
	}
	err = braid_directory_load(&copy, s->mapping, &s->sb, 0);
	if (err)
		return err == -ENOMEM ? s->fatal = err : 0;
	for (k = 0; k < s->o.nr_patterns; k++)
		c->matched[k] = braid_pattern_count(&s->o.patterns[k], &copy);
	braid_directory_free(&copy);
	return note_late(c, s) ?: c->confirmed ? 0 : note_confirmed(c, s);
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
