// SPDX-License-Identifier: GPL-2.0
/* Executes the host's commands; trusts none of their contents. */
#include "guest_driver/event/event.h"
#include "guest_driver/event/mailbox.h"
#include "guest_driver/event/online.h"

struct command {
	u32 code;
	u64 arg0;
	char system[BRAID_PATTERN_BYTES];
	char event[BRAID_PATTERN_BYTES];
};

/* A private copy with terminated strings. */
static void braid_mailbox_take_copy(const struct braid_mailbox *mailbox, struct command *cmd)
{
	cmd->code = braid_load(&mailbox->command);
	cmd->arg0 = braid_load(&mailbox->arg0);
	memcpy(cmd->system, mailbox->system, sizeof(cmd->system));
	memcpy(cmd->event, mailbox->event, sizeof(cmd->event));
	braid_barrier();
	cmd->system[sizeof(cmd->system) - 1] = 0;
	cmd->event[sizeof(cmd->event) - 1] = 0;
}

static int braid_mailbox_switch_buffer(u64 index, bool on)
{
	struct braid_buffer *buffer = NULL;
	int err = -EINVAL;

	braid_buffers_lock();
	while (err && (buffer = braid_buffer_next(buffer))) {
		if (!buffer->region || buffer->index != index)
			continue;
		braid_buffer_set_on(buffer, on);
		err = 0;
	}
	braid_buffers_unlock();
	return err;
}

static int braid_mailbox_carry_out(const struct command *cmd, u32 *matched)
{
	*matched = 0;
	switch (cmd->code) {
	case BRAID_CMD_NONE:
		return 0;
	case BRAID_CMD_ENABLE:
		braid_online_renew();
		fallthrough;
	case BRAID_CMD_DISABLE:
		return braid_event_set_matching(NULL, cmd->system, cmd->event, BRAID_EVENT_HOST_ON,
						cmd->code == BRAID_CMD_ENABLE, matched);
	case BRAID_CMD_RECORD_ON:
	case BRAID_CMD_RECORD_OFF:
		return braid_mailbox_switch_buffer(cmd->arg0, cmd->code == BRAID_CMD_RECORD_ON);
	}
	return -EOPNOTSUPP;
}

bool braid_mailbox_poll(struct braid_guest_region *region)
{
	struct braid_mailbox *mailbox = region->mailbox;
	u32 seq = braid_load_acquire(&mailbox->command_seq);	/* (B1) */
	struct command cmd;
	u32 matched;
	int result;

	/*
	 * Read after the command and before its answer: that bounds the clocks' relation loosely.
	 */
	braid_store(&mailbox->guest_heartbeat, braid_counter_ordered());
	if (seq != READ_ONCE(mailbox->done_seq)) {
		braid_mailbox_take_copy(mailbox, &cmd);
		result = braid_mailbox_carry_out(&cmd, &matched);
		braid_store(&mailbox->result, result);
		braid_store(&mailbox->matched, matched);
		braid_store_release(&mailbox->done_seq, seq);	/* (B2) */
	}
	return braid_region_agent_alive(region);
}
