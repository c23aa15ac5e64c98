// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The trace as trace-cmd has it: a file of each host, and one of each guest. CPU by CPU, since
 * a file has each CPU's events contiguous: trace-cmd merges as it reads.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/export/export.h"
#include "host_agent/export/trace_dat/form.h"
#include "host_agent/export/trace_dat/stacks.h"
#include "host_agent/export/trace_dat/states.h"
#include "host_agent/trace/vcpu.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "host_agent/util/folder.h"
#include "host_agent/walk/walk.h"

#define SUFFIX		".dat"
#define PART		".part"
#define NO_ID		0xffffu		/* a type whose events are written as bytes */
#define OUR_SYSTEM	"tracebraid"

static const char note_format[] =
	"name: note\nID: 1\nformat:\n" BRAID_DAT_OUT_COMMON
	"\tfield:__data_loc char[] text;\toffset:8;\tsize:4;\tsigned:1;\n"
	"\nprint fmt: \"%s\", __get_str(text)\n";
static const char bytes_format[] =
	"name: bytes\nID: 2\nformat:\n" BRAID_DAT_OUT_COMMON
	"\tfield:__data_loc char[] event;\toffset:8;\tsize:4;\tsigned:1;\n"
	"\tfield:__data_loc u8[] bytes;\toffset:12;\tsize:4;\tsigned:0;\n"
	"\nprint fmt: \"%s: %s\", __get_str(event), __print_hex(__get_dynamic_array(bytes), "
	"__get_dynamic_array_len(bytes))\n";

struct note_record {
	struct braid_record record;
	u32 text;		/* length:16, offset:16 from the record's start */
};

struct bytes_record {
	struct braid_record record;
	u32 event;		/* likewise */
	u32 bytes;
};

/* Of a note's text, and of an event's bytes: lengths and offsets have 16 bits. */
#define MAX_NOTE_BYTES	(UINT16_MAX - 1u)
#define MAX_SHOWN_BYTES	((UINT16_MAX - (u32)sizeof(struct bytes_record)) & ~3u)

/* The current item. */
struct writing {
	struct braid_walk walk;
	struct braid_dat_out dat;
	struct braid_dat_out_file *file;
	struct braid_dat_out_pages pages;
	struct braid_dat_out_states *states;	/* NULL: none are written */
	u32 cpu;
	u16 *ids;		/* by a type's number; 0: not seen yet */
	size_t nr_ids;
	bool lost;		/* a loss without a later event yet: */
	u64 lost_ns;
	const struct braid_ring *lost_ring;
	u64 lost_seq;
};

/* Events ------------------------------------------------------------------------------------- */

/* The time of the current item. No file has times before its clock's start. */
static u64 time_of(const struct writing *w)
{
	return w->walk.ns < 0 ? 0 : (u64)w->walk.ns;
}

static int put_record(struct writing *w, u64 ns, u32 bytes, void **record)
{
	struct braid_dat_out_file *file = w->file;
	int err = braid_dat_out_pages_put(&w->pages, ns, bytes, record);

	if (err)
		return err;
	if (!file->any || ns < file->first_ns)
		file->first_ns = ns;
	if (!file->any || ns > file->last_ns)
		file->last_ns = ns;
	file->any = true;
	return 0;
}

static int trace_dat_put_note(struct writing *w, u64 ns, const char *text, u32 bytes)
{
	struct note_record note = {
		.record = { .common_type = BRAID_DAT_OUT_NOTE, .common_pid = BRAID_PID_UNKNOWN },
		.text = (bytes + 1) << 16 | sizeof(note),
	};
	void *record;
	int err = put_record(w, ns, sizeof(note) + bytes + 1, &record);

	if (err)
		return err;
	memcpy(record, &note, sizeof(note));
	memcpy(record + sizeof(note), text, bytes);
	((char *)record)[sizeof(note) + bytes] = 0;
	return 0;
}

/* A loss is written with the next event; if that isn't written, with a substitute. */
static int finish_loss(struct writing *w, const struct braid_item *item)
{
	static const char text[] = "events were lost";

	if (!w->lost)
		return 0;
	w->lost = false;
	if (item && item->ring == w->lost_ring && item->seq == w->lost_seq)
		return 0;
	return trace_dat_put_note(w, w->lost_ns, text, strlen(text));
}

static int take_loss(void *arg, const struct braid_item *item)
{
	struct writing *w = arg;
	int err = finish_loss(w, NULL);

	if (err)
		return err;
	braid_dat_out_pages_lose(&w->pages, item->lost_before);
	w->lost = true;
	w->lost_ns = time_of(w);
	w->lost_ring = item->ring;
	w->lost_seq = item->seq;
	return 0;
}

static int take_note(void *arg, const struct braid_item *item)
{
	struct braid_text safe = { 0 };
	struct writing *w = arg;
	int err = finish_loss(w, NULL);

	if (err)
		return err;
	braid_text_safe(&safe, (const char *)item->payload, item->payload_bytes);
	err = safe.failed ? braid_out_of_memory() :
			    trace_dat_put_note(w, time_of(w), safe.data,
			     safe.bytes < MAX_NOTE_BYTES ? safe.bytes : MAX_NOTE_BYTES);
	braid_text_free(&safe);
	return err;
}

/* An event that no format explains: what it is called, and its bytes. */
static int put_bytes(struct writing *w, const struct braid_item *item,
		     const struct braid_event_type_info *info)
{
	const char *label = braid_format_label(info);
	u32 label_bytes = strlen(label) + 1;
	u32 shown = item->payload_bytes < MAX_SHOWN_BYTES ? item->payload_bytes : MAX_SHOWN_BYTES;
	u32 padded = (shown + 3) & ~3u;
	struct bytes_record bytes = {
		.record.common_pid = BRAID_PID_UNKNOWN,
		.bytes = shown << 16 | sizeof(bytes),
		.event = label_bytes << 16 | (sizeof(bytes) + padded),
	};
	void *record;
	int err = put_record(w, time_of(w), sizeof(bytes) + padded + label_bytes, &record);

	if (err)
		return err;
	if (braid_format_pid(item) != BRAID_PID_UNKNOWN)
		memcpy(&bytes.record, item->payload, sizeof(bytes.record));
	bytes.record.common_type = BRAID_DAT_OUT_BYTES;
	memcpy(record, &bytes, sizeof(bytes));
	if (shown)	/* else there may be none at all */
		memcpy(record + sizeof(bytes), item->payload, shown);
	memset(record + sizeof(bytes) + shown, 0, padded - shown);
	memcpy(record + sizeof(bytes) + padded, label, label_bytes);
	return 0;
}

/* Gives a type its id in the file, and writes its format there. */
static int take_kind(struct writing *w, const struct braid_event_type_info *info)
{
	struct braid_text text = { 0 };
	u32 id = BRAID_DAT_OUT_FIRST_KIND + w->file->nr_types;
	const char *system;
	int err = 0;

	if (id <= BRAID_DAT_OUT_MAX_ID && braid_format_emit_sanitized(info, id, &text, &system)) {
		err = text.failed ? braid_out_of_memory() : 0;
		if (!err)
			braid_dat_out_put_format(w->file, system, text.data, text.bytes);
		w->file->nr_types++;
		w->ids[info->number] = id;
	} else {
		w->ids[info->number] = NO_ID;
	}
	braid_text_free(&text);
	return err;
}

/* The kernel's stack, which may have no frames, and that of the user, if there is one. */
static int put_stacks(struct writing *w, const struct braid_item *item,
		      const struct braid_event_type_info *info)
{
	int user, err = 0;
	const u8 *frames;
	void *record;
	u32 bytes;

	for (user = 0; user < 2 && !err; user++) {
		bytes = braid_dat_out_stacks_find(item, info, user, &frames);
		if (!bytes && user)
			continue;
		err = put_record(w, time_of(w), braid_dat_out_stacks_bytes(bytes), &record);
		if (!err)
			braid_dat_out_stacks_fill(record, item, user, frames, bytes);
	}
	return err;
}

static int trace_dat_take_event(void *arg, const struct braid_item *item,
				const struct braid_event_type_info *info)
{
	struct writing *w = arg;
	void *record;
	int err = finish_loss(w, item);

	if (!err && braid_array_cover(w->ids, w->nr_ids, info->number))
		err = braid_out_of_memory();
	if (!err && !w->ids[info->number])
		err = take_kind(w, info);
	if (err)
		return err;
	if (w->ids[info->number] == NO_ID || !braid_format_holds(info, item))
		return put_bytes(w, item, info);
	if (braid_dat_out_stacks_is(info))
		return put_stacks(w, item, info);
	err = put_record(w, time_of(w), item->payload_bytes, &record);
	if (err)
		return err;
	memcpy(record, item->payload, item->payload_bytes);
	memcpy(record, &w->ids[info->number], sizeof(u16));
	return 0;
}

/* A file ------------------------------------------------------------------------------------- */

/* The rings of the current CPU. Notes of the stream are written on CPU 0. */
static bool trace_dat_want_ring(void *arg, const struct braid_ring *ring)
{
	const struct writing *w = arg;

	return ring->stream == w->file->stream &&
	       (ring->cpu == w->cpu || (!w->cpu && ring->cpu == BRAID_RING_NOTES));
}

/* The second buffer; in front of it there is space for its section's header. */
static int write_states(struct writing *w)
{
	struct braid_dat_out_file *file = w->file;
	int err = braid_dat_out_pages_skip(&w->pages);
	u32 k;

	file->states_start = w->pages.bytes;
	for (k = 0; k < file->nr_cpus && !err; k++) {
		file->states[k].offset = w->pages.bytes;
		err = braid_dat_out_states_put(w->states, file->stream, k, &w->pages);
		file->states[k].bytes = w->pages.bytes - file->states[k].offset;
	}
	return err;
}

static int write_cpus(struct writing *w)
{
	static const struct braid_walk_ops ops = {
		.event = trace_dat_take_event,
		.lost = take_loss,
		.note = take_note,
	};
	struct braid_dat_out_file *file = w->file;
	int err = 0;

	for (w->cpu = 0; w->cpu < file->nr_cpus && !err; w->cpu++) {
		struct braid_dat_out_cpu *cpu = &file->cpus[w->cpu];

		cpu->offset = w->pages.bytes;
		if (file->stream)
			err = braid_walk_run(&w->walk, &ops, w);
		if (!err)
			err = finish_loss(w, NULL);
		if (!err)
			err = braid_dat_out_pages_close(&w->pages);
		cpu->bytes = w->pages.bytes - cpu->offset;
	}
	if (!err && file->has_states)
		err = write_states(w);
	if (!err)
		err = braid_dat_out_pages_flush(&w->pages);
	file->data_end = w->pages.bytes;
	if (!err && ftruncate(file->fd, file->data_end))	/* also without a page */
		err = braid_fail(-errno, "cannot write '%s': %s", file->path, strerror(errno));
	return err;
}

/* All of a file, with pages of the size and at the place that it has now. */
static int try_file(struct writing *w)
{
	struct braid_dat_out_file *file = w->file;
	int err = 0;

	file->any = false;
	w->lost = false;
	if (ftruncate(file->fd, 0) || lseek(file->fd, file->data_start, SEEK_SET) < 0)
		err = braid_fail(-errno, "cannot write '%s': %s", file->path, strerror(errno));
	if (!err)
		err = braid_dat_out_pages_begin(&w->pages, file->fd, file->page_bytes,
					    file->data_start);
	if (!err)
		err = write_cpus(w);
	if (!err)
		err = braid_dat_out_put_head(&w->dat, file);
	braid_dat_out_pages_end(&w->pages);
	return err;
}

static void rewind_stream(const struct braid_stream *stream)
{
	size_t k;

	for (k = 0; stream && k < stream->nr_rings; k++)
		stream->rings[k]->ops->rewind(stream->rings[k]);
}

/* Repeats with larger pages, or more space before them, if needed. */
static int write_file(struct writing *w, struct braid_dat_out_file *file)
{
	struct braid_walk_totals before = *w->walk.totals;
	int err;

	w->file = file;
	file->has_states = w->states && file->stream && file->stream->kind == BRAID_STREAM_GUEST;
	file->states = file->has_states ? calloc(file->nr_cpus, sizeof(*file->states)) : NULL;
	if (file->has_states && !file->states)
		return braid_out_of_memory();
	file->page_bytes = BRAID_DAT_OUT_PAGE_BYTES;
	file->data_start = braid_dat_out_head_bytes(&w->dat, file);
	braid_dat_out_put_format(file, OUR_SYSTEM, note_format, strlen(note_format));
	braid_dat_out_put_format(file, OUR_SYSTEM, bytes_format, strlen(bytes_format));
	braid_dat_out_stacks_format(file);
	if (file->has_states)
		braid_dat_out_states_format(file);
	for (;;) {
		file->data_start += -file->data_start & (file->page_bytes - 1);
		err = try_file(w);
		if (err == -EMSGSIZE)
			file->page_bytes = w->pages.needed_bytes;
		else if (err != -EAGAIN)
			return err;
		*w->walk.totals = before;
		rewind_stream(file->stream);
	}
}

/* Names and numbers -------------------------------------------------------------------------- */

/* The guest's own name in a file's name: without '/', and without the separators of numbers. */
static char path_character(char c)
{
	return isalnum((unsigned char)c) || (c && strchr("-_.", c)) ? c : '_';
}

static bool same_name(const char *a, const char *b)
{
	for (; *a && *b; a++, b++)
		if (path_character(*a) != path_character(*b))
			return false;
	return *a == *b;
}

/* "OUT.dat"; "OUT-web1.dat"; then "OUT-web1+2.dat" for a later one of that label. */
static char *trace_dat_path(const struct braid_dat_out *d, const char *base, const char *label)
{
	char *path = NULL, *sanitized, *c;
	u32 number = 1;
	size_t k;
	int n;

	if (!label)
		return asprintf(&path, "%s" SUFFIX, base) < 0 ? NULL : path;
	sanitized = strdup(label);
	if (!sanitized)
		return NULL;
	for (c = sanitized; *c; c++)
		*c = path_character(*c);
	for (k = 0; k < d->nr_files; k++)
		number += d->files[k].label && same_name(d->files[k].label, label);
	n = number > 1 ? asprintf(&path, "%s-%s+%u" SUFFIX, base, sanitized, number) :
			 asprintf(&path, "%s-%s" SUFFIX, base, sanitized);
	free(sanitized);
	return n < 0 ? NULL : path;
}

static u32 count_cpus(const struct braid_stream *stream)
{
	u32 nr = stream && stream->nr_cpus ? stream->nr_cpus : 1;
	size_t k;

	for (k = 0; stream && k < stream->nr_rings; k++)
		if (stream->rings[k]->cpu != BRAID_RING_NOTES && stream->rings[k]->cpu >= nr)
			nr = stream->rings[k]->cpu + 1;
	return nr;
}

static int add_file(struct braid_dat_out *d, const char *base, const struct braid_dat_out_file *of)
{
	struct braid_dat_out_file *file = &d->files[d->nr_files];

	*file = *of;
	file->fd = -1;
	file->path = trace_dat_path(d, base, file->label);
	if (!file->path || asprintf(&file->part, "%s" PART, braid_folder_name(file->path)) < 0)
		file->part = NULL;
	file->nr_cpus = count_cpus(file->stream);
	file->cpus = calloc(file->nr_cpus, sizeof(*file->cpus));
	file->trace_id = braid_dat_out_make_id(d->source, file->stream, d->nr_files);
	d->nr_files++;
	return file->part && file->cpus ? 0 : braid_out_of_memory();
}

static bool trace_dat_wanted(const struct braid_walk_options *options,
			     const struct braid_stream *stream)
{
	return !options->stream || braid_stream_is(stream, options->stream);
}

/* NULL: it was not recorded. */
static const struct braid_stream *trace_dat_host(const struct braid_source *source, u32 number)
{
	size_t k;

	for (k = 0; k < source->nr_streams; k++)
		if (source->streams[k]->kind == BRAID_STREAM_HOST &&
		    braid_stream_host_number(source->streams[k]) == number)
			return source->streams[k];
	return NULL;
}

/* Files of hosts are always there, and first: they list the guests. */
static int add_files(struct braid_dat_out *d, const char *base,
		     const struct braid_walk_options *options)
{
	size_t nr_hosts = d->source->nr_hosts ?: 1, k;
	int err = 0;

	d->files = calloc(d->source->nr_streams + nr_hosts, sizeof(*d->files));
	if (!d->files)
		return braid_out_of_memory();
	for (k = 0; k < nr_hosts && !err; k++)
		err = add_file(d, base, &(struct braid_dat_out_file){
			.is_host = true, .host = k, .stream = trace_dat_host(d->source, k),
			.label = nr_hosts > 1 ? d->source->hosts[k]->name : NULL,
		});
	for (k = 0; k < d->source->nr_streams && !err; k++) {
		const struct braid_stream *s = d->source->streams[k];
		u32 host = braid_stream_host_number(braid_stream_first_part(s));

		if (s != d->files[host].stream && s->kind != BRAID_STREAM_VM &&
		    trace_dat_wanted(options, s))
			err = add_file(d, base, &(struct braid_dat_out_file){
				.host = host, .stream = s, .label = s->name,
			});
	}
	return err;
}

static void free_files(struct braid_dat_out *d)
{
	size_t k;

	for (k = 0; k < d->nr_files; k++) {
		struct braid_dat_out_file *file = &d->files[k];

		if (file->fd >= 0)
			close(file->fd);
		braid_text_free(&file->ftrace.text);
		braid_text_free(&file->events.text);
		free(file->states);
		free(file->path);
		free(file->part);
		free(file->cpus);
	}
	free(d->files);
	if (d->folder >= 0)
		close(d->folder);
}

/* The export --------------------------------------------------------------------------------- */

static int write_files(struct writing *w)
{
	size_t k;
	int err = 0;

	w->walk.wants = trace_dat_want_ring;
	w->walk.no_order = true;
	w->walk.wants_arg = w;
	for (k = 0; k < w->dat.nr_files && !err; k++) {
		struct braid_dat_out_file *file = &w->dat.files[k];

		file->fd = braid_export_create(w->dat.folder, file->path, file->part,
					       w->walk.options, &file->made);
		if (file->fd < 0)
			return file->fd;
		err = write_file(w, file);
		if (close(file->fd) && !err)
			err = braid_fail(-errno, "cannot write '%s': %s", file->path,
					 strerror(errno));
		file->fd = -1;
	}
	return err;
}

/* Renames all files, or removes all if one is incomplete. */
static int name_files(struct braid_dat_out *d, int err)
{
	size_t k;

	for (k = d->nr_files; k-- > 0;) {	/* the hosts' are there when all are */
		struct braid_dat_out_file *file = &d->files[k];

		if (!err)
			err = braid_export_complete(d->folder, file->path, file->part, &file->made);
		if (err && file->made.st_mode)
			braid_folder_remove(d->folder, file->part, &file->made);
	}
	return err;
}

/* Of all files: a guest's name in a file's name has no '/'. */
static int open_folder(struct braid_dat_out *d, const char *out)
{
	if (!*braid_folder_name(out))
		return braid_fail(-EISDIR, "cannot create '%s': name a file in it", out);
	d->folder = braid_folder_open(d->files[0].path);
	return d->folder >= 0 ? 0 :
	       braid_fail(d->folder, "cannot create '%s': %s", out, strerror(-d->folder));
}

static int trace_dat_export(u32 version, const char *out, struct braid_source *source,
			    const struct braid_walk_options *options,
			    struct braid_walk_totals *totals)
{
	struct writing w = { .dat = { .source = source, .version = version, .folder = -1 } };
	size_t bytes = strlen(out);
	char *base;
	int err;

	if (bytes > strlen(SUFFIX) && !strcmp(out + bytes - strlen(SUFFIX), SUFFIX))
		bytes -= strlen(SUFFIX);
	base = strndup(out, bytes);
	err = base ? braid_walk_begin(&w.walk, source, options, totals) :
		     braid_out_of_memory();
	w.dat.format = w.walk.format;
	if (!err && options->states)
		err = braid_dat_out_states_make(&w.states, source, options);
	if (!err)
		err = add_files(&w.dat, base, options);
	if (!err)
		err = open_folder(&w.dat, out);
	if (!err)
		err = name_files(&w.dat, write_files(&w));
	braid_walk_end(&w.walk);
	free_files(&w.dat);
	braid_dat_out_states_free(w.states);
	free(w.ids);
	free(base);
	return err;
}

int braid_export_trace_dat(const char *out, struct braid_source *source,
			   const struct braid_walk_options *options,
			   struct braid_walk_totals *totals)
{
	return trace_dat_export(7, out, source, options, totals);
}

int braid_export_trace_dat_v6(const char *out, struct braid_source *source,
			      const struct braid_walk_options *options,
			      struct braid_walk_totals *totals)
{
	return trace_dat_export(6, out, source, options, totals);
}
