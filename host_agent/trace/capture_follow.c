// SPDX-License-Identifier: GPL-2.0-or-later
/* Follows a capture while it is being written: what it gains is added to the source. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/trace/capture_private.h"
#include "host_agent/util/error.h"

#define KEEP_SAMPLES	2048u
#define KEEP_COMMS	4096u

#define PART_BYTES	(64u << 20)	/* that are taken in at once; any chunk is smaller */

/* News in the chunks of one growth, besides those of each stream. */
struct news {
	bool any;
	bool host_clock;
	bool window;
	bool ends;
	bool whole;		/* the recording's end is the last of them, and of the file */
	s64 until_ns;		/* INT64_MIN: none */
};

static struct braid_capture_stream *stream_at(struct braid_capture_source *cs, size_t k)
{
	return (struct braid_capture_stream *)cs->source.streams[k];
}

/* Threads without vCPU come often, and change no line. */
static bool has_vcpus(const struct braid_chunk_view *v)
{
	struct braid_vcpu_thread row;
	u32 at = 0;

	while (braid_view_take(v, &at, &row, sizeof(row)))
		if (row.vcpu != BRAID_VCPU_NONE)
			return true;
	return false;
}

static void note_news(struct braid_capture_source *cs, const struct braid_chunk_view *v,
		      struct news *news)
{
	struct braid_capture_stream *s = braid_capture_stream_of(cs, v->stream);
	u32 at = 0;

	switch (v->type) {
	case BRAID_CHUNK_HOST_CLOCK:
		news->host_clock = true;
		return;
	case BRAID_CHUNK_COMPLETE:
		braid_view_take(v, &at, &news->until_ns, sizeof(news->until_ns));
		return;
	case BRAID_CHUNK_RING_END:
		news->ends = true;
		return;
	case BRAID_CHUNK_WINDOW:
		news->window = true;
		return;
	case BRAID_CHUNK_STACKS:	/* no type or name changes */
	case BRAID_CHUNK_ACCOUNTS:
		return;
	case BRAID_CHUNK_CGROUPS:
	case BRAID_CHUNK_THROTTLED:
		if (s)
			s->news |= BRAID_NEWS_ROWS;
		return;
	case BRAID_CHUNK_SYMBOLS:
	case BRAID_CHUNK_COMMS:
		if (s)
			s->news |= BRAID_NEWS_TABLES;
		break;
	case BRAID_CHUNK_PAGE:
		if (s && !s->stream.clock.nr_tracks)
			s->news |= BRAID_NEWS_CLOCK;
		return;
	case BRAID_CHUNK_CLOCK:
	case BRAID_CHUNK_CLOCK_VCPU:
	case BRAID_CHUNK_CLOCK_OFFSET:
	case BRAID_CHUNK_CLOCK_MARK:
		if (s)
			s->news |= BRAID_NEWS_CLOCK;
		return;
	case BRAID_CHUNK_VCPU_THREADS:
		if (s)
			s->news |= has_vcpus(v) ? BRAID_NEWS_CLOCK : BRAID_NEWS_ROWS;
		if (!has_vcpus(v))
			return;
		break;
	}
	if (v->type == BRAID_CHUNK_STREAM || v->type == BRAID_CHUNK_BUFFER ||
	    v->type == BRAID_CHUNK_EVENTS || v->type == BRAID_CHUNK_TEXT ||
	    v->type == BRAID_CHUNK_SYMBOLS || v->type == BRAID_CHUNK_VCPU_THREADS)
		cs->source.generation++;
}

/* Frees the extents that all cursors have passed. */
static void forget_extents(struct braid_capture_source *cs)
{
	size_t k, j;

	for (k = 0; k < cs->source.nr_streams; k++) {
		struct braid_stream *s = cs->source.streams[k];

		for (j = 0; j < s->nr_rings; j++) {
			struct braid_capture_ring *ring = (struct braid_capture_ring *)s->rings[j];

			braid_extents_forget(&ring->extents, &ring->at);
		}
	}
}

/* Keeps the latest @keep of @nr elements. */
#define keep_latest(items, nr, keep)						\
	do {									\
		if ((nr) > 2 * (keep)) {					\
			memmove(items, (items) + (nr) - (keep), (keep) * sizeof(*(items))); \
			(nr) = (keep);						\
		}								\
	} while (0)

/* Marks before the first sample would begin epochs without samples. */
static void forget_round_trips(struct braid_capture_stream *s)
{
	size_t k, nr = s->nr_round_trips;

	keep_latest(s->round_trips, s->nr_round_trips, s->source->keep_samples);
	if (s->nr_round_trips == nr)
		return;
	for (k = 0; k < s->nr_marks && s->marks[k].from_ns < s->round_trips[0].s.h1_ns; k++)
		;
	s->nr_marks -= k;
	if (s->nr_marks)
		memmove(s->marks, s->marks + k, s->nr_marks * sizeof(*s->marks));
	for (k = 0; k < s->nr_breaks && s->breaks[k].to_ns <= s->round_trips[0].s.h1_ns; k++)
		;
	s->nr_breaks -= k;
	if (s->nr_breaks)
		memmove(s->breaks, s->breaks + k, s->nr_breaks * sizeof(*s->breaks));
}

/*
 * Keeps each task's current and former name: events are recent. Done rarely, since users of the
 * names must restart.
 */
static void forget_comms(struct braid_capture_stream *cs)
{
	struct braid_stream *s = &cs->stream;
	size_t k, nr = 0;

	if (s->nr_comms < 2 * cs->kept_comms + KEEP_COMMS)
		return;
	for (k = 0; k < s->nr_comms; k++)
		if (k + 2 >= s->nr_comms || s->comms[k + 2].pid != s->comms[k].pid)
			s->comms[nr++] = s->comms[k];
	s->nr_comms = cs->kept_comms = nr;
	cs->source->source.generation++;
}

static int fit_host(struct braid_capture_source *cs)
{
	struct braid_capture_host *host = braid_capture_host(cs, 0);
	struct braid_host_clocks *clocks = &cs->source.clocks;
	size_t k;

	for (k = 0; k < BRAID_HOST_CLOCK_KINDS; k++)
		keep_latest(host->round_trips[k].items, host->round_trips[k].nr,
			    cs->keep_samples);
	braid_clock_free(&clocks->counter);
	braid_clock_free(&clocks->realtime);
	braid_clock_free(&clocks->trace);
	return braid_capture_fit_host(cs);
}

static int fit_stream(struct braid_capture_stream *s)
{
	size_t k;

	forget_round_trips(s);
	braid_clock_free(&s->stream.clock);
	for (k = 0; k < s->stream.nr_rings; k++)	/* epochs are renumbered */
		((struct braid_capture_ring *)s->stream.rings[k])->epoch = 0;
	return braid_capture_fit_clock(s);
}

/* A ring's end is the sum of its accounts. */
static int settle_ends(struct braid_capture_source *cs)
{
	size_t k, j;

	for (k = 0; k < cs->source.nr_streams; k++)
		for (j = 0; j < cs->source.streams[k]->nr_rings; j++)
			memset(&cs->source.streams[k]->rings[j]->report, 0,
			       sizeof(struct braid_ring_report));
	return braid_capture_sort_extents(cs);
}

/* New rings are sorted among those of the same time. */
static void number_rings(struct braid_capture_source *cs)
{
	size_t k, j;

	for (k = 0; k < cs->source.nr_streams; k++)
		for (j = 0; j < cs->source.streams[k]->nr_rings; j++)
			if (!cs->source.streams[k]->rings[j]->order)
				cs->source.streams[k]->rings[j]->order = ++cs->next_order;
}

static int take_news(struct braid_capture_source *cs, const struct news *news)
{
	bool linked = cs->nr_followed == cs->source.nr_streams;
	struct braid_capture_stream *s;
	int err = 0;
	size_t k;

	for (; cs->nr_followed < cs->source.nr_streams && !err; cs->nr_followed++) {
		s = stream_at(cs, cs->nr_followed);
		s->news |= BRAID_NEWS_CLOCK;
		err = braid_capture_note_ring(s) ? 0 : -ENOMEM;
	}
	if (!err && !linked)
		err = braid_capture_link(&cs->source);
	if (!err && (!linked || news->window))
		err = braid_capture_tie_windows(cs);
	if (!err && news->host_clock)	/* first: guests' clocks depend on it */
		err = fit_host(cs);
	for (k = 0; k < cs->source.nr_streams && !err; k++) {
		s = stream_at(cs, k);
		if (news->host_clock && s->stream.kind == BRAID_STREAM_HOST)
			s->news |= BRAID_NEWS_CLOCK;
		if (s->news & BRAID_NEWS_TABLES) {
			braid_capture_sort_tables(s);
			forget_comms(s);
		}
		if (s->news & BRAID_NEWS_CLOCK)
			err = fit_stream(s);
		else if (s->news & BRAID_NEWS_ROWS)
			braid_capture_sort_rows(s);
		s->news = 0;
	}
	if (!err)
		err = braid_capture_note_windows(cs);
	if (!err && news->ends)
		err = settle_ends(cs);
	number_rings(cs);
	return err;
}

static struct braid_capture_source *capture_of(struct braid_source *source)
{
	return (struct braid_capture_source *)((char *)source -
					       offsetof(struct braid_capture_source, source));
}

/* Takes chunks in, of up to that many bytes. Return: 0, or -errno with braid_fail(). */
static int take_chunks(struct braid_capture_source *cs, u64 bytes, struct news *news)
{
	struct braid_chunk_view view;
	u64 end = BRAID_CAPTURE_ALL;
	int ret;

	while ((ret = braid_capture_next(cs->files[0].reader, &view)) > 0) {
		if (braid_capture_take_chunk(cs, &view))
			return braid_fail(-ENOMEM, "out of memory while reading '%s'", cs->path);
		note_news(cs, &view, news);
		news->whole = view.type == BRAID_CHUNK_FILE_END;
		if (!news->any && bytes < BRAID_CAPTURE_ALL - view.offset)
			end = view.offset + bytes;
		news->any = true;
		if (view.offset >= end)
			break;
	}
	news->whole &= !ret;	/* nothing follows */
	if (ret >= 0 && take_news(cs, news))
		return braid_fail(-ENOMEM, "out of memory while reading '%s'", cs->path);
	return ret < 0 ? ret : 0;
}

int braid_source_grow(struct braid_source *source, u64 bytes, s64 until_ns)
{
	struct braid_capture_source *cs = capture_of(source);
	struct news news = { 0 };
	int err;

	forget_extents(cs);
	err = braid_capture_grow(cs->files[0].reader, bytes);
	if (!err)
		err = take_chunks(cs, BRAID_CAPTURE_ALL, &news);
	source->until_ns = until_ns;
	return err;
}

int braid_source_grow_alone(struct braid_source *source, bool last)
{
	struct braid_capture_source *cs = capture_of(source);
	struct news news = { .until_ns = INT64_MIN };
	int err;

	if (source->until_ns == INT64_MAX)
		return 0;
	forget_extents(cs);
	err = braid_capture_grow(cs->files[0].reader, BRAID_CAPTURE_ALL);
	braid_capture_wait(cs->files[0].reader, !last);
	if (!err)
		err = take_chunks(cs, PART_BYTES, &news);
	if (err)
		return err;
	if (news.until_ns > source->until_ns)	/* it is never all: no event is so late */
		source->until_ns = news.until_ns - (news.until_ns == INT64_MAX);
	if (!news.whole && (!last || news.any))
		return news.any;
	source->until_ns = INT64_MAX;
	braid_capture_report_damage(cs, cs->path, braid_capture_damage(cs->files[0].reader));
	return 1;
}

int braid_source_follow(struct braid_source **out, const char *path,
			const struct braid_source_options *options)
{
	struct braid_capture_source *cs = braid_capture_new(options);
	int err;

	if (!cs)
		return braid_out_of_memory();
	cs->source.grows = true;
	cs->source.until_ns = INT64_MIN;
	cs->keep_samples = cs->keep_samples ?: KEEP_SAMPLES;
	cs->path = path;
	cs->files = calloc(1, sizeof(*cs->files));
	cs->nr_files = cs->files ? 1 : 0;
	err = cs->files ?
	      braid_capture_follow(&cs->files[0].reader, path, &cs->source.head) :
	      braid_out_of_memory();
	if (!err)
		err = braid_capture_find_host(cs, 0, path, &cs->source.head);
	if (err) {
		braid_source_free(&cs->source);
		return err;
	}
	cs->files[0].minor = cs->source.head.version_minor;
	*out = &cs->source;
	return 0;
}
