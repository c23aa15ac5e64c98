/* SPDX-License-Identifier: GPL-2.0 */
/* Takes what the guest's user has turned on in tracefs: functions, events, probes, marks. */
#ifndef BRAID_SOURCE_EXPORT_H
#define BRAID_SOURCE_EXPORT_H

#include "guest_driver/core/buffer.h"

/**
 * braid_export_start - record into a buffer what ftrace records
 * @buffer: with an id space that nobody else uses: its ids are the kernel's own
 *
 * Context: may sleep. Return: 0 or -errno: this kernel has no such export, or no tracefs.
 */
int braid_export_start(struct braid_buffer *buffer);

/**
 * braid_export_stop - take no more; nobody records on return
 *
 * What the last records need to be printed is in the directory, so it comes before
 * braid_registry_detach(). The events stay known. Does nothing when not started.
 * Context: may sleep.
 */
void braid_export_stop(void);

/**
 * braid_export_flush - look up ids that came up since the last time
 *
 * Starts the work and does not wait for it. Any number of times between start and stop.
 */
void braid_export_flush(void);

/** braid_export_exit - make the events unknown; before their buffer goes, stopped. May sleep */
void braid_export_exit(void);

#endif /* BRAID_SOURCE_EXPORT_H */
