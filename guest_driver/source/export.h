/* SPDX-License-Identifier: GPL-2.0 */
/* Takes what the guest's user has turned on in tracefs: functions, events, probes, marks. */
#ifndef BRAID_SOURCE_EXPORT_H
#define BRAID_SOURCE_EXPORT_H

#include "guest_driver/core/buffer.h"

/**
 * braid_export_start - copy ftrace's records into a buffer
 * @buffer: with an id space of its own: its ids are the kernel's
 *
 * Context: may sleep. Return: 0 or -errno: this kernel has no ftrace export, or no tracefs.
 */
int braid_export_start(struct braid_buffer *buffer);

/**
 * braid_export_stop - stop; no writer is inside on return
 *
 * Puts the formats of the last records in the directory, so call it before braid_registry_detach().
 * The events stay registered. No effect when not started.
 * Context: may sleep.
 */
void braid_export_stop(void);

/**
 * braid_export_flush - look up ids that occurred since the last call
 *
 * Starts the work and does not wait for it. Any number of times between start and stop.
 */
void braid_export_flush(void);

/**
 * braid_export_settle - whether the directory has the formats of all records that precede a moment
 * @first: that moment is now: starts to look them up. Else: that of the last such call
 *
 * Calls braid_poll_now() when they were looked up. Events that are found no more, or that find no
 * room in the directory, are not waited for. Does not wait. Between start and stop, else: true.
 */
bool braid_export_settle(bool first);

/** braid_export_exit - make the events unknown; before their buffer goes, stopped. May sleep */
void braid_export_exit(void);

#endif /* BRAID_SOURCE_EXPORT_H */
