// SPDX-License-Identifier: GPL-2.0-or-later
/* Tables along a walk: those that each trace has, and the module of all. */
#include <errno.h>
#include <stdlib.h>

#include "host_agent/sql/private.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

#define NR(list)	(sizeof(list) / sizeof(*(list)))

static const struct braid_sql_column event_columns[] = {
	{ "ns", "INTEGER", BRAID_SQL_NS, false, NULL },
	{ "bound_ns", "INTEGER", BRAID_SQL_BOUND, false, NULL },
	{ "uncertain", "INTEGER", BRAID_SQL_UNCERTAIN, false, NULL },
	{ "stream", "TEXT", BRAID_SQL_STREAM, false, NULL },
	{ "buffer", "TEXT", BRAID_SQL_BUFFER, false, NULL },
	{ "cpu", "INTEGER", BRAID_SQL_CPU, false, NULL },
	{ "seq", "INTEGER", BRAID_SQL_SEQ, false, NULL },
	{ "pid", "INTEGER", BRAID_SQL_PID, false, NULL },
	{ "comm", "TEXT", BRAID_SQL_COMM, false, NULL },
	{ "system", "TEXT", BRAID_SQL_SYSTEM, false, NULL },
	{ "name", "TEXT", BRAID_SQL_NAME, false, NULL },
	{ "guest", "TEXT", BRAID_SQL_GUEST, false, NULL },
	{ "vcpu", "INTEGER", BRAID_SQL_VCPU, false, NULL },
	{ "fields", "TEXT", BRAID_SQL_FIELDS, false, NULL },
	{ "text", "TEXT", BRAID_SQL_TEXT, false, NULL },
	{ "stream_id", "INTEGER", BRAID_SQL_STREAM_ID, true, NULL },
	{ "host", "TEXT", BRAID_SQL_HOST, true, NULL },
};

/* Before the fields of the type, and hidden. */
const struct braid_sql_column braid_sql_type_columns[] = {
	{ "ns", "INTEGER", BRAID_SQL_NS, false, NULL },
	{ "bound_ns", "INTEGER", BRAID_SQL_BOUND, false, NULL },
	{ "stream", "TEXT", BRAID_SQL_STREAM, false, NULL },
	{ "cpu", "INTEGER", BRAID_SQL_CPU, false, NULL },
	{ "pid", "INTEGER", BRAID_SQL_PID, false, NULL },
	{ "comm", "TEXT", BRAID_SQL_COMM, false, NULL },
	{ "stream_id", "INTEGER", BRAID_SQL_STREAM_ID, true, NULL },
	{ "host", "TEXT", BRAID_SQL_HOST, true, NULL },
	{ "buffer", "TEXT", BRAID_SQL_BUFFER, true, NULL },
	{ "seq", "INTEGER", BRAID_SQL_SEQ, true, NULL },
	{ "guest", "TEXT", BRAID_SQL_GUEST, true, NULL },
	{ "vcpu", "INTEGER", BRAID_SQL_VCPU, true, NULL },
	{ "text", "TEXT", BRAID_SQL_TEXT, true, NULL },
};

static const struct braid_sql_column loss_columns[] = {
	{ "ns", "INTEGER", BRAID_SQL_NS, false, NULL },
	{ "bound_ns", "INTEGER", BRAID_SQL_BOUND, false, NULL },
	{ "stream", "TEXT", BRAID_SQL_STREAM, false, NULL },
	{ "buffer", "TEXT", BRAID_SQL_BUFFER, false, NULL },
	{ "cpu", "INTEGER", BRAID_SQL_CPU, false, NULL },
	{ "lost", "INTEGER", BRAID_SQL_LOST, false, NULL },
	{ "stream_id", "INTEGER", BRAID_SQL_STREAM_ID, true, NULL },
	{ "host", "TEXT", BRAID_SQL_HOST, true, NULL },
};

static const struct braid_sql_column note_columns[] = {
	{ "ns", "INTEGER", BRAID_SQL_NS, false, NULL },
	{ "stream", "TEXT", BRAID_SQL_STREAM, false, NULL },
	{ "text", "TEXT", BRAID_SQL_TEXT, false, NULL },
	{ "stream_id", "INTEGER", BRAID_SQL_STREAM_ID, true, NULL },
	{ "host", "TEXT", BRAID_SQL_HOST, true, NULL },
};

_Static_assert(NR(braid_sql_type_columns) == BRAID_SQL_NR_TYPE_COLUMNS, "its number");

#define TABLE(name_, kind_, columns_) \
	{ .name = name_, .kind = kind_, .columns = columns_, .nr_columns = NR(columns_) }

static const struct braid_sql_table own_tables[] = {
	TABLE("events", TRACEBRAID_EVENT, event_columns), TABLE("losses", TRACEBRAID_LOST, loss_columns),
	TABLE("notes", TRACEBRAID_NOTE, note_columns),
};

int braid_sql_add_own_tables(struct braid_sql *sql)
{
	size_t k;
	int err = 0;

	for (k = 0; k < NR(own_tables) && !err; k++) {
		struct braid_sql_table table = own_tables[k];

		table.sql = sql;
		err = braid_sql_push_name(sql, table.name);
		if (!err)
			err = braid_array_push(sql->tables, sql->nr_tables, sql->tables_capacity,
					       table) ? braid_out_of_memory() : 0;
	}
	return err;
}

/* Module -------------------------------------------------------------------------------------- */

static char *declaration(const struct braid_sql_table *table)
{
	sqlite3_str *text = sqlite3_str_new(table->sql->db);
	size_t k;

	sqlite3_str_appendf(text, "CREATE TABLE \"%w\"(", table->name);
	for (k = 0; k < table->nr_columns; k++) {
		const struct braid_sql_column *c = &table->columns[k];

		sqlite3_str_appendf(text, "%s\"%w\" %s%s", k ? ", " : "", c->name, c->type,
				    c->hidden ? " HIDDEN" : "");
	}
	sqlite3_str_appendall(text, ")");
	return sqlite3_str_finish(text);
}

static int connect(sqlite3 *db, void *arg, int nr, const char *const *words, sqlite3_vtab **out,
		   char **error)
{
	const struct braid_sql_table *table = arg;
	char *text = declaration(table);
	struct braid_sql_vtab *v;
	int ret;

	(void)nr;
	(void)words;
	ret = text ? sqlite3_declare_vtab(db, text) : SQLITE_NOMEM;
	sqlite3_free(text);
	if (ret)
		*error = sqlite3_mprintf("%s", sqlite3_errmsg(db));
	if (ret)
		return ret;
	sqlite3_vtab_config(db, SQLITE_VTAB_INNOCUOUS);
	v = calloc(1, sizeof(*v));
	if (!v)
		return SQLITE_NOMEM;
	v->table = table;
	*out = &v->base;
	return SQLITE_OK;
}

static int table_disconnect(sqlite3_vtab *vtab)
{
	free(vtab);
	return SQLITE_OK;
}

/* Without xCreate the tables are there by themselves, and cannot be created or dropped. */
const sqlite3_module braid_sql_walk_module = {
	.iVersion = 1,
	.xConnect = connect,
	.xDisconnect = table_disconnect,
	.xBestIndex = braid_sql_best_index,
	.xOpen = braid_sql_cursor_open,
	.xClose = braid_sql_cursor_close,
	.xFilter = braid_sql_cursor_filter,
	.xNext = braid_sql_cursor_next,
	.xEof = braid_sql_cursor_eof,
	.xColumn = braid_sql_cursor_column,
	.xRowid = braid_sql_cursor_rowid,
};
