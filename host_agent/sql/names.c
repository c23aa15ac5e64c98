// SPDX-License-Identifier: GPL-2.0-or-later
/* The names of a database's tables, and SQLite's errors as ours. */
#include <errno.h>

#include "host_agent/sql/private.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

int braid_sql_fail(const struct braid_sql *sql, int ret)
{
	return ret == SQLITE_NOMEM ? braid_out_of_memory() :
	       braid_fail(-EIO, "SQLite: %s", sql->db ? sqlite3_errmsg(sql->db) : sqlite3_errstr(ret));
}

int braid_sql_push_name(struct braid_sql *sql, const char *name)
{
	return braid_array_push(sql->names, sql->nr_names, sql->names_capacity, name) ?
	       braid_out_of_memory() : 0;
}
