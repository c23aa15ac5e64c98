/* SPDX-License-Identifier: GPL-2.0 */
/* The host's commands. */
#ifndef BRAID_EVENT_MAILBOX_H
#define BRAID_EVENT_MAILBOX_H

#include "guest_driver/core/buffer.h"

/**
 * braid_mailbox_poll - execute a pending command, update the heartbeat
 * @region: live
 * @settle: called for a command that is confirmed only when the tables are complete: whether they
 *	have all that was recorded before the first call for that command; does not wait
 *
 * Context: may sleep. Return: whether an agent is present (its heartbeat advances).
 */
bool braid_mailbox_poll(struct braid_guest_region *region, bool (*settle)(bool first));

#endif /* BRAID_EVENT_MAILBOX_H */
