// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * All of a trace.dat except the pages: what trace-cmd.dat.v6(5) and trace-cmd.dat.v7(5) describe.
 * Version 6 has one part after another in front of the pages; version 7 has them as sections
 * after them, found by options.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>
#include <unistd.h>

#include "host_agent/export/trace_dat/states.h"
#include "host_agent/trace/trace_dat_ids.h"
#include "host_agent/util/error.h"
#include "host_agent/util/io.h"

#define HEADER_V7_BYTES	32u	/* the file's, up to and with where the options are */
#define SECTION_BYTES	16u	/* of a section's header */
#define SPARE_BYTES	(256u << 10)	/* of version 6, for what formats grow by */
#define TIME_SAMPLES	2u	/* required by readers */

static void put16(struct braid_text *t, u16 value)
{
	braid_text_put(t, (const char *)&value, sizeof(value));
}

static void put32(struct braid_text *t, u32 value)
{
	braid_text_put(t, (const char *)&value, sizeof(value));
}

static void put64(struct braid_text *t, u64 value)
{
	braid_text_put(t, (const char *)&value, sizeof(value));
}

static void trace_dat_head_put_string(struct braid_text *t, const char *s)
{
	braid_text_put(t, s, strlen(s) + 1);
}

/* Parts that both versions have ------------------------------------------------------------- */

static void put_beginning(struct braid_text *t, const struct braid_dat_out *d,
			  const struct braid_dat_out_file *file)
{
	braid_text_puts(t, BRAID_TRACE_DAT_MAGIC);
	trace_dat_head_put_string(t, d->version == 6 ? "6" : "7");
	braid_text_put(t, "\0\x08", 2);	/* little endian, longs of 8 bytes */
	put32(t, file->page_bytes);
}

static void put_headers(struct braid_text *t, const struct braid_dat_out_file *file)
{
	static const char event[] =
		"type_len: 5 bits\ntime_delta: 27 bits\narray: 32 bits\n\n"
		"padding: type == 29\ntime_extend: type == 30\ntime_stamp: type == 31\n"
		"data max type_len == 28\n";
	char page[512];

	snprintf(page, sizeof(page),
		 "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"
		 "\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n"
		 "\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n"
		 "\tfield: char data;\toffset:16;\tsize:%u;\tsigned:1;\n",
		 file->page_bytes - BRAID_SUBBUF_HEADER_BYTES);
	trace_dat_head_put_string(t, "header_page");
	put64(t, strlen(page));
	braid_text_puts(t, page);
	trace_dat_head_put_string(t, "header_event");
	put64(t, strlen(event));
	braid_text_puts(t, event);
}

void braid_dat_out_put_format(struct braid_dat_out_file *file, const char *system,
			      const char *text, size_t bytes)
{
	bool ftrace = !strcmp(system, "ftrace");
	struct braid_dat_out_formats *to = ftrace ? &file->ftrace : &file->events;

	/* Each is a system of one event: duplicate systems are harmless. */
	if (!ftrace) {
		trace_dat_head_put_string(&to->text, system);
		put32(&to->text, 1);
	}
	put64(&to->text, bytes);
	braid_text_put(&to->text, text, bytes);
	to->nr++;
}

static void put_formats(struct braid_text *t, const struct braid_dat_out_formats *formats)
{
	put32(t, formats->nr);
	braid_text_put(t, formats->text.data, formats->text.bytes);
}

/* A text in front of which goes its size, of 4 bytes or of 8. */
static void set_size(struct braid_text *t, size_t at, u32 size_bytes)
{
	u64 bytes = t->bytes - at - size_bytes;

	if (!t->failed)
		memcpy(t->data + at, &bytes, size_bytes);
}

static void put_symbols(struct braid_text *t, const struct braid_dat_out *d,
			const struct braid_dat_out_file *file)
{
	size_t at = t->bytes;

	put32(t, 0);
	if (file->stream)
		braid_format_symbols(d->format, file->stream, t);
	set_size(t, at, sizeof(u32));
}

/* What a %s prints that points to a constant text. No event has a format by its address here. */
static void put_constants(struct braid_text *t, const struct braid_dat_out *d,
			  const struct braid_dat_out_file *file)
{
	size_t at = t->bytes;

	put32(t, 0);
	if (file->stream)
		braid_format_constants(d->format, file->stream, t);
	set_size(t, at, sizeof(u32));
}

/* A task has one name there: the last one. */
static void put_comms(struct braid_text *t, const struct braid_dat_out_file *file)
{
	const struct braid_stream *s = file->stream;
	size_t k, at = t->bytes;

	put64(t, 0);
	for (k = 0; s && k < s->nr_comms; k++) {
		const struct braid_comm *c = &s->comms[k];

		if (c->pid <= 0 || (k + 1 < s->nr_comms && c[1].pid == c->pid))
			continue;
		if (!c->comm[strspn(c->comm, " ")])
			continue;	/* no name that could be read */
		braid_text_u64(t, c->pid, 0, ' ');
		braid_text_putc(t, ' ');
		braid_text_safe(t, c->comm, sizeof(c->comm));
		braid_text_putc(t, '\n');
	}
	set_size(t, at, sizeof(u64));
}

u64 braid_dat_out_make_id(const struct braid_source *source, const struct braid_stream *stream,
			  u32 number)
{
	struct {
		u64 start_ns;
		u64 realtime_ns;
		u64 incarnation;
		u64 number;
	} of = {
		.start_ns = source->head.start_host_ns,
		.realtime_ns = source->head.start_realtime_ns,
		.incarnation = stream ? stream->incarnation : 0,
		.number = number,
	};

	return XXH3_64bits(&of, sizeof(of)) ?: 1;
}

/* Options ------------------------------------------------------------------------------------ */

/* Begins an option. Return: the argument of end_option(). */
static size_t begin_option(struct braid_text *t, enum braid_dat_id option)
{
	put16(t, option);
	put32(t, 0);
	return t->bytes - sizeof(u32);
}

static void end_option(struct braid_text *t, size_t at)
{
	set_size(t, at, sizeof(u32));
}

static void put_offset_option(struct braid_text *t, enum braid_dat_id option, u64 value)
{
	size_t at = begin_option(t, option);

	put64(t, value);
	end_option(t, at);
}

/* Times are the host's already: the shift is 0, and its scale 1. */
static void put_time_shift(struct braid_text *t, const struct braid_dat_out *d,
			   const struct braid_dat_out_file *file)
{
	size_t at = begin_option(t, BRAID_DAT_TIME_SHIFT);
	u32 k;

	put64(t, d->files[file->host].trace_id);
	put32(t, 0);			/* flags: no interpolation */
	put32(t, file->nr_cpus);
	for (k = 0; k < file->nr_cpus; k++) {
		put32(t, TIME_SAMPLES);
		put64(t, file->first_ns);
		put64(t, file->last_ns > file->first_ns ? file->last_ns : file->first_ns + 1);
		put64(t, 0);		/* offsets */
		put64(t, 0);
		put64(t, 1);		/* scales ... */
		put64(t, 1);
	}
	for (k = 0; k < file->nr_cpus * TIME_SAMPLES; k++)
		put64(t, 0);		/* ... and by how many bits these are to be shifted */
	end_option(t, at);
}

/* Which thread of a host ran which CPU of a guest; -1: unknown. @s: the guest, by that host. */
static void trace_dat_head_put_guest(struct braid_text *t, const struct braid_dat_out_file *guest,
				     const struct braid_stream *s)
{
	size_t k, at = begin_option(t, BRAID_DAT_GUEST);
	u32 cpu;
	s32 tid;

	trace_dat_head_put_string(t, guest->stream->name);
	put64(t, guest->trace_id);
	put32(t, guest->nr_cpus);
	for (cpu = 0; cpu < guest->nr_cpus; cpu++) {
		tid = -1;
		for (k = 0; k < s->nr_threads; k++)
			if (s->threads[k].vcpu == cpu || s->threads[k].vcpu == BRAID_VCPU_ALL)
				tid = s->threads[k].tid;
		put32(t, cpu);
		put32(t, (u32)tid);
	}
	end_option(t, at);
}

/*
 * The guests of a host. trace-cmd can't read a guest without CPUs, so guests whose threads are all
 * unknown are not listed. A guest that moved is listed by each host where it was.
 */
static void trace_dat_head_put_guests(struct braid_text *t, const struct braid_dat_out *d,
				      const struct braid_dat_out_file *host)
{
	const struct braid_stream *part;
	size_t k, number;

	for (k = 0; k < d->nr_files; k++) {
		const struct braid_dat_out_file *guest = &d->files[k];

		if (guest->is_host)
			continue;
		for (number = 0; (part = braid_stream_part(guest->stream, number)); number++)
			if (part->nr_threads && braid_stream_host_number(part) == host->host)
				trace_dat_head_put_guest(t, guest, part);
	}
}

static void put_uname(struct braid_text *t, const struct braid_dat_out *d,
		      const struct braid_dat_out_file *file)
{
	const struct braid_chunk_file *head = &d->source->head;
	const struct braid_stream *s = file->stream;
	size_t at = begin_option(t, BRAID_DAT_UNAME);

	braid_text_puts(t, "Linux ");
	if (s && s->kind == BRAID_STREAM_GUEST)
		braid_text_safe(t, s->name, sizeof(s->name));
	else if (file->label)
		braid_text_puts(t, file->label);
	else
		braid_text_safe(t, head->host_name, sizeof(head->host_name));
	braid_text_putc(t, ' ');
	if (s) {
		braid_text_safe(t, s->kernel_release, sizeof(s->kernel_release));
		braid_text_putc(t, ' ');
		braid_text_safe(t, s->machine, sizeof(s->machine));
	} else if (file->host) {	/* the first capture is another host's */
		braid_text_puts(t, "unknown unknown");
	} else {
		braid_text_safe(t, head->kernel_release, sizeof(head->kernel_release));
		braid_text_putc(t, ' ');
		braid_text_safe(t, head->machine, sizeof(head->machine));
	}
	braid_text_putc(t, 0);
	end_option(t, at);
}

/* The content of tracefs' per_cpu/cpuN/stats, and the bounds of the times. */
static void put_cpu_stat(struct braid_text *t, const struct braid_stream *s, u32 cpu)
{
	u64 left = 0, lost = 0, read = 0;
	size_t k, at = begin_option(t, BRAID_DAT_CPU_STAT);

	for (k = 0; k < s->nr_rings; k++) {
		const struct braid_ring *ring = s->rings[k];

		if (ring->cpu != cpu)
			continue;
		left += ring->report.left;
		lost += ring->report.lost;
		read += ring->report.read;
	}
	braid_text_printf(t, "CPU: %u\nentries: %llu\noverrun: %llu\nread events: %llu\n", cpu,
			  (unsigned long long)left, (unsigned long long)lost,
			  (unsigned long long)read);
	if (s->bound_ns != BRAID_BOUND_UNKNOWN)
		braid_text_printf(t, "clock bound: %llu ns\n", (unsigned long long)s->bound_ns);
	braid_text_putc(t, 0);
	end_option(t, at);
}

/* The clock's name. trace-cmd crashes if it is missing or only brackets. */
static void put_clock_name(struct braid_text *t, const struct braid_dat_out *d)
{
	char name[sizeof(d->source->head.clock) + 1] = "";
	size_t bytes;

	memcpy(name, d->source->head.clock, sizeof(d->source->head.clock));
	bytes = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-");
	braid_text_puts(t, bytes && !name[bytes] ? name : "local");
}

/* The clock that is in use, as the file trace_clock marks it. */
static void trace_dat_head_put_clock(struct braid_text *t, const struct braid_dat_out *d)
{
	braid_text_putc(t, '[');
	put_clock_name(t, d);
	trace_dat_head_put_string(t, "]");
}

/* Options of both versions. */
static void put_options(struct braid_text *t, const struct braid_dat_out *d,
			const struct braid_dat_out_file *file)
{
	size_t k, at;

	at = begin_option(t, BRAID_DAT_CPU_COUNT);
	put32(t, file->nr_cpus);
	end_option(t, at);
	put_offset_option(t, BRAID_DAT_TRACE_ID, file->trace_id);
	if (file->is_host)
		trace_dat_head_put_guests(t, d, file);
	else
		put_time_shift(t, d, file);
	put_uname(t, d, file);
	at = begin_option(t, BRAID_DAT_VERSION);
	braid_text_puts(t, "tracebraid ");
	braid_text_safe(t, d->source->head.agent_version, sizeof(d->source->head.agent_version));
	braid_text_putc(t, 0);
	end_option(t, at);
	at = begin_option(t, BRAID_DAT_TRACE_CLOCK);
	trace_dat_head_put_clock(t, d);
	end_option(t, at);
	for (k = 0; k < file->nr_cpus && file->stream; k++)
		put_cpu_stat(t, file->stream, k);
}

/* Version 6 ----------------------------------------------------------------------------------- */

static void put_v6(struct braid_text *t, const struct braid_dat_out *d,
		   const struct braid_dat_out_file *file)
{
	size_t at;
	u32 k;

	put_beginning(t, d, file);
	put_headers(t, file);
	put_formats(t, &file->ftrace);
	put_formats(t, &file->events);
	put_symbols(t, d, file);
	put_constants(t, d, file);
	put_comms(t, file);
	put32(t, file->nr_cpus);
	trace_dat_head_put_string(t, "options  ");
	put_options(t, d, file);
	put16(t, BRAID_DAT_DONE);
	trace_dat_head_put_string(t, "flyrecord");
	for (k = 0; k < file->nr_cpus; k++) {
		put64(t, file->cpus[k].offset);
		put64(t, file->cpus[k].bytes);
	}
	at = t->bytes;
	put64(t, 0);
	trace_dat_head_put_clock(t, d);
	set_size(t, at, sizeof(u64));
}

/* Version 7 ----------------------------------------------------------------------------------- */

/* What a section is called; its id is where that begins among the strings. */
static const struct {
	enum braid_dat_id section;
	const char *text;
} section_names[] = {
	{ BRAID_DAT_DONE, "options" },
	{ BRAID_DAT_BUFFER, "buffer flyrecord" },
	{ BRAID_DAT_STRINGS, "strings" },
	{ BRAID_DAT_HEADER_INFO, "headers" },
	{ BRAID_DAT_FTRACE_EVENTS, "ftrace events" },
	{ BRAID_DAT_EVENT_FORMATS, "event formats" },
	{ BRAID_DAT_KALLSYMS, "kallsyms" },
	{ BRAID_DAT_PRINTK, "trace_printk" },
	{ BRAID_DAT_CMDLINES, "command lines" },
};

#define NR_SECTION_NAMES	(sizeof(section_names) / sizeof(section_names[0]))

/* Begins a section. Return: the argument of end_section(). */
static size_t begin_section(struct braid_text *t, enum braid_dat_id section)
{
	u32 k, name = 0;

	for (k = 0; k < NR_SECTION_NAMES && section_names[k].section != section; k++)
		name += strlen(section_names[k].text) + 1;
	put16(t, section);
	put16(t, 0);			/* not compressed */
	put32(t, name);
	put64(t, 0);
	return t->bytes - sizeof(u64);
}

static void end_section(struct braid_text *t, size_t at)
{
	set_size(t, at, sizeof(u64));
}

static void put_section(struct braid_text *t, const struct braid_dat_out *d,
			const struct braid_dat_out_file *file, enum braid_dat_id section)
{
	size_t k, at = begin_section(t, section);

	if (section == BRAID_DAT_HEADER_INFO)
		put_headers(t, file);
	else if (section == BRAID_DAT_FTRACE_EVENTS)
		put_formats(t, &file->ftrace);
	else if (section == BRAID_DAT_EVENT_FORMATS)
		put_formats(t, &file->events);
	else if (section == BRAID_DAT_KALLSYMS)
		put_symbols(t, d, file);
	else if (section == BRAID_DAT_PRINTK)
		put_constants(t, d, file);
	else if (section == BRAID_DAT_CMDLINES)
		put_comms(t, file);
	for (k = 0; k < NR_SECTION_NAMES && section == BRAID_DAT_STRINGS; k++)
		trace_dat_head_put_string(t, section_names[k].text);
	end_section(t, at);
}

/* The place of a buffer's pages; the trace's own buffer has no name. */
static void put_buffer_option(struct braid_text *t, const struct braid_dat_out *d,
			      const struct braid_dat_out_file *file, const char *name, u64 section,
			      const struct braid_dat_out_cpu *cpus)
{
	size_t at = begin_option(t, BRAID_DAT_BUFFER);
	u32 k;

	put64(t, section);
	trace_dat_head_put_string(t, name);
	put_clock_name(t, d);
	braid_text_putc(t, 0);
	put32(t, file->page_bytes);
	put32(t, file->nr_cpus);
	for (k = 0; k < file->nr_cpus; k++) {
		put32(t, k);
		put64(t, cpus[k].offset);
		put64(t, cpus[k].bytes);
	}
	end_option(t, at);
}

/* All parts after the pages. *options_start: place of the options, from the text's start. */
static void put_v7(struct braid_text *t, const struct braid_dat_out *d,
		   const struct braid_dat_out_file *file, u64 *options_start)
{
	u64 starts[BRAID_DAT_CMDLINES + 1];
	size_t at;
	u32 s;

	for (s = BRAID_DAT_STRINGS; s <= BRAID_DAT_CMDLINES; s++) {
		starts[s] = file->data_end + t->bytes;
		put_section(t, d, file, s);
	}
	*options_start = t->bytes;
	at = begin_section(t, BRAID_DAT_DONE);
	put_options(t, d, file);
	put_buffer_option(t, d, file, "", HEADER_V7_BYTES, file->cpus);
	if (file->has_states)
		put_buffer_option(t, d, file, BRAID_DAT_OUT_STATES,
				  file->states_start - SECTION_BYTES, file->states);
	for (s = BRAID_DAT_HEADER_INFO; s <= BRAID_DAT_CMDLINES; s++)
		put_offset_option(t, s, starts[s]);
	put_offset_option(t, BRAID_DAT_DONE, 0);	/* no further options */
	end_section(t, at);
}

static void put_pages_section(struct braid_text *t, u64 bytes)
{
	size_t at = begin_section(t, BRAID_DAT_BUFFER);

	if (!t->failed)
		memcpy(t->data + at, &bytes, sizeof(bytes));
}

/* In front of the pages: the file's header, and that of the section that they are. */
static void put_front_v7(struct braid_text *t, const struct braid_dat_out *d,
			 const struct braid_dat_out_file *file, u64 options_start)
{
	u64 end = file->has_states ? file->states_start - SECTION_BYTES : file->data_end;

	put_beginning(t, d, file);
	trace_dat_head_put_string(t, "none");		/* no compression, of no version */
	trace_dat_head_put_string(t, "");
	put64(t, options_start);
	put_pages_section(t, end - HEADER_V7_BYTES - SECTION_BYTES);
}

static int write_at(const struct braid_dat_out_file *file, u64 offset, const struct braid_text *t)
{
	int err = 0;

	if (t->failed || file->ftrace.text.failed || file->events.text.failed)
		return braid_out_of_memory();
	if (lseek(file->fd, offset, SEEK_SET) < 0)
		err = -errno;
	if (!err)
		err = braid_write_all(file->fd, t->data, t->bytes);
	return err ? braid_fail(err, "cannot write '%s': %s", file->path, strerror(-err)) : 0;
}

/* In front of the second buffer's pages. Return: 0, or -errno with braid_fail(). */
static int put_states_section(const struct braid_dat_out_file *file)
{
	struct braid_text t = { 0 };
	int err;

	put_pages_section(&t, file->data_end - file->states_start);
	err = write_at(file, file->states_start - SECTION_BYTES, &t);
	braid_text_free(&t);
	return err;
}

/* -------------------------------------------------------------------------------------------- */

u64 braid_dat_out_head_bytes(const struct braid_dat_out *d,
			     const struct braid_dat_out_file *file)
{
	const struct braid_stream *s = file->stream;
	u64 bytes = SPARE_BYTES;
	size_t k;

	if (d->version == 7)
		return HEADER_V7_BYTES + SECTION_BYTES;
	for (k = 0; s && k < s->nr_formats; k++)
		bytes += s->formats[k].format_bytes;
	if (s)
		bytes += s->kallsyms_bytes + s->nr_symbols * 2 * sizeof(struct braid_symbol);
	return bytes;
}

int braid_dat_out_put_head(const struct braid_dat_out *d, struct braid_dat_out_file *file)
{
	struct braid_text t = { 0 }, front = { 0 };
	u64 options_start;
	int err = 0;

	if (d->version == 6) {
		put_v6(&front, d, file);
		if (front.bytes > file->data_start) {
			file->data_start = front.bytes;
			err = -EAGAIN;
		}
	} else {
		put_v7(&t, d, file, &options_start);
		err = write_at(file, file->data_end, &t);
		put_front_v7(&front, d, file, file->data_end + options_start);
	}
	if (!err && file->has_states)
		err = put_states_section(file);
	if (!err)
		err = write_at(file, 0, &front);
	braid_text_free(&t);
	braid_text_free(&front);
	return err;
}
