/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A table that is written for people, as JSON, or as CSV, from one definition. */
#ifndef BRAID_ANALYZE_TABLE_H
#define BRAID_ANALYZE_TABLE_H

#include <stdint.h>

#include "host_agent/util/text.h"

/* How a column's values are stored and shown. */
enum braid_cell_kind {
	BRAID_CELL_TEXT,	/* a sanitized string */
	BRAID_CELL_LIST,	/* a string; for JSON a value of its own, such as an array */
	BRAID_CELL_FIGURE,	/* a string, aligned as a number is; for people only */
	BRAID_CELL_COUNT,
	BRAID_CELL_DURATION,	/* ns; for people with a unit, else as a number */
	BRAID_CELL_BOUND,	/* ns; likewise, rounded up */
	BRAID_CELL_TIME,	/* ns of the host's clock; for people in seconds */
	BRAID_CELL_SHARE,	/* parts per million; for people in percent */
};

struct braid_column {
	const char *head;	/* for people */
	const char *key;	/* JSON and CSV; with its unit, as "total_ns" */
	enum braid_cell_kind kind;
};

enum braid_table_form { BRAID_TABLE_TEXT, BRAID_TABLE_JSON, BRAID_TABLE_CSV };

#define BRAID_CELL_NONE	INT64_MIN	/* a number that is not known: "-", null */

struct braid_cell {
	s64 number;
	size_t text;		/* offset in texts */
};

/* Values are put one by one, a row after the other. */
struct braid_table {
	const char *key;	/* JSON: of the array of rows */
	const char *title;	/* for people: a line before the head */
	const char *empty;	/* for people: a line in place of a table without rows */
	const struct braid_column *columns;
	u32 nr_columns;
	struct braid_cell *cells;
	size_t nr_cells, capacity;
	struct braid_text texts;	/* strings, each with its NUL */
	bool failed;		/* out of memory */
};

/* Its ->columns and ->nr_columns, from a list. */
#define BRAID_COLUMNS(list)	.columns = (list), .nr_columns = sizeof(list) / sizeof((list)[0])

/** braid_table_text - the next value, of a TEXT, LIST or FIGURE column */
void braid_table_text(struct braid_table *t, const char *value);

/** braid_table_number - the next value, of any other */
void braid_table_number(struct braid_table *t, s64 value);

/**
 * braid_table_write - write the table
 * @t: its last row is complete
 * @form: for people: aligned columns; JSON: "key":[{...},...], without a comma around; CSV: a head
 *	and rows
 * @out: extended; ->failed also if the table ran out of memory
 */
void braid_table_write(const struct braid_table *t, enum braid_table_form form,
		       struct braid_text *out);

/** braid_table_write_next - after another table: people see none without rows, CSV has only the first */
void braid_table_write_next(const struct braid_table *t, enum braid_table_form form,
			    struct braid_text *out);

/** braid_table_free - free the rows */
void braid_table_free(struct braid_table *t);

/** braid_duration_text - "534.3 ms": four digits and a unit */
void braid_duration_text(s64 ns, char text[24]);

#endif /* BRAID_ANALYZE_TABLE_H */
