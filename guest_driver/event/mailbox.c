// SPDX-License-Identifier: GPL-2.0
/* Takes the host's commands; trusts nothing about them. */
#include <linux/jiffies.h>

#include "guest_driver/event/event.h"
#include "guest_driver/event/mailbox.h"

#define AGENT_GONE_AFTER	(2 * HZ)

struct command {
	u32 code;
	u64 arg0;
	char system[BRAID_PATTERN_BYTES];
	char event[BRAID_PATTERN_BYTES];
};

/* A private copy, its strings ended. */
static void take_copy(const struct braid_mailbox *mailbox, struct command *cmd)
{
	cmd->code = braid_load(&mailbox->command);
	cmd->arg0 = braid_load(&mailbox->arg0);
	memcpy(cmd->system, mailbox->system, sizeof(cmd->system));
	memcpy(cmd->event, mailbox->event, sizeof(cmd->event));
	braid_barrier();
	cmd->system[sizeof(cmd->system) - 1] = 0;
	cmd->event[sizeof(cmd->event) - 1] = 0;
}

static int carry_out(struct braid_buffer *buffer, const struct command *cmd, u32 *matched)
{
	*matched = 0;
	switch (cmd->code) {
	case BRAID_CMD_NONE:
		return 0;
	case BRAID_CMD_ENABLE:
	case BRAID_CMD_DISABLE:
		return braid_event_set_matching(cmd->system, cmd->event, BRAID_EVENT_HOST_ON,
						cmd->code == BRAID_CMD_ENABLE, matched);
	case BRAID_CMD_RECORD_ON:
	case BRAID_CMD_RECORD_OFF:
		if (cmd->arg0 != buffer->index)
			return -EINVAL;
		WRITE_ONCE(buffer->disabled, cmd->code == BRAID_CMD_RECORD_OFF);
		return 0;
	}
	return -EOPNOTSUPP;
}

bool braid_mailbox_poll(struct braid_buffer *buffer)
{
	static unsigned long moved_at;
	static u64 heartbeat;
	struct braid_mailbox *mailbox = buffer->region->mailbox;
	u32 seq = braid_load_acquire(&mailbox->command_seq);	/* (B1) */
	u64 beat = braid_load(&mailbox->agent_heartbeat);
	struct command cmd;
	u32 matched;
	int result;

	/* Younger than the command, older than its answer: that ties the clocks, if loosely. */
	braid_store(&mailbox->guest_heartbeat, braid_counter_ordered());
	if (seq != READ_ONCE(mailbox->done_seq)) {
		take_copy(mailbox, &cmd);
		result = carry_out(buffer, &cmd, &matched);
		braid_store(&mailbox->result, result);
		braid_store(&mailbox->matched, matched);
		braid_store_release(&mailbox->done_seq, seq);	/* (B2) */
	}
	if (beat != heartbeat) {
		heartbeat = beat;
		moved_at = jiffies;
	}
	return heartbeat && time_before(jiffies, moved_at + AGENT_GONE_AFTER);
}
