/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How a guest samples what its vCPUs execute. */
#ifndef BRAID_LIVE_SAMPLING_H
#define BRAID_LIVE_SAMPLING_H

#include "host_agent/live/stream.h"

/**
 * braid_live_sampling_answered - note it if a guest does not sample as asked
 *
 * Return: 0 or the capture's error.
 */
int braid_live_sampling_answered(struct braid_live_stream *s,
				 const struct braid_control_answer *answer);

#endif /* BRAID_LIVE_SAMPLING_H */
