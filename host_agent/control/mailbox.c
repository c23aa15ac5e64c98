// SPDX-License-Identifier: GPL-2.0-or-later
/* The host's end of the mailbox: one command at a time, bounded waits. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "host_agent/clock_sync/host.h"
#include "host_agent/control/control.h"
#include "host_agent/util/error.h"
#include "host_agent/util/text.h"

#define TIMEOUTS_MOST	15	/* of a guest whose heartbeat moves, and that does not answer */

void braid_control_begin(struct braid_control *c, const struct braid_mapping *m,
			 const struct braid_superblock *sb, u32 command, u64 arg0,
			 const struct braid_pattern *pattern, u64 timeout_ns)
{
	memset(c, 0, sizeof(*c));
	c->mapping = m;
	c->box = braid_mapping_section(m, sb, BRAID_SECTION_MAILBOX);
	c->incarnation = sb->incarnation;
	c->minor = sb->version_minor;
	c->begun_ns = c->beat_ns = braid_host_clock_ns();
	c->timeout_ns = timeout_ns;
	c->command = command;
	c->arg0 = arg0;
	if (pattern)
		c->pattern = *pattern;
}

/* To earlier drivers, what a function returns is a number: they do not know its type. */
static void put_probe(const struct braid_control *c)
{
	struct braid_probe probe = *c->probe;
	u32 k;

	for (k = 0; k < probe.nr_args && c->minor < BRAID_PROBE_NAMES_MINOR; k++)
		if (probe.args[k].base == BRAID_PROBE_RETVAL &&
		    probe.args[k].type == BRAID_PROBE_AUTO)
			probe.args[k].type = BRAID_PROBE_X64;
	memcpy(&c->box->probe, &probe, sizeof(probe));
}

static void send_command(struct braid_control *c)
{
	struct braid_mailbox *box = c->box;

	c->seq = braid_load(&box->command_seq) + 1;
	box->command = c->command;
	box->arg0 = c->arg0;
	memcpy(box->system, c->pattern.system, sizeof(box->system));
	memcpy(box->event, c->pattern.event, sizeof(box->event));
	if (c->program)
		memcpy(&box->program, c->program, sizeof(box->program));
	if (c->probe)
		put_probe(c);
	if (c->trigger)
		memcpy(&box->trigger, c->trigger, sizeof(box->trigger));
	if (c->reshape)
		memcpy(&box->reshape, c->reshape, sizeof(box->reshape));
	c->sent_ns = braid_host_clock_ns();
	braid_store_release(&box->command_seq, c->seq);	/* (B1) */
	c->sent = true;
}

/* Whether the guest may still answer: it executes the command as long as its heartbeat moves. */
static bool may_answer(struct braid_control *c)
{
	u64 now_ns = braid_host_clock_ns(), beat = braid_load(&c->box->guest_heartbeat);

	if (beat != c->beat)
		c->beat_ns = now_ns;
	c->beat = beat;
	return now_ns - c->beat_ns < c->timeout_ns &&
	       now_ns - c->begun_ns < TIMEOUTS_MOST * c->timeout_ns;
}

/* What the guest says, in its own words or the error's. */
static void take_reason(struct braid_control_answer *answer, const struct braid_mailbox *box)
{
	memcpy(answer->reason, box->reason, sizeof(answer->reason));
	braid_barrier();
	answer->reason[sizeof(answer->reason) - 1] = 0;
	braid_text_clean(answer->reason);
	if (answer->result && !*answer->reason)
		snprintf(answer->reason, sizeof(answer->reason), "%s",
			 answer->result == -EOPNOTSUPP ? "its driver cannot do that; update it" :
			 strerror(-answer->result));
}

int braid_control_poll(struct braid_control *c, struct braid_control_answer *answer)
{
	struct braid_mailbox *box = c->box;
	u32 done = braid_load_acquire(&box->done_seq);	/* (B2) */
	s32 result = braid_load(&box->result);
	u32 matched = braid_load(&box->matched), unseen = braid_load(&box->unseen);

	if (!braid_mapping_same(c->mapping, c->incarnation) ||
	    braid_mapping_state(c->mapping) == BRAID_STATE_DOWN)
		return braid_fail(-ESTALE, "%s: the driver was unloaded",
				  c->mapping->path);
	if (c->sent && done == c->seq) {
		answer->result = result <= 0 && result >= -4095 ? result : -EPROTO;
		answer->matched = matched;
		answer->unseen = unseen;
		memcpy(&answer->account, &box->account, sizeof(answer->account));
		memcpy(&answer->hits, &box->hits, sizeof(answer->hits));
		take_reason(answer, box);
		answer->sample.h1_ns = c->sent_ns;
		answer->sample.counter = braid_load(&box->guest_heartbeat);
		braid_fence();		/* h2 is read after the counter */
		answer->sample.h2_ns = braid_host_clock_ns();
		return 0;
	}
	/* A command that a former agent left must be over before its words are reused. */
	if (!c->sent && done == braid_load(&box->command_seq))
		send_command(c);
	if (may_answer(c))
		return -EAGAIN;
	return braid_fail(-ETIMEDOUT, "%s: the guest does not answer", c->mapping->path);
}
