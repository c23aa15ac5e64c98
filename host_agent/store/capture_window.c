// SPDX-License-Identifier: GPL-2.0-or-later
/* The start and stop of a recording: on the timeline, and for queries. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/store/capture_private.h"
#include "host_agent/util/array.h"

/* The window of the file being indexed; NULL: unknown yet. */
static struct braid_window *window_of(struct braid_capture_source *cs)
{
	size_t k = cs->source.nr_windows;

	/* A file that is named twice has one. */
	while (k--)
		if (cs->edges[k].file == cs->file)
			return &cs->source.windows[k];
	return NULL;
}

static bool is_known(const struct braid_capture_source *cs, s64 start_ns)
{
	size_t k;

	for (k = 0; k < cs->source.nr_windows; k++)
		if (cs->source.windows[k].start_ns == start_ns)
			return true;
	return false;
}

static int add_window(struct braid_capture_source *cs, s64 start_ns)
{
	struct braid_window window = { .start_ns = start_ns, .stop_ns = INT64_MAX };
	struct braid_window_edges edges = { .file = cs->file };
	size_t nr = cs->source.nr_windows;

	if (is_known(cs, start_ns))
		return 0;
	if (braid_array_push(cs->edges, nr, cs->edges_capacity, edges))
		return -ENOMEM;
	return braid_array_push(cs->source.windows, cs->source.nr_windows, cs->windows_capacity,
				window);
}

int braid_capture_take_window(struct braid_capture_source *cs, const struct braid_chunk_view *v)
{
	struct braid_window *window = window_of(cs);
	struct braid_chunk_window edge;

	if (v->bytes < sizeof(edge))
		return 0;
	memcpy(&edge, v->payload, sizeof(edge));
	if (edge.host_ns > INT64_MAX)
		return 0;
	if (edge.edge == BRAID_WINDOW_START && !window)
		return add_window(cs, edge.host_ns);
	if (edge.edge == BRAID_WINDOW_STOP && window && (s64)edge.host_ns >= window->start_ns)
		window->stop_ns = edge.host_ns;
	return 0;
}

static int note(struct braid_capture_source *cs, s64 ns, const char *text)
{
	struct braid_stream *first = cs->source.streams[0];

	return braid_capture_add_note((struct braid_capture_stream *)first, ns, text, strlen(text));
}

int braid_capture_note_windows(struct braid_capture_source *cs)
{
	int err = 0;
	size_t k;

	for (k = 0; k < cs->source.nr_windows && cs->source.nr_streams && !err; k++) {
		const struct braid_window *window = &cs->source.windows[k];
		struct braid_window_edges *edges = &cs->edges[k];

		if (!edges->noted_start)
			err = note(cs, window->start_ns, "the recording starts");
		edges->noted_start = true;
		if (err || edges->noted_stop || window->stop_ns == INT64_MAX)
			continue;
		edges->noted_stop = true;
		err = note(cs, window->stop_ns, "the recording stops");
	}
	return err;
}

void braid_capture_note_recorded(struct braid_capture_source *cs, u32 file, u64 ns)
{
	size_t k = cs->source.nr_windows;

	/* The file being indexed has the last one. */
	while (k-- && cs->edges[k].file > file)
		;
	if (k < cs->source.nr_windows && cs->edges[k].file == file && ns <= INT64_MAX &&
	    (s64)ns > cs->source.windows[k].last_ns)
		cs->source.windows[k].last_ns = ns;
}

/* The guests that a file has, in the order of its streams. Return: 0 or -ENOMEM. */
static int tie_guests(const struct braid_file_streams *file, struct braid_window *window)
{
	size_t k;

	if (window->guests || !file->nr)
		return 0;
	window->guests = calloc(file->nr, sizeof(*window->guests));
	if (!window->guests)
		return -ENOMEM;
	for (k = 0; k < file->nr; k++)
		if (file->by_number[k] && file->by_number[k]->stream.kind == BRAID_STREAM_GUEST)
			window->guests[window->nr_guests++] = &file->by_number[k]->stream;
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
	return 0;
}
