// SPDX-License-Identifier: GPL-2.0-or-later
/* What all tables use: names, errors, and traces, as many as statements walk along at a time. */
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

static int open_trace(struct braid_sql *sql, struct braid_sql_trace *t)
{
	const struct braid_sql_options *o = &sql->options;
	bool first = t == sql->traces;
	int err = tracebraid_open(&t->trace, o->paths, o->nr_paths, o->clock_source,
				  first ? o->warn : NULL, o->warn_arg);

	if (!err)
		tracebraid_stop_when(t->trace, o->stop);
	return err;
}

int braid_sql_take_trace(struct braid_sql *sql, struct tracebraid_trace **trace)
{
	struct braid_sql_trace *t = sql->traces;
	int err = 0;

	while (t < sql->traces + BRAID_SQL_MOST_WALKS && t->taken)
		t++;
	if (t == sql->traces + BRAID_SQL_MOST_WALKS)
		return braid_fail(-EMFILE, "the statement reads more than %u tables at once; materialize some with WITH ... AS MATERIALIZED",
				  BRAID_SQL_MOST_WALKS);
	if (!t->trace)
		err = open_trace(sql, t);
	if (err)
		return err;
	t->taken = true;
	*trace = t->trace;
	return 0;
}

void braid_sql_give_trace(struct braid_sql *sql, struct tracebraid_trace *trace)
{
	size_t k;

	for (k = 0; k < BRAID_SQL_MOST_WALKS; k++)
		if (sql->traces[k].trace == trace)
			sql->traces[k].taken = false;
}

void braid_sql_close_traces(struct braid_sql *sql)
{
	size_t k;

	for (k = 0; k < BRAID_SQL_MOST_WALKS; k++)
		tracebraid_close(sql->traces[k].trace);
}
