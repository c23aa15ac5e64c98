// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The fleet's messages and rows; and that a statement that was taken apart has the result of one
 * database of all rows.
 */
#include <errno.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "host_agent/fleet/combine.h"
#include "host_agent/fleet/literal.h"
#include "host_agent/fleet/message.h"
#include "host_agent/fleet/store.h"
#include "host_agent/util/error.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"

#define NR_HOSTS	3

/* Rows of a statement as lines. */
static void rows_of(sqlite3 *db, const char *text, struct braid_text *out)
{
	sqlite3_stmt *s = NULL;
	int k;

	if (sqlite3_prepare_v2(db, text, -1, &s, NULL)) {
		fprintf(stderr, "%s: %s\n", text, sqlite3_errmsg(db));
		check_failures++;
	}
	while (s && sqlite3_step(s) == SQLITE_ROW) {
		for (k = 0; k < sqlite3_column_count(s); k++)
			braid_text_printf(out, "%s%s", k ? "|" : "",
					  (const char *)sqlite3_column_text(s, k) ?: "-");
		braid_text_putc(out, '\n');
	}
	braid_text_putc(out, 0);
	sqlite3_finalize(s);
}

static void run(sqlite3 *db, const char *text)
{
	char *error = NULL;

	if (sqlite3_exec(db, text, NULL, NULL, &error)) {
		fprintf(stderr, "%s: %s\n", text, error);
		check_failures++;
	}
	sqlite3_free(error);
}

/* One database has all rows, and a table of each host's; another one what the hosts found. */
static void fill(sqlite3 *db)
{
	char text[256];
	int host, k;

	run(db, "CREATE TABLE all_rows(host TEXT, name TEXT, cpu INTEGER, x REAL)");
	for (host = 0; host < NR_HOSTS; host++) {
		snprintf(text, sizeof(text), "CREATE TABLE of_%d(name TEXT, cpu INTEGER, x REAL)", host);
		run(db, text);
		for (k = 0; k < 40 - 13 * host; k++) {
			snprintf(text, sizeof(text), "INSERT INTO of_%d VALUES ('n%d', %d, %s)", host,
				 k * 7 % (4 + host), k % 5, k % 6 ? "1.25 * 3" : "NULL");
			run(db, text);
		}
		snprintf(text, sizeof(text), "INSERT INTO all_rows SELECT 'h%d', * FROM of_%d", host, host);
		run(db, text);
	}
}

/* What the hosts find goes into a table, on which the outer statement runs. */
static void gather(sqlite3 *db, const struct braid_fleet_plan *plan)
{
	struct braid_text t = { 0 };
	char name[16];
	int host;

	run(db, "DROP TABLE IF EXISTS " BRAID_FLEET_ROWS);
	for (host = 0; host < NR_HOSTS; host++) {
		t.bytes = 0;
		snprintf(name, sizeof(name), "of_%d", host);
		run(db, "DROP VIEW IF EXISTS events");
		braid_text_printf(&t, "CREATE TEMP VIEW events AS SELECT * FROM %s", name);
		braid_text_putc(&t, 0);
		run(db, t.data);
		t.bytes = 0;
		braid_text_puts(&t, host ? "INSERT INTO " BRAID_FLEET_ROWS " SELECT " :
				"CREATE TEMP TABLE " BRAID_FLEET_ROWS " AS SELECT ");
		if (!plan->hides_host)
			braid_text_printf(&t, "'h%d' AS host, ", host);
		braid_text_printf(&t, "* FROM (%s)", plan->inner.data);
		braid_text_putc(&t, 0);
		if (!host && plan->nr_columns) {	/* its columns are c0, c1... */
			struct braid_text made = { 0 };
			int k;

			braid_text_puts(&made, "CREATE TEMP TABLE " BRAID_FLEET_ROWS "(host");
			for (k = 0; k < plan->nr_columns; k++)
				braid_text_printf(&made, ", c%d", k);
			braid_text_printf(&made, "); INSERT INTO " BRAID_FLEET_ROWS " SELECT 'h0', * FROM (%s)",
					  plan->inner.data);
			braid_text_putc(&made, 0);
			run(db, made.data);
			braid_text_free(&made);
			continue;
		}
		run(db, t.data);
	}
	braid_text_free(&t);
}

static void equals(const char *list, const char *rest)
{
	struct braid_text expected = { 0 }, got = { 0 };
	struct braid_fleet_plan plan;
	char text[512];
	sqlite3 *db;

	NEED(!sqlite3_open(":memory:", &db));
	fill(db);
	snprintf(text, sizeof(text), "SELECT %s FROM all_rows %s", list, rest);
	rows_of(db, text, &expected);
	snprintf(text, sizeof(text), "SELECT %s FROM events %s", list, rest);
	if (braid_fleet_combine(&plan, text)) {
		fprintf(stderr, "%s: %s\n", text, braid_failure());
		check_failures++;
	} else {
		gather(db, &plan);
		rows_of(db, plan.outer.data, &got);
		CHECK(got.data && !strcmp(expected.data, got.data));
		if (got.data && strcmp(expected.data, got.data))
			fprintf(stderr, "%s\n%s\n%s\nexpected:\n%sgot:\n%s", text, plan.inner.data,
				plan.outer.data, expected.data, got.data);
	}
	braid_fleet_plan_free(&plan);
	braid_text_free(&expected);
	braid_text_free(&got);
	sqlite3_close(db);
}

static void parts_are_the_whole(void)
{
	equals("count(*), count(x), sum(cpu), sum(x), min(name), max(x), avg(x), total(x)", "");
	equals("name, count(*) AS n", "GROUP BY name ORDER BY n DESC, name");
	equals("name AS who, cpu, sum(x) / count(*)", "GROUP BY who, 2 ORDER BY 1, cpu");
	equals("cpu / 2 AS bucket, count(*)", "WHERE x IS NOT NULL GROUP BY bucket ORDER BY bucket");
	equals("name, sum(x) FILTER (WHERE cpu > 2), max(cpu)",
	       "GROUP BY name HAVING count(*) > 9 ORDER BY max(cpu), name LIMIT 3 OFFSET 1");
	equals("host, count(*)", "GROUP BY host ORDER BY host");
	equals("host, name, round(avg(x), 2)", "GROUP BY host, name ORDER BY host DESC, name");
	equals("CASE WHEN count(*) > 10 THEN 'many' ELSE 'few' END AS size, name",
	       "GROUP BY name ORDER BY name");
	equals("sum(cpu)", "WHERE cpu > 100");
	equals("count(*)", "WHERE cpu > 100");
	equals("DISTINCT name", "ORDER BY name");
	equals("DISTINCT cpu, name", "ORDER BY 2, 1 LIMIT 5");
	equals("host, cpu, name", "WHERE cpu = 1 ORDER BY host, cpu, name");
	equals("count(*), max(min(cpu, 3))", "GROUP BY name ORDER BY 1, name");
	equals("/* FROM x */ count(*) AS \"a \"\"b\"\"\" -- GROUP BY\n", "GROUP BY length(name)");
}

static void refuses(const char *text, const char *why)
{
	struct braid_fleet_plan plan;
	int err = braid_fleet_combine(&plan, text);

	CHECK(err < 0);
	CHECK(strstr(braid_failure(), why));
	if (err >= 0 || !strstr(braid_failure(), why))
		fprintf(stderr, "%s: %d: %s\n", text, err, braid_failure());
	braid_fleet_plan_free(&plan);
}

static void others_are_refused(void)
{
	refuses("SELECT count(DISTINCT x) FROM t", "count(DISTINCT");
	refuses("SELECT group_concat(x), 1 FROM t", "group_concat()");
	refuses("SELECT json_group_array(x) FROM t", "json_group_array()");
	refuses("SELECT x, count(*) FROM t", "'x' is neither");
	refuses("SELECT x + count(*) FROM t GROUP BY x", "'x' is neither");
	refuses("SELECT count(*) FROM t HAVING x > 1", "'x' is neither");
	refuses("SELECT count(*) FROM t ORDER BY x", "'x' is neither");
	refuses("SELECT sum(x) OVER (ORDER BY y) FROM t", "sum() OVER");
	refuses("SELECT x FROM t ORDER BY row_number() OVER ()", "row_number() OVER");
	refuses("SELECT count(*), (SELECT 1) FROM t", "a subquery beside");
	refuses("SELECT max(x COLLATE NOCASE) FROM t", "COLLATE");
	refuses("SELECT x FROM t GROUP BY x COLLATE NOCASE", "COLLATE");
	refuses("SELECT x FROM t UNION ALL SELECT y FROM t", "UNION");
	refuses("SELECT 1; DROP TABLE t", "; cannot be combined");
	refuses("SELECT host, count(*) FROM t", "'host' is not a term");
	refuses("SELECT host, x FROM t ORDER BY 2", "name the column");
	refuses("INSERT INTO t VALUES (1)", "expected one SELECT");
	refuses("VALUES (1)", "expected one SELECT");
	refuses("", "expected one SELECT");
	refuses("SELECT ", "not understood");
	refuses("SELECT (1 FROM t", "lacks a ')'");
	refuses("SELECT 1) FROM t", "')' too many");
	refuses("SELECT 'x FROM t", "not valid at");
	refuses("SELECT x /* FROM t", "comment without an end");
	refuses("SELECT ?1 FROM t", "not valid at");
}

static void subqueries_are_each_hosts(void)
{
	struct braid_fleet_plan plan;

	NEED(!braid_fleet_combine(&plan, "WITH w AS (SELECT max(x) AS m FROM t GROUP BY y LIMIT 3) SELECT count(*) FROM w, (SELECT 1 UNION SELECT 2)"));
	CHECK(strstr(plan.inner.data, "WITH w AS (SELECT max(x) AS m FROM t GROUP BY y LIMIT 3)"));
	CHECK(strstr(plan.inner.data, "(SELECT 1 UNION SELECT 2)"));
	CHECK(!strstr(plan.outer.data, "SELECT 1"));
	CHECK(plan.whole);
	braid_fleet_plan_free(&plan);
	NEED(!braid_fleet_combine(&plan, "SELECT ns, name FROM events WHERE cpu = 1 LIMIT 5"));
	CHECK(strstr(plan.inner.data, "LIMIT 5"));
	CHECK(!plan.whole && !plan.nr_columns);
	braid_fleet_plan_free(&plan);
}

static void literals_are_exact(void)
{
	static const double reals[] = { 0.1, 3, -1e300, 5e-324, 1.0 / 3, 123456789012345678 };
	struct braid_text t = { 0 }, texts = { 0 };
	struct braid_literal l[8];
	size_t k;

	for (k = 0; k < sizeof(reals) / sizeof(*reals); k++) {
		t.bytes = 0;
		braid_sql_put_real(&t, reals[k]);
		NEED(braid_literals_read(t.data, t.bytes, l, 8, &texts) == 1);
		CHECK(l[0].kind == BRAID_LITERAL_REAL && l[0].real == reals[k]);
	}
	t.bytes = 0;
	braid_sql_put_real(&t, INFINITY);
	braid_text_puts(&t, ",NULL,-9223372036854775808,X'00ff',");
	braid_sql_put_string(&t, "it's, \x1b", 7);
	NEED(braid_literals_read(t.data, t.bytes, l, 8, &texts) == 5);
	CHECK(isinf(l[0].real) && l[1].kind == BRAID_LITERAL_NULL && l[2].number == INT64_MIN);
	CHECK(l[3].kind == BRAID_LITERAL_BLOB && l[3].bytes == 2);
	CHECK(l[4].bytes == 7 && !memcmp(texts.data + l[4].at, "it's, ?", 7));
	CHECK_EQ(braid_literals_read("1,,2", 4, l, 8, &texts), -EBADMSG);
	CHECK_EQ(braid_literals_read("'x", 2, l, 8, &texts), -EBADMSG);
	CHECK_EQ(braid_literals_read("inf", 3, l, 8, &texts), -EBADMSG);
	CHECK_EQ(braid_literals_read("X'0'", 4, l, 8, &texts), -EBADMSG);
	CHECK_EQ(braid_literals_read("9223372036854775808", 19, l, 8, &texts), -EBADMSG);
	CHECK_EQ(braid_literals_read("1,2,3,4", 7, l, 3, &texts), -EBADMSG);
	CHECK_EQ(braid_csv_read("a,,\"b\"\"c,\",-5", 13, l, 8, &texts), 4);
	CHECK(l[1].kind == BRAID_LITERAL_NULL && l[3].number == -5 && l[2].bytes == 4);
	braid_text_free(&t);
	braid_text_free(&texts);
}

static void messages_are_checked(void)
{
	static const char *const bad[] = {
		"", "tracebraid 1\n", "tracebraid 1\nkey\n\n", "tracebraid 1\n value\n\n", "tracebrai",
		"x\n\n",
	};
	static struct braid_fleet_message m;
	char name[BRAID_FLEET_NAME];
	struct braid_text t = { 0 };
	size_t k;

	braid_fleet_message_begin(&t);
	braid_fleet_message_put(&t, "error", "two\nlines");
	braid_fleet_message_put(&t, "none", "");
	braid_fleet_message_put_number(&t, "seq", 7);
	braid_fleet_message_end(&t);
	braid_text_puts(&t, "body\n\nmore");
	NEED(!braid_fleet_message_read(&m, t.data, t.bytes));
	CHECK(!strcmp(braid_fleet_message_text(&m, "error"), "two?lines"));
	CHECK_EQ(braid_fleet_message_number(&m, "seq", 10, 99), 7);
	CHECK_EQ(braid_fleet_message_number(&m, "seq", 6, 99), 99);
	CHECK_EQ(braid_fleet_message_number(&m, "none", 6, 99), 99);
	CHECK(m.bytes == 10 && !memcmp(m.body, "body\n\nmore", 10));
	for (k = 0; k < sizeof(bad) / sizeof(*bad); k++)
		CHECK_EQ(braid_fleet_message_read(&m, bad[k], strlen(bad[k])), -EBADMSG);
	CHECK_EQ(braid_fleet_message_read(&m, "tracebraid 2\n\n", 14), -EPROTO);
	t.bytes = 0;
	braid_text_puts(&t, "{\"id\": \"web-1\",\"name\":\"tracebraid\"}");
	CHECK(braid_fleet_service_id(t.data, t.bytes, name) && !strcmp(name, "web-1"));
	t.bytes = 0;
	braid_text_puts(&t, "{\"id\":\"a.b\",\"name\":\"tracebraid\"}");
	CHECK(!braid_fleet_service_id(t.data, t.bytes, name));
	CHECK(!braid_fleet_name_is_valid("") && !braid_fleet_name_is_valid("a*") && braid_fleet_name_is_valid("a_-9"));
	braid_text_free(&t);
}

static void store_messages_are_checked(void)
{
	static const char *const bad[] = {
		"tracebraid 1\nkind chunk\nnumber 0\nfrom 0\n\n", "tracebraid 1\nkind end\nnumber 0\nfrom 0\n\nx",
		"tracebraid 1\nkind chunk\nfrom 0\n\nx", "tracebraid 1\nkind chunk\nnumber 0\n\nx",
		"tracebraid 1\nkind other\nnumber 0\nfrom 0\n\nx",
	};
	struct braid_store_piece end = {
		.number = 7, .from = 1ULL << 40, .end = true, .lost = BRAID_STORE_UNKNOWN, .check = "12ab",
	}, piece;
	static const char mark[] = BRAID_STORE_MARK "\na-1\n../x\nb-2\nc";
	char host[BRAID_FLEET_NAME], name[BRAID_FLEET_NAME], subject[BRAID_FLEET_SUBJECT];
	struct braid_store_answer a;
	struct braid_text t = { 0 };
	const char *at;
	size_t k;

	braid_store_piece_put(&t, &end);
	NEED(!braid_store_piece_read(&piece, t.data, t.bytes));
	CHECK(piece.number == 7 && piece.from == 1ULL << 40 && piece.end && !piece.bytes);
	CHECK(piece.lost == BRAID_STORE_UNKNOWN && !strcmp(piece.check, "12ab"));
	for (k = 0; k < sizeof(bad) / sizeof(*bad); k++)
		CHECK_EQ(braid_store_piece_read(&piece, bad[k], strlen(bad[k])), -EBADMSG);
	braid_store_subject(subject, "h", "n-1");
	CHECK(braid_store_subject_read(subject, host, name) && !strcmp(host, "h") && !strcmp(name, "n-1"));
	CHECK(!braid_store_subject_read("tracebraid.store.v1.h", host, name));
	CHECK(!braid_store_subject_read("tracebraid.store.v1.h.a.b", host, name));
	CHECK(!braid_store_subject_read("tracebraid.store.v2.h.a", host, name));
	braid_store_answer_read(&a, "{\"stream\":\"tracebraid\", \"seq\":12}", 34);
	CHECK(a.sequence == 12 && !*a.why);
	braid_store_answer_read(&a, "{\"seq\":12,\"duplicate\": true}", 29);
	CHECK_EQ(a.sequence, 12);
	t.bytes = 0;
	braid_text_puts(&t, "{\"error\":{\"code\":400,\"err_code\":10071,\"description\":\"wrong last sequence: 9\"},\"seq\":0}");
	braid_store_answer_read(&a, t.data, t.bytes);
	CHECK(!a.sequence && a.differs && !strcmp(a.why, "wrong last sequence: 9"));
	braid_store_answer_read(&a, "", 0);
	CHECK(!a.sequence && *a.why);
	NEED(braid_store_mark_is(mark, sizeof(mark) - 1, &at));
	CHECK(!strcmp(braid_store_mark_next(&at, mark + sizeof(mark) - 1, name) ?: "", "a-1"));
	CHECK(!strcmp(braid_store_mark_next(&at, mark + sizeof(mark) - 1, name) ?: "", "b-2"));
	CHECK(!braid_store_mark_next(&at, mark + sizeof(mark) - 1, name));
	CHECK(!braid_store_mark_is("tracebraid-mark 2\na\n", 20, &at));
	braid_text_free(&t);
}

int main(void)
{
	RUN(parts_are_the_whole);
	RUN(others_are_refused);
	RUN(subqueries_are_each_hosts);
	RUN(literals_are_exact);
	RUN(messages_are_checked);
	RUN(store_messages_are_checked);
	return VERDICT();
}
