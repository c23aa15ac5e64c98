/* SPDX-License-Identifier: GPL-2.0 */
/* The commands of the host and of the guest's own user. */
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

/** braid_mailbox_open - execute commands on this region from now on. May sleep */
void braid_mailbox_open(struct braid_guest_region *region);

/** braid_mailbox_close - execute none any more, and end the selection. May sleep */
void braid_mailbox_close(void);

/**
 * braid_mailbox_ask - execute a command of the guest's own user
 * @box: private; the host's words have the command, the guest's words get the answer
 *
 * The parameter allow= does not limit it. While a selection is in effect, until DISABLE of all
 * events or the region's end, the host's commands that would change it are refused.
 *
 * Context: may sleep. Return: 0: executed, with a result in @box; -ENODEV: there is no region.
 */
int braid_mailbox_ask(struct braid_mailbox *box);

/**
 * braid_mailbox_tidy - end what a host that is gone has left, and tell what triggers did
 * @agent: an agent is present
 *
 * It ends nothing while a selection is in effect. No command is executed meanwhile, so that none
 * of a selection's commands is undone before it is in effect.
 *
 * Context: may sleep. Return: whether an agent is present or a selection is in effect.
 */
bool braid_mailbox_tidy(bool agent);

/**
 * braid_mailbox_copy_tables - copy the part of the region that precedes the rings
 * @to: private memory
 * @bytes: of it
 * @at: from the region's start
 * @box: what is copied in place of the mailbox
 *
 * Context: may sleep. Return: bytes; 0: at the end; -ENODEV: there is no region.
 */
ssize_t braid_mailbox_copy_tables(void *to, size_t bytes, u64 at, const struct braid_mailbox *box);

#endif /* BRAID_EVENT_MAILBOX_H */
