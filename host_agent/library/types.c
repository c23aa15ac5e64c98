// SPDX-License-Identifier: GPL-2.0-or-later
/* Types of events, and the values of their fields. */
#include <errno.h>
#include <string.h>

#include "host_agent/library/private.h"
#include "host_agent/util/error.h"

static const struct braid_event_type_info *types_inner(const struct tracebraid_type *type)
{
	return (const void *)type;
}

static const struct braid_field *inner_field(const struct tracebraid_field *field)
{
	return (const void *)field;
}

uint32_t tracebraid_type_number(const struct tracebraid_type *type)
{
	return types_inner(type)->number;
}

const char *tracebraid_type_system(const struct tracebraid_type *type)
{
	return types_inner(type)->system;
}

const char *tracebraid_type_name(const struct tracebraid_type *type)
{
	return braid_format_label(types_inner(type));
}

const char *tracebraid_type_event(const struct tracebraid_type *type)
{
	return types_inner(type)->name;
}

const struct tracebraid_field *tracebraid_type_field(const struct tracebraid_type *type,
						     size_t number)
{
	const struct braid_layout *layout = types_inner(type)->layout;
	const struct braid_field *f = layout ? layout->fields : NULL;

	for (; f && number; f = f->next)
		number--;
	return (const void *)f;
}

const struct tracebraid_field *tracebraid_type_find(const struct tracebraid_type *type,
						    const char *name)
{
	const struct braid_layout *layout = types_inner(type)->layout;

	return layout ? (const void *)braid_layout_find(layout, name) : NULL;
}

const char *tracebraid_field_name(const struct tracebraid_field *field)
{
	return inner_field(field)->name;
}

const char *tracebraid_field_type(const struct tracebraid_field *field)
{
	return inner_field(field)->type;
}

enum tracebraid_field_kind tracebraid_field_kind(const struct tracebraid_field *field)
{
	const struct braid_field *f = inner_field(field);

	if (f->flags & BRAID_FIELD_TEXT)
		return TRACEBRAID_STRING;
	if (f->flags & (BRAID_FIELD_ARRAY | BRAID_FIELD_DYNAMIC) ||
	    (f->size != 1 && f->size != 2 && f->size != 4 && f->size != 8))
		return TRACEBRAID_BYTES;
	return TRACEBRAID_NUMBER;
}

int tracebraid_field_is_signed(const struct tracebraid_field *field)
{
	return !!(inner_field(field)->flags & BRAID_FIELD_SIGNED);
}

int tracebraid_types(struct tracebraid_walk *w,
		     int (*each)(void *arg, const struct tracebraid_stream *stream,
				 const struct tracebraid_type *type), void *arg)
{
	const struct braid_source *source = w->trace->source;
	const struct braid_event_type_info *info;
	size_t k, n;
	int err = 0;

	for (k = 0; k < source->nr_streams && !err; k++) {
		const struct braid_stream *stream = source->streams[k];

		/* A sub-event without its event is no type. */
		for (n = 0; n < stream->nr_formats && !err; n++) {
			info = braid_format_by_number(w->walk.format, stream, n);
			err = info ? each(arg, (const void *)stream, (const void *)info) : 0;
		}
	}
	return err;
}

/* Values ------------------------------------------------------------------------------------ */

const struct braid_layout *braid_library_layout(struct tracebraid_walk *w)
{
	if (!w->validated)
		w->layout = w->got == BRAID_WALK_EVENT ?
			    braid_format_fields(w->walk.format, w->walk.item) : NULL;
	w->validated = true;
	return w->layout;
}

int braid_library_field_number(const struct braid_field *f, const struct braid_item *item,
			       s64 *value)
{
	u64 bits = 0;

	if (tracebraid_field_kind((const void *)f) != TRACEBRAID_NUMBER)
		return -EINVAL;
	memcpy(&bits, item->payload + f->offset, f->size);
	if (f->flags & BRAID_FIELD_SIGNED)
		bits = (u64)((s64)(bits << (64 - 8 * f->size)) >> (64 - 8 * f->size));
	*value = (s64)bits;
	return 0;
}

/* Whether the record where the walk is has a field's bytes. Return: 0, or -errno. */
static int types_check(struct tracebraid_walk *w, const struct braid_field *f)
{
	const struct braid_layout *layout = braid_library_layout(w);

	if (layout == f->layout)
		return 0;
	return layout || w->got != BRAID_WALK_EVENT ?
	       braid_fail(-EINVAL, "the field %s belongs to another event type", f->name) :
	       braid_fail(-ENODATA, "the event's record is shorter than its type");
}

int tracebraid_number(struct tracebraid_walk *w, const struct tracebraid_field *field,
		      int64_t *value)
{
	const struct braid_field *f = inner_field(field);
	int64_t number = 0;
	int err = types_check(w, f);

	if (!err && braid_library_field_number(f, w->walk.item, &number))
		err = braid_fail(-EINVAL, "the field %s is not a number", f->name);
	if (!err)
		*value = number;
	return err;
}

const void *tracebraid_bytes(struct tracebraid_walk *w, const struct tracebraid_field *field,
			     size_t *bytes)
{
	const struct braid_field *f = inner_field(field);
	const struct braid_item *item = w->walk.item;
	u32 offset, length;

	if (types_check(w, f))
		return NULL;
	if (!braid_format_range(f, item->payload, item->payload_bytes, &offset, &length)) {
		braid_fail(-ENODATA, "the event's record is shorter than its type");
		return NULL;
	}
	*bytes = f->flags & BRAID_FIELD_TEXT ?
		 strnlen((const char *)item->payload + offset, length) : length;
	return item->payload + offset;
}
