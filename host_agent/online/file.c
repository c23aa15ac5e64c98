// SPDX-License-Identifier: GPL-2.0-or-later
/* A file of a recording, as far as it was taken. */
#include <stdlib.h>
#include <string.h>

#include "host_agent/analyze/grow.h"
#include "host_agent/online/file.h"
#include "host_agent/trace/merge.h"
#include "host_agent/util/error.h"

/* Of each clock: some per second come, and each new one is worth a fit. */
#define KEEP_SAMPLES	64u

int braid_online_file_open(struct braid_online_file **out, const char *path)
{
	const struct braid_source_options options = { .keep_samples = KEEP_SAMPLES };
	struct braid_online_file *f = calloc(1, sizeof(*f));
	int err;

	if (!f)
		return braid_out_of_memory();
	f->path = strdup(path);
	err = f->path ? braid_source_follow(&f->source, f->path, &options) : braid_out_of_memory();
	if (err) {
		braid_online_file_free(f);
		return err;
	}
	*out = f;
	return 0;
}

s64 braid_online_file_stop_ns(const struct braid_online_file *f)
{
	s64 ns = f->source->nr_windows == 1 ? f->source->windows[0].stop_ns : INT64_MAX;

	return braid_states_takes(ns) ? ns : INT64_MAX;
}

/* The rest ----------------------------------------------------------------------------------- */

static void number_rings(struct braid_online_file *f)
{
	size_t k, n;

	for (k = 0; k < f->source->nr_streams; k++)
		for (n = 0; n < f->source->streams[k]->nr_rings; n++)
			if (f->source->streams[k]->rings[n]->order >= f->nr_rings)
				f->nr_rings = f->source->streams[k]->rings[n]->order + 1;
}

/* An item, or a ring's next one, as the next file's. */
static struct braid_item file_item(const struct braid_online_file *f,
				   const struct braid_item *from)
{
	struct braid_item item = *from;

	item.ring = &f->rings[from->ring->order];
	item.stream = item.ring->stream;
	return item;
}

int braid_online_file_rest(struct braid_online_file *f, const struct braid_source *next)
{
	size_t k, n;

	number_rings(f);
	f->rings = calloc((size_t)f->nr_rings + 1, sizeof(*f->rings));
	if (!f->rings)
		return braid_out_of_memory();
	for (k = 0; k < f->source->nr_streams; k++) {
		const struct braid_stream *from = f->source->streams[k];
		const struct braid_stream *to = braid_states_again(next, from);

		for (n = 0; n < from->nr_rings; n++)
			f->rings[from->rings[n]->order] = (struct braid_ring){
				.stream = to, .buffer = from->rings[n]->buffer,
				.cpu = from->rings[n]->cpu,
			};
	}
	braid_merge_stop_before(f->walk.merge, INT64_MAX);
	return braid_online_file_next(f);
}

int braid_online_file_next(struct braid_online_file *f)
{
	const struct braid_ring *last = f->got > 0 ? f->walk.item->ring : NULL;

	f->got = braid_walk_next(&f->walk);
	/* The states look at what follows in a ring. */
	if (last)
		f->rings[last->order].item = file_item(f, &last->item);
	if (f->got > 0)
		f->item = file_item(f, f->walk.item);
	return f->got < 0 ? f->got : 0;
}

void braid_online_file_free(struct braid_online_file *f)
{
	if (!f)
		return;
	if (f->begun)
		braid_walk_end(&f->walk);
	braid_online_sums_free(&f->sums);
	braid_online_matches_free(&f->matches);
	braid_source_free(f->source);
	free(f->path);
	free(f->rings);
	free(f);
}
