// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The statements of docs/sql.md run, and find something, in a capture of two guests and their host.
 */
#include <string.h>
#include <unistd.h>

#include "host_agent/sql/sql.h"
#include "tests/unit/check.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"

#define DOC		"docs/sql.md"
#define MAKE		"build/make_big_capture"
#define EVENTS		60000
#define RECIPES		10

static char path[] = "/tmp/test_sql_doc.XXXXXX", standard[] = "/tmp/test_sql_doc.XXXXXX";
static struct braid_sql *sql;
static struct braid_sql *big, *lossy;	/* the second one has losses, and few types */

/* What is known of a recipe's rows: a statement over them that yields 1. */
static const struct {
	const char *begins, *check;
} known[] = {
	{ "SELECT stream, system, name,", "SELECT sum(events) = (SELECT count(*) FROM events) FROM r" },
	{ "SELECT ns, bound_ns, stream", "SELECT max(ns) - min(ns) <= 1000000 AND count(*) > 100 FROM r" },
	{ "SELECT stream, next_comm, next_pid", "SELECT count(*) = 10 FROM r" },
	{ "SELECT stream, next_comm AS task", "SELECT min(ran_ms) > 0 AND min(ran_ms >= longest_ms) FROM r" },
	{ "WITH moments", "SELECT count(*) = 3 AND min(average_us) > 0 AND min(worst_us >= average_us) FROM r" },
	{ "SELECT guest, vcpu", "SELECT count(DISTINCT vcpu) = 4 FROM r" },
	{ "SELECT stream, vcpu, state", "SELECT abs(sum(ms) - (SELECT sum(duration_ns) / 1e6 FROM vcpu_state)) < 1 FROM r" },
	{ "SELECT stream, culprit", "SELECT count(*) = 10 AND min(stolen_ms) > 0 FROM r" },
	{ "SELECT from_ns, stream", "SELECT max(duration_ns) = (SELECT max(duration_ns) FROM exits) FROM r" },
	{ "SELECT stream, comm, pid", "SELECT max(duration_ns) = (SELECT max(duration_ns) FROM wakeups) FROM r" },
	{ "SELECT name, count(*) AS calls", "SELECT min(calls) > 0 AND count(*) = count(DISTINCT name) FROM r" },
	{ "SELECT (ns - (SELECT", "SELECT sum(events) = (SELECT count(*) FROM events) FROM r" },
	{ "SELECT l.stream", "SELECT sum(lost) = (SELECT sum(lost) FROM losses) FROM r" },
	{ "SELECT stream, max(bound_ns)",
	  "SELECT sum(events) = (SELECT count(*) FROM events) AND min(within_1us) = 1 FROM r" },
};

static u64 count_rows(const char *statement)
{
	sqlite3_stmt *s = NULL;
	u64 nr = 0;
	int ret = sqlite3_prepare_v2(braid_sql_database(sql), statement, -1, &s, NULL);

	while (!ret && (ret = sqlite3_step(s)) == SQLITE_ROW) {
		nr++;
		ret = 0;
	}
	if (ret != SQLITE_DONE)
		fprintf(stderr, "%s: %s\n", statement, sqlite3_errmsg(braid_sql_database(sql)));
	CHECK(ret == SQLITE_DONE);
	sqlite3_finalize(s);
	return nr;
}

static void check_rows(const char *recipe, const char *check)
{
	char statement[4096];
	sqlite3_stmt *s;

	snprintf(statement, sizeof(statement), "CREATE TEMP TABLE r AS %s", recipe);
	count_rows(statement);
	NEED(!sqlite3_prepare_v2(braid_sql_database(sql), check, -1, &s, NULL));
	CHECK(sqlite3_step(s) == SQLITE_ROW && sqlite3_column_int(s, 0) == 1);
	if (sqlite3_column_int(s, 0) != 1)
		fprintf(stderr, "%s\nnot: %s\n", recipe, check);
	sqlite3_finalize(s);
	count_rows("DROP TABLE temp.r");
}

static void run(const char *recipe)
{
	u32 checks = 0;
	size_t k;

	sql = strstr(recipe, "FROM losses") ? lossy : big;
	if (!count_rows(recipe)) {
		fprintf(stderr, "no rows: %s\n", recipe);
		CHECK(0);
	}
	for (k = 0; k < sizeof(known) / sizeof(*known); k++) {
		if (strncmp(recipe, known[k].begins, strlen(known[k].begins)))
			continue;
		check_rows(recipe, known[k].check);
		checks++;
	}
	if (checks != 1)
		fprintf(stderr, "%u checks of: %s\n", checks, recipe);
	CHECK_EQ(checks, 1);
}

static void recipes_run(void)
{
	char text[65536] = "", *at, *end;
	FILE *doc = fopen(DOC, "r");
	u32 nr = 0;

	NEED(doc && fread(text, 1, sizeof(text) - 1, doc) > 0);
	fclose(doc);
	for (at = text; (at = strstr(at, "```sql\n")); at = end + 3) {
		at += strlen("```sql\n");
		end = strstr(at, "```");
		NEED(end);
		*end = 0;
		run(at);
		nr++;
	}
	CHECK(nr >= RECIPES);
	CHECK_EQ(nr, sizeof(known) / sizeof(*known));
}

static void make(char *name)
{
	int fd = mkstemp(name);

	NEED(fd >= 0 && !close(fd));
}

static struct braid_sql *open_it(const char *name)
{
	const struct braid_sql_options options = { .paths = &name, .nr_paths = 1 };
	struct braid_sql *opened;

	NEED(!braid_sql_open(&opened, &options));
	return opened;
}

int main(void)
{
	char command[200];

	make(path);
	snprintf(command, sizeof(command), MAKE " %s %u >/dev/null", path, EVENTS);
	NEED(!system(command));
	make(standard);
	synth_standard(standard);
	big = open_it(path);
	lossy = open_it(standard);
	RUN(recipes_run);
	braid_sql_close(big);
	braid_sql_close(lossy);
	unlink(path);
	unlink(standard);
	return VERDICT();
}
