/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Traces as tables of an SQLite database, by the public library alone. Nothing is imported: a
 * statement walks along the captures, by as much of its WHERE clause as a walk can select.
 *
 * Invariants:
 * - The database is in memory, reads the captures and no other file, and writes none.
 * - What a capture says becomes values and quoted identifiers, never part of a statement; texts
 *   and identifiers are safe for a terminal, blobs are the event's bytes.
 * - A constraint that a walk selects by is checked again by SQLite, so that a selection may let
 *   through more than the constraint, and never less.
 * - A statement may read, and may make and change temporary tables; all else is denied (authorize.c).
 * - Each cursor that walks has a trace to itself, of at most BRAID_SQL_MOST_WALKS.
 * - The database has no lock: one thread at a time uses it.
 */
#ifndef BRAID_SQL_SQL_H
#define BRAID_SQL_SQL_H

#include <sqlite3.h>
#include <stddef.h>

#include "host_agent/util/text.h"

struct braid_sql;

struct braid_sql_options {
	const char *const *paths;	/* of captures */
	size_t nr_paths;
	const char *clock_source;	/* as for tracebraid_open(); must stay valid */
	const char *since;		/* events, losses and notes from then on, as for a walk; likewise */
	void (*warn)(void *arg, const char *line);	/* of a fault in a capture; or NULL */
	void *warn_arg;
	const volatile int *stop;	/* statements end when it is not 0; or NULL */
	size_t most_kept;		/* bytes of rows that a table sorts; 0: 256 MiB */
};

/**
 * braid_sql_open - open captures as a database
 * @out: set on success
 * @options: what to open
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_sql_open(struct braid_sql **out, const struct braid_sql_options *options);

/** braid_sql_close - free it; its statements must be finalized. NULL is fine */
void braid_sql_close(struct braid_sql *sql);

/** braid_sql_database - for statements */
sqlite3 *braid_sql_database(const struct braid_sql *sql);

/** braid_sql_table_name - a table by its number, from 0, in the order of the alphabet; NULL after the last */
const char *braid_sql_table_name(const struct braid_sql *sql, size_t number);

#endif /* BRAID_SQL_SQL_H */
