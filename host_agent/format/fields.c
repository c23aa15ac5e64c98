// SPDX-License-Identifier: GPL-2.0-or-later
/* Numbers, strings and arrays of an event, straight from its fields. */
#include <string.h>

#include "host_agent/format/private.h"

#define MAX_ELEMENTS	128u	/* of an array in a line for people */

bool braid_format_range(const struct braid_field *field, const u8 *payload, u32 bytes,
			u32 *offset, u32 *length)
{
	u32 at = field->offset, size = field->size;

	if (field->flags & BRAID_FIELD_DYNAMIC)
		return braid_dynamic_range(field, payload, bytes, offset, length);
	if (at > bytes || size > bytes - at)
		return false;
	*offset = at;
	*length = size ? size : bytes - at;	/* 0: the rest */
	return true;
}

static void print_number(const struct braid_field *f, const u8 *at, u32 size, bool json,
			 struct braid_text *out)
{
	u64 value = braid_number_load(at, size, f->flags & BRAID_FIELD_SIGNED);

	if (f->flags & BRAID_FIELD_SIGNED)
		braid_text_signed(out, (s64)value);
	else if (!json && (size == 8 || f->flags & BRAID_FIELD_POINTER))
		braid_text_printf(out, "0x%llx", (unsigned long long)value);
	else
		braid_text_number(out, value);
}

static bool number_size(u32 size)
{
	return size == 1 || size == 2 || size == 4 || size == 8;
}

static void print_array(const struct braid_field *f, const u8 *at, u32 length, bool json,
			struct braid_text *out)
{
	u32 size = f->elementsize, k, nr;

	if (!number_size(size) || (f->flags & BRAID_FIELD_DYNAMIC && size == 4 && length & 3))
		size = 1;
	nr = length / size;
	braid_text_putc(out, json ? '[' : '{');
	for (k = 0; k < nr && (json || k < MAX_ELEMENTS); k++) {
		if (k)
			braid_text_putc(out, ',');
		print_number(f, at + k * size, size, json, out);
	}
	if (nr > MAX_ELEMENTS && !json)
		braid_text_puts(out, ",...");
	braid_text_putc(out, json ? ']' : '}');
}

static void print_field(const struct braid_field *f, const u8 *data, u32 bytes, bool json,
			struct braid_text *out)
{
	u32 offset, length;

	/* It passed braid_layout_holds(). */
	if (!braid_format_range(f, data, bytes, &offset, &length))
		offset = length = 0;
	if (f->flags & (json ? BRAID_FIELD_TEXT : BRAID_FIELD_STRING)) {
		if (json)
			braid_text_json(out, (const char *)data + offset, length);
		else
			braid_text_safe(out, (const char *)data + offset, length);
	} else if (f->flags & (BRAID_FIELD_ARRAY | BRAID_FIELD_DYNAMIC) || !number_size(length)) {
		print_array(f, data + offset, length, json, out);
	} else {
		print_number(f, data + offset, length, json, out);
	}
}

void braid_fields_text(const struct braid_layout *layout, const u8 *data, u32 bytes,
		       struct braid_text *out)
{
	const struct braid_field *f;

	for (f = layout->fields; f; f = f->next) {
		if (f != layout->fields)
			braid_text_putc(out, ' ');
		braid_text_safe(out, f->name, strlen(f->name));
		braid_text_putc(out, '=');
		print_field(f, data, bytes, false, out);
	}
}

void braid_fields_json(const struct braid_layout *layout, const u8 *data, u32 bytes,
		       struct braid_text *out)
{
	const struct braid_field *f;

	for (f = layout->fields; f; f = f->next) {
		braid_text_put_blocks(out, layout->keys + f->key_at, f->key_bytes);
		if (braid_field_is_number(f))
			print_number(f, data + f->offset, f->size, true, out);
		else
			print_field(f, data, bytes, true, out);
	}
	braid_text_puts(out, layout->fields ? "}" : "{}");
}
