/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Rows as text that keeps types and values: literals of SQL, separated by commas, a row a line. */
#ifndef BRAID_FLEET_LITERAL_H
#define BRAID_FLEET_LITERAL_H

#include "host_agent/util/text.h"

/* A value; text and blob are in a buffer of the row's. */
struct braid_literal {
	enum { BRAID_LITERAL_NULL, BRAID_LITERAL_NUMBER, BRAID_LITERAL_REAL, BRAID_LITERAL_TEXT,
	       BRAID_LITERAL_BLOB } kind;
	s64 number;
	double real;
	size_t at, bytes;	/* of text and blob */
};

/** braid_sql_put_real - append a real number that is read back as the same */
void braid_sql_put_real(struct braid_text *to, double value);

/** braid_sql_put_string - append a string literal; what a terminal must not get becomes '?' */
void braid_sql_put_string(struct braid_text *to, const char *text, size_t bytes);

/**
 * braid_literals_read - parse a row that a peer sent
 * @line: without its line feed
 * @bytes: of it
 * @out: the values
 * @most: room in @out
 * @texts: emptied, and set to what texts and blobs have
 *
 * Return: the number of values, or -EBADMSG or -ENOMEM with braid_fail().
 */
int braid_literals_read(const char *line, size_t bytes, struct braid_literal *out, int most,
			struct braid_text *texts);

/** braid_csv_read - likewise of CSV: numbers, texts, perhaps in quotes; nothing is NULL */
int braid_csv_read(const char *line, size_t bytes, struct braid_literal *out, int most,
		   struct braid_text *texts);

#endif /* BRAID_FLEET_LITERAL_H */
