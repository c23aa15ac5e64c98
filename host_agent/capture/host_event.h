/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The events in a sub-buffer of the host's ftrace. */
#ifndef BRAID_CAPTURE_HOST_EVENT_H
#define BRAID_CAPTURE_HOST_EVENT_H

#include <stdbool.h>

#include "host_agent/capture/types.h"

#define BRAID_HOST_COMMIT_MASK	((1u << 27) - 1)	/* bytes, in a sub-buffer's commit */

/**
 * braid_host_event_take - decode the next item: an event, or one that only advances the time
 * @data: of the sub-buffer, untrusted
 * @bytes: of it
 * @at: where the item begins; moved past it
 * @time: of the item before; advanced
 * @payload: set to that of the event; NULL for padding and time records
 * @payload_bytes: set when it is one
 *
 * Return: whether the item is valid.
 */
bool braid_host_event_take(const u8 *data, u32 bytes, u32 *at, u64 *time, const u8 **payload,
			   u32 *payload_bytes);

#define BRAID_HOST_LOST_SOME	(~0ULL)		/* an unknown number */

/**
 * braid_host_lost - events lost before a sub-buffer
 * @page: the sub-buffer, untrusted
 * @bytes: of it, at least BRAID_SUBBUF_HEADER_BYTES
 * @reported: the number that the recorder reported; 0: take it from the sub-buffer, by tracefs
 *
 * Return: their number, or BRAID_HOST_LOST_SOME.
 */
u64 braid_host_lost(const u8 *page, u32 bytes, u64 reported);

/**
 * braid_host_numbers - sequence numbers that a sub-buffer takes: events, and losses before it
 * @page: as for braid_host_lost(), as what follows
 * @bytes: of it
 * @reported: losses
 * @types: what it has is noted; NULL: it is not
 */
u64 braid_host_numbers(const u8 *page, u32 bytes, u64 reported, struct braid_types_page *types);

#endif /* BRAID_CAPTURE_HOST_EVENT_H */
