// SPDX-License-Identifier: GPL-2.0
/*
 * Finds the fields that an event prints as a symbol's name.
 */
#include <linux/ctype.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/trace_events.h>

#include "guest_driver/source/source.h"

/*
 * struct braid_scan - A print format being read: "text", argument, argument...
 * @text: In the quoted part, after the consumed text.
 * @arguments: After the quoted part, at the comma before the first argument.
 */
struct braid_scan {
	const char *text;
	const char *arguments;
};

/* Step over a quoted string, @at its first quote. Return: the position after its last. */
static const char *braid_skip_string(const char *at)
{
	for (at++; *at && *at != '"'; at++)
		if (*at == '\\' && at[1])
			at++;
	return *at ? at + 1 : at;
}

/*
 * Read on to the next conversion. @argument counts the arguments that the ones before
 * it, and an asterisk in it, have used up.
 * Return: its letters from the conversion on, or NULL at the end of the text.
 */
static const char *braid_next_conversion(struct braid_scan *scan, unsigned int *argument)
{
	const char *at = scan->text;

	while (at < scan->arguments) {
		if (*at++ != '%')
			continue;
		if (*at == '%') {
			at++;
			continue;
		}
		while (at < scan->arguments && strchr("-+ #0123456789.*hlLzjt", *at))
			if (*at++ == '*')
				++*argument;
		scan->text = at;
		return at;
	}
	scan->text = at;
	return NULL;
}

/* Return: the start of argument @wanted, or NULL if there are fewer. */
static const char *braid_find_argument(const char *at, unsigned int wanted)
{
	unsigned int depth = 0;

	while (*at) {
		if (*at == '"') {
			at = braid_skip_string(at);
			continue;
		}
		if (*at == '(' || *at == '{')
			depth++;
		else if (*at == ')' || *at == '}')
			depth--;
		else if (*at == ',' && !depth && !wanted--)
			return at + 1;
		at++;
	}
	return NULL;
}

/* Return: the name of the field in an argument like "(void *)REC->ip", or NULL. */
static const char *braid_argument_field(const char *at, size_t *length)
{
	for (;;) {
		while (isspace(*at) || *at == '(')
			at++;
		if (!strncmp(at, "REC->", 5))
			break;
		/* The rest of a cast: a type, which may have asterisks. */
		while (isalnum(*at) || *at == '_' || isspace(*at) || *at == '*')
			at++;
		if (*at++ != ')')
			return NULL;
	}
	at += 5;
	for (*length = 0; isalnum(at[*length]) || at[*length] == '_';)
		++*length;
	return at;
}

/* Return: the offset of an address-sized field, or 0 if there is no such field. */
static u16 braid_field_offset(const struct braid_tracepoint *tp, const char *name, size_t length)
{
	unsigned int offset = sizeof(struct trace_entry);
	const struct braid_field *field;

	for (field = tp->fields; field->type; field++) {
		offset = ALIGN(offset, field->align);
		if (!strncmp(field->name, name, length) && !field->name[length])
			return field->size == sizeof(long) && !field->len ? offset : 0;
		offset += field->size;
	}
	return 0;
}

static bool braid_converts_symbol(const char *conversion)
{
	return conversion[0] == 'p' && conversion[1] && strchr("sSfF", conversion[1]);
}

static bool braid_has_offset(const u16 *offsets, int nr, u16 offset)
{
	while (nr--)
		if (offsets[nr] == offset)
			return true;
	return false;
}

/**
 * braid_source_symbol_fields() - Find the fields that an event prints as symbols.
 * @tp: The event.
 * @offsets: Filled with their offsets in a record.
 * @max: Its capacity.
 *
 * These are address-sized fields that are printed with %ps, %pS, %pf or %pF, possibly through a
 * cast.
 *
 * Return: their number, at most @max.
 */
int braid_source_symbol_fields(const struct braid_tracepoint *tp, u16 offsets[], int max)
{
	struct braid_scan scan = { .text = tp->print_fmt };
	unsigned int argument = 0;
	const char *conversion;
	int nr = 0;

	scan.arguments = braid_skip_string(tp->print_fmt);
	for (; nr < max && (conversion = braid_next_conversion(&scan, &argument)); argument++) {
		const char *name;
		size_t length;
		u16 offset;

		if (!braid_converts_symbol(conversion))
			continue;
		name = braid_find_argument(scan.arguments, argument);
		name = name ? braid_argument_field(name, &length) : NULL;
		offset = name ? braid_field_offset(tp, name, length) : 0;
		if (offset && !braid_has_offset(offsets, nr, offset))
			offsets[nr++] = offset;
	}
	return nr;
}
