/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The layout of an event's record: its fields, from the field lines of a format file. */
#ifndef BRAID_FIELDS_LAYOUT_H
#define BRAID_FIELDS_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>

#include "host_agent/util/number.h"
#include "tracebraid/types.h"

#define BRAID_MAX_FIELDS	512u
#define BRAID_MANY_DYNAMIC	8u	/* fields beyond are searched each time */

enum braid_field_flag {
	BRAID_FIELD_ARRAY = 1,
	BRAID_FIELD_POINTER = 2,
	BRAID_FIELD_SIGNED = 4,
	BRAID_FIELD_STRING = 8,		/* an array of bytes; in text, as in libtraceevent's, a string */
	BRAID_FIELD_DYNAMIC = 16,
	BRAID_FIELD_RELATIVE = 32,	/* DYNAMIC: its offset counts from the end of the word */
	BRAID_FIELD_TEXT = 64,		/* STRING, of characters. As data, other bytes are numbers */
};

struct braid_field {
	struct braid_field *next;
	const struct braid_layout *layout;
	const char *name, *type;
	u32 key_at, key_bytes;	/* in layout->keys: {"name": or ,"name": */
	u32 flags;		/* enum braid_field_flag */
	u32 offset, size;	/* size 0: the rest of the payload */
	u32 arraylen, elementsize;
};

struct braid_symbols;
struct braid_constants;

struct braid_layout {
	const char *system;
	struct braid_field *common, *fields;	/* lists */
	struct braid_symbols *symbols;		/* for addresses; may be NULL */
	const struct braid_constants *constants;	/* likewise, of texts */
	u32 least_bytes;			/* that contain all fields */
	u32 nr_dynamic;				/* fields whose data must be in the payload too: */
	const struct braid_field *dynamic[BRAID_MANY_DYNAMIC];
	u32 nr;
	char *pool;				/* of names and types */
	char *keys;				/* of names as JSON quotes them */
	struct braid_field at[];
};

/**
 * braid_layout_parse - parse the field lines of a format
 * @out: set on success; free it with braid_layout_free()
 * @text: the format, from "format:" on; ends with NUL
 * @system: of the event; must outlive the layout
 * @rest: set on success: what follows the field lines
 *
 * Return: NULL, or why not.
 */
const char *braid_layout_parse(struct braid_layout **out, const char *text, const char *system,
			       const char **rest);

#define BRAID_TYPE_BYTES	64u		/* that the words of a type may have */

/** braid_type_bytes - what a number of a type takes, up to "["; 0: unknown */
u32 braid_type_bytes(const char *type);

/** braid_layout_free - free; NULL is fine */
void braid_layout_free(struct braid_layout *layout);

/** braid_layout_find - the field of a name of @bytes; NULL: none */
const struct braid_field *braid_layout_find_bytes(const struct braid_layout *layout,
						  const char *name, size_t bytes);

/** braid_layout_find - the field of a name; NULL: none */
const struct braid_field *braid_layout_find(const struct braid_layout *layout, const char *name);

/** braid_field_is_number - whether it is one number, and no array or string */
static inline bool braid_field_is_number(const struct braid_field *f)
{
	return !(f->flags & (BRAID_FIELD_ARRAY | BRAID_FIELD_DYNAMIC | BRAID_FIELD_STRING)) &&
	       (f->size == 1 || f->size == 2 || f->size == 4 || f->size == 8);
}

/** braid_field_number - its value, of a payload that holds it; it is a number */
static inline s64 braid_field_number(const struct braid_field *f, const u8 *payload)
{
	return (s64)braid_number_load(payload + f->offset, f->size, f->flags & BRAID_FIELD_SIGNED);
}

/** braid_layout_holds - whether a payload contains all fields and the data of dynamic ones */
bool braid_layout_holds(const struct braid_layout *layout, const u8 *data, u32 bytes);

/**
 * braid_dynamic_range - the range of a dynamic field's data
 * @field: has BRAID_FIELD_DYNAMIC
 * @data: the payload
 * @bytes: of it
 * @offset: set on success
 * @length: set on success
 *
 * Return: false when it is not within the payload.
 */
bool braid_dynamic_range(const struct braid_field *field, const u8 *data, u32 bytes, u32 *offset,
			 u32 *length);

/** braid_field_base - what a dynamic field's offset counts from */
static inline u32 braid_field_base(const struct braid_field *f)
{
	return f->flags & BRAID_FIELD_RELATIVE ? f->offset + f->size : 0;
}

#endif /* BRAID_FIELDS_LAYOUT_H */
