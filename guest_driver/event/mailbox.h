/* SPDX-License-Identifier: GPL-2.0 */
/* The host's commands. */
#ifndef BRAID_EVENT_MAILBOX_H
#define BRAID_EVENT_MAILBOX_H

#include "guest_driver/core/buffer.h"

/**
 * braid_mailbox_poll - execute a pending command, update the heartbeat
 * @region: live
 *
 * Context: may sleep. Return: whether an agent is present (its heartbeat advances).
 */
bool braid_mailbox_poll(struct braid_guest_region *region);

#endif /* BRAID_EVENT_MAILBOX_H */
