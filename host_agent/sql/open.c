// SPDX-License-Identifier: GPL-2.0-or-later
/* A database of captures: its tables, and what they are made of. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "host_agent/sql/private.h"
#include "host_agent/util/error.h"
#include "host_agent/util/sql_histogram.h"

#define STEPS	10000	/* of SQLite's machine, from one look at options.stop to the next */

static int open_compare(const void *a, const void *b)
{
	return strcasecmp(*(const char *const *)a, *(const char *const *)b);
}

/* Their array does not move any more. */
static int register_tables(struct braid_sql *sql)
{
	size_t k;
	int ret = SQLITE_OK, err = 0;

	for (k = 0; k < sql->nr_tables && !ret && !err; k++) {
		struct braid_sql_table *t = &sql->tables[k];

		ret = sqlite3_create_module_v2(sql->db, t->name, &braid_sql_walk_module, t, NULL);
		if (t->of_types)
			err = braid_sql_push_name(sql, t->name);
	}
	if (!ret && !err)
		qsort(sql->names, sql->nr_names, sizeof(*sql->names), open_compare);
	return ret ? braid_sql_fail(sql, ret) : err;
}

static int stops(void *arg)
{
	const volatile int *stop = arg;

	return *stop;
}

static int open_database(struct braid_sql *sql)
{
	int ret = sqlite3_open_v2(":memory:", &sql->db,
				  SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
				  NULL);

	if (!ret)
		ret = sqlite3_exec(sql->db, "PRAGMA temp_store = memory", NULL, NULL, NULL);
	if (!ret)
		ret = braid_sql_add_histograms(sql->db);
	if (ret)
		return braid_sql_fail(sql, ret);
	if (sql->options.stop)
		sqlite3_progress_handler(sql->db, STEPS, stops, (void *)sql->options.stop);
	return 0;
}

static int open_make(struct braid_sql *sql)
{
	int ret, err = open_database(sql);

	if (!err)
		err = braid_sql_add_own_tables(sql);
	if (!err)
		err = braid_sql_add_facts(sql);
	if (!err)
		err = braid_sql_add_views(sql);
	if (!err)
		err = braid_sql_add_types(sql);
	if (!err)
		err = register_tables(sql);
	if (err)
		return err;
	ret = braid_sql_confine(sql);
	return ret ? braid_sql_fail(sql, ret) : 0;
}

static int copy_options(struct braid_sql *sql, const struct braid_sql_options *options)
{
	size_t k;

	sql->options = *options;
	sql->paths = calloc(options->nr_paths + 1, sizeof(*sql->paths));
	for (k = 0; k < options->nr_paths && sql->paths; k++) {
		sql->paths[k] = strdup(options->paths[k]);
		if (!sql->paths[k])
			break;
	}
	sql->options.paths = (const char *const *)sql->paths;
	return sql->paths && k == options->nr_paths ? 0 : braid_out_of_memory();
}

int braid_sql_open(struct braid_sql **out, const struct braid_sql_options *options)
{
	struct braid_sql *sql = calloc(1, sizeof(*sql));
	int err;

	if (!sql)
		return braid_out_of_memory();
	err = copy_options(sql, options);
	if (!err)
		err = open_make(sql);
	if (err)
		braid_sql_close(sql);
	else
		*out = sql;
	return err;
}

void braid_sql_close(struct braid_sql *sql)
{
	size_t k;

	if (!sql)
		return;
	sqlite3_close(sql->db);
	braid_sql_free_types(sql);
	braid_sql_close_traces(sql);
	braid_sql_rings_free(&sql->rings);
	for (k = 0; sql->paths && sql->paths[k]; k++)
		free(sql->paths[k]);
	free(sql->paths);
	free(sql->names);
	free(sql);
}

sqlite3 *braid_sql_database(const struct braid_sql *sql)
{
	return sql->db;
}

const char *braid_sql_table_name(const struct braid_sql *sql, size_t number)
{
	return number < sql->nr_names ? sql->names[number] : NULL;
}
