// SPDX-License-Identifier: GPL-2.0-or-later
/* Prints events of trace_printk(), whose arguments lie as the kernel's vbin_printf() puts them. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "host_agent/format/bprint.h"
#include "host_agent/format/constants.h"
#include "host_agent/trace/symbols.h"

#define MOST_WIDTH	255		/* of one conversion; the kernel allows more */
#define MOST_TEXT	(64u << 10)	/* of one event */

struct bprint {
	const struct braid_layout *layout;
	struct braid_text *out;
	const char *format;	/* its rest */
	const u8 *data;		/* arguments */
	u32 bytes, at;
	bool ended;		/* one was missing */
};

/* "%-08.3lx", taken apart. */
struct conversion {
	char flags[8];
	s32 width, precision;	/* -1: none */
	u32 bytes;		/* of the number */
};

bool braid_is_bprint(const struct braid_layout *layout, const char *name)
{
	const struct braid_field *ip = braid_layout_find(layout, "ip"),
				 *format = braid_layout_find(layout, "fmt"),
				 *buffer = braid_layout_find(layout, "buf");

	return !strcmp(layout->system, "ftrace") && !strcmp(name, "bprint") && ip && format &&
	       buffer && ip->size == 8 && format->size == 8 && !buffer->size;
}

/* An argument of 1, 2, 4 or 8 bytes, at a multiple of its size, but at most of 4. */
static u64 bprint_take(struct bprint *b, u32 bytes)
{
	u32 align = bytes < 4 ? bytes : 4, at = (b->at + align - 1) & ~(align - 1);

	if (at > b->bytes || bytes > b->bytes - at) {
		b->ended = true;
		return 0;
	}
	b->at = at + bytes;
	return braid_number_load(b->data + at, bytes, false);
}

/* A string's bytes; its NUL is passed over. */
static const char *take_string(struct bprint *b, u32 *bytes)
{
	const char *s = (const char *)b->data + b->at;

	*bytes = strnlen(s, b->bytes - b->at);
	b->ended |= b->at + *bytes == b->bytes;
	b->at += *bytes + !b->ended;
	return s;
}

static s32 take_count(struct bprint *b)
{
	s64 count = 0;

	if (*b->format == '*') {
		b->format++;
		count = (s32)bprint_take(b, 4);
	} else {
		for (; isdigit((unsigned char)*b->format); b->format++)
			count = count > MOST_WIDTH ? count : 10 * count + *b->format - '0';
	}
	return count > MOST_WIDTH ? MOST_WIDTH : count < -MOST_WIDTH ? -MOST_WIDTH : count;
}

/* Up to the letter that says what it is. */
static void take_conversion(struct bprint *b, struct conversion *c)
{
	size_t n = 0;

	memset(c, 0, sizeof(*c));
	c->bytes = 4;
	c->precision = -1;
	for (; *b->format && strchr("-+ #0", *b->format); b->format++)
		if (n < sizeof(c->flags) - 2)
			c->flags[n++] = *b->format;
	c->width = take_count(b);
	if (c->width < 0) {
		c->flags[n] = '-';
		c->width = -c->width;
	}
	if (*b->format == '.') {
		b->format++;
		c->precision = take_count(b);
	}
	for (; *b->format && strchr("hlLqjzZt", *b->format); b->format++)
		c->bytes = *b->format != 'h' ? 8 : c->bytes == 2 ? 1 : 2;
}

static void bprint_put_string(struct bprint *b, const struct conversion *c, const char *s,
			      u32 bytes)
{
	s32 missing;

	if (c->precision >= 0 && (u32)c->precision < bytes)
		bytes = c->precision;
	missing = c->width - (s32)(bytes < MOST_WIDTH ? bytes : MOST_WIDTH);
	missing = missing < 0 ? 0 : missing;
	if (!strchr(c->flags, '-'))
		braid_text_printf(b->out, "%*s", missing, "");
	braid_text_put(b->out, s, bytes);
	if (strchr(c->flags, '-'))
		braid_text_printf(b->out, "%*s", missing, "");
}

static void bprint_put_number(struct bprint *b, const struct conversion *c, char letter)
{
	bool sign = letter == 'd' || letter == 'i';
	u64 value = bprint_take(b, c->bytes);
	u32 shift = 64 - 8 * c->bytes;
	char format[32], text[2 * MOST_WIDTH + 64];

	if (b->ended)
		return;
	if (sign)
		value = (u64)((s64)(value << shift) >> shift);
	snprintf(format, sizeof(format), "%%%s*.*ll%c", c->flags, letter);
	snprintf(text, sizeof(text), format, c->width, c->precision, value);
	braid_text_puts(b->out, text);
}

static void put_function(struct bprint *b, u64 address, bool offset_too)
{
	unsigned long long start = address;
	const char *name = b->layout->symbols ?
			   braid_symbols_find(b->layout->symbols, &start) : NULL;

	if (!name)
		braid_text_printf(b->out, "0x%llx", (unsigned long long)address);
	else if (offset_too)
		braid_text_printf(b->out, "%s+0x%llx", name, address - start);
	else
		braid_text_puts(b->out, name);
}

/* After "%p": an address, or what the kernel made a text of when it recorded. */
static void put_pointer(struct bprint *b, const struct conversion *c)
{
	char kind = *b->format;
	const char *text;
	u32 bytes;
	u64 value;

	while (isalnum((unsigned char)*b->format))
		b->format++;
	if (isalnum((unsigned char)kind) && !strchr("SsFfxKe", kind)) {
		text = take_string(b, &bytes);
		if (!b->ended)
			bprint_put_string(b, c, text, bytes);
		return;
	}
	value = bprint_take(b, 8);
	if (b->ended)
		return;
	if (kind && strchr("SsFf", kind))
		put_function(b, value, kind == 'S' || kind == 'F');
	else
		braid_text_printf(b->out, "0x%llx", (unsigned long long)value);
}

/* After a '%'. */
static void put_conversion(struct bprint *b)
{
	struct conversion c;
	const char *text;
	u32 bytes;
	char letter;

	take_conversion(b, &c);
	letter = *b->format;
	b->format += !!letter;
	switch (b->ended ? 0 : letter) {
	case 'd': case 'i': case 'u': case 'x': case 'X': case 'o':
		bprint_put_number(b, &c, letter);
		break;
	case 'c':
		letter = bprint_take(b, 1);
		bprint_put_string(b, &c, &letter, !b->ended && letter);
		break;
	case 's':
		text = take_string(b, &bytes);
		if (!b->ended)
			bprint_put_string(b, &c, text, bytes);
		break;
	case 'p':
		put_pointer(b, &c);
		break;
	case '%':
		braid_text_putc(b->out, '%');
		break;
	default:
		b->ended = true;	/* how its argument lies is not known */
	}
}

bool braid_bprint_put(const struct braid_layout *layout, const u8 *data, u32 bytes,
		      struct braid_text *out)
{
	u64 ip = braid_field_number(braid_layout_find(layout, "ip"), data);
	u64 format = braid_field_number(braid_layout_find(layout, "fmt"), data);
	u32 at = braid_layout_find(layout, "buf")->offset;
	size_t before = out->bytes, n;
	struct bprint b = {
		.layout = layout, .out = out, .data = data + at, .bytes = bytes - at,
		.format = braid_constants_find(layout->constants, format),
	};

	if (!b.format)
		return false;
	put_function(&b, ip, false);
	braid_text_puts(out, ": ");
	while (*b.format && !b.ended && out->bytes - before <= MOST_TEXT) {
		n = strcspn(b.format, "%");
		braid_text_put(out, b.format, n);
		b.format += n;
		if (*b.format++)
			put_conversion(&b);
		else
			break;
	}
	if (b.ended)
		braid_text_puts(out, "...");
	return true;
}
