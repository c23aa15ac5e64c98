// SPDX-License-Identifier: GPL-2.0-or-later
/* tracebraid fleet sql, analyze: rows of all hosts. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "host_agent/cli/cli.h"
#include "host_agent/cli/fleet_command.h"
#include "host_agent/cli/sql_command.h"
#include "host_agent/fleet/combine.h"
#include "host_agent/fleet/rows.h"
#include "host_agent/util/error.h"
#include "host_agent/util/monotonic.h"

/* Runs a statement on what the hosts, which were asked, send. */
static int fleet_print(struct braid_fleet_command *f, const struct braid_fleet_rows_options *o,
		       const char *statement)
{
	enum braid_sql_form form = f->json ? BRAID_SQL_JSON :
				   f->csv ? BRAID_SQL_CSV : BRAID_SQL_COLUMNS;
	struct braid_fleet_rows *rows;
	sqlite3_stmt *s = NULL;
	sqlite3 *db;
	int err = braid_fleet_rows_open(&rows, f->client, o);

	if (err)
		return err;
	db = braid_fleet_rows_database(rows);
	if (sqlite3_prepare_v2(db, statement, -1, &s, NULL))
		err = braid_fail(-EINVAL, "of the rows of all hosts: %s", sqlite3_errmsg(db));
	setlinebuf(stdout);	/* rows are seen when they are found */
	if (!err)
		err = braid_sql_print(stdout, s, form);
	sqlite3_finalize(s);
	braid_fleet_rows_close(rows);
	return err;
}

int braid_fleet_sql(struct braid_fleet_command *f, const char *statement)
{
	char seconds[24], most[24];
	const struct braid_fleet_field fields[] = {
		{ "seconds", seconds }, { "since", f->since_s }, { "rows", most }, { 0 },
	};
	struct braid_fleet_rows_options o = { 0 };
	struct braid_fleet_plan plan;
	int err = braid_fleet_combine(&plan, statement);

	snprintf(seconds, sizeof(seconds), "%llu", (unsigned long long)f->seconds);
	snprintf(most, sizeof(most), "%llu", (unsigned long long)f->rows);
	if (!err)
		err = braid_fleet_command_open(f, braid_fleet_confine);
	if (!err)
		err = braid_fleet_client_ask_all(f->client, "sql", fields, plan.inner.data);
	o.whole = plan.whole;
	o.hides_host = plan.hides_host;
	o.nr_columns = plan.nr_columns;
	if (!err)
		err = fleet_print(f, &o, plan.outer.data);
	braid_fleet_plan_free(&plan);
	return err;
}

/* By which column an analysis has its worst rows. */
static const struct { const char *name, *column; } worst[] = {
	{ "summary", "stolen_ppm" }, { "states", "stolen_ns" }, { "steal", "total_ns" },
	{ "stalls", "stall_ns" }, { "exits", "total_ns" }, { "wake", "total_ns" },
	{ "profile", "total_ns" },
};

/* The worst rows of an analysis, of hosts that are found. */
static int fleet_worst(struct braid_fleet_command *f, size_t k)
{
	const struct braid_fleet_rows_options o = { .csv = true, .whole = true };
	char seconds[24], statement[128];
	const struct braid_fleet_field fields[] = {
		{ "seconds", seconds }, { "since", f->since_s }, { "top", "10000" }, { 0 },
	};
	int err;

	snprintf(seconds, sizeof(seconds), "%llu", (unsigned long long)f->seconds);
	snprintf(statement, sizeof(statement), "SELECT * FROM " BRAID_FLEET_ROWS " ORDER BY %s DESC LIMIT %llu",
		 worst[k].column, (unsigned long long)f->top);
	err = braid_fleet_client_ask_all(f->client, "analyze", fields, worst[k].name);
	return err ? err : fleet_print(f, &o, statement);
}

/* Hosts that fail are named below each table, and asked again. */
int braid_fleet_top(struct braid_fleet_command *f)
{
	const u64 every_ns = f->every * 1e9;
	const struct timespec pause = { .tv_sec = f->every, .tv_nsec = every_ns % BRAID_SECOND_NS };
	u64 count = f->count;
	int err = braid_fleet_command_open(f, braid_fleet_confine);

	snprintf(f->since_s, sizeof(f->since_s), "-%.3f", f->every);
	while (!err && !braid_fleet_stopped) {
		if (isatty(STDOUT_FILENO))
			fputs("\033[H\033[J", stdout);
		err = fleet_worst(f, 0);
		if (err == -ENODATA || err == -EINTR)
			err = 0;	/* no host has rows now */
		fflush(stdout);
		f->lacks = braid_fleet_command_lacks(f->client);
		f->lists = true;
		if (!err && count && !--count)
			break;
		if (!err && !braid_fleet_stopped)
			nanosleep(&pause, NULL);
	}
	return err;
}

int braid_fleet_analyze(struct braid_fleet_command *f, const char *analysis)
{
	struct braid_text_near near = { .word = analysis };
	size_t nr = sizeof(worst) / sizeof(*worst), k;
	int err;

	if (f->folded)
		return braid_fleet_folded(f, analysis);
	for (k = 0; k < nr && strcmp(worst[k].name, analysis); k++)
		braid_text_nearer(&near, worst[k].name);
	if (k == nr)
		return braid_fail(-EINVAL, near.nearest ? "unknown analysis '%s'; did you mean '%s'?" :
				  "unknown analysis '%s'", analysis, near.nearest);
	err = braid_fleet_command_open(f, braid_fleet_confine);
	return err ? err : fleet_worst(f, k);
}
