/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What all sources that are being recorded have in common.
 *
 * Invariants:
 * - One thread runs all sources, because they share static buffers and the sink. A guest's source and the host's know
 *   nothing of each other.
 * - A source takes next_stream when it begins a stream, and increments it: no two streams of a capture share a
 *   number.
 * - A poll drains a bounded amount, BRAID_TURN_BYTES of a guest and some sub-buffers of each CPU of the host, and the
 *   next poll continues after it.
 * - While braid_capture_full(), a poll takes no sub-buffer: the rings and tracefs count what they lose.
 * - A poll fails only for the capture, for the host's tracefs, or without memory. A guest's fault delays or ends its
 *   own stream.
 * - A source prints nothing; a guest's reports by say() and by NOTE chunks.
 */
#ifndef BRAID_LIVE_LIVE_H
#define BRAID_LIVE_LIVE_H

#include "host_agent/capture/capture.h"

/* Where all sources of a recording put what they have. */
struct braid_live_sink {
	struct braid_capture_writer *capture;	/* set before the first poll */
	u32 next_stream;			/* number of the next stream, 1 at first */
	u64 prompt_ns;				/* low latency: interval at which unfinished
						   sub-buffers are read; 0: rarely */
};

#define BRAID_PROMPT_NS	20000000ULL	/* the default where a user waits */

/* What a poll of a source found. */
enum braid_poll_result {
	BRAID_POLL_IDLE = 0,
	BRAID_POLL_BUSY = 1,	/* something was drained */
	BRAID_POLL_MORE = 2,	/* more data is pending: poll again at once */
};

#endif /* BRAID_LIVE_LIVE_H */
