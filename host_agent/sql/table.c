// SPDX-License-Identifier: GPL-2.0-or-later
/* The module of tables along a walk, and their declarations for SQLite. */
#include <errno.h>
#include <stdlib.h>

#include "host_agent/sql/private.h"

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
