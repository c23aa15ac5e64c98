/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Private copies of regions and rings that a guest, and any reader, may be using: docs/ring.md. */
#ifndef BRAID_TRANSPORT_REGION_COPY_H
#define BRAID_TRANSPORT_REGION_COPY_H

#include "host_agent/transport/transport.h"

/**
 * braid_region_copy - copy a region without changing it
 * @out: set on success: private, as the region of a guest that stopped
 * @from: the region; readable is enough
 * @running: set on success: the guest polled its mailbox after the copy was taken
 *
 * Events that are unread and committed at that time are in the copy, those that are overwritten
 * meanwhile are missing, and count as lost. Sleeps for at most half a second.
 *
 * Return: 0; -EAGAIN with braid_fail(): the guest or a reader changed the region during all
 * attempts; or as braid_mapping_probe().
 */
int braid_region_copy(struct braid_mapping **out, const struct braid_mapping *from, bool *running);

/**
 * braid_ring_copy - copy a ring without changing it
 * @to: private memory, zeros; it becomes a ring that stands still, with the unread sub-buffers that
 *	were intact when their copy was complete
 * @from: the ring, in shared memory; under braid_guard_run()
 * @incarnation: the region's
 *
 * Sub-buffers that were overwritten meanwhile are missing in the copy: its readers count them as
 * lost. If nothing changes during the copy, it is exact, damage included. The work is bounded,
 * whatever others do.
 *
 * Return: 0; -EAGAIN: writer or reader were too fast, or a guest was emptying the ring; -EBADMSG:
 * the ring's words are invalid. A reader of the copy then finds it invalid, too.
 */
int braid_ring_copy(const struct braid_ring_map *to, const struct braid_ring_map *from,
		    u64 incarnation);

#endif /* BRAID_TRANSPORT_REGION_COPY_H */
