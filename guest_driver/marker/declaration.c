// SPDX-License-Identifier: GPL-2.0
/* Reads declarations of events, and prints records by them. */
#include <linux/align.h>
#include <linux/ctype.h>
#include <linux/kernel.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "guest_driver/marker/declaration.h"
#include "shared/schema.h"

#define FIELD_TEXT	160	/* bytes of a field's line in a format file, at most */
#define NAME_BYTES	64

static const struct {
	const char *name;
	u16 bytes;
	bool is_signed;
	const char *print;
} types[] = {
	{ "u8", 1, false, "%u" }, { "s8", 1, true, "%d" }, { "u16", 2, false, "%u" },
	{ "s16", 2, true, "%d" }, { "u32", 4, false, "%u" }, { "s32", 4, true, "%d" },
	{ "u64", 8, false, "%llu" }, { "s64", 8, true, "%lld" }, { "char", 1, true, NULL },
};

/* The word at *at, which is moved after it. Return: NULL: not a valid name. */
static char *braid_declaration_word(char **at)
{
	char *word = skip_spaces(*at), *end = word;

	while (isalnum(*end) || *end == '_')
		end++;
	*at = end;
	if (end == word || isdigit(*word) || end - word >= NAME_BYTES)
		return NULL;
	return word;
}

/* After a word, which is ended here: the next character that is no space. */
static char braid_declaration_next(char **at)
{
	char *end = *at, c;

	*at = skip_spaces(end);
	c = **at;
	*end = 0;
	return c;
}

static bool braid_declaration_has(const struct braid_marker_declaration *d, const char *name)
{
	u32 k;

	for (k = 0; k < d->nr; k++)
		if (!strcmp(d->fields[k].name, name))
			return true;
	return false;
}

/* The part in brackets; *at is after '['. Return: whether it is valid. */
static bool braid_declaration_array(struct braid_marker_declaration *d,
				    struct braid_marker_field *f, char **at)
{
	bool text = !strcmp(f->type, "char");
	unsigned long nr = 0;
	char *word;

	if (f->bytes != 1 || (!text && strcmp(f->type, "u8")))
		return false;
	word = skip_spaces(*at);
	for (*at = word; isdigit(**at) && nr <= BRAID_MARKER_BYTES; ++*at)
		nr = 10 * nr + **at - '0';
	f->kind = !text ? BRAID_MARKER_ARRAY :
		  *at == word ? BRAID_MARKER_TAIL : BRAID_MARKER_STRING;
	if (f->kind == BRAID_MARKER_TAIL)
		d->has_tail = true;
	else if (!nr || nr > BRAID_MARKER_BYTES)
		return false;
	f->bytes = nr;
	*at = skip_spaces(*at);
	if (**at != ']')
		return false;
	*at = skip_spaces(*at + 1);
	return true;
}

/* One field, to its ';' or the end. Return: whether it is valid. */
static bool braid_declaration_field(struct braid_marker_declaration *d, char **at)
{
	struct braid_marker_field *f = &d->fields[d->nr];
	char *type, *name, next;
	u32 k;

	type = d->nr < BRAID_MARKER_FIELDS && !d->has_tail ? braid_declaration_word(at) : NULL;
	if (!type || !isspace(**at))
		return false;
	braid_declaration_next(at);
	for (k = 0; k < ARRAY_SIZE(types) && strcmp(types[k].name, type); k++)
		;
	name = braid_declaration_word(at);
	if (k == ARRAY_SIZE(types) || !name)
		return false;
	*f = (struct braid_marker_field){
		.type = types[k].name, .bytes = types[k].bytes, .is_signed = types[k].is_signed,
	};
	next = braid_declaration_next(at);
	f->name = name;
	f->offset = ALIGN(d->bytes, f->bytes);
	if (next == '[') {
		++*at;
		if (!braid_declaration_array(d, f, at))
			return false;
		next = **at;
	} else if (!types[k].print) {
		return false;		/* a char alone */
	}
	if ((next && next != ';') || braid_declaration_has(d, f->name))
		return false;
	*at = skip_spaces(*at + !!next);
	d->bytes = f->offset + f->bytes;
	d->nr++;
	return d->bytes <= BRAID_MARKER_BYTES;
}

/* As the compiler pads a struct; not before a tail, which begins where the fields end. */
static void braid_declaration_pad(struct braid_marker_declaration *d)
{
	u32 most = 1, k;

	for (k = 0; k < d->nr; k++)
		if (d->fields[k].kind == BRAID_MARKER_NUMBER && d->fields[k].bytes > most)
			most = d->fields[k].bytes;
	if (!d->has_tail)
		d->bytes = ALIGN(d->bytes, most);
}

static const char *braid_declaration_conversion(const struct braid_marker_field *f)
{
	u32 k;

	for (k = 0; strcmp(types[k].name, f->type); k++)
		;
	return types[k].print;
}

static int braid_declaration_write_format(struct braid_marker_declaration *d)
{
	size_t room = d->nr * FIELD_TEXT + 1, length = 0, args = 0;
	char *values = kmalloc(room, GFP_KERNEL);
	u32 k;

	d->format = kmalloc(room, GFP_KERNEL);
	d->print_fmt = kmalloc(2 * room + 2, GFP_KERNEL);
	if (!values || !d->format || !d->print_fmt) {
		kfree(values);
		return -ENOMEM;
	}
	for (k = 0; k < d->nr; k++) {
		const struct braid_marker_field *f = &d->fields[k];
		char array[16] = "";

		if (f->kind == BRAID_MARKER_TAIL)
			strscpy(array, "[]", sizeof(array));
		else if (f->kind != BRAID_MARKER_NUMBER)
			snprintf(array, sizeof(array), "[%u]", f->bytes);
		length += scnprintf(d->format + length, room - length,
				    "\tfield:%s %s%s;\toffset:%zu;\tsize:%u;\tsigned:%d;\n",
				    f->type, f->name, array,
				    f->offset + sizeof(struct braid_record), f->bytes,
				    f->is_signed);
		args += f->kind == BRAID_MARKER_ARRAY ?
			scnprintf(values + args, room - args, ", __print_hex_str(REC->%s, %u)",
				  f->name, f->bytes) :
			scnprintf(values + args, room - args, ", REC->%s", f->name);
	}
	d->print_fmt[0] = '"';
	length = 1;
	for (k = 0; k < d->nr; k++) {
		const struct braid_marker_field *f = &d->fields[k];

		/* A lone text needs no name. */
		if (d->nr > 1 || f->kind != BRAID_MARKER_TAIL)
			length += sprintf(d->print_fmt + length, "%s%s=", k ? " " : "", f->name);
		length += sprintf(d->print_fmt + length, "%s", f->kind == BRAID_MARKER_NUMBER ?
				  braid_declaration_conversion(f) : "%s");
	}
	sprintf(d->print_fmt + length, "\"%s", args ? values : "");
	kfree(values);
	return 0;
}

int braid_marker_parse(struct braid_marker_declaration *d, const char *text)
{
	char *at;

	memset(d, 0, sizeof(*d));
	d->text = kstrdup(text, GFP_KERNEL);
	if (!d->text)
		return -ENOMEM;
	at = d->text;
	d->name = braid_declaration_word(&at);
	if (!d->name || (*at && !isspace(*at)))
		return -EINVAL;
	braid_declaration_next(&at);
	do {
		if (!braid_declaration_field(d, &at))
			return -EINVAL;
	} while (*at);
	braid_declaration_pad(d);
	return braid_declaration_write_format(d);
}

void braid_marker_forget(struct braid_marker_declaration *d)
{
	kfree(d->text);
	kfree(d->format);
	kfree(d->print_fmt);
	memset(d, 0, sizeof(*d));
}

bool braid_marker_equal(const struct braid_marker_declaration *a,
			const struct braid_marker_declaration *b)
{
	return !strcmp(a->name, b->name) && !strcmp(a->format, b->format);
}

static void braid_declaration_print_field(struct seq_file *out,
					  const struct braid_marker_field *f,
					  const u8 *at, u32 bytes)
{
	s64 number = 0;

	switch (f->kind) {
	case BRAID_MARKER_NUMBER:
		memcpy(&number, at, f->bytes);	/* little endian, as this guest */
		if (!f->is_signed)
			seq_printf(out, "%llu", (u64)number);
		else
			seq_printf(out, "%lld",
				   number << (64 - 8 * f->bytes) >> (64 - 8 * f->bytes));
		break;
	case BRAID_MARKER_ARRAY:
		while (bytes--)
			seq_printf(out, "%02x", *at++);
		break;
	default:
		seq_printf(out, "%.*s", (int)bytes, at);
		break;
	}
}

void braid_marker_print(struct seq_file *out, const struct braid_marker_declaration *d,
			const u8 *record, u32 bytes)
{
	u32 k;

	seq_printf(out, "%s:", d->name);
	for (k = 0; k < d->nr; k++) {
		const struct braid_marker_field *f = &d->fields[k];
		u32 left = bytes > f->offset ? bytes - f->offset : 0;
		u32 nr = f->kind == BRAID_MARKER_TAIL ? left : f->bytes;

		if (nr > left)
			return;		/* not a record of ours */
		if (d->nr > 1 || f->kind != BRAID_MARKER_TAIL)
			seq_printf(out, " %s=", f->name);
		else
			seq_putc(out, ' ');
		braid_declaration_print_field(out, f, record + f->offset, nr);
	}
}
