// SPDX-License-Identifier: GPL-2.0-or-later
/* Makes a source of capture files: one pass to index them, then clocks, then order. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/trace/capture_stays.h"
#include "host_agent/trace/trace_dat.h"
#include "host_agent/util/array.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "host_agent/util/input.h"
#include "host_agent/util/io.h"
#include "host_agent/util/text.h"

static struct braid_capture_source *capture_of(struct braid_source *source)
{
	return (struct braid_capture_source *)((char *)source -
					       offsetof(struct braid_capture_source, source));
}

static struct braid_capture_stream *capture_stream(struct braid_stream *stream)
{
	return (struct braid_capture_stream *)((char *)stream -
					       offsetof(struct braid_capture_stream, stream));
}

/* Of a guest's clock and threads on the host where the file was recorded. Return: 0 or -ENOMEM. */
static int take_clock(struct braid_capture_stream *s, struct braid_capture_stream *part,
		      const struct braid_chunk_view *v)
{
	size_t nr = part->nr_round_trips;
	int err = braid_capture_take_clock(part, v);

	if (part->nr_round_trips > nr)
		braid_capture_note_visit(s, v->stream, part->round_trips + nr,
					 part->nr_round_trips - nr);
	return err;
}

static int report_undefined(struct braid_capture_source *cs, const struct braid_chunk_view *v)
{
	braid_source_faulty(&cs->source, NULL, "%s: chunk %llu references undefined stream %u",
			    cs->path, (unsigned long long)v->number, v->stream);
	return 0;
}

int braid_capture_take_chunk(struct braid_capture_source *cs, const struct braid_chunk_view *v)
{
	struct braid_capture_stream *s, *part;

	if (v->type == BRAID_CHUNK_STREAM)
		return braid_capture_take_stream(cs, v);
	if (v->type == BRAID_CHUNK_HOST_CLOCK)
		return braid_capture_take_host_clock(cs, v);
	if (v->type == BRAID_CHUNK_WINDOW)
		return braid_capture_take_window(cs, v);
	if (v->type == BRAID_CHUNK_PEER || v->type == BRAID_CHUNK_DECLARED)
		return braid_capture_take_peer(cs, v);
	if (v->type == BRAID_CHUNK_INDEX)
		return braid_capture_take_index(cs, v);
	if (v->type == BRAID_CHUNK_INDEX_BLOCKS)
		braid_capture_take_blocks(cs, v);
	if (!v->stream)
		return 0;
	s = braid_capture_stream_of(cs, v->stream);
	if (!s)
		return report_undefined(cs, v);
	part = braid_capture_part_here(s);
	switch (v->type) {
	case BRAID_CHUNK_STREAM_END:
		braid_capture_take_end(part, v);
		return 0;
	case BRAID_CHUNK_PAGE:
		return braid_capture_take_page(s, v);
	case BRAID_CHUNK_HOST_PAGE:
		return braid_capture_take_host_page(s, v);
	case BRAID_CHUNK_BUFFER:
		return braid_capture_take_buffer(s, v);
	case BRAID_CHUNK_EVENTS:
		return braid_capture_take_events(s, v);
	case BRAID_CHUNK_COMMS:
	case BRAID_CHUNK_SYMBOLS:
	case BRAID_CHUNK_STACKS:
	case BRAID_CHUNK_ACCOUNTS:
		return braid_capture_take_table(s, v);
	case BRAID_CHUNK_CLOCK:
	case BRAID_CHUNK_CLOCK_VCPU:
	case BRAID_CHUNK_CLOCK_OFFSET:
	case BRAID_CHUNK_CLOCK_MARK:
	case BRAID_CHUNK_CLOCK_VM:
	case BRAID_CHUNK_CLOCK_PAIR:
	case BRAID_CHUNK_VCPUS:
	case BRAID_CHUNK_VCPU_THREADS:
		return take_clock(s, part, v);
	case BRAID_CHUNK_RING_END:
		return braid_capture_take_ring_end(s, v);
	case BRAID_CHUNK_TEXT:
		return braid_capture_take_text(s, v);
	case BRAID_CHUNK_TYPES:
		braid_capture_take_types(cs, v);
		return 0;
	case BRAID_CHUNK_NOTE:
		return braid_capture_take_note(part, v);
	}
	return braid_capture_take_quota(part, v);	/* or it is of a later minor version */
}

/* Accounting that is still missing is not a fault of these. */
static void mark_unfinished(struct braid_capture_source *cs)
{
	const struct braid_capture_file *file = &cs->files[cs->file];
	size_t k;

	for (k = 0; k < file->nr; k++)
		if (file->by_number[k])
			file->by_number[k]->stream.unfinished = true;
}

void braid_capture_report_damage(struct braid_capture_source *cs, const char *path,
				 const struct braid_capture_damage *d)
{
	if (d->stretches)
		braid_source_faulty(&cs->source, NULL,
				    "%s: %llu damaged part%s of %llu bytes in all, the first at byte %llu",
				    path, (unsigned long long)d->stretches,
				    d->stretches == 1 ? "" : "s", (unsigned long long)d->bytes,
				    (unsigned long long)d->first_offset);
	if (d->cut_off || d->no_end)
		mark_unfinished(cs);
	if (d->cut_off)
		braid_source_faulty(&cs->source, NULL, "%s: truncated inside a chunk", path);
	else if (d->no_end)
		braid_source_faulty(&cs->source, NULL,
				    "%s: has no end mark: the recording was killed or still runs", path);
}

static void begin_file(struct braid_capture_source *cs, const char *path)
{
	cs->kallsyms_bytes = 0;
	cs->nr_cpus = 0;
	cs->path = path;
	braid_capture_end_index(cs);
}

static int index_file(struct braid_capture_source *cs, struct braid_capture_reader *r,
		      const char *path)
{
	struct braid_chunk_view view;
	u64 number = 0, chunks = 0;
	int ret;

	begin_file(cs, path);
	/* The reader has read the first chunk. */
	if (braid_capture_note_other(cs, &(struct braid_chunk_view){ .type = BRAID_CHUNK_FILE }))
		return braid_out_of_memory();
	while ((ret = braid_capture_next(r, &view)) > 0) {
		if (!braid_capture_damage(r)->stretches && view.number != number + 1)
			braid_source_faulty(&cs->source, NULL,
					    "%s: chunk %llu follows chunk %llu", path,
					    (unsigned long long)view.number,
					    (unsigned long long)number);
		number = view.number;
		if (cs->source.progress && !(++chunks & 1023))
			cs->source.progress(cs->source.progress_arg, "reading", view.offset,
					    braid_capture_size(r));
		ret = braid_capture_note_other(cs, &view) ?: braid_capture_take_chunk(cs, &view);
		if (ret)
			return braid_fail(ret, "out of memory while reading '%s'", path);
	}
	braid_capture_report_damage(cs, path, braid_capture_damage(r));
	return ret;
}

/* One that can't be opened counts as a capture: the capture's reader reports why. */
static bool is_trace_dat(const char *path)
{
	braid_auto_fd int fd = braid_input_open(path);
	char head[sizeof(BRAID_TRACE_DAT_MAGIC) - 1];

	return fd >= 0 && braid_pread_all(fd, head, sizeof(head), 0) == sizeof(head) &&
	       !memcmp(head, BRAID_TRACE_DAT_MAGIC, sizeof(head));
}

static int capture_open_open_file(struct braid_capture_source *cs, const char *path)
{
	int ret = 0;

	if (cs->may_trust) {
		begin_file(cs, path);
		ret = braid_capture_by_index(cs, braid_capture_take_chunk);
	}
	return ret ? ret < 0 ? ret : 0 : index_file(cs, cs->files[cs->file].reader, path);
}

/* Opens the captures and indexes them; finds which files are trace.dats. */
static int open_captures(struct braid_capture_source *cs, char *const *paths)
{
	struct braid_chunk_file head;
	bool first = true;
	size_t k;
	int err;

	for (k = 0; k < cs->nr_files; k++) {
		if (braid_capture_given_before(cs, paths, k))
			continue;
		cs->files[k].is_dat = is_trace_dat(paths[k]);
		if (cs->files[k].is_dat)
			continue;
		err = braid_capture_open(&cs->files[k].reader, paths[k], &head);
		if (err)
			return err;
		cs->files[k].minor = head.version_minor;
		if (first)
			cs->source.head = head;
		first = false;
		err = braid_capture_find_host(cs, k, paths[k], &head);
		if (err)
			return err;
		cs->source.bytes += braid_capture_size(cs->files[k].reader);
	}
	for (k = 0; k < cs->nr_files; k++) {
		cs->file = k;
		err = cs->files[k].reader ? capture_open_open_file(cs, paths[k]) : 0;
		if (err)
			return err;
	}
	return 0;
}

/* Without a capture, a host's trace.dat makes the timeline, or a guest's that is alone. */
static void take_head(struct braid_chunk_file *head, const struct braid_trace_dat *dat)
{
	if (*head->clock || dat->host)
		return;		/* a capture's, or that of one before it; or of a guest */
	snprintf(head->clock, sizeof(head->clock), "%s", braid_dat_clock(dat));
	snprintf(head->host_name, sizeof(head->host_name), "%s", dat->host_name);
	snprintf(head->kernel_release, sizeof(head->kernel_release), "%s", dat->release);
}

static int open_files(struct braid_capture_source *cs, char *const *paths, size_t nr)
{
	size_t k;
	int err;

	cs->files = calloc(nr, sizeof(*cs->files));
	if (!cs->files)
		return braid_out_of_memory();
	cs->nr_files = nr;
	err = open_captures(cs, paths);
	for (k = 0; k < nr && !err; k++) {
		if (!cs->files[k].is_dat)
			continue;
		cs->file = k;
		err = braid_trace_dat_open(&cs->files[k].dat, cs, k, paths[k]);
	}
	err = err ?: braid_dat_tie_guests(cs);
	for (k = 0; k < nr && !err; k++)
		if (cs->files[k].dat)
			take_head(&cs->source.head, cs->files[k].dat);
	return err;
}

/* By name, then in the order they were found. */
static int capture_open_by_guest(const void *a, const void *b)
{
	const struct braid_stream *x = *(const struct braid_stream *const *)a;
	const struct braid_stream *y = *(const struct braid_stream *const *)b;

	return strcmp(x->name, y->name) ?:
	       braid_compare(x->found_ns, y->found_ns) ?:
	       braid_compare(x->number, y->number);
}

/*
 * Streams of one name, the first of @nr in order. A guest is called the same, whether or not it was
 * a VM before. Return: their number.
 */
static size_t link_name(struct braid_stream **guests, size_t nr)
{
	u32 lives = 0, vms = 0;
	size_t k, n;

	for (k = 0; k < nr && !strcmp(guests[k]->name, guests[0]->name); k++) {
		guests[k]->before = k ? guests[k - 1] : NULL;
		guests[k]->life = guests[k]->kind == BRAID_STREAM_VM ? ++vms : ++lives;
	}
	for (n = 0; n < k; n++)
		guests[n]->had_driver = guests[n]->kind == BRAID_STREAM_VM && lives;
	return k;
}

int braid_capture_link(struct braid_source *source)
{
	struct braid_stream **guests = calloc(source->nr_streams + 1, sizeof(*guests));
	size_t k, nr = 0, same;

	if (!guests)
		return -ENOMEM;
	for (k = 0; k < source->nr_streams; k++)
		if (braid_stream_is_guest(source->streams[k]))
			guests[nr++] = source->streams[k];
	qsort(guests, nr, sizeof(*guests), capture_open_by_guest);
	for (k = 0; k < nr; k += same)
		same = link_name(guests + k, nr - k);
	free(guests);
	return 0;
}

/* The clocks of a stream, one for each host where it was. Return: 0 or -errno. */
static int fit_parts(struct braid_capture_stream *s)
{
	const struct braid_stream *part;
	int err = 0;
	size_t k;

	for (k = 0; (part = braid_stream_part(&s->stream, k)) && !err; k++)
		err = braid_capture_fit_clock((struct braid_capture_stream *)part) ?:
		      braid_capture_finish_notes((struct braid_capture_stream *)part);
	return err;
}

/* Return: 0; 1: it must be opened again with ->twins; -errno with braid_fail(). */
static int capture_open_finish(struct braid_capture_source *cs, char *const *paths)
{
	struct braid_source *source = &cs->source;
	u32 order = 0;
	size_t k, j;
	int err;

	err = braid_capture_sort_extents(cs);
	if (err)
		return err;
	if (braid_capture_fit_host(cs))
		return braid_out_of_memory();
	err = braid_capture_join_hosts(cs, paths);
	if (err)
		return err == -ENOMEM ? braid_out_of_memory() : err;
	for (k = 0; k < cs->nr_files; k++) {
		err = cs->files[k].dat ? braid_dat_place(cs->files[k].dat) : 0;
		if (err)
			return err;
	}
	if (braid_capture_tie_windows(cs) || braid_capture_note_windows(cs))
		return braid_out_of_memory();
	err = braid_capture_tie_hosts(cs) ?: braid_capture_find_stays(cs);
	if (err)
		return err == -ENOMEM ? braid_out_of_memory() : err;
	for (k = 0; k < source->nr_streams; k++) {
		struct braid_capture_stream *s = capture_stream(source->streams[k]);

		braid_capture_sort_tables(s);
		if (!braid_capture_note_ring(s))
			return braid_out_of_memory();
		err = fit_parts(s);
		if (err)
			return err == -ENOMEM ? braid_out_of_memory() : err;
		/* At equal times notes come first; their ring is the last one. */
		s->stream.rings[s->stream.nr_rings - 1]->order = order++;
		for (j = 0; j + 1 < s->stream.nr_rings; j++)
			s->stream.rings[j]->order = order++;
	}
	braid_capture_place_hosts(cs);
	for (k = 0; k < source->nr_streams && !err; k++)
		if (source->streams[k]->nr_parts)
			err = braid_capture_settle_stays(capture_stream(source->streams[k]));
	return err || braid_capture_link(source) ? braid_out_of_memory() : 0;
}

static void free_captures(struct braid_source *source)
{
	struct braid_capture_source *cs = capture_of(source);
	size_t k;

	for (k = 0; k < source->nr_streams; k++)
		braid_capture_free_stream(capture_stream(source->streams[k]));
	for (k = 0; k < cs->nr_files; k++) {
		braid_capture_close(cs->files[k].reader);
		braid_trace_dat_close(cs->files[k].dat);
		free(cs->files[k].by_number);
	}
	braid_clock_free(&source->clocks.counter);
	braid_clock_free(&source->clocks.realtime);
	braid_clock_free(&source->clocks.trace);
	braid_capture_free_hosts(cs);
	for (k = 0; k < source->nr_windows; k++)
		free(source->windows[k].guests);
	free(source->windows);
	free(cs->edges);
	free(source->streams);
	free(cs->guests);
	braid_capture_end_index(cs);
	free(cs->files);
	free(cs->types);
	if (cs->twins)
		free(cs->twins->items);
	free(cs->twins);
	free(cs);
}

struct braid_capture_source *braid_capture_new(const struct braid_source_options *options)
{
	struct braid_capture_source *cs = calloc(1, sizeof(*cs));

	if (!cs)
		return NULL;
	cs->twins = calloc(1, sizeof(*cs->twins));
	if (!cs->twins) {
		free(cs);
		return NULL;
	}
	cs->source.free = free_captures;
	if (options) {
		cs->source.fault = options->fault;
		cs->source.fault_arg = options->fault_arg;
		cs->source.progress = options->progress;
		cs->source.progress_arg = options->progress_arg;
		cs->say = options->say;
		cs->say_arg = options->say_arg;
		cs->force_clock = options->force_clock;
		cs->clock = options->clock;
		cs->may_trust = options->by_index;
		cs->keep_samples = options->keep_samples;
		cs->unordered = options->unordered;
		cs->wander = options->wander;
		cs->types = options->check_types ? calloc(1, sizeof(*cs->types)) : NULL;
	}
	return cs;
}

static int finish_with_packets(struct braid_capture_source *cs, char *const *paths);

/*
 * @packets: those of the hosts are used, if they have recorded some. @apart: which guests are
 * several, if some are known to be. Return: 0; 1: some are: ->twins of *out; -errno with
 * braid_fail().
 */
static int open_once(struct braid_capture_source **out, char *const *paths, size_t nr,
		     const struct braid_source_options *options, bool packets,
		     const struct braid_capture_apart *apart)
{
	struct braid_capture_source *cs = braid_capture_new(options);
	int err;

	if (!cs)
		return braid_out_of_memory();
	cs->apart = apart;
	err = open_files(cs, paths, nr);
	if (!err)
		err = packets && braid_capture_has_packets(&cs->source) ?
		      finish_with_packets(cs, paths) : capture_open_finish(cs, paths);
	cs->apart = NULL;
	if (err < 0)
		free_captures(&cs->source);
	else
		*out = cs;
	return err;
}

/*
 * A host's packets are read by its own clock, from a source of their own: this one cannot be read
 * until the hosts' clocks are known.
 */
static int finish_with_packets(struct braid_capture_source *cs, char *const *paths)
{
	const struct braid_source_options options = {
		.unordered = true, .by_index = cs->may_trust,
	};
	const struct braid_capture_apart apart = { .all = true };
	struct braid_packet_pairs packets = { .items = NULL };
	struct braid_capture_source *other;
	int err = open_once(&other, paths, cs->nr_files, &options, false, &apart);

	if (err)
		return err;
	err = braid_capture_pair_packets(&other->source, &packets);
	free_captures(&other->source);
	cs->packets = &packets;
	if (!err)
		err = capture_open_finish(cs, paths);
	cs->packets = NULL;
	free(packets.items);
	return err;
}

int braid_source_open_captures(struct braid_source **out, char *const *paths, size_t nr,
			       const struct braid_source_options *options)
{
	const struct braid_capture_apart all = { .all = true };
	struct braid_capture_source *cs, *first;
	int ret;

	if (!nr || nr > BRAID_MAX_FILES)
		return braid_fail(-EINVAL, "1 to %u captures can be opened at once",
				  BRAID_MAX_FILES);
	ret = open_once(&cs, paths, nr, options, true, NULL);
	if (ret > 0) {
		first = cs;
		ret = open_once(&cs, paths, nr, options, true, first->twins);
		free_captures(&first->source);
	}
	/*
	 * One stream for each host can exceed BRAID_MAX_STREAMS. The second opening then left out
	 * streams whose samples show that others are several guests: no stream is of two hosts.
	 */
	if (ret > 0) {
		free_captures(&cs->source);
		ret = open_once(&cs, paths, nr, options, true, &all);
	}
	if (!ret)
		*out = &cs->source;
	return ret;
}

void braid_source_free(struct braid_source *source)
{
	if (source)
		source->free(source);
}

void braid_source_rewind(struct braid_source *source)
{
	size_t k, j;

	source->bytes_read = 0;
	for (k = 0; k < source->nr_streams; k++)
		for (j = 0; j < source->streams[k]->nr_rings; j++)
			source->streams[k]->rings[j]->ops->rewind(source->streams[k]->rings[j]);
}
