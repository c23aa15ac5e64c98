// SPDX-License-Identifier: GPL-2.0-or-later
/* The start and stop of a recording: on the timeline, and for queries. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/trace/capture_private.h"
#include "host_agent/util/array.h"

/* The window of a file; NULL: it has none, or not yet. */
static struct braid_window *window_of(struct braid_capture_source *cs, u32 file)
{
	size_t number = cs->files[file].window;

	return number ? &cs->source.windows[number - 1] : NULL;
}

static int add_window(struct braid_capture_source *cs, s64 start_ns, u32 after_ns)
{
	struct braid_window window = {
		.start_ns = start_ns, .stop_ns = INT64_MAX, .after_ns = after_ns,
		.of = cs->files[cs->file].host,
	};
	struct braid_window_edges edges = { .file = cs->file };
	size_t nr = cs->source.nr_windows;

	if (braid_array_push(cs->edges, nr, cs->edges_capacity, edges) ||
	    braid_array_push(cs->source.windows, cs->source.nr_windows, cs->windows_capacity,
			     window))
		return -ENOMEM;
	cs->files[cs->file].window = cs->source.nr_windows;
	return 0;
}

int braid_capture_take_window(struct braid_capture_source *cs, const struct braid_chunk_view *v)
{
	struct braid_window *window = window_of(cs, cs->file);
	struct braid_chunk_window edge;
	u32 at = 0;

	if (!braid_view_take(v, &at, &edge, sizeof(edge)) || edge.host_ns > INT64_MAX)
		return 0;
	if (edge.edge == BRAID_WINDOW_START && !window)
		return add_window(cs, edge.host_ns, edge.after_ns);
	if (edge.edge == BRAID_WINDOW_STOP && window && (s64)edge.host_ns >= window->start_ns)
		window->stop_ns = edge.host_ns;
	return 0;
}

/* In the first stream of the file's host, or part of one. */
static int capture_window_note(struct braid_capture_source *cs, u32 file, s64 ns, const char *text)
{
	const struct braid_stream *s;
	size_t k, n;

	for (k = 0; k < cs->source.nr_streams; k++)
		for (n = 0; (s = braid_stream_part(cs->source.streams[k], n)); n++)
			if (s->host && s->host->number == cs->files[file].host)
				return braid_capture_add_note((struct braid_capture_stream *)s, ns,
							      text, strlen(text));
	return 0;
}

s64 braid_capture_window_stop(struct braid_capture_source *cs, u32 file)
{
	const struct braid_window *window = window_of(cs, file);

	return window ? window->stop_ns : INT64_MAX;
}

int braid_capture_note_windows(struct braid_capture_source *cs)
{
	int err = 0;
	size_t k;

	for (k = 0; k < cs->source.nr_windows && cs->source.nr_streams && !err; k++) {
		const struct braid_window *window = &cs->source.windows[k];
		struct braid_window_edges *edges = &cs->edges[k];

		if (window->again)
			continue;
		if (!edges->noted_start && !window->went_on)
			err = capture_window_note(cs, edges->file, window->start_ns,
						  "the recording starts");
		edges->noted_start = true;
		if (err || edges->noted_stop || window->goes_on || window->stop_ns == INT64_MAX)
			continue;
		edges->noted_stop = true;
		err = capture_window_note(cs, edges->file, window->stop_ns, "the recording stops");
	}
	return err;
}

void braid_capture_note_recorded(struct braid_capture_source *cs, u32 file, u64 ns)
{
	struct braid_window *window = window_of(cs, file);

	if (window && ns <= INT64_MAX && (s64)ns > window->last_ns)
		window->last_ns = ns;
}

/* The guests that a file has, in the order of its streams. Return: 0 or -ENOMEM. */
static int tie_guests(const struct braid_capture_file *file, struct braid_window *window)
{
	size_t k;

	free(window->guests);	/* of before the source grew */
	window->guests = NULL;
	window->nr_guests = 0;
	if (!file->nr)
		return 0;
	window->guests = calloc(file->nr, sizeof(*window->guests));
	if (!window->guests)
		return -ENOMEM;
	for (k = 0; k < file->nr; k++)
		if (file->by_number[k] && braid_stream_is_guest(&file->by_number[k]->stream))
			window->guests[window->nr_guests++] = &file->by_number[k]->stream;
	return 0;
}

static int by_times(const void *a, const void *b)
{
	const struct braid_window *x = *(struct braid_window *const *)a;
	const struct braid_window *y = *(struct braid_window *const *)b;

	return braid_compare(x->start_ns, y->start_ns) ?:
	       braid_compare(x->stop_ns, y->stop_ns) ?:
	       braid_compare(x, y);
}

/* Pointers to all windows, in an order; free(). NULL: no memory. */
static struct braid_window **capture_window_sort(struct braid_source *source,
						 int (*compare)(const void *a, const void *b))
{
	struct braid_window **all = calloc(source->nr_windows + 1, sizeof(struct braid_window *));
	size_t k;

	for (k = 0; all && k < source->nr_windows; k++)
		all[k] = &source->windows[k];
	if (all)
		qsort(all, source->nr_windows, sizeof(*all), compare);
	return all;
}

/* Copies of a capture are one recording. Return: 0 or -ENOMEM. */
static int find_copies(struct braid_source *source)
{
	struct braid_window **all = capture_window_sort(source, by_times);
	size_t k;

	if (!all)
		return -ENOMEM;
	for (k = 1; k < source->nr_windows; k++)
		all[k]->again = all[k]->of == all[k - 1]->of &&
				all[k]->start_ns == all[k - 1]->start_ns &&
				all[k]->stop_ns == all[k - 1]->stop_ns;
	free(all);
	return 0;
}

static int capture_window_by_stop(const void *a, const void *b)
{
	const struct braid_window *x = *(struct braid_window *const *)a;
	const struct braid_window *y = *(struct braid_window *const *)b;

	return braid_compare(x->of, y->of) ?: braid_compare(x->stop_ns, y->stop_ns);
}

/*
 * A recording's next file lacks what the former one took between its stop and this one's start.
 * Together they have all of it. Return: 0 or -ENOMEM.
 */
static int capture_window_join(struct braid_source *source)
{
	struct braid_window **all = capture_window_sort(source, capture_window_by_stop);
	size_t k;

	if (!all)
		return -ENOMEM;
	for (k = 0; k < source->nr_windows; k++) {
		struct braid_window *window = &source->windows[k], **former;
		struct braid_window wanted = {
			.of = window->of, .stop_ns = window->start_ns - window->after_ns,
		};
		struct braid_window *key = &wanted;

		former = !window->after_ns ? NULL :
			 bsearch(&key, all, source->nr_windows, sizeof(*all),
				 capture_window_by_stop);
		if (!former)
			continue;
		(*former)->goes_on = window->went_on = true;
		window->start_ns = wanted.stop_ns;
		window->after_ns = 0;
	}
	free(all);
	return 0;
}

int braid_capture_tie_windows(struct braid_capture_source *cs)
{
	size_t k, n;

	for (k = 0; k < cs->source.nr_windows; k++) {
		u32 file = cs->edges[k].file;

		for (n = 0; n < cs->files[file].nr; n++) {
			struct braid_capture_stream *s = cs->files[file].by_number[n];

			if (s && s->stream.kind == BRAID_STREAM_HOST && !s->stream.nr_buffers)
				cs->source.windows[k].host = &s->stream;
		}
		if (tie_guests(&cs->files[file], &cs->source.windows[k]))
			return -ENOMEM;
	}
	return capture_window_join(&cs->source) ?: find_copies(&cs->source);
}
