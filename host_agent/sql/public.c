// SPDX-License-Identifier: GPL-2.0-or-later
/* Databases of captures for programs that use the library: the functions of tracebraid.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/sql/sql.h"
#include "host_agent/util/error.h"
#include "tracebraid/tracebraid.h"

struct tracebraid_sql {
	struct braid_sql *sql;
	char *clock_source;	/* or NULL */
};

int tracebraid_sql_open(struct tracebraid_sql **sql, const char *const *paths, size_t nr,
			const char *clock_source, const volatile int *stop,
			void (*warn)(void *arg, const char *line), void *arg)
{
	struct braid_sql_options options = {
		.paths = paths, .nr_paths = nr, .stop = stop, .warn = warn, .warn_arg = arg,
	};
	struct tracebraid_sql *made = calloc(1, sizeof(*made));
	int err = 0;

	if (!made)
		return braid_out_of_memory();
	if (clock_source) {
		options.clock_source = made->clock_source = strdup(clock_source);
		err = made->clock_source ? 0 : braid_out_of_memory();
	}
	if (!err)
		err = braid_sql_open(&made->sql, &options);
	if (err)
		tracebraid_sql_close(made);
	else
		*sql = made;
	return err;
}

struct sqlite3 *tracebraid_sql_database(const struct tracebraid_sql *sql)
{
	return braid_sql_database(sql->sql);
}

const char *tracebraid_sql_table(const struct tracebraid_sql *sql, size_t number)
{
	return braid_sql_table_name(sql->sql, number);
}

void tracebraid_sql_close(struct tracebraid_sql *sql)
{
	if (!sql)
		return;
	braid_sql_close(sql->sql);
	free(sql->clock_source);
	free(sql);
}
