/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Rows of all hosts as a table of an SQLite database, BRAID_FLEET_ROWS: a statement takes them as
 * they come.
 */
#ifndef BRAID_FLEET_ROWS_H
#define BRAID_FLEET_ROWS_H

#include <sqlite3.h>

#include "host_agent/fleet/client.h"

#define BRAID_FLEET_COLUMNS	2000

struct braid_fleet_rows_options {
	bool csv;		/* the hosts send CSV, after names; else literals, likewise */
	bool whole;		/* only rows of hosts that succeed */
	bool hides_host;
	int nr_columns;		/* called c0, c1...; 0: those of the first host, by their names */
};

struct braid_fleet_rows;

/**
 * braid_fleet_rows_open - make the table
 * @out: set on success
 * @c: its hosts were asked
 * @o: what they send
 *
 * Waits until the columns are known.
 *
 * Return: 0; -ENODATA with braid_fail(): no host has sent columns; or -errno with braid_fail().
 */
int braid_fleet_rows_open(struct braid_fleet_rows **out, struct braid_fleet_client *c,
			  const struct braid_fleet_rows_options *o);

/** braid_fleet_rows_database - for statements that read the table, once */
sqlite3 *braid_fleet_rows_database(const struct braid_fleet_rows *r);

/** braid_fleet_rows_close - its statements are finalized; NULL is fine */
void braid_fleet_rows_close(struct braid_fleet_rows *r);

#endif /* BRAID_FLEET_ROWS_H */
