// SPDX-License-Identifier: GPL-2.0-or-later
/* Opens a trace.dat of trace-cmd: its head, its options, and the places of everything else. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host_agent/trace/trace_dat.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "host_agent/util/input.h"
#include "host_agent/util/io.h"
#include "host_agent/util/text.h"

#define MAX_OPTION_SECTIONS	1024u
#define MAX_OPTION_BYTES	(1u << 20)	/* of one */

/* "a [b] c" or "b": the clock named by tracefs' text; sanitized. */
static void take_clock_name(char to[24], const char *text)
{
	const char *from = strchr(text, '[');
	size_t n;

	from = from ? from + 1 : text;
	n = strcspn(from, "] \n");
	snprintf(to, 24, "%.*s", (int)(n < 24 ? n : 23), from);
	braid_text_clean(to);
}

/* Options --------------------------------------------------------------------------------- */

/* Version 7 lists the buffer's CPUs at once. */
static void take_buffer(struct braid_dat_input *in)
{
	struct braid_trace_dat *dat = in->dat;
	struct braid_dat_buffer *b = &dat->buffers[dat->nr_buffers];
	char clock[256];
	u32 k;

	if (dat->nr_buffers == BRAID_MAX_BUFFERS) {
		braid_dat_refuse(in, "it has too many buffers");
		return;
	}
	b->at = braid_dat_number(in, 8);
	braid_dat_take_string(in, b->name, sizeof(b->name));
	if (in->err)
		return;
	braid_text_clean(b->name);
	dat->nr_buffers++;
	if (!dat->sections)
		return;
	braid_dat_take_string(in, clock, sizeof(clock));
	b->page_bytes = braid_dat_number(in, 4);
	b->nr_cpus = braid_dat_number(in, 4);
	if (b->nr_cpus > BRAID_MAX_CPUS)
		braid_dat_refuse(in, "a buffer has too many CPUs");
	if (in->err)
		return;
	take_clock_name(b->clock, clock);
	b->cpus = calloc(b->nr_cpus + 1, sizeof(*b->cpus));
	if (!b->cpus)
		in->err = braid_out_of_memory();
	for (k = 0; k < b->nr_cpus && !in->err; k++) {
		b->cpus[k].cpu = braid_dat_number(in, 4);
		b->cpus[k].at = braid_dat_number(in, 8);
		b->cpus[k].bytes = braid_dat_number(in, 8);
	}
}

/* "Linux HOST RELEASE MACHINE" */
static void take_uname(struct braid_trace_dat *dat, const char *text)
{
	if (sscanf(text, "%*s %63s %63s %31s", dat->host_name, dat->release, dat->machine) != 3)
		dat->host_name[0] = dat->release[0] = dat->machine[0] = 0;
	braid_text_clean(dat->machine);
	braid_text_clean(dat->host_name);
	braid_text_clean(dat->release);
}

/* One option, with a NUL after its text. */
static int take_option(struct braid_trace_dat *dat, u32 id, const u8 *data, u32 bytes)
{
	struct braid_dat_input in = { .dat = dat, .memory = data, .end = bytes };

	switch (id) {
	case BRAID_DAT_BUFFER:
		take_buffer(&in);
		break;
	case BRAID_DAT_TRACE_CLOCK:
		take_clock_name(dat->clock, (const char *)data);
		return 0;
	case BRAID_DAT_UNAME:
		take_uname(dat, (const char *)data);
		return 0;
	case BRAID_DAT_DATE:
		return braid_dat_take_offset(dat, (const char *)data, 1000);
	case BRAID_DAT_CPU_STAT:
		return braid_dat_take_stats(dat, (const char *)data);
	case BRAID_DAT_OFFSET:
		return braid_dat_take_offset(dat, (const char *)data, 1);
	case BRAID_DAT_TSC2NSEC:
		braid_dat_take_scale(&in);
		break;
	case BRAID_DAT_TIME_SHIFT:
		dat->of_guest = true;
		braid_dat_take_shifts(&in);
		break;
	case BRAID_DAT_TRACE_ID:
		dat->trace_id = braid_dat_number(&in, 8);
		break;
	case BRAID_DAT_GUEST:
		braid_dat_take_guest(&in);
		break;
	case BRAID_DAT_CPU_COUNT:
		dat->nr_cpus = braid_dat_number(&in, 4);
		break;
	default:	/* others are of no use here, or of a later version */
		if (dat->sections && id < BRAID_DAT_IDS && id >= BRAID_DAT_HEADER_INFO)
			dat->places[id] = braid_dat_number(&in, 8);
	}
	return in.err;
}

/* All options of one place. Return: the place of the next ones; 0: none. */
static u64 take_options(struct braid_dat_input *in)
{
	u64 id, bytes, next = 0;
	u8 *data;

	for (;;) {
		id = braid_dat_number(in, 2);
		if (in->err || (id == BRAID_DAT_DONE && !in->dat->sections))
			return 0;
		bytes = braid_dat_number(in, 4);
		if (bytes > MAX_OPTION_BYTES)
			braid_dat_refuse(in, "an option in it is too long");
		data = braid_dat_take_new(in, bytes);
		if (data && id == BRAID_DAT_DONE)
			memcpy(&next, data, bytes < 8 ? bytes : 8);
		else if (data)
			in->err = take_option(in->dat, id, data, bytes);
		free(data);
		if (in->err || id == BRAID_DAT_DONE)
			return next;
	}
}

/* Version 7 ------------------------------------------------------------------------------- */

/* A section's bytes, in memory; free() them. Return: 0, or -errno. */
static int load_section(struct braid_trace_dat *dat, u64 at, u32 wanted,
			struct braid_dat_input *section)
{
	struct braid_dat_input in = braid_dat_at(dat, at);
	u64 id = braid_dat_number(&in, 2), packed_bytes, size;
	bool packed = braid_dat_number(&in, 2) & BRAID_DAT_COMPRESSED;

	braid_dat_number(&in, 4);	/* its name */
	packed_bytes = size = braid_dat_number(&in, 8);
	if (packed) {
		packed_bytes = braid_dat_number(&in, 4);
		size = braid_dat_number(&in, 4);
	}
	if (id != wanted || size > BRAID_DAT_MAX_SECTION || packed_bytes > in.end - in.at)
		return braid_dat_refuse(&in, "misplaced or oversized section");
	if (size > dat->bytes_left)
		return braid_dat_refuse(&in, "its sections are larger than it can hold");
	dat->bytes_left -= size;
	*section = (struct braid_dat_input){ .dat = dat, .end = size };
	section->memory = packed ?
		braid_dat_take_packed(&in, packed_bytes, size,
				      "one of its sections cannot be decompressed") :
		braid_dat_take_new(&in, size);
	return in.err;
}

static int take_section(struct braid_trace_dat *dat, u32 id)
{
	struct braid_dat_input in;
	int err;

	if (!dat->places[id])
		return id == BRAID_DAT_HEADER_INFO ?
		       braid_dat_broken(dat, "header_page is missing") : 0;
	err = load_section(dat, dat->places[id], id, &in);
	if (err)
		return err;
	switch (id) {
	case BRAID_DAT_HEADER_INFO:
		braid_dat_take_header(&in);
		break;
	case BRAID_DAT_FTRACE_EVENTS:
	case BRAID_DAT_EVENT_FORMATS:
		braid_dat_take_formats(&in, id == BRAID_DAT_FTRACE_EVENTS);
		break;
	case BRAID_DAT_KALLSYMS:
		braid_dat_take_kallsyms(&in);
		break;
	case BRAID_DAT_PRINTK:
		braid_dat_take_printk(&in);
		break;
	case BRAID_DAT_CMDLINES:
		braid_dat_take_comms(&in);
		break;
	}
	free((void *)in.memory);
	return in.err;
}

static int check_compression(struct braid_dat_input *in)
{
	char name[64], version[64];

	braid_dat_take_string(in, name, sizeof(name));
	braid_dat_take_string(in, version, sizeof(version));
	in->dat->zlib = !strcmp(name, "zlib");
	if (in->err || in->dat->zlib || !strcmp(name, "none") || !strcmp(name, "zstd"))
		return in->err;
	braid_text_clean(name);
	return braid_fail(-EOPNOTSUPP, "'%s' is compressed by %s; none, zlib and zstd can be read",
			  in->dat->path, name);
}

static int read_version_7(struct braid_dat_input *in)
{
	struct braid_trace_dat *dat = in->dat;
	struct braid_dat_input options;
	u32 turns = 0, id;
	u64 next;
	int err = check_compression(in);

	next = err ? 0 : braid_dat_number(in, 8);
	err = err ?: in->err;
	while (!err && next) {
		if (++turns > MAX_OPTION_SECTIONS)
			return braid_dat_broken(dat, "its options have no end");
		err = load_section(dat, next, BRAID_DAT_DONE, &options);
		if (err)
			break;
		next = take_options(&options);
		err = options.err;
		free((void *)options.memory);
	}
	for (id = BRAID_DAT_HEADER_INFO; id < BRAID_DAT_IDS && !err; id++)
		err = take_section(dat, id);
	return err;
}

/* Version 6 ------------------------------------------------------------------------------- */

/* In sequence; the top buffer's table of CPUs is last. */
static int read_version_6(struct braid_dat_input *in)
{
	struct braid_trace_dat *dat = in->dat;
	struct braid_dat_buffer *top = &dat->buffers[0];
	char word[10];

	dat->nr_buffers = 1;
	braid_dat_take_header(in);
	braid_dat_take_formats(in, true);
	braid_dat_take_formats(in, false);
	braid_dat_take_kallsyms(in);
	braid_dat_take_printk(in);
	braid_dat_take_comms(in);
	dat->nr_cpus = braid_dat_number(in, 4);
	top->at = in->at;
	braid_dat_take(in, word, sizeof(word));
	if (!memcmp(word, "options", 7)) {
		take_options(in);
		top->at = in->at;
	}
	return in->err;
}

/* Both ------------------------------------------------------------------------------------ */

/* Up to the compression's name. */
static int read_head(struct braid_dat_input *in)
{
	char magic[sizeof(BRAID_TRACE_DAT_MAGIC) - 1], version[8];
	struct braid_trace_dat *dat = in->dat;
	u64 big, wide;

	braid_dat_take(in, magic, sizeof(magic));
	braid_dat_take_string(in, version, sizeof(version));
	big = braid_dat_number(in, 1);
	wide = braid_dat_number(in, 1);
	dat->page_bytes = braid_dat_number(in, 4);
	if (in->err)
		return in->err;
	braid_text_clean(version);
	if (strcmp(version, "6") && strcmp(version, "7"))
		return braid_fail(-EOPNOTSUPP, "'%s' is a trace.dat of version %s; 6 and 7 can be read",
				  dat->path, version);
	if (big || wide != 8)
		return braid_fail(-EOPNOTSUPP, "'%s' is from a machine that is not 64-bit little-endian",
				  dat->path);
	dat->sections = version[0] == '7';
	return 0;
}

static int read_all(struct braid_trace_dat *dat)
{
	struct braid_dat_input in = { .dat = dat, .end = dat->file_bytes };
	u32 k;
	int err;

	err = read_head(&in);
	if (!err)
		err = dat->sections ? read_version_7(&in) : read_version_6(&in);
	if (!err)
		braid_dat_name_clocks(dat);
	for (k = 0; k < dat->nr_buffers && !err; k++)
		err = braid_dat_index_buffer(dat, k);
	braid_dat_spread_stats(dat);
	return err;
}

void braid_dat_name_stream(struct braid_trace_dat *dat, const char *name)
{
	struct braid_source *source = &dat->source->source;
	struct braid_stream *s = &dat->stream->stream;
	u32 turn = 1;
	size_t k;

	snprintf(s->name, sizeof(s->name), "%.50s", name);
	braid_text_clean(s->name);
	for (k = 0; k < source->nr_streams; k++) {
		if (source->streams[k] == s || strcmp(source->streams[k]->name, s->name))
			continue;
		snprintf(s->name, sizeof(s->name), "%.50s", name);
		braid_text_clean(s->name);
		snprintf(s->name + strlen(s->name), 13, "#%u", ++turn);
		k = -1;	/* check again */
	}
}

static void trace_dat_describe(struct braid_trace_dat *dat)
{
	struct braid_stream *s = &dat->stream->stream;
	u32 k;

	snprintf(s->kernel_release, sizeof(s->kernel_release), "%s",
		 *dat->release ? dat->release : "?");
	snprintf(s->machine, sizeof(s->machine), "%s", *dat->machine ? dat->machine : "?");
	s->nr_cpus = dat->nr_cpus;
	s->nr_buffers = dat->nr_buffers;
	for (k = 0; k < dat->nr_buffers; k++)
		snprintf(s->buffers[k].name, sizeof(s->buffers[k].name), "%s",
			 *dat->buffers[k].name ? dat->buffers[k].name : "trace");
}

int braid_trace_dat_open(struct braid_trace_dat **out, struct braid_capture_source *cs, u32 file,
			 const char *path)
{
	struct braid_trace_dat *dat = calloc(1, sizeof(*dat));
	const char *base = strrchr(path, '/');
	struct stat st;
	int err;

	*out = dat;
	if (!dat)
		return braid_out_of_memory();
	dat->source = cs;
	dat->file = file;
	snprintf(dat->path, sizeof(dat->path), "%s", path);
	braid_text_clean(dat->path);
	dat->fd = braid_input_open(path);
	if (dat->fd < 0 || fstat(dat->fd, &st))
		return braid_fail(-errno, "cannot open '%s': %s", dat->path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return braid_fail(-EINVAL, "'%s' is not a regular file", dat->path);
	dat->file_bytes = st.st_size;
	dat->bytes_left = BRAID_DAT_LEAST_BYTES + BRAID_DAT_MOST_TIMES * dat->file_bytes;
	dat->stream = braid_capture_add_stream(cs);
	if (!dat->stream)
		return braid_out_of_memory();
	dat->stream->stream.kind = BRAID_STREAM_HOST;
	braid_dat_name_stream(dat, base ? base + 1 : path);
	err = read_all(dat);
	if (!err)
		trace_dat_describe(dat);
	return err;
}

void braid_trace_dat_close(struct braid_trace_dat *dat)
{
	size_t k;

	if (!dat)
		return;
	if (dat->fd >= 0)
		close(dat->fd);
	for (k = 0; k < BRAID_MAX_BUFFERS; k++)
		free(dat->buffers[k].cpus);
	for (k = 0; k < dat->nr_caches; k++)
		free(dat->caches[k].data);
	free(dat->lost);
	free(dat->caches);
	braid_dat_free_shifts(&dat->times);
	braid_dat_free_guests(dat);
	free(dat);
}
