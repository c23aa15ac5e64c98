/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Between the files that print events. */
#ifndef BRAID_FORMAT_PRIVATE_H
#define BRAID_FORMAT_PRIVATE_H

#include <traceevent/event-parse.h>

#include "host_agent/format/format.h"

#define BRAID_MAX_FORMAT_BYTES	(64u << 10)	/* of one format's text */
#define BRAID_MAX_FIELDS	512u
#define BRAID_PAD_BYTES		256u		/* zeros behind a payload that is printed */
#define BRAID_MAX_CHECKS	64u
#define BRAID_MANY_DYNAMIC	8u		/* fields of more are looked for each time */

/* A place where a print format reads as many bytes as the event itself says. */
struct braid_read_check {
	const struct tep_format_field *field;	/* where it reads */
	const struct tep_print_arg *count;	/* how many elements */
	const struct tep_print_arg *size;	/* of an element; NULL: 1 byte */
};

/* What a payload must satisfy for a parsed event. */
struct braid_read_checks {
	u32 least_bytes;	/* so that all fields lie in it */
	u32 nr_dynamic;		/* fields whose data must lie in it too: */
	const struct tep_format_field *dynamic[BRAID_MANY_DYNAMIC];

	/* To be printed as its format says: */
	struct braid_read_check at[BRAID_MAX_CHECKS];
	u32 nr;
};

/**
 * braid_check_fields - where a format's fields end
 * @text: the format, from "format:" on; ends with NUL
 *
 * Return: what follows the fields, NULL when they are not described as a kernel does.
 */
const char *braid_check_fields(const char *text);

/**
 * braid_check_grammar - may this format text be parsed?
 * @text: the format, from "format:" on; ends with NUL
 * @whole: set: does its print format pass too?
 *
 * libtraceevent's parser trusts its input: odd text crashes it, nesting exhausts its
 * stack, and constants are divided by as they are read. What passes here has the
 * shape that kernels give their formats.
 *
 * Return: NULL, or why not all passes.
 */
const char *braid_check_grammar(const char *text, bool *whole);

/**
 * braid_vet_fields - do the fields of a parsed event make sense?
 * @event: as parsed
 * @checks: filled: what must hold of a payload so that all fields lie in it
 *
 * Return: NULL, or why not.
 */
const char *braid_vet_fields(const struct tep_event *event, struct braid_read_checks *checks);

/**
 * braid_vet_print - may this event be printed as its format says?
 * @event: whose fields passed
 * @checks: filled: what more must hold of a payload
 *
 * Return: NULL, or why not.
 */
const char *braid_vet_print(struct tep_event *event, struct braid_read_checks *checks);

/**
 * braid_vet_library - may libtraceevent itself print it?
 * @event: it passed braid_vet_print()
 *
 * Return: NULL, or why not: some of what we compile it gets wrong, and reads anywhere.
 */
const char *braid_vet_library(struct tep_event *event);

/**
 * braid_vet_payload - does a payload hold all that a parsed event reads?
 * @event: whose fields passed
 * @checks: of the event
 * @print: whether its print format is to be followed; else it is about fields alone
 * @data: the payload
 * @bytes: of it
 */
bool braid_vet_payload(const struct tep_event *event, const struct braid_read_checks *checks,
		       bool print, const u8 *data, u32 bytes);

/**
 * braid_dynamic_range - where a dynamic field's data lie
 * @field: has TEP_FIELD_IS_DYNAMIC
 * @data: the payload
 * @bytes: of it
 * @offset: set on success
 * @length: set on success
 *
 * Return: false when they don't lie in the payload.
 */
bool braid_dynamic_range(const struct tep_format_field *field, const u8 *data, u32 bytes,
			 u32 *offset, u32 *length);

struct braid_steps;

/* One kind of event. Each has a handle of its own: a bad format harms no other. */
struct braid_kind {
	struct braid_event_type_info info;
	const struct braid_stream *stream;
	struct tep_handle *tep;
	struct tep_event *event;
	struct braid_read_checks *checks;
	struct braid_steps *steps;	/* of its print format; NULL: libtraceevent is asked */
	bool looked;
	char unknown_name[16];
	struct braid_kind *subs;	/* by their formats' numbers */
	size_t nr_subs;
};

struct braid_kinds;

/**
 * braid_kinds_new - the kinds of events that a stream tells of, none of them parsed
 * @stream: stays
 * @next_number: of the next kind that is made, counted up; stays
 *
 * Return: NULL: out of memory.
 */
struct braid_kinds *braid_kinds_new(const struct braid_stream *stream, u32 *next_number);

/** braid_kinds_free - free all; NULL is fine */
void braid_kinds_free(struct braid_kinds *kinds);

/**
 * braid_kinds_of - the kind of an event or of its sub-event
 * @kinds: of the item's stream
 * @item: an event
 *
 * Return: the kind, made when nobody told of it; NULL: out of memory.
 */
struct braid_kind *braid_kinds_of(struct braid_kinds *kinds, const struct braid_item *item);

/** braid_kinds_by_format - the kind that one of the stream's formats is; NULL: out of memory */
struct braid_kind *braid_kinds_by_format(struct braid_kinds *kinds,
					 const struct braid_event_format *format);

struct braid_symbols;

/** braid_symbols_new - a stream's symbols, sorted; NULL: out of memory */
struct braid_symbols *braid_symbols_new(const struct braid_stream *stream);

/** braid_symbols_free - free; NULL is fine */
void braid_symbols_free(struct braid_symbols *s);

/**
 * braid_symbols_find - the function that an address lies in
 * @s: the symbols
 * @address: any; set to the function's start on success
 *
 * Return: its name, or NULL.
 */
char *braid_symbols_find(struct braid_symbols *s, unsigned long long *address);

/** braid_symbols_text - append all as lines of /proc/kallsyms, ends too */
void braid_symbols_text(const struct braid_symbols *s, struct braid_text *out);

#endif /* BRAID_FORMAT_PRIVATE_H */
