/* SPDX-License-Identifier: GPL-2.0 */
/* The thread that polls for the host's requests. */
#ifndef BRAID_EVENT_POLL_H
#define BRAID_EVENT_POLL_H

#include "guest_driver/core/buffer.h"

/**
 * braid_poll_start - begin to poll mailbox, clock cells and new symbols
 * @region: live
 * @each_turn: called by the thread each time; may sleep
 * @settle: called by the thread: as for braid_mailbox_poll(), of the event directory
 *
 * Every BRAID_POLL_ACTIVE_MS while an agent is present, else every BRAID_POLL_MS, and on
 * braid_poll_now().
 * Context: may sleep. Return: 0 or -errno.
 */
int braid_poll_start(struct braid_guest_region *region, void (*each_turn)(void),
		     bool (*settle)(bool first));

/** braid_poll_now - make the thread poll now, if it runs. Context: any but NMI */
void braid_poll_now(void);

/** braid_poll_stop - stop the thread; it is gone on return */
void braid_poll_stop(void);

#endif /* BRAID_EVENT_POLL_H */
