// SPDX-License-Identifier: GPL-2.0-or-later
/* Writes a format for other tools: only its validated parts. */
#include <ctype.h>
#include <string.h>

#include "host_agent/format/private.h"
#include "host_agent/format/program.h"

#define MAX_SHOWN	64u	/* fields, in our own print format */
#define COMMON_BYTES	16u	/* that the common fields may take: any record is taken to hold them */

/* Words, which a reader can't misinterpret. */
static void put_word(struct braid_text *out, const char *word)
{
	const char *c;

	for (c = word; *c; c++)
		braid_text_putc(out, isalnum((unsigned char)*c) ? *c : '_');
	if (!*word)
		braid_text_putc(out, '_');
}

/* How a number is printed; only this way libtraceevent prints the sign of a small one. */
static const char *conversion(const struct braid_field *f)
{
	if (!(f->flags & BRAID_FIELD_SIGNED))
		return f->size == 8 ? "0x%llx" : "%u";
	return f->size == 8 ? "%lld" : f->size == 4 ? "%d" : f->size == 2 ? "%hd" : "%hhd";
}

/* One field's conversion and argument. */
static void put_field(struct braid_text *text, struct braid_text *args,
		      const struct braid_field *f)
{
	bool dynamic = f->flags & BRAID_FIELD_DYNAMIC, number = f->size == 1 || f->size == 2 ||
			 f->size == 4 || f->size == 8;

	if (f->flags & BRAID_FIELD_RELATIVE && !(f->flags & BRAID_FIELD_STRING)) {
		braid_text_puts(text, "(array)");	/* libtraceevent gets its length wrong */
		return;
	}
	braid_text_puts(args, ", ");
	if (f->flags & BRAID_FIELD_STRING && dynamic) {
		braid_text_puts(text, "%s");
		braid_text_printf(args, "__get_%sstr(%s)", f->flags & BRAID_FIELD_RELATIVE ? "rel_" : "",
				  f->name);
	} else if (f->flags & BRAID_FIELD_STRING) {
		braid_text_puts(text, "%s");
		braid_text_printf(args, "REC->%s", f->name);
	} else if (dynamic) {
		braid_text_puts(text, "%s");
		braid_text_printf(args, "__print_hex(__get_dynamic_array(%s), __get_dynamic_array_len(%s))",
				  f->name, f->name);
	} else if (f->flags & BRAID_FIELD_ARRAY || !number) {
		braid_text_puts(text, "%s");
		braid_text_printf(args, "__print_hex(REC->%s, %u)", f->name, f->size);
	} else {
		braid_text_puts(text, conversion(f));
		braid_text_printf(args, "REC->%s", f->name);
	}
}

/* A print format that shows the fields. */
static void put_print(struct braid_text *out, const struct braid_layout *layout)
{
	struct braid_text args = { 0 };
	const struct braid_field *f;
	u32 nr = 0;

	braid_text_puts(out, "\nprint fmt: \"");
	for (f = layout->fields; f && nr < MAX_SHOWN; f = f->next, nr++) {
		braid_text_printf(out, "%s%s=", nr ? " " : "", f->name);
		put_field(out, &args, f);
	}
	braid_text_putc(out, '"');
	braid_text_put(out, args.data, args.bytes);
	braid_text_putc(out, '\n');
	out->failed |= args.failed;
	braid_text_free(&args);
}

bool braid_format_emit_sanitized(const struct braid_event_type_info *info, u16 id,
				 struct braid_text *out, const char **system)
{
	const struct braid_stream_type *type = (const struct braid_stream_type *)info;
	const struct braid_field *f;
	const char *body;

	if (!info->parsed)
		return false;
	for (f = type->layout->common; f; f = f->next)
		if (f->offset + f->size > COMMON_BYTES)
			return false;
	body = strstr(info->format->format, "format:");
	braid_text_puts(out, "name: ");
	put_word(out, braid_format_label(info));
	braid_text_printf(out, "\nID: %u\n", id);
	*system = info->system;
	if (type->steps && type->steps->portable) {
		braid_text_puts(out, body);
	} else {
		/*
		 * Readers print some events of that system in their own way, whatever the format.
		 */
		if (!strcmp(info->system, "ftrace"))
			*system = "ftrace_fields";
		braid_text_put(out, body, type->rest - body);
		put_print(out, type->layout);
	}
	return true;
}
