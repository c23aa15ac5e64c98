/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A copy of a ring that is written and read meanwhile: docs/ring.md, "Copying". */
#ifndef BRAID_TRANSPORT_RING_COPY_H
#define BRAID_TRANSPORT_RING_COPY_H

#include "shared/ring.h"

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
 * Return: 0; -EAGAIN: writer or reader were too fast, or a guest was emptying the ring; -EBADMSG: the
 * ring's words are invalid. A reader of the copy then finds it invalid, too.
 */
int braid_ring_copy(const struct braid_ring_map *to, const struct braid_ring_map *from,
		    u64 incarnation);

#endif /* BRAID_TRANSPORT_RING_COPY_H */
