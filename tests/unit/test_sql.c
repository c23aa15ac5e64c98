// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Tables have what a walk has, a selection never loses a row, and statements cannot do more than
 * read.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/capture/capture.h"
#include "host_agent/sql/private.h"
#include "tests/unit/check.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"
#include "tests/unit/scratch.h"
#include "tracebraid/tracebraid.h"

static char *path;
static volatile int stop;
static struct braid_sql *sql;
static u64 nr_rows;	/* of the last statement */
static int result;	/* its code */

static void open_it(size_t most_kept)
{
	const char *const paths[] = { path };
	const struct braid_sql_options options = {
		.paths = paths, .nr_paths = 1, .stop = &stop, .most_kept = most_kept,
	};

	NEED(!braid_sql_open(&sql, &options));
}

static void put(struct braid_text *to, sqlite3_stmt *s, int k)
{
	const unsigned char *text = sqlite3_column_text(s, k);

	braid_text_puts(to, text ? (const char *)text : "(null)");
	braid_text_putc(to, k == sqlite3_column_count(s) - 1 ? '\n' : '|');
}

/* All rows of a statement; free() them. */
static char *rows(const char *statement)
{
	struct braid_text text = { 0 };
	sqlite3_stmt *s = NULL;
	int k;

	nr_rows = 0;
	result = sqlite3_prepare_v2(braid_sql_database(sql), statement, -1, &s, NULL);
	while (!result && (result = sqlite3_step(s)) == SQLITE_ROW) {
		for (k = 0; k < sqlite3_column_count(s); k++)
			put(&text, s, k);
		nr_rows++;
		result = 0;
	}
	if (result != SQLITE_DONE)
		fprintf(stderr, "%s: %s\n", statement, sqlite3_errmsg(braid_sql_database(sql)));
	sqlite3_finalize(s);
	braid_text_putc(&text, '\0');
	NEED(!text.failed);
	return text.data;
}

static s64 number(const char *statement)
{
	char *text = rows(statement);
	s64 value = nr_rows == 1 ? atoll(text) : -1;

	free(text);
	return value;
}

static bool same(const char *one, const char *two)
{
	char *a = rows(one), *b = rows(two);
	bool ret = !strcmp(a, b);

	if (!ret)
		fprintf(stderr, "%s:\n%.400s\n%s:\n%.400s\n", one, a, two, b);
	free(a);
	free(b);
	return ret;
}

static void put_item(struct braid_text *to, struct tracebraid_walk *w)
{
	const struct tracebraid_type *type = tracebraid_event_type(w);
	const struct tracebraid_stream *guest;
	uint32_t vcpu = UINT32_MAX;

	braid_text_printf(to, "%lld|", (long long)tracebraid_ns(w));
	if (tracebraid_bound_ns(w) == TRACEBRAID_UNKNOWN)
		braid_text_puts(to, "(null)|");
	else
		braid_text_printf(to, "%llu|", (unsigned long long)tracebraid_bound_ns(w));
	braid_text_printf(to, "%d|%s|%s|%u|%lld|%d|%s|%s|%s|", tracebraid_uncertain(w),
			  tracebraid_stream_name(tracebraid_item_stream(w)), tracebraid_buffer(w),
			  tracebraid_cpu(w), (long long)tracebraid_seq(w), tracebraid_pid(w),
			  tracebraid_comm(w), tracebraid_type_system(type),
			  tracebraid_type_name(type));
	guest = tracebraid_vcpu(w, &vcpu);
	braid_text_printf(to, "%s|", guest ? tracebraid_stream_name(guest) : "(null)");
	if (guest && vcpu != UINT32_MAX)
		braid_text_printf(to, "%u|", vcpu);
	else
		braid_text_puts(to, "(null)|");
	braid_text_puts(to, tracebraid_json(w));
	braid_text_putc(to, '|');
	braid_text_puts(to, tracebraid_text(w));
	braid_text_putc(to, '\n');
}

static void events_are_those_of_a_walk(void)
{
	const char *const paths[] = { path };
	char *all = rows("SELECT * FROM events"), *next = all;
	struct tracebraid_trace *trace = NULL;
	struct tracebraid_walk *walk = NULL;
	struct braid_text row = { 0 };
	u64 seen = 0, differ = 0;
	int got;

	NEED(!tracebraid_open(&trace, paths, 1, NULL, NULL, NULL));
	NEED(!tracebraid_walk_new(&walk, trace, NULL));
	while ((got = tracebraid_walk_next(walk)) > 0) {
		if (got != TRACEBRAID_EVENT)
			continue;
		seen++;
		row.bytes = 0;
		put_item(&row, walk);
		if (strncmp(next, row.data, row.bytes) && !differ++)
			fprintf(stderr, "%.200s\n%.*s", next, (int)row.bytes, row.data);
		next += strcspn(next, "\n");
		next += *next == '\n';
	}
	CHECK_EQ(differ, 0);
	CHECK(seen > 500 && seen == nr_rows && !*next);
	braid_text_free(&row);
	tracebraid_close(trace);
	free(all);
}

/* A walk selects by @where as planned, and finds what SQLite finds by itself. */
static void selects(const char *plan, const char *table, const char *where, const char *plain)
{
	char pushed[512], itself[512], explain[600], *text;

	snprintf(pushed, sizeof(pushed), "SELECT ns, stream, cpu, pid FROM %s WHERE %s", table, where);
	snprintf(itself, sizeof(itself), "SELECT ns, stream, cpu, pid FROM %s WHERE %s", table, plain);
	snprintf(explain, sizeof(explain), "EXPLAIN QUERY PLAN %s", pushed);
	CHECK(same(pushed, itself));
	if (!nr_rows)
		fprintf(stderr, "no rows: %s\n", itself);
	CHECK(nr_rows > 0);
	text = rows(explain);
	if (!strstr(text, plan))
		fprintf(stderr, "%s: %s\n", where, text);
	CHECK(strstr(text, plan));
	free(text);
	snprintf(explain, sizeof(explain), "EXPLAIN QUERY PLAN %s", itself);
	text = rows(explain);
	CHECK(strstr(text, "INDEX 0:\n"));
	free(text);
}

static void a_selection_finds_the_same(void)
{
	s64 from = number("SELECT min(ns) + (max(ns) - min(ns)) / 4 FROM events");
	s64 to = number("SELECT max(ns) - (max(ns) - min(ns)) / 4 FROM events");
	/* On an event: the limits themselves are included, or not. */
	s64 at = number("SELECT ns FROM events LIMIT 1 OFFSET 100");
	s64 pid = number("SELECT pid FROM events WHERE pid > 0 LIMIT 1");
	char where[200], plain[200];

#define SELECTS(plan, table, pushed, itself, ...)				\
	do {									\
		snprintf(where, sizeof(where), pushed, ##__VA_ARGS__);		\
		snprintf(plain, sizeof(plain), itself, ##__VA_ARGS__);		\
		selects(plan, table, where, plain);				\
	} while (0)
	SELECTS("INDEX 0:g\n", "events", "ns >= %lld", "+ns >= %lld", (long long)at);
	SELECTS("INDEX 0:g\n", "events", "ns > %lld", "+ns > %lld", (long long)at);
	SELECTS("INDEX 0:l\n", "events", "ns <= %lld", "+ns <= %lld", (long long)at);
	SELECTS("INDEX 0:l\n", "events", "ns < %lld", "+ns < %lld", (long long)at);
	SELECTS("INDEX 0:e\n", "events", "ns = %lld", "+ns = %lld", (long long)at);
	SELECTS("INDEX 0:l\n", "events", "ns <= %lld.5", "+ns <= %lld.5", (long long)at);
	SELECTS("INDEX 0:g\n", "events", "ns >= %lld.5", "+ns >= %lld.5", (long long)at);
	SELECTS("INDEX 0:g\n", "events", "ns >= -1", "+ns >= -1");
	SELECTS("INDEX 0:l\n", "events", "ns <= 9.5e18", "+ns <= 9.5e18");
	SELECTS("INDEX 0:gl\n", "events", "ns BETWEEN %lld AND %lld", "+ns BETWEEN %lld AND %lld",
		(long long)from, (long long)to);
	SELECTS("INDEX 0:gl\n", "tick", "ns BETWEEN %lld AND %lld", "+ns BETWEEN %lld AND %lld",
		(long long)from, (long long)to);
	SELECTS("INDEX 0:s\n", "events", "stream = 'guest1'", "+stream = 'guest1'");
	SELECTS("INDEX 0:\n", "events", "stream = 'GUEST1' COLLATE NOCASE",
		"+stream = 'GUEST1' COLLATE NOCASE");
	SELECTS("INDEX 0:b\n", "tick", "buffer = 'main'", "+buffer = 'main'");
	SELECTS("INDEX 0:c\n", "events", "cpu = 1", "+cpu = 1");
	SELECTS("INDEX 0:n\n", "events", "name = 'tick'", "+name = 'tick'");
	SELECTS("INDEX 0:N\n", "events", "name IN ('tick', 'tock', 'none')",
		"+name IN ('tick', 'tock', 'none')");
	SELECTS("INDEX 0:y\n", "events", "system = 'test'", "+system = 'test'");
	SELECTS("INDEX 0:p\n", "events", "pid = %lld", "+pid = %lld", (long long)pid);
	SELECTS("INDEX 0:P\n", "events", "pid IN (%lld, 0)", "+pid IN (%lld, 0)", (long long)pid);
	SELECTS("INDEX 0:m\n", "events", "comm = 'renamed'", "+comm = 'renamed'");
	SELECTS("INDEX 0:M\n", "tick", "comm IN ('first', '<idle>', 're*')",
		"+comm IN ('first', '<idle>', 're*')");
	SELECTS("INDEX 0:M\n", "tick", "comm IN ('first', '<...>')", "+comm IN ('first', '<...>')");
	SELECTS("INDEX 0:scnl\n", "events",
		"stream = 'guest1' AND cpu = 0 AND name = 'tick' AND ns < %lld",
		"+stream = 'guest1' AND +cpu = 0 AND +name = 'tick' AND +ns < %lld", (long long)to);
#undef SELECTS
	/* What is not there is not an error. */
	CHECK_EQ(number("SELECT count(*) FROM events WHERE stream = 'nobody'"), 0);
	CHECK_EQ(number("SELECT count(*) FROM events WHERE buffer = 'none'"), 0);
	CHECK_EQ(number("SELECT count(*) FROM events WHERE cpu = 70000 OR cpu = -1"), 0);
	CHECK_EQ(number("SELECT count(*) FROM events WHERE name = 't*'"), 0);
	CHECK_EQ(number("SELECT count(*) FROM events WHERE name = ':' OR name = '' OR name IS NULL"), 0);
}

/* Whether an order is uncertain depends on all events, whatever is selected. */
static void uncertain_order_is_that_of_all(void)
{
	CHECK(same("SELECT ns, uncertain FROM events WHERE name = 'tick' AND cpu = 0 AND ns > 1000002000000",
		   "SELECT ns, uncertain FROM (SELECT * FROM events LIMIT -1 OFFSET 0) WHERE name = 'tick' AND cpu = 0 AND ns > 1000002000000"));
	CHECK(nr_rows > 10);
	CHECK(number("SELECT sum(uncertain) FROM events WHERE name = 'tick'") > 0);
}

static void rows_are_in_order(void)
{
	char *text = rows("EXPLAIN QUERY PLAN SELECT * FROM tick ORDER BY ns");

	CHECK(!strstr(text, "TEMP B-TREE"));
	free(text);
	CHECK_EQ(number("SELECT sum(ns < before) FROM (SELECT ns, lag(ns) OVER () AS before FROM events)"),
		 0);
	CHECK(same("SELECT ns FROM tick ORDER BY ns DESC LIMIT 3",
		   "SELECT ns FROM tick ORDER BY +ns DESC LIMIT 3"));
}

/* Terms of an OR have a walk each; a row that both select comes once, and no other is lost. */
static void is_found_by_or(const char *table, const char *one, const char *other)
{
	char itself[300], explain[400], plain[300], *text;

	snprintf(itself, sizeof(itself), "SELECT ns, cpu FROM %s WHERE %s OR %s ORDER BY +ns, +cpu",
		 table, one, other);
	snprintf(plain, sizeof(plain), "SELECT ns, cpu FROM %s WHERE +%s OR +%s ORDER BY +ns, +cpu",
		 table, one, other);
	CHECK(same(itself, plain));
	CHECK(nr_rows > 0);
	snprintf(explain, sizeof(explain), "EXPLAIN QUERY PLAN %s", itself);
	text = rows(explain);
	CHECK(strstr(text, "MULTI-INDEX OR"));
	free(text);
}

static void terms_of_an_or(void)
{
	is_found_by_or("events", "name = 'tick'", "cpu = 1");
	is_found_by_or("tick", "stream = 'guest1'", "cpu = 1");
	is_found_by_or("losses", "cpu = 1", "stream = 'guest2'");
}

static void terms_of_an_or_find_notes(void)
{
	static const struct synth_guest_params params = {
		.name = "guest1", .incarnation = 1, .start_ns = SYNTH_START_NS, .nr_slots = 4,
		.subbuf_bytes = 4096,
	};
	struct {
		struct braid_chunk_note head;
		char text[8];
	} note = { .text = "a note" };
	struct braid_capture_writer *w = synth_capture(path);
	struct braid_sql *standard = sql;
	struct synth_guest g;
	u32 k;

	synth_guest_init(&g, &params);
	synth_begin(w, &g, 1);
	for (k = 0; k < 10; k++) {
		note.head.host_ns = SYNTH_START_NS + k / 2;
		NEED(!braid_capture_put(w, BRAID_CHUNK_NOTE, 1, &note, sizeof(note), NULL, 0));
	}
	synth_end(w, &g, BRAID_END_STOPPED);
	NEED(!braid_capture_finish(w));
	synth_guest_free(&g);
	open_it(0);
	CHECK_EQ(number("SELECT count(*) FROM notes"), 10);
	CHECK_EQ(number("SELECT count(*) FROM notes WHERE stream = 'guest1' OR ns < 1000000000001"),
		 10);
	CHECK_EQ(number("SELECT count(*) FROM notes WHERE ns = 1000000000002 OR ns < 1000000000001"),
		 4);
	braid_sql_close(sql);
	sql = standard;
}

/* The table's own order is that of SQLite, which sorts by @plain; @key sorts nothing there. */
static void sorts(const char *what, const char *key, const char *plain, const char *rest)
{
	char own[600], sqlite[600], explain[700], *text;

	snprintf(own, sizeof(own), what, key, rest);
	snprintf(sqlite, sizeof(sqlite), what, plain, rest);
	CHECK(same(own, sqlite));
	CHECK(nr_rows > 0);
	snprintf(explain, sizeof(explain), "EXPLAIN QUERY PLAN %s", own);
	text = rows(explain);
	if (strstr(text, "TEMP B-TREE"))
		fprintf(stderr, "%s\n%s", own, text);
	CHECK(!strstr(text, "TEMP B-TREE"));
	free(text);
	snprintf(explain, sizeof(explain), "EXPLAIN QUERY PLAN %s", sqlite);
	text = rows(explain);
	CHECK(strstr(text, "TEMP B-TREE"));
	free(text);
}

static void sort_all(void)
{
	static const char *const keys[][2] = {
		{ "name", "+name" }, { "stream", "+stream" }, { "cpu", "+cpu" }, { "pid", "+pid" },
		{ "comm", "+comm" }, { "buffer", "+buffer" }, { "system", "+system" },
		{ "guest", "+guest" }, { "vcpu", "+vcpu" }, { "stream_id", "+stream_id" },
		{ "stream, name, cpu", "+stream, +name, +cpu" }, { "pid, comm", "+pid, +comm" },
	};
	static const char *const downs[][2] = {
		{ "name DESC", "+name DESC" }, { "pid DESC", "+pid DESC" },
		{ "vcpu DESC, comm", "+vcpu DESC, +comm" },
		{ "stream, pid DESC, name", "+stream, +pid DESC, +name" },
		{ "comm, ns", "+comm, +ns" }, { "guest DESC, ns", "+guest DESC, +ns" },
	};
	size_t k;

	for (k = 0; k < sizeof(keys) / sizeof(*keys); k++) {
		sorts("SELECT %1$s, count(*), sum(ns), total(bound_ns), min(comm) FROM events "
		      "GROUP BY %1$s%2$s", keys[k][0], keys[k][1], "");
		sorts("SELECT %1$s, count(*), max(text) FROM events WHERE cpu < 2 AND ns > 1000001000000 "
		      "GROUP BY %1$s%2$s", keys[k][0], keys[k][1], " HAVING count(*) > 1 LIMIT 3");
		/* Rows of one key stay in the order of time, as SQLite leaves them, too. */
		sorts("SELECT * FROM events ORDER BY %s%s", keys[k][0], keys[k][1], "");
	}
	for (k = 0; k < sizeof(downs) / sizeof(*downs); k++) {
		sorts("SELECT *, stream_id FROM events ORDER BY %s%s", downs[k][0], downs[k][1], "");
		sorts("SELECT ns, name FROM events WHERE pid > 0 ORDER BY %s%s", downs[k][0],
		      downs[k][1], " LIMIT 17 OFFSET 3");
	}
	sorts("SELECT *, text FROM tick ORDER BY %s%s", "comm DESC, cpu", "+comm DESC, +cpu", "");
	sorts("SELECT stream, cpu, sum(lost) FROM losses GROUP BY %s%s", "stream, cpu",
	      "+stream, +cpu", "");
	sorts("SELECT DISTINCT %s FROM events%s ORDER BY 1", "comm", "+comm", "");
	sorts("SELECT ns, lag(ns) OVER (PARTITION BY %s ORDER BY ns%s) FROM events",
	      "stream_id, cpu", "+stream_id, +cpu", "");
}

static void tables_sort_by_columns_of_few_values(void)
{
	char *text;

	sort_all();
	CHECK_EQ(number("SELECT count(*) FROM (SELECT DISTINCT pid, comm FROM events)"),
		 number("SELECT count(*) FROM (SELECT DISTINCT +pid, +comm FROM events)"));
	CHECK(same("SELECT e.name, count(*) FROM events e, streams GROUP BY e.name",
		   "SELECT +e.name, count(*) FROM events e, streams GROUP BY +e.name"));
	CHECK(same("SELECT 1 FROM events WHERE stream = 'nobody' GROUP BY name", "SELECT 1 WHERE 0"));
	CHECK_EQ(sql->further_passes, 0);
	/* What is not BINARY, or not a column alone, is SQLite's work. */
	text = rows("EXPLAIN QUERY PLAN SELECT name FROM events ORDER BY name COLLATE NOCASE");
	CHECK(strstr(text, "TEMP B-TREE"));
	free(text);
	text = rows("EXPLAIN QUERY PLAN SELECT name FROM events ORDER BY name, ns DESC");
	CHECK(strstr(text, "TEMP B-TREE"));
	free(text);
}

/* With less memory than the rows need, all is the same. */
static void tables_sort_in_bounded_memory(void)
{
	static const size_t bounds[] = { 1, 2000, 20000 };
	struct braid_sql *plenty = sql;
	size_t k;

	for (k = 0; k < sizeof(bounds) / sizeof(*bounds); k++) {
		open_it(bounds[k]);
		free(rows("SELECT max(text), count(*) FROM events GROUP BY name"));
		CHECK(sql->further_passes > 0);
		sort_all();
		/* One row, and what an array has in reserve. */
		CHECK(sql->most_kept <= 2 * bounds[k] + 2000);
		braid_sql_close(sql);
	}
	sql = plenty;
}

static void types_have_tables(void)
{
	CHECK(same("SELECT ns, stream, cpu, number, text_field FROM tick",
		   "SELECT ns, stream, cpu, json_extract(fields, '$.number'), json_extract(fields, '$.text') FROM events WHERE name = 'tick'"));
	CHECK(nr_rows > 100);
	CHECK(same("SELECT ns, text FROM tick", "SELECT ns, text FROM events WHERE name = 'tick'"));
	CHECK(same("SELECT count(*), sum(count) FROM tock",
		   "SELECT count(*), sum(json_extract(fields, '$.count')) FROM events WHERE name = 'tock'"));
}

/* Each has a walk of its own. */
static void a_table_can_be_read_twice_at_once(void)
{
	CHECK_EQ(number("SELECT count(*) FROM events a, events b WHERE a.ns < 1000000100000 AND b.ns < 1000000100000"),
		 number("SELECT count(*) * count(*) FROM events WHERE ns < 1000000100000"));
	CHECK_EQ(number("WITH t AS MATERIALIZED (SELECT * FROM tick WHERE number < 20) SELECT count(*) FROM t a JOIN t b ON a.number = b.number AND a.stream = 'guest1' AND b.stream = 'guest2'"),
		 number("SELECT count(*) FROM tick WHERE number < 20 AND stream = 'guest2'"));
}

static void small_tables(void)
{
	CHECK(same("SELECT stream FROM streams ORDER BY 1", "SELECT DISTINCT stream FROM events ORDER BY 1"));
	CHECK_EQ(number("SELECT sum(read) FROM streams"), number("SELECT count(*) FROM events"));
	CHECK_EQ(number("SELECT sum(read) FROM rings"), number("SELECT count(*) FROM events"));
	CHECK_EQ(number("SELECT sum(lost) FROM losses"), 193);
	CHECK_EQ(number("SELECT sum(lost) FROM losses WHERE cpu = 1 AND ns < 1000002441109"), 16);
	CHECK_EQ(number("SELECT sum(read + lost + left - written) FROM rings"), 0);
	CHECK_EQ(number("SELECT count(*) FROM clocks WHERE source != ''"), number("SELECT count(*) FROM streams"));
	CHECK_EQ(number("SELECT count(*) FROM epochs WHERE number = 0 AND from_ns IS NULL AND cause = '' AND vcpu IS NULL"), 2);
	CHECK_EQ(number("SELECT count(*) FROM epochs"), 2);
}

static void refuses(int code, const char *statement)
{
	free(rows(statement));
	if (result != code)
		fprintf(stderr, "%s: %d\n", statement, result);
	CHECK_EQ(result, code);
}

static void statements_only_read(void)
{
	refuses(SQLITE_AUTH, "ATTACH '/tmp/other.db' AS other");
	refuses(SQLITE_AUTH, "CREATE TABLE t(a)");
	refuses(SQLITE_AUTH, "CREATE VIRTUAL TABLE t USING dbstat");
	refuses(SQLITE_AUTH, "PRAGMA writable_schema = 1");
	refuses(SQLITE_AUTH, "PRAGMA temp_store_directory = '/tmp'");
	refuses(SQLITE_AUTH, "PRAGMA temp_store = file");
	refuses(SQLITE_AUTH, "PRAGMA journal_mode");
	refuses(SQLITE_AUTH, "VACUUM INTO '/tmp/other.db'");
	refuses(SQLITE_AUTH, "DROP VIEW streams");
	refuses(SQLITE_ERROR, "SELECT load_extension('/tmp/other.so')");
	refuses(SQLITE_ERROR, "UPDATE sqlite_master SET sql = ''");
	refuses(SQLITE_ERROR, "DELETE FROM sqlite_temp_master");
	refuses(SQLITE_ERROR, "UPDATE tick SET number = 1");
	refuses(SQLITE_AUTH, "INSERT INTO events(ns) VALUES(1)");
	refuses(SQLITE_DONE, "CREATE TEMP TABLE kept AS SELECT * FROM tick LIMIT 7");
	refuses(SQLITE_AUTH, "CREATE TEMP TRIGGER t AFTER DELETE ON temp.kept BEGIN SELECT 1; END");
	CHECK_EQ(number("SELECT count(*) FROM kept"), 7);
	CHECK(number("SELECT count(*) FROM pragma_table_info('tick')") > 6);
}

static void can_be_stopped(void)
{
	stop = 1;
	refuses(SQLITE_INTERRUPT, "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r");
	stop = 0;
	CHECK(number("SELECT count(*) FROM events") > 0);
}

int main(void)
{

	path = scratch("file");
	synth_standard(path);
	open_it(0);

	RUN(events_are_those_of_a_walk);
	RUN(a_selection_finds_the_same);
	RUN(uncertain_order_is_that_of_all);
	RUN(rows_are_in_order);
	RUN(terms_of_an_or);
	RUN(tables_sort_by_columns_of_few_values);
	RUN(tables_sort_in_bounded_memory);
	RUN(types_have_tables);
	RUN(a_table_can_be_read_twice_at_once);
	RUN(small_tables);
	RUN(statements_only_read);
	RUN(can_be_stopped);
	braid_sql_close(sql);
	sql = NULL;
	RUN(terms_of_an_or_find_notes);
	return VERDICT();
}
