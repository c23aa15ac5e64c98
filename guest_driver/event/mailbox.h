/* SPDX-License-Identifier: GPL-2.0 */
/* The host's commands. */
#ifndef BRAID_EVENT_MAILBOX_H
#define BRAID_EVENT_MAILBOX_H

#include "guest_driver/core/buffer.h"

/**
 * braid_mailbox_poll - carry out a command if there is one, show that the guest lives
 * @region: live
 *
 * Context: may sleep. Return: whether an agent is about (its heartbeat moves).
 */
bool braid_mailbox_poll(struct braid_guest_region *region);

#endif /* BRAID_EVENT_MAILBOX_H */
