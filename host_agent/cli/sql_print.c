// SPDX-License-Identifier: GPL-2.0-or-later
/* What a statement finds: aligned columns, JSON lines or comma-separated values. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/cli/sql_command.h"
#include "host_agent/fleet/literal.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

#define LOOK_AHEAD	(1u << 20)	/* bytes of rows that set the columns' widths */
#define WIDEST		100		/* column after which others are aligned */

/* Rows that were not printed yet: cells that end with NUL. */
struct table {
	FILE *to;
	int nr_columns;
	int *widths;
	bool *right;		/* numbers */
	struct braid_text cells;
	size_t printed;		/* of the cells' bytes */
	bool set;		/* widths are */
};

/* Values -------------------------------------------------------------------------------------- */

static void put_real(struct braid_text *to, double value, bool json)
{
	if (json && !isfinite(value))
		braid_text_puts(to, "null");
	else
		braid_text_printf(to, "%.15g", value);
}

static void put_blob(struct braid_text *to, sqlite3_stmt *s, int k)
{
	const u8 *data = sqlite3_column_blob(s, k);
	int bytes = sqlite3_column_bytes(s, k), n;
	static const char digits[] = "0123456789abcdef";

	for (n = 0; n < bytes; n++) {
		braid_text_putc(to, digits[data[n] >> 4]);
		braid_text_putc(to, digits[data[n] & 15]);
	}
}

static void put_value(struct braid_text *to, sqlite3_stmt *s, int k)
{
	switch (sqlite3_column_type(s, k)) {
	case SQLITE_INTEGER:
		return braid_text_printf(to, "%lld", sqlite3_column_int64(s, k));
	case SQLITE_FLOAT:
		return put_real(to, sqlite3_column_double(s, k), false);
	case SQLITE_BLOB:
		return put_blob(to, s, k);
	case SQLITE_TEXT:
		return braid_text_safe(to, (const char *)sqlite3_column_text(s, k),
				       sqlite3_column_bytes(s, k));
	}
}

static void sql_print_put_name(struct braid_text *to, sqlite3_stmt *s, int k)
{
	const char *name = sqlite3_column_name(s, k) ?: "";

	braid_text_safe(to, name, strlen(name));
}

/* JSON, CSV ----------------------------------------------------------------------------------- */

static void sql_print_put_json(struct braid_text *to, sqlite3_stmt *s, int nr)
{
	int k;

	for (k = 0; k < nr; k++) {
		const char *name = sqlite3_column_name(s, k) ?: "";

		braid_text_putc(to, k ? ',' : '{');
		braid_text_json(to, name, strlen(name));
		braid_text_putc(to, ':');
		switch (sqlite3_column_type(s, k)) {
		case SQLITE_NULL:
			braid_text_puts(to, "null");
			break;
		case SQLITE_TEXT:
			braid_text_json(to, (const char *)sqlite3_column_text(s, k),
					sqlite3_column_bytes(s, k));
			break;
		case SQLITE_BLOB:
			braid_text_putc(to, '"');
			put_blob(to, s, k);
			braid_text_putc(to, '"');
			break;
		case SQLITE_FLOAT:
			put_real(to, sqlite3_column_double(s, k), true);
			break;
		default:
			put_value(to, s, k);
		}
	}
	braid_text_puts(to, "}\n");
}

/* Literals ------------------------------------------------------------------------------------ */

/* As SQLite's quote() has them: their type and value are exact. */
static void put_literal(struct braid_text *to, sqlite3_stmt *s, int k)
{
	const char *text;

	switch (sqlite3_column_type(s, k)) {
	case SQLITE_NULL:
		return braid_text_puts(to, "NULL");
	case SQLITE_FLOAT:
		return braid_sql_put_real(to, sqlite3_column_double(s, k));
	case SQLITE_BLOB:
		braid_text_puts(to, "X'");
		put_blob(to, s, k);
		return braid_text_putc(to, '\'');
	case SQLITE_TEXT:
		text = (const char *)sqlite3_column_text(s, k);
		return braid_sql_put_string(to, text ?: "", text ? sqlite3_column_bytes(s, k) : 0);
	default:
		return put_value(to, s, k);
	}
}

static void put_literals(struct braid_text *to, sqlite3_stmt *s, int nr, bool names)
{
	const char *name;
	int k;

	for (k = 0; k < nr; k++) {
		if (k)
			braid_text_putc(to, ',');
		name = names ? sqlite3_column_name(s, k) ?: "" : NULL;
		if (name)
			braid_sql_put_string(to, name, strlen(name));
		else
			put_literal(to, s, k);
	}
	braid_text_putc(to, '\n');
}

/* A cell from @from on, in quotes if it needs them. */
static void quote(struct braid_text *to, size_t from)
{
	size_t n, k;
	char *cell;

	braid_text_putc(to, '\0');
	if (to->failed)
		return;
	to->bytes--;
	if (!to->data[from + strcspn(to->data + from, "\",\n\r")])
		return;
	n = to->bytes - from;
	cell = strdup(to->data + from);
	to->bytes = from;
	to->failed |= !cell;
	braid_text_putc(to, '"');
	for (k = 0; cell && k < n; k++) {
		if (cell[k] == '"')
			braid_text_putc(to, '"');
		braid_text_putc(to, cell[k]);
	}
	braid_text_putc(to, '"');
	free(cell);
}

static void put_csv(struct braid_text *to, sqlite3_stmt *s, int nr, bool names)
{
	size_t from;
	int k;

	for (k = 0; k < nr; k++) {
		if (k)
			braid_text_putc(to, ',');
		from = to->bytes;
		if (names)
			sql_print_put_name(to, s, k);
		else
			put_value(to, s, k);
		quote(to, from);
	}
	braid_text_putc(to, '\n');
}

static int print_lines(FILE *to, sqlite3_stmt *s, enum braid_sql_form form)
{
	int ret, nr = sqlite3_column_count(s);
	struct braid_text line = { 0 };

	if (nr && form == BRAID_SQL_CSV)
		put_csv(&line, s, nr, true);
	if (nr && form == BRAID_SQL_LITERALS) {
		put_literals(&line, s, nr, true);
		fwrite(line.data, 1, line.bytes, to);
		line.bytes = 0;
	}
	while ((ret = sqlite3_step(s)) == SQLITE_ROW && !line.failed && !ferror(to)) {
		if (form == BRAID_SQL_JSON)
			sql_print_put_json(&line, s, nr);
		else if (form == BRAID_SQL_LITERALS)
			put_literals(&line, s, nr, false);
		else
			put_csv(&line, s, nr, false);
		fwrite(line.data, 1, line.bytes, to);
		line.bytes = 0;
	}
	if (line.bytes && ret == SQLITE_DONE)	/* no row, but the names */
		fwrite(line.data, 1, line.bytes, to);
	if (line.failed)
		ret = SQLITE_NOMEM;
	braid_text_free(&line);
	return ret;
}

/* Columns ------------------------------------------------------------------------------------- */

/* Characters of UTF-8. */
static int width_of(const char *text)
{
	int width = 0;

	for (; *text; text++)
		width += (*text & 0xc0) != 0x80;
	return width;
}

static void print_row(struct table *t, const char **at)
{
	const char *cell = *at;
	int k, width;

	for (k = 0; k < t->nr_columns; k++, cell += strlen(cell) + 1) {
		width = t->widths[k] - width_of(cell);
		if (width < 0)
			width = 0;
		if (t->right[k])
			fprintf(t->to, "%*s", width, "");
		fputs(cell, t->to);
		if (k == t->nr_columns - 1)
			fputc('\n', t->to);
		else
			fprintf(t->to, "%*s", t->right[k] ? 2 : width + 2, "");
	}
	*at = cell;
}

static void set_widths(struct table *t)
{
	const char *at = t->cells.data, *end = at + t->cells.bytes;
	int k, width;

	while (at < end)
		for (k = 0; k < t->nr_columns; k++, at += strlen(at) + 1) {
			width = width_of(at);
			if (width > WIDEST)
				width = WIDEST;
			if (width > t->widths[k])
				t->widths[k] = width;
		}
	t->set = true;
}

static void print_rows(struct table *t)
{
	const char *at = t->cells.data, *end = at + t->cells.bytes;

	if (!t->set)
		set_widths(t);
	while (at < end)
		print_row(t, &at);
	t->cells.bytes = 0;
}

static void add_row(struct table *t, sqlite3_stmt *s)
{
	int k;

	for (k = 0; k < t->nr_columns; k++) {
		int type = sqlite3_column_type(s, k);
		size_t from = t->cells.bytes;

		put_value(&t->cells, s, k);
		if (type == SQLITE_NULL || t->cells.bytes == from)
			braid_text_putc(&t->cells, '-');
		braid_text_putc(&t->cells, '\0');
		t->right[k] &= type != SQLITE_TEXT && type != SQLITE_BLOB;
	}
}

static int print_columns(FILE *to, sqlite3_stmt *s)
{
	struct table t = { .to = to, .nr_columns = sqlite3_column_count(s) };
	int ret = SQLITE_NOMEM, k;

	t.widths = calloc(t.nr_columns + 1, sizeof(*t.widths));
	t.right = calloc(t.nr_columns + 1, sizeof(*t.right));
	for (k = 0; k < t.nr_columns && t.right; k++) {
		sql_print_put_name(&t.cells, s, k);
		braid_text_putc(&t.cells, '\0');
		t.right[k] = true;
	}
	while (t.widths && t.right && !t.cells.failed && !ferror(to)) {
		ret = sqlite3_step(s);
		if (ret != SQLITE_ROW)
			break;
		add_row(&t, s);
		if (!t.cells.failed && (t.set || t.cells.bytes > LOOK_AHEAD))
			print_rows(&t);
	}
	if (t.cells.failed)
		ret = SQLITE_NOMEM;
	else if (t.nr_columns && (ret == SQLITE_DONE || t.set))
		print_rows(&t);
	free(t.widths);
	free(t.right);
	braid_text_free(&t.cells);
	return ret;
}

/* Statements ---------------------------------------------------------------------------------- */

static int sql_print_fail(sqlite3 *db, int ret)
{
	if (ret == SQLITE_NOMEM)
		return braid_out_of_memory();
	if (ret == SQLITE_INTERRUPT)
		return braid_fail(-EINTR, "interrupted");
	if (ret == SQLITE_AUTH)
		return braid_fail(-EPERM, "%s: statements can only read, and create temporary tables and views",
				  sqlite3_errmsg(db));
	return braid_fail(-EINVAL, "%s", sqlite3_errmsg(db));
}

int braid_sql_print(FILE *to, sqlite3_stmt *s, enum braid_sql_form form)
{
	int ret = form == BRAID_SQL_COLUMNS ? print_columns(to, s) : print_lines(to, s, form);

	if (ferror(to))
		return errno == EPIPE ? -EPIPE :
		       braid_fail(-EIO, "cannot write the output: %s", strerror(errno));
	return ret == SQLITE_DONE ? 0 : sql_print_fail(sqlite3_db_handle(s), ret);
}

int braid_sql_run(FILE *to, const struct braid_sql *sql, const char *text,
		  enum braid_sql_form form)
{
	sqlite3 *db = braid_sql_database(sql);
	sqlite3_stmt *s;
	int ret, err = 0;

	while (*text && !err) {
		ret = sqlite3_prepare_v2(db, text, -1, &s, &text);
		if (ret)
			return sql_print_fail(db, ret);
		if (s)		/* not only space or a comment */
			err = braid_sql_print(to, s, form);
		sqlite3_finalize(s);
	}
	return err;
}
