// SPDX-License-Identifier: GPL-2.0-or-later
/* Rows of literals. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/fleet/literal.h"
#include "host_agent/util/error.h"

#define MOST_DIGITS	40u

void braid_sql_put_real(struct braid_text *to, double value)
{
	char text[64];

	if (isnan(value))
		return braid_text_puts(to, "NULL");	/* as SQLite has it */
	if (isinf(value))
		return braid_text_puts(to, value > 0 ? "9e999" : "-9e999");
	snprintf(text, sizeof(text), "%.17g", value);
	braid_text_puts(to, text);
	if (!strpbrk(text, ".e"))
		braid_text_puts(to, ".0");
}

void braid_sql_put_string(struct braid_text *to, const char *text, size_t bytes)
{
	const char *quote;
	size_t n;

	braid_text_putc(to, '\'');
	while (bytes) {
		quote = memchr(text, '\'', bytes);
		n = quote ? (size_t)(quote - text) : bytes;
		braid_text_safe(to, text, n);
		if (quote) {
			braid_text_puts(to, "''");
			n++;
		}
		text += n;
		bytes -= n;
	}
	braid_text_putc(to, '\'');
}

/* Reading ------------------------------------------------------------------------------------ */

static int literal_text(const char **at, const char *end, struct braid_literal *l,
			struct braid_text *texts)
{
	const char *from = *at, *quote;

	l->kind = BRAID_LITERAL_TEXT;
	l->at = texts->bytes;
	for (;;) {
		quote = memchr(from, '\'', end - from);
		if (!quote)
			return -EBADMSG;
		braid_text_safe(texts, from, quote - from);
		from = quote + 1;
		if (from == end || *from != '\'')
			break;
		braid_text_putc(texts, *from++);
	}
	l->bytes = texts->bytes - l->at;
	*at = from;
	return 0;
}

static int literal_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int literal_blob(const char **at, const char *end, struct braid_literal *l,
			struct braid_text *texts)
{
	const char *from = *at;

	l->kind = BRAID_LITERAL_BLOB;
	l->at = texts->bytes;
	for (; end - from >= 2; from += 2) {
		if (literal_digit(from[0]) < 0 || literal_digit(from[1]) < 0)
			break;
		braid_text_putc(texts, literal_digit(from[0]) << 4 | literal_digit(from[1]));
	}
	if (from == end || *from != '\'')
		return -EBADMSG;
	l->bytes = texts->bytes - l->at;
	*at = from + 1;
	return 0;
}

static int literal_number(const char **at, const char *end, struct braid_literal *l)
{
	char text[MOST_DIGITS + 1], *rest;
	size_t n = 0;

	while (*at + n < end && (*at)[n] != ',' && n < MOST_DIGITS)
		n++;
	memcpy(text, *at, n);
	text[n] = 0;
	*at += n;
	/* Not "inf", "nan", "0x10" and " 1", which libc would take. */
	if (text[strspn(text, "+-0123456789.e")] || !strpbrk(text, "0123456789"))
		return -EBADMSG;
	errno = 0;
	l->kind = strpbrk(text, ".e") ? BRAID_LITERAL_REAL : BRAID_LITERAL_NUMBER;
	if (l->kind == BRAID_LITERAL_REAL)
		l->real = strtod(text, &rest);
	else
		l->number = strtoll(text, &rest, 10);
	return *rest || (errno && l->kind == BRAID_LITERAL_NUMBER) ? -EBADMSG : 0;
}

static int literal_read(const char **at, const char *end, struct braid_literal *l,
			struct braid_text *texts)
{
	*l = (struct braid_literal){ .kind = BRAID_LITERAL_NULL };
	if (end - *at >= 4 && !memcmp(*at, "NULL", 4)) {
		*at += 4;
		return 0;
	}
	if (end > *at && **at == '\'') {
		++*at;
		return literal_text(at, end, l, texts);
	}
	if (end - *at >= 2 && !memcmp(*at, "X'", 2)) {
		*at += 2;
		return literal_blob(at, end, l, texts);
	}
	return literal_number(at, end, l);
}

typedef int literal_fn(const char **at, const char *end, struct braid_literal *l,
		       struct braid_text *texts);

static int literal_line(literal_fn *read, const char *line, size_t bytes, struct braid_literal *out,
			int most, struct braid_text *texts)
{
	const char *end = line + bytes;
	int nr = 0, err = 0;

	texts->bytes = 0;
	while (!err) {
		err = nr == most ? -EBADMSG : read(&line, end, &out[nr++], texts);
		if (err || line == end)
			break;
		err = *line++ == ',' ? 0 : -EBADMSG;
	}
	if (texts->failed)
		return braid_out_of_memory();
	return err ? braid_fail(err, "a row is not valid") : nr;
}

int braid_literals_read(const char *line, size_t bytes, struct braid_literal *out, int most,
			struct braid_text *texts)
{
	return literal_line(literal_read, line, bytes, out, most, texts);
}

/* CSV ---------------------------------------------------------------------------------------- */

static int literal_csv_quoted(const char **at, const char *end, struct braid_literal *l,
			      struct braid_text *texts)
{
	const char *from = *at + 1, *quote;

	for (;;) {
		quote = memchr(from, '"', end - from);
		if (!quote)
			return -EBADMSG;
		braid_text_safe(texts, from, quote - from);
		from = quote + 1;
		if (from == end || *from != '"')
			break;
		braid_text_putc(texts, *from++);
	}
	l->bytes = texts->bytes - l->at;
	*at = from;
	return 0;
}

static int literal_csv(const char **at, const char *end, struct braid_literal *l,
		       struct braid_text *texts)
{
	const char *comma = memchr(*at, ',', end - *at) ?: end, *from = *at;

	*l = (struct braid_literal){ .kind = BRAID_LITERAL_NULL };
	if (from == comma)
		return 0;
	l->kind = BRAID_LITERAL_TEXT;
	l->at = texts->bytes;
	if (*from == '"')
		return literal_csv_quoted(at, end, l, texts);
	if (!literal_number(at, end, l) && *at == comma)
		return 0;
	l->kind = BRAID_LITERAL_TEXT;
	braid_text_safe(texts, from, comma - from);
	l->bytes = texts->bytes - l->at;
	*at = comma;
	return 0;
}

int braid_csv_read(const char *line, size_t bytes, struct braid_literal *out, int most,
		   struct braid_text *texts)
{
	return literal_line(literal_csv, line, bytes, out, most, texts);
}
