// SPDX-License-Identifier: GPL-2.0-or-later
/* Finds an event's format, parses it when first needed, and prints by it. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/format/fields.h"
#include "host_agent/format/private.h"
#include "host_agent/format/steps.h"
#include "host_agent/util/error.h"
#include "host_agent/util/text.h"

#define MAX_TEXT_BYTES		(64u << 10)	/* of one event's fields */
#define MAX_HEX_BYTES		512u

struct stream_kinds {
	struct braid_kinds *kinds;
	struct braid_symbols *symbols;
	bool symbols_tried;
};

struct braid_format {
	const struct braid_source *source;
	struct stream_kinds *streams;
	size_t nr_streams;	/* when it was opened */
	u32 next_number;	/* of kinds */
	struct trace_seq seq;
	u8 *padded;		/* a copy of the payload with zeros behind */
	size_t padded_bytes;
	struct braid_text wild;	/* what steps wrote, to be tamed */
};

int braid_format_open(struct braid_format **out, const struct braid_source *source)
{
	struct braid_format *f = calloc(1, sizeof(*f));

	if (f)
		f->streams = calloc(source->nr_streams + 1, sizeof(*f->streams));
	if (!f || !f->streams) {
		free(f);
		return braid_fail(-ENOMEM, "out of memory");
	}
	f->source = source;
	f->nr_streams = source->nr_streams;
	trace_seq_init(&f->seq);
	tep_set_loglevel(TEP_LOG_NONE);
	*out = f;
	return 0;
}

void braid_format_close(struct braid_format *f)
{
	size_t k;

	if (!f)
		return;
	for (k = 0; k < f->nr_streams; k++) {
		braid_kinds_free(f->streams[k].kinds);
		braid_symbols_free(f->streams[k].symbols);
	}
	trace_seq_destroy(&f->seq);
	free(f->streams);
	free(f->padded);
	braid_text_free(&f->wild);
	free(f);
}

/* A stream's symbols, read when first needed; NULL: memory was out. */
static struct braid_symbols *symbols_of(struct braid_format *f, const struct braid_stream *stream)
{
	struct stream_kinds *sk = &f->streams[stream->number];

	if (!sk->symbols_tried) {
		sk->symbols_tried = true;
		sk->symbols = braid_symbols_new(stream);
	}
	return sk->symbols;
}

static char *resolve(void *symbols, unsigned long long *address, char **module)
{
	*module = NULL;
	return braid_symbols_find(symbols, address);
}

/*
 * The text that libtraceevent parses: our own head, so that name and id are as told,
 * and the print format only when it is sound.
 */
static char *make_text(const struct braid_event_format *format, bool whole)
{
	const char *body = strstr(format->format, "format:");
	char *text = NULL, *name = strdup(format->name);
	size_t bytes = strlen(body);
	char *c;

	if (!name)
		return NULL;
	for (c = name; *c; c++)
		if (!isalnum((unsigned char)*c))
			*c = '_';
	if (!whole)
		bytes = braid_check_fields(body) - body;
	if (asprintf(&text, "name: %s\nID: %u\n%.*s%s\n", *name ? name : "_", format->id,
		     (int)bytes, body, whole ? "" : "\nprint fmt: \"\"") < 0)
		text = NULL;
	free(name);
	return text;
}

/* A handle of its own for one format, and what it needs. */
static int prepare(struct braid_format *f, struct braid_kind *kind)
{
	struct braid_symbols *symbols;

	kind->tep = tep_alloc();
	kind->checks = calloc(1, sizeof(*kind->checks));
	if (!kind->tep || !kind->checks)
		return -ENOMEM;
	tep_set_long_size(kind->tep, 8);
	tep_set_file_bigendian(kind->tep, TEP_LITTLE_ENDIAN);
	tep_set_page_size(kind->tep, BRAID_PAGE_BYTES);
	symbols = symbols_of(f, kind->stream);
	if (symbols)
		tep_set_function_resolver(kind->tep, resolve, symbols);
	return 0;
}

/* Steps where that can be, else libtraceevent. Return: NULL, or why neither. */
static const char *compile(struct braid_format *f, struct braid_kind *kind)
{
	const char *why = braid_vet_print(kind->event, kind->checks);

	if (why)
		return why;
	kind->steps = braid_steps_compile(kind->event, f->streams[kind->stream->number].symbols);
	return kind->steps ? NULL : braid_vet_library(kind->event);
}

static const char *parse(struct braid_format *f, struct braid_kind *kind)
{
	const char *why, *grammar, *body = strstr(kind->info.format->format, "format:");
	bool whole = false;
	char *text;

	if (!body || kind->info.format->format_bytes > BRAID_MAX_FORMAT_BYTES)
		return "malformed or oversized event format";
	grammar = braid_check_grammar(body, &whole);
	if (grammar && !braid_check_fields(body))
		return grammar;
	text = make_text(kind->info.format, whole);
	if (!text || prepare(f, kind)) {
		free(text);
		return "out of memory";
	}
	tep_parse_format(kind->tep, &kind->event, text, strlen(text), kind->info.format->system);
	free(text);
	if (!kind->event || kind->event->id != kind->info.format->id)
		return "its format can't be parsed";
	why = braid_vet_fields(kind->event, kind->checks);
	if (why)
		return why;
	kind->info.parsed = true;
	kind->info.event = kind->event;
	return grammar ? grammar : compile(f, kind);
}

static struct braid_kind *look_at(struct braid_format *f, struct braid_kind *kind)
{
	if (!kind->looked) {
		kind->looked = true;
		if (kind->info.format)
			kind->info.why = parse(f, kind);
		kind->info.printable = kind->info.parsed && !kind->info.why;
	}
	return kind;
}

/* The kinds of a stream; NULL: out of memory. */
static struct braid_kinds *kinds_of(struct braid_format *f, const struct braid_stream *stream)
{
	struct stream_kinds *sk = &f->streams[stream->number];

	if (!sk->kinds)
		sk->kinds = braid_kinds_new(stream, &f->next_number);
	return sk->kinds;
}

static struct braid_kind *kind_of(struct braid_format *f, const struct braid_item *item)
{
	struct braid_kinds *kinds = kinds_of(f, item->stream);
	struct braid_kind *kind = kinds ? braid_kinds_of(kinds, item) : NULL;

	return kind ? look_at(f, kind) : NULL;
}

const struct braid_event_type_info *braid_format_event(struct braid_format *f,
						       const struct braid_item *item)
{
	struct braid_kind *kind = kind_of(f, item);

	return kind ? &kind->info : NULL;
}

const struct braid_event_type_info *braid_format_by_number(struct braid_format *f,
							   const struct braid_stream *stream,
							   size_t number)
{
	struct braid_kinds *kinds;
	struct braid_kind *kind;

	if (number >= stream->nr_formats)
		return NULL;
	kinds = kinds_of(f, stream);
	kind = kinds ? braid_kinds_by_format(kinds, &stream->formats[number]) : NULL;
	return kind ? &look_at(f, kind)->info : NULL;
}

/* The payload with zeros behind, so that a string in it ends. */
static u8 *pad(struct braid_format *f, const struct braid_item *item)
{
	size_t bytes = item->payload_bytes + BRAID_PAD_BYTES;

	if (bytes > f->padded_bytes) {
		u8 *grown = realloc(f->padded, bytes);

		if (!grown)
			return NULL;
		f->padded = grown;
		f->padded_bytes = bytes;
	}
	memcpy(f->padded, item->payload, item->payload_bytes);
	memset(f->padded + item->payload_bytes, 0, BRAID_PAD_BYTES);
	return f->padded;
}

static void print_hex(const struct braid_item *item, struct braid_text *out)
{
	u32 bytes = item->payload_bytes < MAX_HEX_BYTES ? item->payload_bytes : MAX_HEX_BYTES;

	braid_text_hex(out, item->payload, bytes);
	if (bytes < item->payload_bytes)
		braid_text_printf(out, " ... (%u bytes)", item->payload_bytes);
}

/* Appends what a print format made, fit for a terminal, without the space behind it. */
static void put_tamed(struct braid_text *out, const char *text, size_t bytes)
{
	while (bytes && isspace((unsigned char)text[bytes - 1]))
		bytes--;
	braid_text_safe(out, text, bytes < MAX_TEXT_BYTES ? bytes : MAX_TEXT_BYTES);
	if (bytes > MAX_TEXT_BYTES)
		braid_text_puts(out, "...");
}

static void print_by_library(struct braid_format *f, struct braid_kind *kind,
			     const struct braid_item *item, struct braid_text *out)
{
	struct tep_record record = {
		.ts = item->host_ns,
		.cpu = item->ring->cpu,
		.size = item->payload_bytes,
		.record_size = item->payload_bytes,
		.data = pad(f, item),
	};

	if (!record.data) {
		out->failed = true;
		return;
	}
	trace_seq_reset(&f->seq);
	tep_print_event(kind->tep, &f->seq, &record, "%s", TEP_PRINT_INFO);
	if (f->seq.state == TRACE_SEQ__GOOD)
		put_tamed(out, f->seq.buffer, f->seq.len);
}

/* Written in place, and written anew in the rare case that a byte of it is not plain. */
static void print_by_steps(struct braid_format *f, const struct braid_kind *kind,
			   const struct braid_item *item, struct braid_text *out)
{
	size_t before = out->bytes;

	braid_steps_run(kind->steps, item->payload, item->payload_bytes, out);
	if (out->bytes - before <= MAX_TEXT_BYTES &&
	    braid_text_plain(out->data + before, out->bytes - before)) {
		while (out->bytes > before && out->data[out->bytes - 1] == ' ')
			out->bytes--;
		return;
	}
	f->wild.bytes = 0;
	braid_text_put(&f->wild, out->data + before, out->bytes - before);
	out->failed |= f->wild.failed;
	out->bytes = before;
	put_tamed(out, f->wild.data, f->wild.bytes);
}

/* Whether a payload holds all fields of an event, and what its print format reads. */
static bool holds(const struct braid_kind *kind, const struct braid_item *item, bool print)
{
	return kind->info.parsed &&
	       (kind->event->format.fields || item->payload_bytes <= sizeof(struct braid_record)) &&
	       braid_vet_payload(kind->event, kind->checks, print, item->payload,
				 item->payload_bytes);
}

/* Whether an event's fields tell what is in a payload. */
static bool has_fields(const struct braid_kind *kind, const struct braid_item *item)
{
	return holds(kind, item, false);
}

const struct tep_event *braid_format_fields(struct braid_format *f, const struct braid_item *item)
{
	struct braid_kind *kind = kind_of(f, item);

	return kind && has_fields(kind, item) ? kind->event : NULL;
}

bool braid_format_holds(const struct braid_event_type_info *info, const struct braid_item *item)
{
	const struct braid_kind *kind = (const struct braid_kind *)info;

	return holds(kind, item, kind->info.printable);
}

void braid_format_symbols(struct braid_format *f, const struct braid_stream *stream,
			  struct braid_text *out)
{
	const struct braid_symbols *symbols = symbols_of(f, stream);

	if (symbols)
		braid_symbols_text(symbols, out);
}

void braid_format_text_of(struct braid_format *f, const struct braid_item *item,
			  const struct braid_event_type_info *info, struct braid_text *out)
{
	struct braid_kind *kind = (struct braid_kind *)info;

	static_assert(offsetof(struct braid_kind, info) == 0, "cast");
	if (!kind || !has_fields(kind, item))
		print_hex(item, out);
	else if (!kind->info.printable ||
		 (kind->checks->nr && !braid_vet_payload(kind->event, kind->checks, true,
							 item->payload, item->payload_bytes)))
		braid_fields_text(kind->event, item->payload, item->payload_bytes, out);
	else if (kind->steps)
		print_by_steps(f, kind, item, out);
	else
		print_by_library(f, kind, item, out);
}

void braid_format_json(struct braid_format *f, const struct braid_item *item,
		       struct braid_text *out)
{
	struct braid_kind *kind = kind_of(f, item);

	if (kind && has_fields(kind, item)) {
		braid_fields_json(kind->event, item->payload, item->payload_bytes, out);
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
	struct braid_record record;

	if (item->raw || item->payload_bytes < sizeof(record))
		return 0;
	memcpy(&record, item->payload, sizeof(record));
	return record.common_pid;
}

const char *braid_format_comm_for(const struct braid_item *item, s32 pid, u64 *from, u64 *until)
{
	const struct braid_stream *s = item->stream;
	size_t low = 0, high = s->nr_comms;

	*from = 0;
	*until = ~0ULL;
	if (!pid)
		return "<idle>";
	/* The last entry that is not behind (pid, counter). */
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct braid_comm *c = &s->comms[middle];

		if (c->pid < pid || (c->pid == pid && c->since_counter <= item->counter))
			low = middle + 1;
		else
			high = middle;
	}
	if (low < s->nr_comms && s->comms[low].pid == pid)
		*until = s->comms[low].since_counter - 1;
	if (low && s->comms[low - 1].pid == pid) {
		*from = s->comms[low - 1].since_counter;
		return s->comms[low - 1].comm;
	}
	/* Not seen before its first exec: what it became tells more than nothing. */
	if (low < s->nr_comms && s->comms[low].pid == pid)
		return s->comms[low].comm;
	return BRAID_COMM_UNKNOWN;
}

const char *braid_format_comm(const struct braid_item *item, s32 pid)
{
	u64 from, until;

	return braid_format_comm_for(item, pid, &from, &until);
}
