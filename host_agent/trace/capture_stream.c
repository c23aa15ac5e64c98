// SPDX-License-Identifier: GPL-2.0-or-later
/* Puts streams together from the chunks that describe them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/trace/capture_stays.h"
#include "host_agent/trace/stacks.h"
#include "host_agent/util/array.h"
#include "host_agent/util/text.h"
#include "shared/region.h"
#include "shared/schema.h"

static void copy_name(char *to, size_t size, const char *from, size_t bytes)
{
	size_t n = strnlen(from, bytes < size - 1 ? bytes : size - 1);

	memcpy(to, from, n);
	to[n] = 0;
	braid_text_clean(to);
}

struct braid_capture_stream *braid_capture_stream_of(struct braid_capture_source *cs, u32 number)
{
	const struct braid_capture_file *file = &cs->files[cs->file];

	return number < file->nr ? file->by_number[number] : NULL;
}

static int set_number(struct braid_capture_source *cs, u32 number, struct braid_capture_stream *s)
{
	struct braid_capture_file *file = &cs->files[cs->file];

	if (braid_array_cover(file->by_number, file->nr, number))
		return -ENOMEM;
	file->by_number[number] = s;
	return 0;
}

/*
 * Whether a stream of another capture goes on: a guest's does, perhaps on another host. A VM's that
 * ended is another one later: in between it had a driver.
 */
static bool goes_on(const struct braid_stream *s, const struct braid_chunk_stream *head)
{
	return s->kind == BRAID_STREAM_GUEST || !s->end_reason ||
	       s->end_reason == BRAID_END_STOPPED || head->host_ns < s->end_ns;
}

struct braid_capture_stream *braid_capture_add_stream(struct braid_capture_source *cs)
{
	struct braid_capture_stream *s = calloc(1, sizeof(*s));

	static_assert(offsetof(struct braid_capture_stream, stream) == 0, "cast");
	if (!s)
		return NULL;
	s->source = cs;
	s->file = cs->file;
	s->stream.host = cs->source.nr_hosts ? cs->source.hosts[cs->files[cs->file].host] : NULL;
	s->stream.number = cs->source.nr_streams;
	if (braid_array_push(cs->source.streams, cs->source.nr_streams, cs->streams_capacity,
			     &s->stream)) {
		free(s);
		return NULL;
	}
	return s;
}

/* For captures of minor 0, whose superblock had fewer buffers. */
#define OLD_SUPERBLOCK	(offsetof(struct braid_superblock, buffers) + \
			 16 * sizeof(struct braid_buffer_desc))

/* The superblock after a guest's STREAM, or NULL with the reason. */
static const char *read_superblock(const struct braid_chunk_view *v, struct braid_superblock *sb)
{
	u32 bytes = v->bytes - sizeof(struct braid_chunk_stream);

	if (bytes < OLD_SUPERBLOCK)
		return "its superblock is missing";
	memset(sb, 0, sizeof(*sb));
	memcpy(sb, v->payload + sizeof(struct braid_chunk_stream),
	       bytes < sizeof(*sb) ? bytes : sizeof(*sb));
	if (sb->state == BRAID_STATE_INIT)
		return "its superblock was not finished";
	return braid_region_check(sb, sb->region_bytes);
}

/*
 * Sets what identifies a VM in place of an incarnation: its process. Return: NULL, or why it is not
 * valid.
 */
static const char *read_process(const struct braid_chunk_view *v, struct braid_superblock *sb)
{
	struct braid_chunk_vm vm;

	if (v->bytes < sizeof(struct braid_chunk_stream) + sizeof(vm))
		return "its process is missing";
	memcpy(&vm, v->payload + sizeof(struct braid_chunk_stream), sizeof(vm));
	if (vm.pid <= 0)
		return "its process has an invalid number";
	sb->incarnation = vm.start_ticks;
	memcpy(sb->boot_id, &vm.pid, sizeof(vm.pid));
	return NULL;
}

/* What format and export see of a buffer. */
static void describe_buffer(struct braid_capture_stream *s, u32 index)
{
	const struct braid_buffer_desc *desc = &s->superblock.buffers[index];
	struct braid_buffer_info *info = &s->stream.buffers[index];

	copy_name(info->name, sizeof(info->name), desc->name, sizeof(desc->name));
	info->flags = desc->flags;
	info->events_of = desc->events_of < BRAID_MAX_BUFFERS ? desc->events_of : index;
	if (index >= s->stream.nr_buffers)
		s->stream.nr_buffers = index + 1;
}

/* A buffer is added, or has a new shape from here on. NULL or why it is invalid. */
static const char *set_buffer(struct braid_capture_stream *s, u32 index,
			      const struct braid_buffer_desc *desc)
{
	struct braid_superblock alone = s->superblock;
	const char *why;
	u32 k;

	if (s->stream.kind != BRAID_STREAM_GUEST || index >= BRAID_MAX_BUFFERS)
		return "the buffer's shape is invalid";
	/* Checked alone: earlier ones may be gone, and it may refer to a later one. */
	alone.nr_buffers = BRAID_MAX_BUFFERS;
	for (k = 0; k < BRAID_MAX_BUFFERS; k++)
		alone.buffers[k].nr_rings = 0;
	alone.buffers[index] = *desc;
	why = braid_region_check(&alone, alone.region_bytes);
	if (why)
		return why;
	if (index >= s->superblock.nr_buffers)
		s->superblock.nr_buffers = index + 1;
	s->superblock.buffers[index] = *desc;
	describe_buffer(s, index);
	return NULL;
}

int braid_capture_take_buffer(struct braid_capture_stream *s, const struct braid_chunk_view *v)
{
	const char *why = "it is too short";
	struct braid_chunk_buffer chunk;
	u32 at = 0;

	if (braid_view_take(v, &at, &chunk, sizeof(chunk)))
		why = set_buffer(s, chunk.index, &chunk.desc);
	if (why)
		braid_source_faulty(&s->source->source, &s->stream,
				    "the buffer in chunk %llu is left out: %s",
				    (unsigned long long)v->number, why);
	return 0;
}

/* Another capture of an incarnation: it may have seen other buffers. */
static void merge_buffers(struct braid_capture_stream *s, const struct braid_superblock *sb)
{
	u32 k;

	for (k = 0; k < sb->nr_buffers; k++)
		if (sb->buffers[k].nr_rings)
			set_buffer(s, k, &sb->buffers[k]);
}

static void describe_guest(struct braid_capture_stream *cs)
{
	const struct braid_superblock *sb = &cs->superblock;
	struct braid_stream *s = &cs->stream;
	u32 k;

	for (k = 0; k < sb->nr_buffers; k++)
		describe_buffer(cs, k);
	copy_name(s->kernel_release, sizeof(s->kernel_release), sb->kernel_release,
		  sizeof(sb->kernel_release));
	copy_name(s->machine, sizeof(s->machine), sb->machine, sizeof(sb->machine));
	memcpy(s->boot_id, sb->boot_id, sizeof(s->boot_id));
	s->nr_cpus = sb->nr_vcpus;
	s->incarnation = sb->incarnation;
	s->counter_type = sb->counter_type;
	s->counter_hz = sb->counter_hz;
}

/* Why a STREAM can't be what it says, or NULL. */
static const char *check_stream(const struct braid_capture_source *cs,
				const struct braid_chunk_view *v,
				const struct braid_chunk_stream *head, struct braid_superblock *sb)
{
	bool guest = head->kind == BRAID_STREAM_GUEST, vm = head->kind == BRAID_STREAM_VM;
	const char *why = guest ? read_superblock(v, sb) : vm ? read_process(v, sb) : NULL;
	u32 nr_cpus = guest ? sb->nr_vcpus : head->nr_cpus;

	if (why)
		return why;
	if ((!guest && !vm && head->kind != BRAID_STREAM_HOST) || nr_cpus > BRAID_MAX_CPUS)
		return "invalid type or number of CPUs";
	if (nr_cpus > BRAID_MAX_FILE_CPUS - cs->nr_cpus)
		return "the file's streams have too many CPUs in all";
	return NULL;
}

static void describe_stream(struct braid_capture_stream *s, const struct braid_chunk_view *v,
			    const struct braid_chunk_stream *head)
{
	const struct braid_chunk_file *file = &braid_capture_host_now(s->source)->head;
	struct braid_stream *stream = &s->stream;

	s->subbuf_bytes = head->subbuf_bytes;
	stream->kind = head->kind;
	stream->nr_cpus = head->nr_cpus;
	stream->found_ns = head->host_ns;
	copy_name(stream->name, sizeof(stream->name), head->name, sizeof(head->name));
	if (!stream->name[0])
		snprintf(stream->name, sizeof(stream->name), "stream%u", v->stream);
	if (s->source->source.nr_hosts > 1)
		braid_capture_name_at(stream, strlen(stream->name), stream->host->name);
	if (head->kind == BRAID_STREAM_GUEST) {
		describe_guest(s);
		return;
	}
	if (head->kind == BRAID_STREAM_VM) {
		stream->incarnation = s->superblock.incarnation;
		memcpy(stream->boot_id, s->superblock.boot_id, sizeof(stream->boot_id));
		memcpy(&stream->pid, stream->boot_id, sizeof(stream->pid));
		stream->bound_ns = BRAID_BOUND_UNKNOWN;
		return;
	}
	copy_name(stream->kernel_release, sizeof(stream->kernel_release), file->kernel_release,
		  sizeof(file->kernel_release));
	copy_name(stream->machine, sizeof(stream->machine), file->machine, sizeof(file->machine));
}

/* One more STREAM of a guest or VM. Return: 0 or -ENOMEM. */
static int join_guest(struct braid_capture_stream *s, const struct braid_chunk_view *v,
		      const struct braid_chunk_stream *head, const struct braid_superblock *sb)
{
	struct braid_capture_stream *part;

	if (head->kind != BRAID_STREAM_GUEST)
		return set_number(s->source, v->stream, s);
	merge_buffers(s, sb);
	if (!braid_capture_part_here(s)) {
		part = braid_capture_add_part(s);
		if (!part)
			return -ENOMEM;
		part->superblock = *sb;
		describe_stream(part, v, head);
	}
	return set_number(s->source, v->stream, s) ?: braid_capture_add_visit(s, v->stream);
}

int braid_capture_take_stream(struct braid_capture_source *cs, const struct braid_chunk_view *v)
{
	struct braid_superblock sb = { 0 };
	struct braid_chunk_stream head;
	struct braid_capture_stream *s;
	const char *why;
	bool there = false;
	size_t place = 0;

	if (v->bytes < sizeof(head) || !v->stream || v->stream > BRAID_MAX_STREAMS ||
	    cs->source.nr_streams >= BRAID_MAX_STREAMS ||
	    braid_capture_stream_of(cs, v->stream)) {
		braid_source_faulty(&cs->source, NULL, "%s: chunk %llu does not define a valid stream",
				    cs->path, (unsigned long long)v->number);
		return 0;
	}
	memcpy(&head, v->payload, sizeof(head));
	why = check_stream(cs, v, &head, &sb);
	if (why) {
		braid_source_faulty(&cs->source, NULL, "%s: stream %u is left out: %s", cs->path,
				    v->stream, why);
		return 0;
	}
	if (head.kind != BRAID_STREAM_HOST)
		place = braid_capture_find_guest(cs, head.kind, &sb, &there);
	if (there && goes_on(&cs->guests[place]->stream, &head))
		return join_guest(cs->guests[place], v, &head, &sb);
	s = braid_capture_add_stream(cs);
	if (!s)
		return -ENOMEM;
	s->superblock = sb;
	describe_stream(s, v, &head);
	cs->nr_cpus += s->stream.nr_cpus;
	if (head.kind != BRAID_STREAM_HOST && braid_capture_add_guest(cs, place, s))
		return -ENOMEM;
	return set_number(cs, v->stream, s) ?:
	       (head.kind == BRAID_STREAM_GUEST ? braid_capture_add_visit(s, v->stream) : 0);
}

void braid_capture_take_end(struct braid_capture_stream *s, const struct braid_chunk_view *v)
{
	struct braid_chunk_stream_end end;
	u32 at = 0;

	if (!braid_view_take(v, &at, &end, sizeof(end)))
		return;
	s->stream.end_reason = end.reason;
	s->stream.unconfirmed |= end.flags & BRAID_END_UNCONFIRMED;
	s->stream.end_ns = s->own_end_ns = end.host_ns;
}

/* Keeps a copy of bytes that strings point into, with a NUL after it. NULL: out of memory. */
static char *capture_stream_keep(struct braid_capture_stream *s, const void *data, size_t bytes)
{
	char *copy = malloc(bytes + 8);

	if (!copy)
		return NULL;
	memcpy(copy, data, bytes);
	memset(copy + bytes, 0, 8);
	if (braid_array_push(s->blocks, s->nr_blocks, s->blocks_capacity, copy)) {
		free(copy);
		return NULL;
	}
	s->schema_bytes += bytes;
	return copy;
}

static bool schema_full(struct braid_capture_stream *s, u32 bytes)
{
	if (s->schema_bytes + bytes <= BRAID_MAX_SCHEMA_BYTES)
		return false;
	braid_source_faulty(&s->source->source, &s->stream, "its formats take more than %u MiB",
			    BRAID_MAX_SCHEMA_BYTES >> 20);
	return true;
}

/* An entry of the directory that is no event, in our copy. The first list counts. */
static void take_guest_text(struct braid_capture_stream *s, const struct braid_schema_event *entry)
{
	if (!s->stream.printk_formats && !strcmp(entry->name, BRAID_TEXT_PRINTK_NAME))
		s->stream.printk_formats = entry->format;
}

static void note_stack_event(struct braid_stream *s, const struct braid_event_format *format)
{
	if (format->sub || strcmp(format->name, BRAID_STACK_EVENT) ||
	    strcmp(format->system, BRAID_STACK_SYSTEM))
		return;
	s->stack_id = format->id;
	s->stack_buffer = format->buffer;
}

int braid_capture_take_events(struct braid_capture_stream *s, const struct braid_chunk_view *v)
{
	struct braid_schema_event event;
	u32 at = 0;
	char *copy;
	int ret;

	if (schema_full(s, v->bytes))
		return 0;
	copy = capture_stream_keep(s, v->payload, v->bytes);
	if (!copy)
		return -ENOMEM;
	while ((ret = braid_schema_next((u8 *)copy, v->bytes, &at, &event)) > 0) {
		struct braid_event_format format = {
			.id = event.id,
			.buffer = event.buffer,
			.format_bytes = event.format_bytes,
			.system = event.system,
			.name = event.name,
			.format = event.format,
			.sub = event.flags & BRAID_EVENT_SUB,
			.number = event.number,
			.number_offset = event.flags >> BRAID_SUB_OFFSET_SHIFT,
			.number_bytes = event.flags >> BRAID_SUB_BYTES_SHIFT & BRAID_SUB_BYTES_MASK,
		};

		if (braid_schema_is_text(&event)) {
			take_guest_text(s, &event);
			continue;
		}
		/* Within our copy: sanitized what will be printed. */
		braid_text_clean((char *)event.system);
		braid_text_clean((char *)event.name);
		note_stack_event(&s->stream, &format);
		if (braid_array_push(s->stream.formats, s->stream.nr_formats, s->formats_capacity,
				     format))
			return -ENOMEM;
	}
	if (ret < 0)
		braid_source_faulty(&s->source->source, &s->stream,
				    "its event directory is invalid from byte %u of chunk %llu on", at,
				    (unsigned long long)v->number);
	return 0;
}

static int take_comms(struct braid_capture_stream *s, const struct braid_chunk_view *v)
{
	struct braid_comm comm;
	u32 at = 0;

	while (s->stream.nr_comms < BRAID_MAX_TABLE &&
	       braid_view_take(v, &at, &comm, sizeof(comm))) {
		comm.comm[sizeof(comm.comm) - 1] = 0;
		braid_text_clean(comm.comm);
		if (braid_array_push(s->stream.comms, s->stream.nr_comms, s->comms_capacity, comm))
			return -ENOMEM;
	}
	return 0;
}

static int take_symbols(struct braid_capture_stream *s, const struct braid_chunk_view *v)
{
	struct braid_symbol symbol;
	u32 at = 0;

	while (s->stream.nr_symbols < BRAID_MAX_TABLE &&
	       braid_view_take(v, &at, &symbol, sizeof(symbol))) {
		symbol.name[sizeof(symbol.name) - 1] = 0;
		braid_text_clean(symbol.name);
		if (braid_array_push(s->stream.symbols, s->stream.nr_symbols, s->symbols_capacity,
				     symbol))
			return -ENOMEM;
	}
	return 0;
}

int braid_capture_take_table(struct braid_capture_stream *s, const struct braid_chunk_view *v)
{
	return v->type == BRAID_CHUNK_COMMS ? take_comms(s, v) :
	       v->type == BRAID_CHUNK_SYMBOLS ? take_symbols(s, v) :
	       v->type == BRAID_CHUNK_ACCOUNTS ? braid_capture_take_accounts(s, v) :
	       braid_stacks_take(&s->stream.stacks, v);
}

/* Finds "name: X" and "ID: N" in a tracefs format text. */
static bool parse_format_head(char *text, struct braid_event_format *format)
{
	char *name = strstr(text, "name: "), *id = strstr(text, "\nID: ");
	size_t length;
	unsigned long n;

	if (!name || !id)
		return false;
	name += 6;
	length = strcspn(name, "\n");
	n = strtoul(id + 5, NULL, 10);
	if (!length || !n || n > 0xffff || name[length] != '\n')
		return false;
	format->id = n;
	format->name = name;
	format->format = name + length + 1;	/* from "ID:" on; the name is sent separately */
	name[length] = 0;
	braid_text_clean(name);
	return true;
}

/* Whether its records say whose they are. Few files have a format that does not. */
static int note_pid(struct braid_stream *s, const struct braid_event_format *format)
{
	bool has_pid = strstr(format->format, " common_pid;\toffset:4;\tsize:4;");
	u64 bit = 1ULL << format->id % 64;
	size_t k;

	if (!s->ids_with_pid && !has_pid) {
		s->ids_with_pid = calloc(1024, sizeof(u64));
		if (!s->ids_with_pid)
			return -ENOMEM;
		for (k = 0; k < s->nr_formats; k++)
			s->ids_with_pid[s->formats[k].id / 64] |= 1ULL << s->formats[k].id % 64;
	}
	if (has_pid && s->ids_with_pid)
		s->ids_with_pid[format->id / 64] |= bit;
	else if (!has_pid)
		s->ids_with_pid[format->id / 64] &= ~bit;
	return 0;
}

int braid_capture_add_format(struct braid_capture_stream *s, const char *system_name,
			     const void *text, u32 bytes)
{
	struct braid_event_format format = { 0 };
	char *copy, *system;

	if (schema_full(s, bytes))
		return 0;
	system = capture_stream_keep(s, system_name, strlen(system_name));
	copy = capture_stream_keep(s, text, bytes);
	if (!copy || !system)
		return -ENOMEM;
	braid_text_clean(system);
	if (!parse_format_head(copy, &format)) {
		braid_source_faulty(&s->source->source, &s->stream,
				    "a format of system '%s' has no name or no id", system);
		return 0;
	}
	format.system = system;
	format.format_bytes = strlen(format.format);
	if (note_pid(&s->stream, &format))
		return -ENOMEM;
	return braid_array_push(s->stream.formats, s->stream.nr_formats, s->formats_capacity,
				format);
}

/* The first list counts. */
int braid_capture_keep_printk(struct braid_capture_stream *s, const void *text, u32 bytes)
{
	if (s->stream.printk_formats || schema_full(s, bytes))
		return 0;
	s->stream.printk_formats = capture_stream_keep(s, text, bytes);
	return s->stream.printk_formats ? 0 : -ENOMEM;
}

int braid_capture_take_text(struct braid_capture_stream *s, const struct braid_chunk_view *v)
{
	struct braid_chunk_text head;
	char system[sizeof(head.name) + 1] = { 0 };
	u32 at = 0;

	if (!braid_view_take(v, &at, &head, sizeof(head)))
		return 0;
	memcpy(system, head.name, sizeof(head.name));
	if (head.kind == BRAID_TEXT_FORMAT)
		return braid_capture_add_format(s, system, v->payload + at, v->bytes - at);
	if (head.kind == BRAID_TEXT_PRINTK)
		return braid_capture_keep_printk(s, v->payload + at, v->bytes - at);
	if (head.kind == BRAID_TEXT_KALLSYMS)
		return braid_capture_take_kallsyms(s, head.raw_bytes, v->payload + at,
						   v->bytes - at);
	return 0;
}

static int by_pid(const void *a, const void *b)
{
	const struct braid_comm *x = a, *y = b;

	return braid_compare(x->pid, y->pid) ?: braid_compare(x->since_counter, y->since_counter);
}

static int capture_stream_by_address(const void *a, const void *b)
{
	const struct braid_symbol *x = a, *y = b;

	return braid_compare(x->address, y->address);
}

void braid_capture_sort_tables(struct braid_capture_stream *s)
{
	if (s->stream.nr_comms)
		qsort(s->stream.comms, s->stream.nr_comms, sizeof(*s->stream.comms), by_pid);
	if (s->stream.nr_symbols)
		qsort(s->stream.symbols, s->stream.nr_symbols, sizeof(*s->stream.symbols),
		      capture_stream_by_address);
}

void braid_capture_free_stream(struct braid_capture_stream *s)
{
	size_t k;

	for (k = 0; k < s->stream.nr_rings; k++)
		braid_capture_free_ring((struct braid_capture_ring *)s->stream.rings[k]);
	braid_capture_free_leaves(s);
	for (k = 0; k < s->nr_blocks; k++)
		free(s->blocks[k]);
	for (k = 0; k < s->nr_notes; k++)
		free(s->notes[k].text);
	braid_capture_free_clock(s);
	braid_capture_free_accounts(s);
	for (k = 0; k < s->stream.nr_parts; k++)
		braid_capture_free_stream((struct braid_capture_stream *)s->stream.parts[k]);
	free(s->stream.parts);
	free(s->stream.stays);
	free(s->visits);
	free(s->stream.rings);
	free(s->stream.left_out);
	free(s->stream.formats);
	free(s->stream.ids_with_pid);
	free(s->stream.comms);
	free(s->stream.symbols);
	braid_stacks_free(s->stream.stacks);
	free(s->stream.kallsyms);
	free(s->blocks);
	free(s->notes);
	free(s);
}
