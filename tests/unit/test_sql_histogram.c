// SPDX-License-Identifier: GPL-2.0-or-later
/* Histograms of SQL are those of the analyses; parts add up to the whole. */
#include <stdlib.h>
#include <string.h>

#include "host_agent/util/histogram.h"
#include "host_agent/util/sql_histogram.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"

#define NR	20000
#define PARTS	7

static sqlite3 *db;
static struct braid_histogram expected;

static void make(void)
{
	sqlite3_stmt *s;
	u64 value, state = 1;
	int k;

	NEED(!sqlite3_open(":memory:", &db));
	NEED(!braid_sql_add_histograms(db));
	NEED(!sqlite3_exec(db, "CREATE TABLE t(part, x); BEGIN", NULL, NULL, NULL));
	NEED(!sqlite3_prepare_v2(db, "INSERT INTO t VALUES (?1, ?2)", -1, &s, NULL));
	for (k = 0; k < NR; k++) {
		state = state * 6364136223846793005ull + 1442695040888963407ull;
		value = (state >> 20) >> (state & 31);	/* some above the last slot */
		braid_histogram_add(&expected, value, 0);
		NEED(!sqlite3_bind_int(s, 1, k % PARTS) && !sqlite3_bind_int64(s, 2, value));
		NEED(sqlite3_step(s) == SQLITE_DONE && !sqlite3_reset(s));
	}
	sqlite3_finalize(s);
	NEED(!sqlite3_exec(db, "INSERT INTO t VALUES (0, NULL); COMMIT", NULL, NULL, NULL));
}

/* A statement's only value. NULL: it is NULL. free() it. */
static char *value(const char *statement)
{
	sqlite3_stmt *s;
	const char *text;
	char *copy;

	if (sqlite3_prepare_v2(db, statement, -1, &s, NULL) || sqlite3_step(s) != SQLITE_ROW) {
		copy = strdup(sqlite3_errmsg(db));
	} else {
		text = (const char *)sqlite3_column_text(s, 0);
		copy = text ? strdup(text) : NULL;
	}
	sqlite3_finalize(s);
	return copy;
}

static void check(const char *statement, const char *wanted)
{
	char *is = value(statement);

	if (!wanted != !is || (wanted && strcmp(is, wanted)))
		fprintf(stderr, "%s: %s, not %s\n", statement, is ?: "NULL", wanted ?: "NULL");
	CHECK(!wanted == !is && (!wanted || !strcmp(is, wanted)));
	free(is);
}

static void slots_are_those_of_analyses(void)
{
	char *whole = value("SELECT histogram(x) FROM t");
	const char *at = whole + 1;
	u64 nr = 0;
	u32 k;

	for (k = 0; k < BRAID_HISTOGRAM_SLOTS; k++) {
		unsigned long long least, count;

		if (!expected.counts[k])
			continue;
		NEED(sscanf(at, "[%llu,%llu]", &least, &count) == 2);
		CHECK_EQ(least, braid_histogram_least(k));
		CHECK_EQ(count, expected.counts[k]);
		nr += count;
		at += strcspn(at, "]") + 2;
	}
	CHECK_EQ(nr, NR);
	CHECK(!*at);
	check("SELECT histogram_sum(h) FROM (SELECT histogram(x) AS h FROM t GROUP BY part)", whole);
	check("SELECT histogram_sum(h) FROM (SELECT ' ' || replace(histogram(x), ',', ' , ') || ' ' AS h "
	      "FROM t GROUP BY part UNION ALL SELECT NULL UNION ALL SELECT '[]')", whole);
	free(whole);
}

static void percentiles_are_those_of_analyses(void)
{
	char statement[128], wanted[32];
	u32 percent;

	for (percent = 0; percent <= 100; percent++) {
		snprintf(statement, sizeof(statement),
			 "SELECT histogram_percentile(histogram(x), %u) FROM t", percent);
		snprintf(wanted, sizeof(wanted), "%llu",
			 (unsigned long long)braid_histogram_percentile(&expected, percent));
		check(statement, wanted);
	}
	check("SELECT histogram_percentile('[[1,999],[8,1]]', 99.9)", "1");
	check("SELECT histogram_percentile('[[1,999],[8,1]]', 99.91)", "8");
	check("SELECT histogram_percentile('[]', 50)", NULL);
	check("SELECT histogram_percentile(NULL, 50)", NULL);
}

static void what_is_not_a_histogram_is_refused(void)
{
	static const char *const not[] = {
		"", "[", "[[1,2]", "[[1,2],]", "[1,2]", "[[1]]", "[[-1,2]]", "[[1,2]] x", "[][]",
		"[[1,9999999999999999999]]", "[[1.5,2]]", "{}", "[[,1]]", "[[1,2],[3,4]",
	};
	char statement[128];
	size_t k;

	for (k = 0; k < sizeof(not) / sizeof(*not); k++) {
		snprintf(statement, sizeof(statement), "SELECT histogram_sum('%s')", not[k]);
		check(statement, "not a valid histogram: expected [[VALUE, COUNT], ...], as histogram() returns it");
	}
	check("SELECT histogram_sum(h) FROM (WITH RECURSIVE r(h, k) AS (SELECT '[[1,999999999999999999]]', 0 "
	      "UNION ALL SELECT h, k + 1 FROM r WHERE k < 10) SELECT h FROM r)",
	      "not a valid histogram: expected [[VALUE, COUNT], ...], as histogram() returns it");
	check("SELECT histogram_percentile('[[1,2]]', 101)",
	      "not a valid percentile: expected a number from 0 to 100");
	check("SELECT histogram_percentile('[[1,2]]', 'x')",
	      "not a valid percentile: expected a number from 0 to 100");
	check("SELECT histogram(-1)",
	      "histogram() counts numbers from 0; use WHERE or FILTER to leave out others");
	check("SELECT histogram('x')",
	      "histogram() counts numbers from 0; use WHERE or FILTER to leave out others");
	check("SELECT histogram(x) FROM (SELECT 1.9 AS x UNION ALL SELECT 9e30)",
	      "[[1,1],[4123168604160,1]]");
	check("SELECT histogram(x) FROM t WHERE part > 100", "[]");
}

int main(void)
{
	make();
	RUN(slots_are_those_of_analyses);
	RUN(percentiles_are_those_of_analyses);
	RUN(what_is_not_a_histogram_is_refused);
	sqlite3_close(db);
	return VERDICT();
}
