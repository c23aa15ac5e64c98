/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What all sources that are being recorded have in common. */
#ifndef BRAID_LIVE_LIVE_H
#define BRAID_LIVE_LIVE_H

#include "host_agent/capture/capture.h"

/* Where all sources of a recording put what they have. */
struct braid_live_sink {
	struct braid_capture_writer *capture;	/* set before the first poll */
	u32 next_stream;			/* number of the next stream, 1 at first */
	bool prompt;				/* low latency: unfinished sub-buffers are read
						   every BRAID_PROMPT_NS */
};

#define BRAID_PROMPT_NS	20000000ULL

/* What a poll of a source found. */
enum braid_poll_result {
	BRAID_POLL_IDLE = 0,
	BRAID_POLL_BUSY = 1,	/* something was drained */
	BRAID_POLL_MORE = 2,	/* more data is pending: poll again at once */
};

#endif /* BRAID_LIVE_LIVE_H */
