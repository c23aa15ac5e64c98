/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Cuts lines that wait to be sent into messages of whole lines. */
#ifndef BRAID_FLEET_BATCH_H
#define BRAID_FLEET_BATCH_H

#include "host_agent/util/text.h"
#include "tracebraid/types.h"

#define BRAID_FLEET_BATCH	((size_t)32 << 10)	/* bytes of a message */

/**
 * braid_fleet_batch_next - get the size of the next message
 * @pending: the text that waits
 * @last: no more text follows, so its end is the end of a line
 *
 * Return: bytes of as many whole lines as fit into a message, or of one longer line; 0: no whole
 * line.
 */
size_t braid_fleet_batch_next(const struct braid_text *pending, bool last);

/**
 * braid_fleet_batch_limit - remove lines beyond a limit
 * @pending: the text that waits
 * @from: where its new bytes begin
 * @rows: number of lines so far; increased by the new ones
 * @most: the limit
 *
 * Return: whether lines were removed.
 */
bool braid_fleet_batch_limit(struct braid_text *pending, size_t from, u64 *rows, u64 most);

#endif /* BRAID_FLEET_BATCH_H */
