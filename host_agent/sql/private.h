/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The parts of a database: traces, which cursors take and give back; tables and their columns. */
#ifndef BRAID_SQL_PRIVATE_H
#define BRAID_SQL_PRIVATE_H

#include <stdbool.h>

#include "host_agent/sql/sql.h"
#include "host_agent/util/hash.h"
#include "tracebraid/tracebraid.h"

#define BRAID_SQL_MOST_WALKS	16u	/* at the same time */
#define BRAID_SQL_MOST_TABLES	20000u	/* of types of events; further types are in events only */
#define BRAID_SQL_MOST_COLUMNS	1000u	/* likewise, of fields; SQLite's limit is 2000 */
#define BRAID_SQL_MOST_NAME	200u	/* bytes of a type's system and name */

/* Where a column's values come from. */
enum braid_sql_from {
	BRAID_SQL_NS, BRAID_SQL_BOUND, BRAID_SQL_UNCERTAIN, BRAID_SQL_STREAM, BRAID_SQL_STREAM_ID,
	BRAID_SQL_BUFFER, BRAID_SQL_CPU, BRAID_SQL_SEQ, BRAID_SQL_PID, BRAID_SQL_COMM,
	BRAID_SQL_SYSTEM, BRAID_SQL_NAME, BRAID_SQL_GUEST, BRAID_SQL_VCPU, BRAID_SQL_FIELDS,
	BRAID_SQL_TEXT, BRAID_SQL_LOST, BRAID_SQL_HOST, BRAID_SQL_FIELD,
};

struct braid_sql_column {
	const char *name;
	const char *type;		/* as SQL has it */
	enum braid_sql_from from;
	bool hidden;			/* not among those of SELECT * */
	const char *field;		/* BRAID_SQL_FIELD: its name */
};

/* A table of what a walk meets. */
struct braid_sql_table {
	struct braid_sql *sql;
	const char *name;
	enum tracebraid_kind kind;	/* of items */
	const char *system, *event;	/* of events: their type; NULL: of any */
	const struct braid_sql_column *columns;
	size_t nr_columns;
	bool of_types;			/* all but ->sql and ->columns[] of SQL's own is allocated */
};

/* A trace has one walk at a time: further ones open the same captures again. */
struct braid_sql_trace {
	struct tracebraid_trace *trace;
	bool taken;
};

/*
 * rings.c: numbers of rows that are the same in each walk: SQLite finds by them which rows several
 * terms of an OR have in common.
 */
struct braid_sql_rings {
	struct braid_sql_ring *all;
	size_t nr, capacity;
	struct braid_hash by_name;
};

struct braid_sql {
	sqlite3 *db;
	struct braid_sql_options options;
	char **paths;				/* of options */
	struct braid_sql_trace traces[BRAID_SQL_MOST_WALKS];
	struct braid_sql_table *tables;		/* sorted once complete; they do not move then */
	size_t nr_tables, tables_capacity;
	const char **names;			/* of all tables and views, sorted */
	size_t nr_names, names_capacity;
	struct braid_sql_rings rings;
	size_t most_kept;			/* bytes of a sort, up to now */
	size_t further_passes;			/* of sorts */
};

/* facts.c: tables of what the analyses find out. Return: 0, or -errno with an error */
int braid_sql_add_facts(struct braid_sql *sql);

/*
 * pool.c: what all tables use: names, SQLite's errors, traces; the first trace is opened by
 * braid_sql_open(). Return: 0, or -errno with an error
 */
int braid_sql_push_name(struct braid_sql *sql, const char *name);
int braid_sql_fail(const struct braid_sql *sql, int ret);
int braid_sql_take_trace(struct braid_sql *sql, struct tracebraid_trace **trace);
void braid_sql_give_trace(struct braid_sql *sql, struct tracebraid_trace *trace);
void braid_sql_close_traces(struct braid_sql *sql);

/* table.c: tables that each trace has; the first columns of all others; the module of both. */
int braid_sql_add_own_tables(struct braid_sql *sql);	/* 0, or -ENOMEM with an error */
extern const sqlite3_module braid_sql_walk_module;
extern const struct braid_sql_column braid_sql_type_columns[];
#define BRAID_SQL_NR_TYPE_COLUMNS	13u

/* types.c: a table for each type of the trace. Return: 0, or -errno with an error */
int braid_sql_add_types(struct braid_sql *sql);
void braid_sql_free_types(struct braid_sql *sql);

/* views.c: small tables. Return: 0, or -errno with an error */
int braid_sql_add_views(struct braid_sql *sql);

/*
 * select.c: what of a statement a walk does: its constraints as a selection, its order, and which
 * columns it needs.
 */
#define BRAID_SQL_MOST_KEYS	10u

struct braid_sql_order {
	unsigned int nr;	/* keys; 0: the order of time */
	struct {
		unsigned char column;
		bool down;
	} keys[BRAID_SQL_MOST_KEYS];	/* rows of equal keys are in the order of time */
	uint64_t columns;	/* needed, as bits; the last one: and all beyond it */
	bool once;		/* of equal rows one is enough */
};

int braid_sql_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info);

/** braid_sql_order_of - parse the order of a plan; @number: the plan's */
void braid_sql_order_of(struct braid_sql_order *order, int number, const char *plan);

struct braid_sql_selection {
	char *words[72];	/* for tracebraid_walk_new(): NULL after the last */
	size_t nr;
	bool failed;		/* out of memory */
};

void braid_sql_select(struct braid_sql_selection *s, const struct braid_sql_table *table,
		      const char *plan, sqlite3_value **values, int nr);
void braid_sql_selection_free(struct braid_sql_selection *s);

/* cursor.c */
struct braid_sql_vtab {
	sqlite3_vtab base;
	const struct braid_sql_table *table;
};

/* What a type of the walk is to the table; fields are looked up when it is met. */
struct braid_sql_type {
	enum { BRAID_SQL_TYPE_NEW = 0, BRAID_SQL_TYPE_WANTED, BRAID_SQL_TYPE_LEFT_OUT } state;
	const struct tracebraid_field **fields;	/* by column after the table's own; NULL: none */
};

struct braid_sql_cursor {
	sqlite3_vtab_cursor base;
	const struct braid_sql_table *table;
	struct braid_sql_selection selection;
	struct tracebraid_trace *trace;	/* NULL: at the end */
	struct tracebraid_walk *walk;	/* NULL: the row is one that ->sort kept */
	struct braid_sql_sort *sort;	/* NULL: rows are in the order of time */
	bool direct;			/* the walk takes rows of one of its keys */
	sqlite3_int64 nr_sorted;	/* rows, up to now */
	struct braid_sql_type *types;	/* by number */
	size_t nr_types;
	const struct braid_sql_type *type;	/* of the row */
	struct braid_text text;
};

int braid_sql_cursor_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **cursor);
int braid_sql_cursor_close(sqlite3_vtab_cursor *cursor);
int braid_sql_cursor_filter(sqlite3_vtab_cursor *cursor, int number, const char *plan, int nr,
			    sqlite3_value **values);
int braid_sql_cursor_next(sqlite3_vtab_cursor *cursor);
int braid_sql_cursor_eof(sqlite3_vtab_cursor *cursor);
int braid_sql_cursor_column(sqlite3_vtab_cursor *cursor, sqlite3_context *to, int number);
int braid_sql_cursor_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *rowid);

/* values.c: the columns of a row. */
struct braid_sql_value {
	/* In SQLite's order: */
	enum { BRAID_SQL_NULL, BRAID_SQL_NUMBER, BRAID_SQL_STRING, BRAID_SQL_BYTES } kind;
	bool stays;		/* its text lives as long as the trace */
	int64_t number;
	const char *data;	/* of a string or bytes; NULL: out of memory */
	size_t bytes;
};

/** braid_sql_value_of - a column where a cursor's walk is; valid until the next text or row */
void braid_sql_value_of(struct braid_sql_cursor *cursor, unsigned int column,
			struct braid_sql_value *value);
void braid_sql_put(sqlite3_context *to, const struct braid_sql_value *value);

/*
 * sort.c: rows in the order of keys that have few values. Each pass over all rows keeps those of
 * the least keys that are left, as many as memory allows; they are taken, and the next pass begins.
 */
struct braid_sql_sort;

enum braid_sql_pass {
	BRAID_SQL_PASS_END,	/* all rows were taken */
	BRAID_SQL_PASS_KEPT,	/* take rows by braid_sql_sort_next() */
	BRAID_SQL_PASS_DIRECT,	/* the rows of one key are too many: take those along another walk
				   where braid_sql_sort_is_direct() */
};

/** braid_sql_sort_new - for the rows of a cursor; NULL: out of memory */
struct braid_sql_sort *braid_sql_sort_new(struct braid_sql_cursor *cursor,
					  const struct braid_sql_order *order);
/** braid_sql_sort_free - free it; NULL is fine */
void braid_sql_sort_free(struct braid_sql_sort *sort);
/** braid_sql_sort_keep - keep the row where the walk is, if this pass does. Return: 0, or -ENOMEM */
int braid_sql_sort_keep(struct braid_sql_sort *sort);
/** braid_sql_sort_more - whether a pass is needed, now that the last one's rows were taken */
bool braid_sql_sort_more(const struct braid_sql_sort *sort);
/** braid_sql_sort_end_pass - how to take its rows. Return: enum braid_sql_pass, or -ENOMEM */
int braid_sql_sort_end_pass(struct braid_sql_sort *sort);
/** braid_sql_sort_is_direct - whether the walk's row is to be taken. Return: 1, 0 or -ENOMEM */
int braid_sql_sort_is_direct(struct braid_sql_sort *sort);
/** braid_sql_sort_next - go to the next row that was kept; false: all were taken, and are freed */
bool braid_sql_sort_next(struct braid_sql_sort *sort);
/** braid_sql_sort_value - a column of that row; NULL: it was not asked for */
const struct braid_sql_value *braid_sql_sort_value(const struct braid_sql_sort *sort,
						   unsigned int column);

/* rings.c */

/** braid_sql_row_id - of the row where a walk is. Return: 0, or -errno with an error */
int braid_sql_row_id(struct braid_sql_rings *rings, const struct tracebraid_walk *walk,
		     sqlite3_int64 *id);
void braid_sql_rings_free(struct braid_sql_rings *rings);

/* authorize.c: what statements may do. */
int braid_sql_confine(struct braid_sql *sql);

#endif /* BRAID_SQL_PRIVATE_H */
