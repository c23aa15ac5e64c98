/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Lines that wait to be sent, a message of whole ones at a time. */
#ifndef BRAID_FLEET_BATCH_H
#define BRAID_FLEET_BATCH_H

#include "host_agent/util/text.h"
#include "tracebraid/types.h"

#define BRAID_FLEET_BATCH	((size_t)32 << 10)	/* bytes of a message */

/**
 * braid_fleet_batch_next - the bytes of the next message
 * @pending: what waits
 * @last: its end is a line's
 *
 * Return: those of whole lines, as many as a message has, or of one that is longer; 0: none.
 */
size_t braid_fleet_batch_next(const struct braid_text *pending, bool last);

/**
 * braid_fleet_batch_limit - remove lines beyond a limit
 * @pending: what waits
 * @from: where new bytes begin
 * @rows: lines so far; counted up
 * @most: of them
 *
 * Return: whether there are any.
 */
bool braid_fleet_batch_limit(struct braid_text *pending, size_t from, u64 *rows, u64 most);

#endif /* BRAID_FLEET_BATCH_H */
