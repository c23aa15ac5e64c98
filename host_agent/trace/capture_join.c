// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Host events that several captures have in common are merged once. Guests' pages identify
 * themselves.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "host_agent/trace/capture_private.h"
#include "host_agent/util/array.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/input.h"
#include "host_agent/util/text.h"

__attribute__((__format__(printf, 2, 3)))
static void capture_join_say(const struct braid_capture_source *cs, const char *format, ...)
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
	braid_auto_fd int fd = braid_input_open(paths[file]);
	struct stat st;
	u32 k;

	if (fd < 0 || fstat(fd, &st))
		return false;	/* reading it says why */
	cs->files[file].device = st.st_dev;
	cs->files[file].inode = st.st_ino;
	for (k = 0; k < file; k++) {
		if (cs->files[k].inode != st.st_ino || cs->files[k].device != st.st_dev)
			continue;
		capture_join_say(cs, "'%s' is the same file as '%s': read once", paths[file], paths[k]);
		return true;
	}
	return false;
}

/* Time ranges of the host's CPUs in captures: sorted, disjoint per CPU. */
struct spans {
	struct braid_span_ns *items;
	size_t nr, capacity;
};

static int by_cpu(const void *a, const void *b)
{
	const struct braid_span_ns *x = a, *y = b;

	return braid_compare(x->cpu, y->cpu) ?: braid_compare(x->from_ns, y->from_ns);
}

static void unite(struct spans *spans)
{
	struct braid_span_ns *last = spans->items, *next = last + 1;

	if (!spans->nr)
		return;
	qsort(spans->items, spans->nr, sizeof(*spans->items), by_cpu);
	for (; next < spans->items + spans->nr; next++) {
		if (next->cpu != last->cpu || next->from_ns > last->to_ns)
			*++last = *next;
		else if (next->to_ns > last->to_ns)
			last->to_ns = next->to_ns;
	}
	spans->nr = last + 1 - spans->items;
}

/*
 * The time range in which a CPU was recorded: from its first event on, since a flight recorder
 * lacks earlier ones; to the recording's end, or to the last event if a truncated file lacks the
 * end. (A recording that goes on in another file has later events, too, but not all.) Empty without
 * events. Return: 0 or -errno.
 */
static int span_of(const struct braid_stream *s, struct braid_ring *ring, s64 stop_ns,
		   struct braid_span_ns *span)
{
	int ret;

	*span = (struct braid_span_ns){
		.cpu = ring->cpu, .from_ns = INT64_MAX, .to_ns = s->end_ns,
	};
	while ((ret = braid_ring_next(ring)) > 0) {
		if (ring->item.kind != BRAID_ITEM_EVENT)
			continue;
		if (span->from_ns == INT64_MAX)
			span->from_ns = ring->item.host_ns;
		if (s->end_ns)
			break;
		span->to_ns = ring->item.host_ns;
	}
	ring->ops->rewind(ring);
	if (stop_ns < span->to_ns)
		span->to_ns = stop_ns;
	return ret < 0 ? ret : 0;
}

static bool is_host(const struct braid_capture_stream *s)
{
	return s->stream.kind == BRAID_STREAM_HOST && s->source->files[s->file].reader;
}

/* Leaves out of a ring what others hold. *rest: whether something is left. Return: 0 or -ENOMEM. */
static int leave_out(struct braid_capture_ring *ring, const struct braid_span_ns *own,
		     const struct spans *others, bool *rest)
{
	bool all = own->from_ns > own->to_ns;
	size_t k, capacity = 0;

	braid_array_first(k, others->nr, others->items[k].cpu >= own->cpu);
	for (; k < others->nr && others->items[k].cpu == own->cpu; k++) {
		const struct braid_span_ns *common = &others->items[k];

		if (common->to_ns < own->from_ns || common->from_ns > own->to_ns)
			continue;
		if (braid_array_push(ring->left_out, ring->nr_left_out, capacity, *common))
			return -ENOMEM;
		all |= common->from_ns <= own->from_ns && common->to_ns >= own->to_ns;
	}
	*rest |= !all;
	return 0;
}

static void remove_stream(struct braid_source *source, size_t at)
{
	struct braid_capture_stream *s = (struct braid_capture_stream *)source->streams[at];
	struct braid_capture_file *file = &s->source->files[s->file];
	size_t k;

	for (k = 0; k < file->nr; k++)
		if (file->by_number[k] == s)
			file->by_number[k] = NULL;
	braid_capture_free_stream(s);
	source->nr_streams--;
	memmove(source->streams + at, source->streams + at + 1,
		(source->nr_streams - at) * sizeof(*source->streams));
	for (; at < source->nr_streams; at++)
		source->streams[at]->number = at;
}

/* Hosts of one file are of one recording, and don't overlap. Return: 0 or -errno. */
static int join_rings(struct braid_capture_stream *s, const struct spans *before,
		      struct spans *later, bool *some, bool *rest)
{
	s64 stop_ns = braid_capture_window_stop(s->source, s->file);
	struct braid_span_ns span;
	size_t k;
	int err = 0;

	for (k = 0; k < s->stream.nr_rings && !err; k++) {
		struct braid_capture_ring *ring = (struct braid_capture_ring *)s->stream.rings[k];

		err = span_of(&s->stream, &ring->ring, stop_ns, &span);
		if (!err)
			err = leave_out(ring, &span, before, rest);
		if (!err && span.from_ns <= span.to_ns)
			braid_capture_note_recorded(s->source, s->file, span.to_ns);
		if (!err && span.from_ns <= span.to_ns)
			err = braid_array_push(later->items, later->nr, later->capacity, span);
		*some |= ring->nr_left_out > 0;
	}
	return err;
}

static int join_host(struct braid_capture_source *cs, size_t *at, const struct spans *before,
		     struct spans *later, char *const *paths)
{
	struct braid_capture_stream *s = (struct braid_capture_stream *)cs->source.streams[*at];
	void (*fault)(void *, const struct braid_stream *, const char *) = cs->source.fault;
	u64 faults = cs->source.faults;
	bool some = false, rest = false;
	int err;

	cs->source.fault = NULL;	/* the later walk reports them */
	err = join_rings(s, before, later, &some, &rest);
	cs->source.fault = fault;
	cs->source.faults = faults;
	if (err || !some)
		return err;
	if (rest) {
		capture_join_say(cs, "'%s': the host's events are left out where an earlier file also has them",
				 paths[s->file]);
		return 0;
	}
	capture_join_say(cs, "'%s': the host's events are left out: an earlier file has the host's events of that time",
			 paths[s->file]);
	remove_stream(&cs->source, (*at)--);
	return 0;
}

/* The captures of one host. */
static int join_captures(struct braid_capture_source *cs, u32 host, char *const *paths)
{
	struct spans before = { 0 }, later = { 0 };
	u32 file = 0;
	size_t k, j;
	int err = 0;

	for (k = 0; k < cs->source.nr_streams && !err; k++) {
		const struct braid_capture_stream *s =
			(struct braid_capture_stream *)cs->source.streams[k];

		if (!is_host(s) || cs->files[s->file].host != host)
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

int braid_capture_join_hosts(struct braid_capture_source *cs, char *const *paths)
{
	int err = 0;
	u32 k;

	for (k = 0; k < cs->source.nr_hosts && cs->nr_files > 1 && !err; k++)
		err = join_captures(cs, k, paths);
	return err;
}
