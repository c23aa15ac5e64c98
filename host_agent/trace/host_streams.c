// SPDX-License-Identifier: GPL-2.0-or-later
/* The streams of hosts, found by the host where they were recorded. */
#include <stdlib.h>

#include "host_agent/trace/host_streams.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

static int by_host(const void *a, const void *b)
{
	const struct braid_stream *x = *(const struct braid_stream *const *)a;
	const struct braid_stream *y = *(const struct braid_stream *const *)b;

	return braid_compare(braid_stream_host_number(x), braid_stream_host_number(y)) ?:
	       braid_compare(x->number, y->number);
}

int braid_host_streams_make(struct braid_host_streams *h, const struct braid_source *source)
{
	size_t k;

	*h = (struct braid_host_streams){ .all = calloc(source->nr_streams + 1, sizeof(*h->all)) };
	if (!h->all)
		return braid_out_of_memory();
	for (k = 0; k < source->nr_streams; k++)
		if (source->streams[k]->kind == BRAID_STREAM_HOST)
			h->all[h->nr++] = source->streams[k];
	qsort(h->all, h->nr, sizeof(*h->all), by_host);
	return 0;
}

void braid_host_streams_free(struct braid_host_streams *h)
{
	free(h->all);
	*h = (struct braid_host_streams){ NULL };
}

size_t braid_host_streams_first(const struct braid_host_streams *h,
				const struct braid_stream *stream)
{
	u32 host = braid_stream_host_number(stream);
	size_t at;

	braid_array_first(at, h->nr, braid_stream_host_number(h->all[at]) >= host);
	return at;
}
