// SPDX-License-Identifier: GPL-2.0-or-later
/* Tells a format on to other tools: what was checked of it, and nothing else. */
#include <ctype.h>
#include <string.h>

#include "host_agent/format/private.h"

#define MAX_SHOWN	64u	/* fields, in a print format of ours */
#define COMMON_BYTES	16u	/* that the common fields may take: any record is taken to hold them */

/* Words, which a reader takes for nothing else. */
static void put_word(struct braid_text *out, const char *word)
{
	const char *c;

	for (c = word; *c; c++)
		braid_text_putc(out, isalnum((unsigned char)*c) ? *c : '_');
	if (!*word)
		braid_text_putc(out, '_');
}

/* How a number is shown; only so libtraceevent gives a small one its sign. */
static const char *conversion(const struct tep_format_field *f)
{
	if (!(f->flags & TEP_FIELD_IS_SIGNED))
		return f->size == 8 ? "0x%llx" : "%u";
	return f->size == 8 ? "%lld" : f->size == 4 ? "%d" : f->size == 2 ? "%hd" : "%hhd";
}

/* One field's conversion and argument. */
static void put_field(struct braid_text *text, struct braid_text *args,
		      const struct tep_format_field *f)
{
	bool dynamic = f->flags & TEP_FIELD_IS_DYNAMIC, number = f->size == 1 || f->size == 2 ||
			 f->size == 4 || f->size == 8;

	if (f->flags & TEP_FIELD_IS_RELATIVE && !(f->flags & TEP_FIELD_IS_STRING)) {
		braid_text_puts(text, "(array)");	/* libtraceevent gets its length wrong */
		return;
	}
	braid_text_puts(args, ", ");
	if (f->flags & TEP_FIELD_IS_STRING && dynamic) {
		braid_text_puts(text, "%s");
		braid_text_printf(args, "__get_%sstr(%s)", f->flags & TEP_FIELD_IS_RELATIVE ? "rel_" : "",
				  f->name);
	} else if (f->flags & TEP_FIELD_IS_STRING) {
		braid_text_puts(text, "%s");
		braid_text_printf(args, "REC->%s", f->name);
	} else if (dynamic) {
		braid_text_puts(text, "%s");
		braid_text_printf(args, "__print_hex(__get_dynamic_array(%s), __get_dynamic_array_len(%s))",
				  f->name, f->name);
	} else if (f->flags & TEP_FIELD_IS_ARRAY || !number) {
		braid_text_puts(text, "%s");
		braid_text_printf(args, "__print_hex(REC->%s, %d)", f->name, f->size);
	} else {
		braid_text_puts(text, conversion(f));
		braid_text_printf(args, "REC->%s", f->name);
	}
}

/* A print format that shows the fields. */
static void put_print(struct braid_text *out, const struct tep_event *event)
{
	struct braid_text args = { 0 };
	const struct tep_format_field *f;
	u32 nr = 0;

	braid_text_puts(out, "\nprint fmt: \"");
	for (f = event->format.fields; f && nr < MAX_SHOWN; f = f->next, nr++) {
		braid_text_printf(out, "%s%s=", nr ? " " : "", f->name);
		put_field(out, &args, f);
	}
	braid_text_putc(out, '"');
	braid_text_put(out, args.data, args.bytes);
	braid_text_putc(out, '\n');
	out->failed |= args.failed;
	braid_text_free(&args);
}

bool braid_format_retell(const struct braid_event_type_info *info, u16 id,
			 struct braid_text *out, const char **system)
{
	const struct braid_kind *kind = (const struct braid_kind *)info;
	const struct tep_format_field *f;
	const char *body;

	if (!info->parsed)
		return false;
	for (f = kind->event->format.common_fields; f; f = f->next)
		if ((u32)f->offset + (u32)f->size > COMMON_BYTES)
			return false;
	body = strstr(info->format->format, "format:");
	braid_text_puts(out, "name: ");
	put_word(out, braid_format_label(info));
	braid_text_printf(out, "\nID: %u\n", id);
	*system = info->system;
	if (info->printable && !braid_vet_library(kind->event)) {
		braid_text_puts(out, body);
	} else {
		/* Readers print some of that system in ways of their own, whatever we say. */
		if (!strcmp(info->system, "ftrace"))
			*system = "ftrace_fields";
		braid_text_put(out, body, braid_check_fields(body) - body);
		put_print(out, kind->event);
	}
	return true;
}
