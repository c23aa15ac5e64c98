// SPDX-License-Identifier: GPL-2.0-or-later
/* What several captures hold in common of the host is merged once. Guests' pages know their place. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "host_agent/source/capture_private.h"
#include "host_agent/util/array.h"
#include "host_agent/util/text.h"

__attribute__((__format__(printf, 2, 3)))
static void say(const struct braid_capture_source *cs, const char *format, ...)
{
	char line[1024];
	va_list args;

	if (!cs->say)
		return;
	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	braid_text_clean(line);
	cs->say(cs->say_arg, line);
}

bool braid_capture_given_before(struct braid_capture_source *cs, char *const *paths, u32 file)
{
	struct stat st, other;
	u32 k;

	if (stat(paths[file], &st))
		return false;	/* opening it says why */
	for (k = 0; k < file; k++) {
		if (stat(paths[k], &other) || st.st_ino != other.st_ino || st.st_dev != other.st_dev)
			continue;
		say(cs, "'%s' is the same file as '%s': read once", paths[file], paths[k]);
		return true;
	}
	return false;
}

/* Times of the host that captures hold, in order, none of which meets another. */
struct spans {
	struct braid_span_ns *items;
	size_t nr, capacity;
};

static int by_from(const void *a, const void *b)
{
	const struct braid_span_ns *x = a, *y = b;

	return x->from_ns < y->from_ns ? -1 : x->from_ns > y->from_ns;
}

static void unite(struct spans *spans)
{
	size_t k, nr = 0;

	if (!spans->nr)
		return;
	qsort(spans->items, spans->nr, sizeof(*spans->items), by_from);
	for (k = 1; k < spans->nr; k++) {
		if (spans->items[k].from_ns > spans->items[nr].to_ns)
			spans->items[++nr] = spans->items[k];
		else if (spans->items[k].to_ns > spans->items[nr].to_ns)
			spans->items[nr].to_ns = spans->items[k].to_ns;
	}
	spans->nr = nr + 1;
}

/* The time of a stream's last event. Return: 0 or -errno. */
static int last_event(struct braid_capture_stream *s, s64 *ns)
{
	struct braid_source *source = &s->source->source;
	void (*fault)(void *, const struct braid_stream *, const char *) = source->fault;
	u64 faults = source->faults;
	size_t k;
	int ret = 0;

	source->fault = NULL;	/* the walk to come will tell them */
	*ns = INT64_MIN;
	for (k = 0; k < s->stream.nr_rings && ret >= 0; k++) {
		struct braid_ring *ring = s->stream.rings[k];

		while ((ret = braid_ring_next(ring)) > 0)
			*ns = ring->item.host_ns > *ns ? ring->item.host_ns : *ns;
		ring->ops->rewind(ring);
	}
	source->fault = fault;
	source->faults = faults;
	return ret;
}

/* When a host was recorded. Where a cut-off file lacks the end, the last event is. Return: 0 or -errno. */
static int span_of(struct braid_capture_stream *s, struct braid_span_ns *span)
{
	span->from_ns = s->stream.found_ns;
	span->to_ns = s->stream.end_ns;
	return s->stream.end_ns ? 0 : last_event(s, &span->to_ns);
}

static bool is_host(const struct braid_capture_stream *s)
{
	return s->stream.kind == BRAID_STREAM_HOST && s->source->readers[s->file];
}

/* Leaves out of a stream what others hold. *all: that is all of it. Return: 0 or -ENOMEM. */
static int leave_out(struct braid_capture_stream *s, const struct braid_span_ns *own,
		     const struct spans *others, bool *all)
{
	struct braid_span_ns common;
	struct spans left_out = { 0 };
	size_t k;

	*all = false;
	for (k = 0; k < others->nr; k++) {
		common = others->items[k];
		if (common.to_ns < own->from_ns || common.from_ns > own->to_ns)
			continue;
		if (braid_array_push(left_out.items, left_out.nr, left_out.capacity, common))
			return -ENOMEM;
		*all |= common.from_ns <= own->from_ns && common.to_ns >= own->to_ns;
	}
	s->left_out = left_out.items;
	s->nr_left_out = left_out.nr;
	return 0;
}

static void remove_stream(struct braid_source *source, size_t at)
{
	braid_capture_free_stream((struct braid_capture_stream *)source->streams[at]);
	source->nr_streams--;
	memmove(source->streams + at, source->streams + at + 1,
		(source->nr_streams - at) * sizeof(*source->streams));
	for (; at < source->nr_streams; at++)
		source->streams[at]->number = at;
}

/* Hosts of one file are of one recording, and don't overlap. Return: 0 or -errno. */
static int join_host(struct braid_capture_source *cs, size_t *at, const struct spans *before,
		     struct spans *later, char *const *paths)
{
	struct braid_capture_stream *s = (struct braid_capture_stream *)cs->source.streams[*at];
	struct braid_span_ns span;
	bool all;
	int err = span_of(s, &span);

	if (!err)
		err = leave_out(s, &span, before, &all);
	if (!err && span.from_ns <= span.to_ns)
		err = braid_array_push(later->items, later->nr, later->capacity, span);
	if (err || !s->nr_left_out)
		return err;
	if (!all) {
		say(cs, "'%s': the host's events are left out where a file before it holds them, too",
		    paths[s->file]);
		return 0;
	}
	say(cs, "'%s': the host's events are left out: a file before it holds the host at that time",
	    paths[s->file]);
	remove_stream(&cs->source, (*at)--);
	return 0;
}

int braid_capture_join_hosts(struct braid_capture_source *cs, char *const *paths)
{
	struct spans before = { 0 }, later = { 0 };
	u32 file = 0;
	size_t k, j;
	int err = 0;

	if (cs->nr_files < 2)
		return 0;
	for (k = 0; k < cs->source.nr_streams && !err; k++) {
		const struct braid_capture_stream *s =
			(struct braid_capture_stream *)cs->source.streams[k];

		if (!is_host(s))
			continue;
		if (s->file != file) {
			for (j = 0; j < later.nr && !err; j++)
				err = braid_array_push(before.items, before.nr, before.capacity,
						       later.items[j]);
			later.nr = 0;
			unite(&before);
			file = s->file;
		}
		if (!err)
			err = join_host(cs, &k, &before, &later, paths);
	}
	free(before.items);
	free(later.items);
	return err;
}
