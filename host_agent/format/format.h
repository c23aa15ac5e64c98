/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Turns an event's bytes into names and text. Nothing in them is trusted. */
#ifndef BRAID_FORMAT_FORMAT_H
#define BRAID_FORMAT_FORMAT_H

#include "host_agent/source/source.h"
#include "host_agent/util/text.h"

#define BRAID_COMM_UNKNOWN	"<...>"

struct braid_format;
struct tep_event;
struct tep_format_field;

/* One kind of event of one buffer of one stream, or one of its sub-events. */
struct braid_event_type_info {
	const char *system;	/* tame; of a RAW buffer: the buffer's name */
	const char *name;	/* tame */
	const char *subevent;	/* likewise; NULL: none */
	const struct braid_event_format *format;	/* as it was told; NULL: it was not */
	u32 number;		/* of the kind, from 0: dense and unique in a struct braid_format */
	u16 id;
	bool raw;		/* bytes of a RAW buffer: no id, no task */
	bool known;		/* its format was told */
	bool parsed;		/* and its fields make sense */
	bool printable;		/* and so does its print format: libtraceevent may print it */
	const char *why;	/* not printable because */
	const struct tep_event *event;	/* its fields; NULL: not parsed */
};

/**
 * braid_format_open - prepare to print a source's events
 * @out: set on success
 * @source: stays until braid_format_close(). One that grows: what came since is not known
 *
 * Formats are parsed when an event first needs them.
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_format_open(struct braid_format **out, const struct braid_source *source);

/** braid_format_close - free; NULL is fine */
void braid_format_close(struct braid_format *f);

/**
 * braid_format_event - what kind of event an item is
 * @f: the formats
 * @item: an event
 *
 * Return: its kind, whose ->known is false when no format was told; NULL when memory
 * is out.
 */
const struct braid_event_type_info *braid_format_event(struct braid_format *f,
						       const struct braid_item *item);

/**
 * braid_format_by_number - the kinds that a stream told of, one after another
 * @f: the formats
 * @stream: of the source
 * @number: from 0
 *
 * Return: the kind, parsed; NULL behind the last.
 */
const struct braid_event_type_info *braid_format_by_number(struct braid_format *f,
							   const struct braid_stream *stream,
							   size_t number);

/**
 * braid_format_fields - an event's fields, as libtraceevent parsed them
 * @f: the formats
 * @item: the event
 *
 * Return: the parsed event, whose fields all lie within this payload, also what dynamic ones
 * point to; NULL when that can't be said, and the payload is but bytes.
 */
const struct tep_event *braid_format_fields(struct braid_format *f, const struct braid_item *item);

/**
 * braid_format_range - where a field's bytes lie in a payload, also those that it points to
 * @field: of braid_format_fields()
 * @payload: the event's
 * @bytes: of it
 * @offset: set on success
 * @length: set on success, in bytes
 *
 * Return: false when they don't lie in the payload.
 */
bool braid_format_range(const struct tep_format_field *field, const u8 *payload, u32 bytes,
			u32 *offset, u32 *length);

/**
 * braid_format_holds - whether a payload holds all that its kind's format reads
 * @info: the item's kind
 * @item: the event
 *
 * Return: true when libtraceevent may take the payload for what braid_format_retell() tells;
 * false: it is but bytes.
 */
bool braid_format_holds(const struct braid_event_type_info *info, const struct braid_item *item);

/**
 * braid_format_retell - a kind's format, fit for other tools that use libtraceevent
 * @info: the kind
 * @id: to give it
 * @out: extended by the text of a format file as tracefs has it. Its name is the kind's label;
 *	its print format is the one told if that is sound, else it shows the fields
 * @system: set to the system to tell it under
 *
 * Return: whether there is such a text.
 */
bool braid_format_retell(const struct braid_event_type_info *info, u16 id,
			 struct braid_text *out, const char **system);

/**
 * braid_format_symbols - a stream's symbols as lines of /proc/kallsyms
 * @f: the formats
 * @stream: of the source
 * @out: extended. Where a symbol ends and no other begins there is one named ?, so that
 *	nothing behind it is taken for it
 */
void braid_format_symbols(struct braid_format *f, const struct braid_stream *stream,
			  struct braid_text *out);

/**
 * braid_format_text_of - append an event's fields as its print format has them
 * @f: the formats
 * @item: the event
 * @info: its kind, from braid_format_event()
 * @out: what is appended is fit for a terminal and has no newline
 *
 * Falls back to "name=value ...", and to hexadecimal when there is no format.
 */
void braid_format_text_of(struct braid_format *f, const struct braid_item *item,
			  const struct braid_event_type_info *info, struct braid_text *out);

/** braid_format_text - likewise, of an event whose kind is not at hand */
static inline void braid_format_text(struct braid_format *f, const struct braid_item *item,
				     struct braid_text *out)
{
	braid_format_text_of(f, item, braid_format_event(f, item), out);
}

/**
 * braid_format_json - append an event's fields as a JSON object
 * @f: the formats
 * @item: the event
 * @out: extended by {"name":value,...}; an event without a format has {"raw":"hex"}
 */
void braid_format_json(struct braid_format *f, const struct braid_item *item,
		       struct braid_text *out);

/** braid_format_label - what a line calls an event: its sub-event's name if it has one */
static inline const char *braid_format_label(const struct braid_event_type_info *info)
{
	return info->subevent ? info->subevent : info->name;
}

/**
 * braid_format_function - which of a stream's functions begins at an address
 * @f: the formats
 * @stream: of the source
 * @address: any
 *
 * Return: its name, the guest's word, as long as @f lives; NULL: none is known to begin there.
 */
const char *braid_format_function(struct braid_format *f, const struct braid_stream *stream,
				  u64 address);

/**
 * braid_format_pid - the task that an event speaks of
 * @item: the event
 *
 * Return: its pid, 0 when the payload is too short to tell.
 */
s32 braid_format_pid(const struct braid_item *item);

/**
 * braid_format_comm - the name that a task had at an event's time
 * @item: the event
 * @pid: the task
 *
 * Return: a tame name, "<idle>" for 0, BRAID_COMM_UNKNOWN when that is so.
 */
const char *braid_format_comm(const struct braid_item *item, s32 pid);

/**
 * braid_format_comm_for - the same, and for which of the stream's times it holds
 * @from: set: of the counter, the first ...
 * @until: set: ... and the last
 */
const char *braid_format_comm_for(const struct braid_item *item, s32 pid, u64 *from, u64 *until);

#endif /* BRAID_FORMAT_FORMAT_H */
