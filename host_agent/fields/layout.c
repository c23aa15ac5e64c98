// SPDX-License-Identifier: GPL-2.0-or-later
/* Parses the field lines of a format file, and checks payloads against them. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/fields/layout.h"
#include "host_agent/util/text.h"
#include "tracebraid/abi.h"

#define MAX_NUMBER	9999999		/* in a field's line */

static const char *const no_field = "its field descriptions are not in the kernel's syntax";

static bool in_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* "KEY:digits;" and the tabs before. Return: what follows, NULL when it is not there. */
static const char *layout_take_number(const char *s, const char *key, u32 *value)
{
	size_t n = strlen(key);
	unsigned long number;
	char *end;

	s += strspn(s, "\t ");
	if (strncmp(s, key, n) || !isdigit((unsigned char)s[n]))
		return NULL;
	number = strtoul(s + n, &end, 10);
	*value = number;
	return number <= MAX_NUMBER && *end == ';' ? end + 1 : NULL;
}

/* Parts of a declaration: words and stars, perhaps in brackets. */
struct declaration {
	const char *name;	/* the last word outside brackets */
	const char *length;	/* the last word in them; NULL: no brackets */
	bool expression;	/* they hold more than a word */
	u32 words;
	bool star;
};

/* What is between brackets, up to the last one. Return: there; NULL: it does not end. */
static const char *take_length(const char *s, struct declaration *d)
{
	const char *start = s;
	u32 depth = 1, words = 0;

	for (d->length = s; *s && *s != ';' && *s != '\n'; s++) {
		depth += *s == '[';
		depth -= *s == ']';
		if (!depth)
			return s;
		d->expression |= !in_word(*s) && *s != ' ';
		if (in_word(*s) && (s == start || !in_word(s[-1]))) {
			d->length = s;
			d->expression |= words++ > 0;
		}
	}
	return NULL;
}

/* "type name", "type name[N]" or "type[] name". Return: what follows, or NULL. */
static const char *take_declaration(const char *s, struct declaration *d)
{
	char before = ' ';

	memset(d, 0, sizeof(*d));
	for (; *s && *s != ';'; before = *s++) {
		if (*s == '[' && !d->length) {
			s = take_length(s + 1, d);
			if (!s)
				return NULL;
		} else if (*s == '*') {
			d->star = true;
		} else if (!in_word(*s) && *s != ' ') {
			return NULL;
		} else if (in_word(*s) && !in_word(before)) {
			if (isdigit((unsigned char)*s))
				return NULL;
			else if (++d->words)
				d->name = s;
		}
	}
	/* The name ends it, or the brackets after the name. */
	return d->words >= 2 && *s && (before == ']' || in_word(before)) ? s + 1 : NULL;
}

u32 braid_type_bytes(const char *type)
{
	/* In this order: "unsigned long int" is a long. */
	static const struct {
		u32 bytes;
		const char *words;
	} sizes[] = {
		{ 8, " u64 s64 __u64 __s64 uint64_t int64_t size_t long " },
		{ 2, " u16 s16 __u16 __s16 uint16_t int16_t short " },
		{ 1, " u8 s8 __u8 __s8 uint8_t int8_t char " },
		{ 4, " u32 s32 __u32 __s32 uint32_t int32_t int unsigned " },
	};
	char word[BRAID_TYPE_BYTES + 2];
	const char *at;
	size_t k, n;

	for (k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++)
		for (at = type; *at && *at != '['; at += n + strspn(at + n, " ")) {
			n = strcspn(at, " [");
			snprintf(word, sizeof(word), " %.*s ", (int)n, at);
			if (strstr(sizes[k].words, word))
				return sizes[k].bytes;
		}
	return 0;
}

/* What an element of "TYPE[] name" takes, by its last word. */
static u32 type_bytes(const char *type, const char *end)
{
	static const char types[] = " u8 s8 u16 s16 u32 s32 u64 s64 ";
	const char *word = end;
	char padded[8];

	while (word > type && in_word(word[-1]))
		word--;
	if (end - word == 4 && !strncmp(word, "char", 4))
		return 1;
	snprintf(padded, sizeof(padded), " %.*s ", (int)(end - word < 4 ? end - word : 4), word);
	return end > word && strstr(types, padded) ? strtoul(word + 1, NULL, 10) / 8 : 0;
}

/* Splits the declaration into type and name, both in the pool. Return: the pool's rest. */
static char *keep_names(struct braid_field *f, const struct declaration *d, const char *text,
			const char *end, char *pool)
{
	size_t name_bytes = 0, before = d->name - text;

	while (in_word(d->name[name_bytes]))
		name_bytes++;
	f->name = memcpy(pool, d->name, name_bytes);
	pool += name_bytes;
	*pool++ = 0;
	f->type = memcpy(pool, text, before);
	while (before && pool[before - 1] == ' ')
		before--;
	pool += before;
	memcpy(pool, d->name + name_bytes, end - d->name - name_bytes);
	pool += end - d->name - name_bytes;
	*pool++ = 0;
	return pool;
}

/* "type name[EXPRESSION]": the number of elements follows from the size. */
static void set_elements(struct braid_field *f)
{
	u32 element = braid_type_bytes(f->type);

	f->elementsize = element && !(f->size % element) ? element : 1;
	f->arraylen = f->size / f->elementsize;
}

/* Whether a type has a word, not in its brackets. */
static bool layout_is_of(const char *type, const char *word)
{
	const char *at = strstr(type, word);

	return at && at < type + strcspn(type, "[");
}

static void set_flags(struct braid_field *f, const struct declaration *d)
{
	const char *bracket = strchr(f->type, '[');
	bool after = d->length > d->name;

	f->flags |= d->star ? BRAID_FIELD_POINTER : 0;
	f->flags |= d->length ? BRAID_FIELD_ARRAY : 0;
	if (d->length && (layout_is_of(f->type, "char") || layout_is_of(f->type, "u8") || layout_is_of(f->type, "s8")))
		f->flags |= BRAID_FIELD_STRING;
	if (d->length && layout_is_of(f->type, "char") && !layout_is_of(f->type, "unsigned"))
		f->flags |= BRAID_FIELD_TEXT;
	if (!strncmp(f->type, "__data_loc", 10))
		f->flags |= BRAID_FIELD_DYNAMIC;
	else if (!strncmp(f->type, "__rel_loc", 9))
		f->flags |= BRAID_FIELD_DYNAMIC | BRAID_FIELD_RELATIVE;
	f->arraylen = d->length ? strtoul(d->length, NULL, 0) : 0;
	if (!(f->flags & (BRAID_FIELD_ARRAY | BRAID_FIELD_DYNAMIC)))
		f->elementsize = f->size;
	else if (d->expression && after && !(f->flags & BRAID_FIELD_DYNAMIC))
		set_elements(f);
	else if (f->arraylen)
		f->elementsize = f->size / f->arraylen;
	else if (f->flags & BRAID_FIELD_DYNAMIC)
		f->elementsize = bracket && !after ? type_bytes(f->type, bracket) : 0;
	else if (f->flags & BRAID_FIELD_STRING)
		f->elementsize = 1;
	else
		f->elementsize = strstr(f->type, "long") ? 8 : 0;
}

/* One line after "\tfield:". Return: what follows, or NULL. */
static const char *take_field(const char *s, struct braid_field *f, char **pool)
{
	const char *text = s + strspn(s, " ");
	struct declaration d;
	u32 sign = 0;

	s = take_declaration(text, &d);
	if (!s)
		return NULL;
	*pool = keep_names(f, &d, text, s - 1, *pool);
	s = layout_take_number(s, "offset:", &f->offset);
	s = s ? layout_take_number(s, "size:", &f->size) : NULL;
	if (s && !strncmp(s + strspn(s, "\t "), "signed:", 7))
		s = layout_take_number(s, "signed:", &sign);
	if (!s || *s != '\n')
		return NULL;
	f->flags = sign ? BRAID_FIELD_SIGNED : 0;
	set_flags(f, &d);
	return s;
}

/* Common ones come first, up to an empty line. Return: what follows them all, or NULL. */
static const char *take_fields(struct braid_layout *layout, const char *s)
{
	struct braid_field **to = &layout->common;
	char *pool = layout->pool;

	if (strncmp(s, "format:", 7))
		return NULL;
	for (s += 7; *s == '\n' || *s == ' '; s++)
		;
	while (!strncmp(s, "\tfield:", 7)) {
		struct braid_field *f = &layout->at[layout->nr];

		if (layout->nr++ == BRAID_MAX_FIELDS)
			return NULL;
		s = take_field(s + 7, f, &pool);
		if (!s)
			return NULL;
		f->layout = layout;
		*to = f;
		to = &f->next;
		if (s[1] == '\n' && !layout->fields && to != &layout->fields)
			to = &layout->fields;
		s += strspn(s, "\n");
	}
	return layout->nr ? s : NULL;
}

/* What a payload must hold for this field. Return: NULL, or why it is invalid. */
static const char *check_field(struct braid_layout *layout, const struct braid_field *f)
{
	u32 end = f->offset + f->size;

	if (f->offset > BRAID_MAX_SUBBUF_BYTES || f->size > BRAID_MAX_SUBBUF_BYTES)
		return "a field lies outside the record";
	layout->least_bytes = end > layout->least_bytes ? end : layout->least_bytes;
	if (!(f->flags & BRAID_FIELD_DYNAMIC))
		return NULL;
	if (f->size != 4)
		return "a dynamic field is not 4 bytes wide";
	if (layout->nr_dynamic < BRAID_MANY_DYNAMIC)
		layout->dynamic[layout->nr_dynamic] = f;
	layout->nr_dynamic++;
	return NULL;
}

/*
 * The beginning of a record is given: see struct braid_record. Only files of others have records that begin with the
 * id alone.
 */
static const char *layout_check(struct braid_layout *layout)
{
	static const struct {
		const char *name;
		u32 offset, size;
	} common[] = {
		{ "common_type", 0, 2 }, { "common_flags", 2, 1 },
		{ "common_preempt_count", 3, 1 }, { "common_pid", 4, 4 },
	};
	const struct braid_field *f = layout->common;
	const char *why = NULL;
	u32 k, nr = braid_layout_find(layout, "common_pid") ? 4 : 1;

	for (k = 0; k < nr; k++, f = f->next)
		if (!f || strcmp(f->name, common[k].name) || f->offset != common[k].offset ||
		    f->size != common[k].size)
			return "it does not begin with the common fields";
	for (k = 0; k < layout->nr && !why; k++)
		why = check_field(layout, &layout->at[k]);
	return why;
}

/* Return: false: out of memory. */
static bool make_keys(struct braid_layout *layout)
{
	struct braid_text keys = { 0 };
	struct braid_field *f;

	for (f = layout->fields; f; f = f->next) {
		f->key_at = keys.bytes;
		braid_text_putc(&keys, f == layout->fields ? '{' : ',');
		braid_text_json(&keys, f->name, strlen(f->name));
		braid_text_putc(&keys, ':');
		f->key_bytes = keys.bytes - f->key_at;
	}
	braid_text_pad(&keys);
	layout->keys = keys.data;
	return !keys.failed;
}

const char *braid_layout_parse(struct braid_layout **out, const char *text, const char *system,
			       const char **rest)
{
	struct braid_layout *layout;
	const char *s, *why;
	u32 nr = 0;

	for (s = text; (s = strstr(s, "\tfield:")) && nr <= BRAID_MAX_FIELDS; s++)
		nr++;
	layout = calloc(1, sizeof(*layout) + (nr + 1) * sizeof(layout->at[0]));
	/* A field's line is longer than its name and type with their ends. */
	if (layout)
		layout->pool = malloc(strlen(text) + 1);
	if (!layout || !layout->pool) {
		braid_layout_free(layout);
		return "out of memory";
	}
	layout->system = system;
	*rest = take_fields(layout, text);
	why = !*rest ? no_field : !make_keys(layout) ? "out of memory" : layout_check(layout);
	if (why)
		braid_layout_free(layout);
	else
		*out = layout;
	return why;
}

void braid_layout_free(struct braid_layout *layout)
{
	if (layout) {
		free(layout->pool);
		free(layout->keys);
	}
	free(layout);
}

const struct braid_field *braid_layout_find_bytes(const struct braid_layout *layout,
						  const char *name, size_t bytes)
{
	u32 k;

	for (k = 0; k < layout->nr; k++)
		if (!strncmp(layout->at[k].name, name, bytes) && !layout->at[k].name[bytes])
			return &layout->at[k];
	return NULL;
}

const struct braid_field *braid_layout_find(const struct braid_layout *layout, const char *name)
{
	return braid_layout_find_bytes(layout, name, strlen(name));
}

bool braid_dynamic_range(const struct braid_field *field, const u8 *data, u32 bytes, u32 *offset,
			 u32 *length)
{
	u32 word, at;

	if (field->offset + 4 > bytes)
		return false;
	memcpy(&word, data + field->offset, sizeof(word));
	at = (word & 0xffff) + braid_field_base(field);
	if (at > bytes || word >> 16 > bytes - at)
		return false;
	*offset = at;
	*length = word >> 16;
	return true;
}

bool braid_layout_holds(const struct braid_layout *layout, const u8 *data, u32 bytes)
{
	bool few = layout->nr_dynamic <= BRAID_MANY_DYNAMIC;
	u32 k, offset, length, nr = few ? layout->nr_dynamic : layout->nr;

	if (bytes < layout->least_bytes)
		return false;
	for (k = 0; k < nr; k++) {
		const struct braid_field *f = few ? layout->dynamic[k] : &layout->at[k];

		if (f->flags & BRAID_FIELD_DYNAMIC &&
		    !braid_dynamic_range(f, data, bytes, &offset, &length))
			return false;
	}
	return true;
}
