// SPDX-License-Identifier: GPL-2.0-or-later
/* What statements may do: read, and keep results in temporary tables, which are in memory. */
#include <string.h>

#include "host_agent/sql/private.h"

#define MOST_VALUE	(64 << 20)	/* bytes of a string or a blob */

static bool is_own(const struct braid_sql *sql, const char *name)
{
	size_t k;

	for (k = 0; k < sql->nr_names; k++)
		if (!sqlite3_stricmp(name, sql->names[k]))
			return true;
	return false;
}

static bool is_temporary(const char *schema)
{
	return schema && !strcmp(schema, "temp");
}

/* Those that say something about tables, and change nothing. */
static bool may_ask(const char *pragma, const char *value)
{
	static const char *const asks[] = {
		"collation_list", "compile_options", "function_list", "module_list",
		"pragma_list", "table_list",
	}, *const asks_of[] = { "index_info", "index_list", "index_xinfo", "table_info", "table_xinfo" };
	size_t k;

	for (k = 0; k < sizeof(asks) / sizeof(*asks); k++)
		if (!value && !sqlite3_stricmp(pragma, asks[k]))
			return true;
	for (k = 0; k < sizeof(asks_of) / sizeof(*asks_of); k++)
		if (!sqlite3_stricmp(pragma, asks_of[k]))
			return true;
	return false;
}

static int authorize(void *arg, int action, const char *one, const char *two, const char *schema,
		     const char *trigger)
{
	bool may = false;

	(void)trigger;
	switch (action) {
	case SQLITE_SELECT:
	case SQLITE_READ:
	case SQLITE_RECURSIVE:
	case SQLITE_TRANSACTION:
	case SQLITE_SAVEPOINT:
		may = true;
		break;
	case SQLITE_FUNCTION:
		may = sqlite3_stricmp(two, "load_extension") != 0;
		break;
	case SQLITE_PRAGMA:
		may = may_ask(one, two);
		break;
	case SQLITE_CREATE_TEMP_INDEX:
	case SQLITE_CREATE_TEMP_TABLE:
	case SQLITE_CREATE_TEMP_VIEW:
	case SQLITE_DROP_TEMP_INDEX:
	case SQLITE_DROP_TEMP_TABLE:
		may = true;
		break;
	case SQLITE_DROP_TEMP_VIEW:
		may = !is_own(arg, one);
		break;
	/*
	 * Declaring a virtual table appears as this action; for statements the table is
	 * read-only in any case.
	 */
	case SQLITE_UPDATE:
		may = is_temporary(schema) || !strcmp(one, "sqlite_master");
		break;
	case SQLITE_INSERT:
	case SQLITE_DELETE:
	case SQLITE_REINDEX:
		may = is_temporary(schema);
		break;
	}
	return may ? SQLITE_OK : SQLITE_DENY;
}

int braid_sql_confine(struct braid_sql *sql)
{
	sqlite3 *db = sql->db;
	static const int off[] = {
		SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, SQLITE_DBCONFIG_WRITABLE_SCHEMA,
		SQLITE_DBCONFIG_TRUSTED_SCHEMA, SQLITE_DBCONFIG_ENABLE_TRIGGER,
		SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER,
		/* A misspelt "column" is an error, not a string. */
		SQLITE_DBCONFIG_DQS_DML, SQLITE_DBCONFIG_DQS_DDL,
	};
	size_t k;
	int ret = sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);

	for (k = 0; k < sizeof(off) / sizeof(*off) && !ret; k++)
		ret = sqlite3_db_config(db, off[k], 0, NULL);
	sqlite3_limit(db, SQLITE_LIMIT_ATTACHED, 0);
	sqlite3_limit(db, SQLITE_LIMIT_LENGTH, MOST_VALUE);
	sqlite3_limit(db, SQLITE_LIMIT_WORKER_THREADS, 0);
	return ret ?: sqlite3_set_authorizer(db, authorize, sql);
}
