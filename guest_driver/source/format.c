// SPDX-License-Identifier: GPL-2.0
/*
 * Writes an event's format text, as tracefs has it.
 */
#include <linux/ctype.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/trace_events.h>

#include "guest_driver/source/group.h"
#include "guest_driver/source/source.h"

/*
 * struct braid_text - A text being written.
 * @buf: Destination.
 * @size: Its size in bytes.
 * @length: Bytes of the text up to now, including those that did not fit.
 */
struct braid_text {
	char *buf;
	size_t size;
	size_t length;
};

static __printf(2, 3) void braid_text_add(struct braid_text *text, const char *fmt, ...)
{
	size_t used = min(text->length, text->size);
	va_list args;

	va_start(args, fmt);
	text->length += vsnprintf(text->buf + used, text->size - used, fmt, args);
	va_end(args);
}

/* The fields that every record begins with: struct trace_entry. */
static const struct braid_field braid_common_fields[] = {
	{ .type = "unsigned short", .name = "common_type", .size = 2, .align = 2 },
	{ .type = "unsigned char", .name = "common_flags", .size = 1, .align = 1 },
	{ .type = "unsigned char", .name = "common_preempt_count", .size = 1, .align = 1 },
	{ .type = "int", .name = "common_pid", .size = 4, .align = 4, .is_signed = 1 },
	{ }
};

/*
 * An array's dimension follows its name, as a number if it is known. The bracket of a __data_loc
 * type stays where it is.
 */
static void braid_text_add_field(struct braid_text *text, const struct braid_field *field,
				 unsigned int offset)
{
	const char *bracket = strchr(field->type, '[');

	if (!strncmp(field->type, "__data_loc", strlen("__data_loc")))
		bracket = NULL;
	if (!bracket)
		braid_text_add(text, "\tfield:%s %s;", field->type, field->name);
	else if (field->len)
		braid_text_add(text, "\tfield:%.*s %s[%u];", (int)(bracket - field->type),
			       field->type, field->name, field->len);
	else
		braid_text_add(text, "\tfield:%.*s %s%s;", (int)(bracket - field->type),
			       field->type, field->name, bracket);
	braid_text_add(text, "\toffset:%u;\tsize:%u;\tsigned:%u;\n", offset, field->size,
		       field->is_signed);
}

/* Return: the offset after the last field. */
static unsigned int braid_text_add_fields(struct braid_text *text, const struct braid_field *field,
					  unsigned int offset)
{
	for (; field->type; field++) {
		offset = ALIGN(offset, field->align);
		braid_text_add_field(text, field, offset);
		offset += field->size;
	}
	return offset;
}

static bool braid_in_name(char c)
{
	return isalnum(c) || c == '_';
}

/*
 * Length of the chain of names at @at, or of a "sizeof(TYPE)". What follows a
 * dot or an arrow is a member, never the name of a number.
 */
static size_t braid_name_length(const char *at)
{
	const char *end = at;
	const char *close;

	if (!strncmp(at, "sizeof(", strlen("sizeof("))) {
		close = strchr(at, ')');
		if (close)
			return close + 1 - at;
	}
	for (;;) {
		while (braid_in_name(*end))
			end++;
		if (*end == '.')
			end++;
		else if (end[0] == '-' && end[1] == '>')
			end += 2;
		else
			return end - at;
	}
}

/* Copy a print format with the names of numbers replaced by the numbers. */
static void braid_text_add_print_fmt(struct braid_text *text, const struct braid_tracepoint *tp)
{
	const char *at = tp->print_fmt;
	bool quoted = false;

	while (*at) {
		const struct braid_eval *eval = NULL;
		size_t length = 1;

		if (*at == '\\' && at[1]) {
			length = 2;
		} else if (*at == '"') {
			quoted = !quoted;
		} else if (!quoted && isdigit(*at)) {
			while (isalnum(at[length]))
				length++;
		} else if (!quoted && braid_in_name(*at)) {
			length = braid_name_length(at);
			eval = braid_eval_find(tp->system, at, length);
		}
		if (eval)
			braid_text_add(text, "%ld", (long)eval->value);
		else
			braid_text_add(text, "%.*s", (int)length, at);
		at += length;
	}
}

/**
 * braid_source_format() - Write an event's format text.
 * @tp: The event.
 * @id: Its id, which its records have as their common_type.
 * @buf: Where to; ended by a NUL.
 * @size: Bytes there.
 *
 * Return: the length in bytes without the NUL, or -ENOSPC.
 */
int braid_source_format(const struct braid_tracepoint *tp, u16 id, char *buf, size_t size)
{
	struct braid_text text = { .buf = buf, .size = size };
	unsigned int offset;

	braid_text_add(&text, "name: %s\nID: %u\nformat:\n", tp->name, id);
	offset = braid_text_add_fields(&text, braid_common_fields, 0);
	BUILD_BUG_ON(sizeof(struct trace_entry) != 8);
	braid_text_add(&text, "\n");
	braid_text_add_fields(&text, tp->fields, offset);
	braid_text_add(&text, "\nprint fmt: ");
	braid_text_add_print_fmt(&text, tp);
	braid_text_add(&text, "\n");
	return text.length < size ? (int)text.length : -ENOSPC;
}
