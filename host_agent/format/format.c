// SPDX-License-Identifier: GPL-2.0-or-later
/* Finds an event's format, parses it when first needed, and prints by it. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/format/bprint.h"
#include "host_agent/format/constants.h"
#include "host_agent/format/private.h"
#include "host_agent/format/program.h"
#include "host_agent/trace/symbols.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "host_agent/util/text.h"
#include "shared/platform.h"

#define MAX_TEXT_BYTES		(64u << 10)	/* of one event's fields */
#define MAX_HEX_BYTES		512u
#define MOST_EACH		6u		/* what JSON makes of a byte */

struct stream_tables {
	struct braid_stream_types *types;
	struct braid_symbols *symbols;
	bool symbols_tried;
	struct braid_constants *constants;
	bool constants_tried;
};

struct braid_format {
	const struct braid_source *source;
	struct stream_tables *streams;
	size_t nr_streams;	/* when it was opened */
	u32 next_number;	/* of types */
};

int braid_format_open(struct braid_format **out, const struct braid_source *source)
{
	struct braid_format *f = calloc(1, sizeof(*f));

	if (f)
		f->streams = calloc(source->nr_streams + 1, sizeof(*f->streams));
	if (!f || !f->streams) {
		free(f);
		return braid_out_of_memory();
	}
	f->source = source;
	f->nr_streams = source->nr_streams;
	*out = f;
	return 0;
}

void braid_format_close(struct braid_format *f)
{
	size_t k;

	if (!f)
		return;
	for (k = 0; k < f->nr_streams; k++) {
		braid_stream_types_free(f->streams[k].types);
		braid_symbols_free(f->streams[k].symbols);
		braid_constants_free(f->streams[k].constants);
	}
	free(f->streams);
	free(f);
}

/* A stream's symbols, read when first needed; NULL: memory was out. */
static struct braid_symbols *symbols_of(struct braid_format *f, const struct braid_stream *stream)
{
	struct stream_tables *sk = &f->streams[stream->number];

	if (!sk->symbols_tried) {
		sk->symbols_tried = true;
		sk->symbols = braid_symbols_new(stream);
	}
	return sk->symbols;
}

/* Likewise its texts at constant addresses; NULL: none. */
static const struct braid_constants *constants_of(struct braid_format *f,
						  const struct braid_stream *stream)
{
	struct stream_tables *sk = &f->streams[stream->number];

	if (!sk->constants_tried) {
		sk->constants_tried = true;
		sk->constants = braid_constants_new(stream->printk_formats);
	}
	return sk->constants;
}

/* Return: NULL, or why it can't be printed by its format. */
static const char *parse(struct braid_format *f, struct braid_stream_type *type)
{
	const char *why, *body = strstr(type->info.format->format, "format:");

	if (!body || type->info.format->format_bytes > BRAID_MAX_FORMAT_BYTES)
		return "malformed or oversized event format";
	why = braid_layout_parse(&type->layout, body, type->info.format->system, &type->rest);
	if (why)
		return why;
	type->layout->symbols = symbols_of(f, type->stream);
	type->layout->constants = constants_of(f, type->stream);
	type->info.parsed = true;
	type->info.layout = type->layout;
	type->bprint = braid_is_bprint(type->layout, type->info.format->name);
	if (type->bprint)
		return NULL;	/* each event has its own */
	return braid_program_compile(&type->steps, type->rest, type->layout);
}

static noinline void prepare_now(struct braid_format *f, struct braid_stream_type *type)
{
	type->prepared = true;
	if (type->info.format)
		type->info.why = parse(f, type);
	type->info.printable = type->steps || type->bprint;
	type->info.frames = type->steps && type->steps->frames;
}

static struct braid_stream_type *format_prepare(struct braid_format *f,
						struct braid_stream_type *type)
{
	if (!type->prepared)
		prepare_now(f, type);
	return type;
}

/* The types of a stream; NULL: out of memory. */
static struct braid_stream_types *types_of(struct braid_format *f, const struct braid_stream *stream)
{
	struct stream_tables *sk = &f->streams[stream->number];

	if (!sk->types)
		sk->types = braid_stream_types_new(stream, &f->next_number);
	return sk->types;
}

const struct braid_event_type_info *braid_format_event(struct braid_format *f,
						       const struct braid_item *item)
{
	struct braid_stream_types *types = types_of(f, item->stream);
	struct braid_stream_type *type = types ? braid_stream_types_of(types, item) : NULL;

	return type ? &format_prepare(f, type)->info : NULL;
}

const struct braid_event_type_info *braid_format_by_number(struct braid_format *f,
							   const struct braid_stream *stream,
							   size_t number)
{
	struct braid_stream_types *types;
	struct braid_stream_type *type;

	if (number >= stream->nr_formats)
		return NULL;
	types = types_of(f, stream);
	type = types ? braid_stream_types_by_format(types, &stream->formats[number]) : NULL;
	return type ? &format_prepare(f, type)->info : NULL;
}

static void print_hex(const struct braid_item *item, struct braid_text *out)
{
	u32 bytes = item->payload_bytes < MAX_HEX_BYTES ? item->payload_bytes : MAX_HEX_BYTES;

	braid_text_hex(out, item->payload, bytes);
	if (bytes < item->payload_bytes)
		braid_text_printf(out, " ... (%u bytes)", item->payload_bytes);
}

/* Appends the output of a print format, safe for a terminal, without trailing spaces. */
static void put_sanitized(struct braid_text *out, const char *text, size_t bytes)
{
	while (bytes && isspace((unsigned char)text[bytes - 1]))
		bytes--;
	braid_text_safe(out, text, bytes < MAX_TEXT_BYTES ? bytes : MAX_TEXT_BYTES);
	if (bytes > MAX_TEXT_BYTES)
		braid_text_puts(out, "...");
}

/*
 * Puts what @put makes of the text at @text, the last one, in the place of all from @from on. There is room for it,
 * so that the text does not move meanwhile.
 */
static void rewrite(struct braid_text *out, size_t from, size_t text,
		    void (*put)(struct braid_text *out, const char *text, size_t bytes))
{
	size_t bytes = out->bytes - text, before = out->bytes;

	if (!braid_text_reserve(out, MOST_EACH * bytes + BRAID_TEXT_BLOCK))
		return;
	put(out, out->data + text, bytes);
	memmove(out->data + from, out->data + before, out->bytes - before);
	out->bytes -= before - from;
}

/*
 * Written in place, and rewritten in the rare case that it has an unsafe byte. Return: whether it is
 * sure to be braid_text_simple().
 */
static bool print_by_program(const struct braid_stream_type *type, const struct braid_item *item,
			     struct braid_text *out)
{
	size_t before = out->bytes;
	bool simple;

	simple = braid_program_run(type->steps, item->payload, item->payload_bytes, out);
	if (out->bytes - before <= MAX_TEXT_BYTES &&
	    (simple || braid_text_plain(out->data + before, out->bytes - before))) {
		while (out->bytes > before && out->data[out->bytes - 1] == ' ')
			out->bytes--;
		return simple;
	}
	rewrite(out, before, before, put_sanitized);
	return false;
}

/* As each event's own format says. Return: false: that is not known. */
static bool print_bprint(const struct braid_stream_type *type, const struct braid_item *item,
			 struct braid_text *out)
{
	size_t before = out->bytes;

	if (!type->bprint ||
	    !braid_bprint_put(type->layout, item->payload, item->payload_bytes, out))
		return false;
	rewrite(out, before, before, put_sanitized);
	return true;
}

/* Whether an event's fields describe a payload. */
static bool has_fields(const struct braid_stream_type *type, const struct braid_item *item)
{
	const struct braid_layout *layout = type->layout;

	return layout && item->payload_bytes >= layout->least_bytes &&
	       (layout->fields || item->payload_bytes <= sizeof(struct braid_record)) &&
	       (!layout->nr_dynamic ||
		braid_layout_holds(layout, item->payload, item->payload_bytes));
}

const struct braid_layout *braid_format_fields_of(const struct braid_event_type_info *info,
						  const struct braid_item *item)
{
	const struct braid_stream_type *type = (const struct braid_stream_type *)info;

	return type && has_fields(type, item) ? type->layout : NULL;
}

bool braid_format_holds(const struct braid_event_type_info *info, const struct braid_item *item)
{
	const struct braid_stream_type *type = (const struct braid_stream_type *)info;

	return has_fields(type, item) &&
	       (!type->steps ||
		braid_program_holds(type->steps, item->payload, item->payload_bytes));
}

const char *braid_format_symbol(const struct braid_layout *layout, u64 address)
{
	unsigned long long start = address;

	return layout->symbols ? braid_symbols_find(layout->symbols, &start) : NULL;
}

void braid_format_symbols(struct braid_format *f, const struct braid_stream *stream,
			  struct braid_text *out)
{
	const struct braid_symbols *symbols = symbols_of(f, stream);

	if (symbols)
		braid_symbols_text(symbols, out);
}

void braid_format_constants(struct braid_format *f, const struct braid_stream *stream,
			    struct braid_text *out)
{
	braid_constants_put(constants_of(f, stream), out);
}

/* Return: whether what was appended is sure to be braid_text_simple(). */
static bool format_put_text(const struct braid_item *item, const struct braid_event_type_info *info,
			    struct braid_text *out)
{
	struct braid_stream_type *type = (struct braid_stream_type *)info;

	static_assert(offsetof(struct braid_stream_type, info) == 0, "cast");
	if (!type || !has_fields(type, item))
		print_hex(item, out);
	else if (print_bprint(type, item, out))
		return false;
	else if (!type->steps ||
		 !braid_program_holds(type->steps, item->payload, item->payload_bytes))
		braid_fields_text(type->layout, item->payload, item->payload_bytes, out);
	else
		return print_by_program(type, item, out);
	return false;
}

void braid_format_text_of(const struct braid_item *item, const struct braid_event_type_info *info,
			  struct braid_text *out)
{
	format_put_text(item, info, out);
}

void braid_format_quoted_of(const struct braid_item *item, const struct braid_event_type_info *info,
			    struct braid_text *out)
{
	size_t before = out->bytes;

	braid_text_putc(out, '"');
	if (format_put_text(item, info, out))
		braid_text_putc(out, '"');
	else if (!out->failed)
		rewrite(out, before, before + 1, braid_text_json);
}

void braid_format_json_of(const struct braid_item *item, const struct braid_event_type_info *info,
			  struct braid_text *out)
{
	struct braid_stream_type *type = (struct braid_stream_type *)info;

	if (type && has_fields(type, item)) {
		braid_fields_json(type->layout, item->payload, item->payload_bytes, out);
		return;
	}
	braid_text_puts(out, "{\"raw\":\"");
	print_hex(item, out);
	braid_text_puts(out, "\"}");
}

const char *braid_format_function(struct braid_format *f, const struct braid_stream *stream,
				  u64 address)
{
	struct braid_symbols *symbols = symbols_of(f, stream);
	unsigned long long start = address;
	const char *name = symbols ? braid_symbols_find(symbols, &start) : NULL;

	return start == address ? name : NULL;
}

s32 braid_format_pid(const struct braid_item *item)
{
	const u64 *ids = item->stream->ids_with_pid;
	struct braid_record record;

	if (item->raw || item->payload_bytes < sizeof(record))
		return BRAID_PID_UNKNOWN;
	memcpy(&record, item->payload, sizeof(record));
	return !ids || ids[record.common_type / 64] >> record.common_type % 64 & 1 ?
	       record.common_pid : BRAID_PID_UNKNOWN;
}

const char *braid_format_comm_for(const struct braid_item *item, s32 pid, u64 *from, u64 *until)
{
	const struct braid_stream *s = item->stream;
	const struct braid_comm *c = s->comms;
	size_t k;

	*from = 0;
	*until = ~0ULL;
	if (!pid)
		return "<idle>";
	if (pid == BRAID_PID_UNKNOWN)
		return BRAID_COMM_UNKNOWN;
	braid_array_first(k, s->nr_comms,
			  c[k].pid > pid ||
			  (c[k].pid == pid && c[k].since_counter > item->counter));
	if (k < s->nr_comms && c[k].pid == pid)
		*until = c[k].since_counter - 1;
	if (k && c[k - 1].pid == pid) {
		*from = c[k - 1].since_counter;
		return c[k - 1].comm;
	}
	/* Not seen before its first exec: the later name is better than none. */
	return k < s->nr_comms && c[k].pid == pid ? c[k].comm : BRAID_COMM_UNKNOWN;
}

const char *braid_format_comm(const struct braid_item *item, s32 pid)
{
	u64 from, until;

	return braid_format_comm_for(item, pid, &from, &until);
}
