/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The streams of hosts, found by the host where they were recorded. */
#ifndef BRAID_TRACE_HOST_STREAMS_H
#define BRAID_TRACE_HOST_STREAMS_H

#include "host_agent/trace/source.h"

struct braid_host_streams {
	const struct braid_stream **all;	/* by number of the host, then of the stream */
	size_t nr;
};

/**
 * braid_host_streams_make - find them
 * @h: filled; braid_host_streams_free() it in any case
 * @source: must stay valid
 *
 * Return: 0, or -ENOMEM with braid_fail().
 */
int braid_host_streams_make(struct braid_host_streams *h, const struct braid_source *source);

/** braid_host_streams_free - free all */
void braid_host_streams_free(struct braid_host_streams *h);

/** braid_host_streams_first - the place of the first stream of the host that recorded @stream */
size_t braid_host_streams_first(const struct braid_host_streams *h,
				const struct braid_stream *stream);

/** braid_host_streams_at - the stream at a place, or NULL: it is not of @stream's host */
static inline const struct braid_stream *
braid_host_streams_at(const struct braid_host_streams *h, size_t at,
		      const struct braid_stream *stream)
{
	return at < h->nr && braid_stream_runs_on(stream, h->all[at]) ? h->all[at] : NULL;
}

#endif /* BRAID_TRACE_HOST_STREAMS_H */
