// SPDX-License-Identifier: GPL-2.0-or-later
/* The traces of a database: as many as its statements walk along at the same time. */
#include <errno.h>

#include "host_agent/sql/private.h"
#include "host_agent/util/error.h"

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
