/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which event type a record is of: by its buffer, its id, and its sub-event's number. */
#ifndef BRAID_FORMAT_PRIVATE_H
#define BRAID_FORMAT_PRIVATE_H

#include "host_agent/format/format.h"

#define BRAID_MAX_FORMAT_BYTES	(64u << 10)	/* of one format's text */

struct braid_format_program;

/* One event type. A bad format affects no other. */
struct braid_stream_type {
	struct braid_event_type_info info;
	const struct braid_stream *stream;
	struct braid_layout *layout;		/* NULL: not parsed */
	const char *rest;			/* of the format, after its fields */
	struct braid_format_program *steps;	/* of its print format; NULL: not printable */
	bool bprint;				/* of trace_printk() */
	bool prepared;
	char unknown_name[16];
	struct braid_stream_type *subs;	/* by their formats' numbers */
	size_t nr_subs;
};

struct braid_stream_types;

/**
 * braid_stream_types_new - the event types that a stream defines, unparsed
 * @stream: must outlive the result
 * @next_number: of the next new type, incremented; must outlive the result
 *
 * Return: NULL: out of memory.
 */
struct braid_stream_types *braid_stream_types_new(const struct braid_stream *stream,
						  u32 *next_number);

/** braid_stream_types_free - free all; NULL is fine */
void braid_stream_types_free(struct braid_stream_types *types);

/**
 * braid_stream_types_of - the type of an event or of its sub-event
 * @types: of the item's stream
 * @item: an event
 *
 * Return: the type, created if undefined; NULL: out of memory.
 */
struct braid_stream_type *braid_stream_types_of(struct braid_stream_types *types,
						const struct braid_item *item);

/** braid_stream_types_by_format - the type that a format of the stream is of; NULL: out of memory */
struct braid_stream_type *braid_stream_types_by_format(struct braid_stream_types *types,
						       const struct braid_event_format *format);

/** braid_fields_text - append "name=value name=value"; braid_layout_holds() the payload */
void braid_fields_text(const struct braid_layout *layout, const u8 *data, u32 bytes,
		       struct braid_text *out);

/** braid_fields_json - append {"name":value,...}; likewise */
void braid_fields_json(const struct braid_layout *layout, const u8 *data, u32 bytes,
		       struct braid_text *out);

#endif /* BRAID_FORMAT_PRIVATE_H */
