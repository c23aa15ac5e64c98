/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Converts an event's bytes to names and text. Formats and bytes are untrusted.
 *
 * A format is read once: its field lines become a layout (layout.h), its print format a tree
 * (tree.h, node.h), and that a program (program.h). What is not of the kernel's form is refused
 * with the reason, and printed field by field.
 *
 * Invariants:
 * - The room opens no file: formats, names and symbols are those of the source.
 * - Nesting is limited, and each node stands for a character at least, so stack and memory are bounded.
 * - A tree names only fields of its layout. A payload's fields are read only after braid_layout_holds() found all
 *   fields and dynamic data in it, and braid_program_holds() all arrays; indexes are checked each time, and dividing
 *   by 0 yields 0. Jumps go forward, so a run ends.
 * - A type does not change after it was returned: what takes @info and not the formats may run while another thread
 *   uses the formats. A bad format affects no other type.
 * - The output is libtraceevent's, except for what tests/unit/test_steps.c and test_formats.c list.
 */
#ifndef BRAID_FORMAT_FORMAT_H
#define BRAID_FORMAT_FORMAT_H

#include "host_agent/fields/layout.h"
#include "host_agent/trace/source.h"
#include "host_agent/util/text.h"

#define BRAID_COMM_UNKNOWN	"<...>"
#define BRAID_FRAME_BEFORE	" => "	/* in front of each frame of a stack */
#define BRAID_PID_UNKNOWN	(-1)

struct braid_format;

/* One event type of one buffer of one stream, or one of its sub-events. */
struct braid_event_type_info {
	const char *system;	/* sanitized; of a RAW buffer: the buffer's name */
	const char *name;	/* sanitized */
	const char *subevent;	/* likewise; NULL: none */
	const struct braid_event_format *format;	/* as defined; NULL: undefined */
	u32 number;		/* of the type, from 0: dense and unique in a struct braid_format */
	u16 id;
	bool raw;		/* bytes of a RAW buffer: no id, no task */
	bool known;		/* its format is known */
	bool parsed;		/* and its fields are valid */
	bool printable;		/* and so is its print format */
	bool frames;		/* which prints stacks */
	const char *why;	/* not printable because */
	const struct braid_layout *layout;	/* its fields; NULL: not parsed */
};

/**
 * braid_format_open - prepare to print a source's events
 * @out: set on success
 * @source: must live until braid_format_close(). Later additions of a growing one are not seen
 *
 * Formats are parsed when an event first needs them.
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_format_open(struct braid_format **out, const struct braid_source *source);

/** braid_format_close - free; NULL is fine */
void braid_format_close(struct braid_format *f);

/**
 * braid_format_event - the type of an event
 * @f: the formats
 * @item: an event
 *
 * Return: its type, with ->known false when it has no format; NULL when out of memory.
 */
const struct braid_event_type_info *braid_format_event(struct braid_format *f,
						       const struct braid_item *item);

/**
 * braid_format_by_number - iterate over the event types of a stream
 * @f: the formats
 * @stream: of the source
 * @number: from 0
 *
 * Return: the type, parsed; NULL after the last.
 */
const struct braid_event_type_info *braid_format_by_number(struct braid_format *f,
							   const struct braid_stream *stream,
							   size_t number);

/**
 * braid_format_fields_of - an event's fields
 * @info: its type, from braid_format_event()
 * @item: the event
 *
 * Return: the layout, whose fields, and the targets of dynamic ones, are all within this
 * payload; else NULL: treat the payload as bytes.
 */
const struct braid_layout *braid_format_fields_of(const struct braid_event_type_info *info,
						  const struct braid_item *item);

/** braid_format_fields - likewise, of an event of unknown type */
static inline const struct braid_layout *braid_format_fields(struct braid_format *f,
							     const struct braid_item *item)
{
	return braid_format_fields_of(braid_format_event(f, item), item);
}

/**
 * braid_format_range - the range of a field's bytes in a payload, or of its target
 * @field: of braid_format_fields()
 * @payload: the event's
 * @bytes: of it
 * @offset: set on success
 * @length: set on success, in bytes
 *
 * Return: false when it is not within the payload.
 */
bool braid_format_range(const struct braid_field *field, const u8 *payload, u32 bytes,
			u32 *offset, u32 *length);

/**
 * braid_format_holds - whether a payload has all bytes that its type's format reads
 * @info: the item's type
 * @item: the event
 *
 * Return: true when libtraceevent may read the payload by the output of
 *	braid_format_emit_sanitized(); false: treat it as bytes.
 */
bool braid_format_holds(const struct braid_event_type_info *info, const struct braid_item *item);

/**
 * braid_format_emit_sanitized - write a type's format, safe for other tools that use libtraceevent
 * @info: the type
 * @id: the id to write
 * @out: extended by the text of a format file as in tracefs. Its name is the type's label; its
 *	print format is the original if that is valid, else it prints the fields
 * @system: set to the system to list it under
 *
 * Return: whether there is such a text.
 */
bool braid_format_emit_sanitized(const struct braid_event_type_info *info, u16 id,
				 struct braid_text *out, const char **system);

/**
 * braid_format_symbols - a stream's symbols as lines of /proc/kallsyms
 * @f: the formats
 * @stream: of the source
 * @out: extended. A symbol named ? marks a gap after a symbol, so that addresses after its end are
 *	not attributed to it
 */
void braid_format_symbols(struct braid_format *f, const struct braid_stream *stream,
			  struct braid_text *out);

/** braid_format_constants - a stream's texts at constant addresses, as braid_constants_put() has them */
void braid_format_constants(struct braid_format *f, const struct braid_stream *stream,
			    struct braid_text *out);

/**
 * braid_format_text_of - append an event's fields by its print format
 * @item: the event
 * @info: its type, from braid_format_event()
 * @out: the appended text is safe for a terminal and has no newline
 *
 * Falls back to "name=value ...", and to hexadecimal when there is no format.
 */
void braid_format_text_of(const struct braid_item *item, const struct braid_event_type_info *info,
			  struct braid_text *out);

/** braid_format_quoted_of - the same as a JSON string, quotes included */
void braid_format_quoted_of(const struct braid_item *item, const struct braid_event_type_info *info,
			    struct braid_text *out);

/**
 * braid_format_json_of - append an event's fields as a JSON object
 * @item: the event
 * @info: its type, from braid_format_event()
 * @out: extended by {"name":value,...}; an event without a format has {"raw":"hex"}
 */
void braid_format_json_of(const struct braid_item *item, const struct braid_event_type_info *info,
			  struct braid_text *out);

/** braid_format_json - likewise, for an event of unknown type */
static inline void braid_format_json(struct braid_format *f, const struct braid_item *item,
				     struct braid_text *out)
{
	braid_format_json_of(item, braid_format_event(f, item), out);
}

/** braid_format_label - what a line calls an event: its sub-event's name if it has one */
static inline const char *braid_format_label(const struct braid_event_type_info *info)
{
	return info->subevent ? info->subevent : info->name;
}

/**
 * braid_format_symbol - the function that contains an address
 * @layout: of an event of the stream
 * @address: any
 *
 * Return: its name as claimed by the guest, valid as long as the formats; NULL: none known.
 */
const char *braid_format_symbol(const struct braid_layout *layout, u64 address);

/**
 * braid_format_function - which of a stream's functions begins at an address
 * @f: the formats
 * @stream: of the source
 * @address: any
 *
 * Return: its name as claimed by the guest, valid as long as @f; NULL: none known.
 */
const char *braid_format_function(struct braid_format *f, const struct braid_stream *stream,
				  u64 address);

/**
 * braid_format_pid - the task of an event
 * @item: the event
 *
 * Return: its pid; BRAID_PID_UNKNOWN: of a RAW buffer, too short, or its format has no common_pid.
 */
s32 braid_format_pid(const struct braid_item *item);

/**
 * braid_format_comm - the name that a task had at an event's time
 * @item: the event
 * @pid: the task
 *
 * Return: a sanitized name, "<idle>" for 0, BRAID_COMM_UNKNOWN when that is so.
 */
const char *braid_format_comm(const struct braid_item *item, s32 pid);

/**
 * braid_format_comm_for - the same, and for which of the stream's times it holds
 * @from: set: of the counter, the first ...
 * @until: set: ... and the last
 */
const char *braid_format_comm_for(const struct braid_item *item, s32 pid, u64 *from, u64 *until);

#endif /* BRAID_FORMAT_FORMAT_H */
