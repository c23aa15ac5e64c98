/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The parts of a database: traces, which cursors take and give back; tables and their columns. */
#ifndef BRAID_SQL_PRIVATE_H
#define BRAID_SQL_PRIVATE_H

#include <stdbool.h>

#include "host_agent/sql/sql.h"
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
	BRAID_SQL_TEXT, BRAID_SQL_LOST, BRAID_SQL_FIELD,
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

struct braid_sql {
	sqlite3 *db;
	struct braid_sql_options options;
	char **paths;				/* of options */
	struct braid_sql_trace traces[BRAID_SQL_MOST_WALKS];
	struct braid_sql_table *tables;		/* sorted once complete; they do not move then */
	size_t nr_tables, tables_capacity;
	const char **names;			/* of all tables and views, sorted */
	size_t nr_names, names_capacity;
};

/* names.c: what tables are called; errors of SQLite. Return: 0, or -errno with an error */
int braid_sql_push_name(struct braid_sql *sql, const char *name);
int braid_sql_fail(const struct braid_sql *sql, int ret);

/* facts.c: tables of what the analyses find out. Return: 0, or -errno with an error */
int braid_sql_add_facts(struct braid_sql *sql);

/* pool.c: the first trace is opened by braid_sql_open(). Return: 0, or -errno with an error */
int braid_sql_take_trace(struct braid_sql *sql, struct tracebraid_trace **trace);
void braid_sql_give_trace(struct braid_sql *sql, struct tracebraid_trace *trace);
void braid_sql_close_traces(struct braid_sql *sql);

/* columns.c: the columns that tables have of their own. */
extern const struct braid_sql_column braid_sql_event_columns[], braid_sql_type_columns[],
	braid_sql_loss_columns[], braid_sql_note_columns[];
#define BRAID_SQL_NR_EVENT_COLUMNS	16u
#define BRAID_SQL_NR_TYPE_COLUMNS	12u
#define BRAID_SQL_NR_LOSS_COLUMNS	7u
#define BRAID_SQL_NR_NOTE_COLUMNS	4u

/* types.c: a table for each type of the trace. Return: 0, or -errno with an error */
int braid_sql_add_types(struct braid_sql *sql);
void braid_sql_free_types(struct braid_sql *sql);

/* views.c: small tables. Return: 0, or -errno with an error */
int braid_sql_add_views(struct braid_sql *sql);

/* table.c: the module of all these tables. */
extern const sqlite3_module braid_sql_walk_module;

/* select.c: a statement's constraints as a walk's selection. */
int braid_sql_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info);

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

int braid_sql_cursor_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **cursor);
int braid_sql_cursor_close(sqlite3_vtab_cursor *cursor);
int braid_sql_cursor_filter(sqlite3_vtab_cursor *cursor, int number, const char *plan, int nr,
			    sqlite3_value **values);
int braid_sql_cursor_next(sqlite3_vtab_cursor *cursor);
int braid_sql_cursor_eof(sqlite3_vtab_cursor *cursor);
int braid_sql_cursor_column(sqlite3_vtab_cursor *cursor, sqlite3_context *to, int number);
int braid_sql_cursor_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *rowid);

/* authorize.c: what statements may do. */
int braid_sql_confine(struct braid_sql *sql);

#endif /* BRAID_SQL_PRIVATE_H */
