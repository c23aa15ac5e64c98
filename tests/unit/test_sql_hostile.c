// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Whatever types and fields of a capture are called, they are tables and columns, and nothing else.
 */
#include <string.h>

#include "host_agent/sql/sql.h"
#include "tests/unit/check.h"
#include "tests/unit/format_text.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"
#include "tests/unit/scratch.h"

static char *path;
static struct braid_sql *sql;

static const char fields[] =
	"name: x\nID: 100\nformat:\n"
	FORMAT_COMMON
	"\tfield:u32 ns;\toffset:8;\tsize:4;\tsigned:0;\n"
	"\tfield:u32 NS;\toffset:8;\tsize:4;\tsigned:0;\n"
	"\tfield:u32 ns_field;\toffset:8;\tsize:4;\tsigned:0;\n"
	"\tfield:u32 Pid;\toffset:8;\tsize:4;\tsigned:0;\n"
	"\tfield:u32 rowid;\toffset:8;\tsize:4;\tsigned:0;\n"
	"\tfield:u32 select;\toffset:8;\tsize:4;\tsigned:0;\n"
	"\nprint fmt: \"x\"\n";

static const struct {
	const char *system, *name;
	const char *table;	/* that it becomes */
} types[] = {
	{ "sys", "events", "sys_events" },
	{ "sys", "streams", "sys_streams" },
	{ "sys", "SELECT", "SELECT" },
	{ "sys", "a\"b", "a\"b" },
	{ "sys", "a'; DROP VIEW streams; --", "a'; DROP VIEW streams; --" },
	{ "one", "both", "one_both" },
	{ "two", "BOTH", "two_BOTH" },
	{ "x", "one_both", "x_one_both" },
	{ "sys", "sqlite_master", "sys_sqlite_master" },
	{ "sys", "json_each", "sys_json_each" },
	{ "sys", "pragma_table_info", "sys_pragma_table_info" },
	{ "sys", "a:*", "a:*" },
	{ "sys", "\033[2J", "?[2J" },
};

#define NR_TYPES	(sizeof(types) / sizeof(*types))

static void make(void)
{
	static const struct synth_guest_params params = {
		.name = "gu\"est'", .incarnation = 11, .boot = 1, .ppm = 20,
		.start_ns = SYNTH_START_NS, .nr_slots = 64, .subbuf_bytes = 4096,
	};
	struct braid_capture_writer *w = synth_capture(path);
	struct synth_guest g;
	struct braid_record record = { .common_pid = 7 };
	u8 payload[16];
	u32 k;

	synth_guest_init(&g, &params);
	synth_begin(w, &g, 1);
	synth_sample(w, &g, 100, 100);
	for (k = 0; k < NR_TYPES; k++)
		synth_format(w, 100 + k, types[k].system, types[k].name, fields);
	for (k = 0; k < NR_TYPES; k++) {
		record.common_type = 100 + k;
		memcpy(payload, &record, sizeof(record));
		memset(payload + 8, k, 8);
		g.now += 1000;
		NEED(synth_event(&g, 0, payload, sizeof(payload)));
	}
	synth_drain(w, &g, 0);
	synth_end(w, &g, BRAID_END_STOPPED);
	NEED(!braid_capture_finish(w));
	synth_guest_free(&g);
}

/* The first value of a statement with a name in it; -1: it fails. */
static s64 number(const char *format, const char *name)
{
	char *text = sqlite3_mprintf(format, name);
	sqlite3_stmt *s = NULL;
	s64 value = -1;

	if (!sqlite3_prepare_v2(braid_sql_database(sql), text, -1, &s, NULL) &&
	    sqlite3_step(s) == SQLITE_ROW)
		value = sqlite3_column_int64(s, 0);
	else
		fprintf(stderr, "%s: %s\n", text, sqlite3_errmsg(braid_sql_database(sql)));
	sqlite3_finalize(s);
	sqlite3_free(text);
	return value;
}

static void each_type_is_a_table(void)
{
	u32 k;

	for (k = 0; k < NR_TYPES; k++) {
		CHECK_EQ(number("SELECT count(*) FROM \"%w\"", types[k].table), 1);
		CHECK_EQ(number("SELECT \"select\" FROM \"%w\"", types[k].table), k * 0x1010101);
		CHECK_EQ(number("SELECT count(*) FROM \"%w\" WHERE stream = 'gu\"est'''", types[k].table), 1);
	}
}

static void names_select_only_themselves(void)
{
	CHECK_EQ(number("SELECT count(*) FROM events WHERE name = %Q", "a\"b"), 1);
	CHECK_EQ(number("SELECT count(*) FROM events WHERE name = %Q", "a:*"), 1);
	CHECK_EQ(number("SELECT count(*) FROM events WHERE name = %Q", "?[2J"), 1);
	CHECK_EQ(number("SELECT count(*) FROM events WHERE name = %Q", "both"), 1);
	CHECK_EQ(number("SELECT count(*) FROM events WHERE system = %Q", "sys"), 10);
	CHECK_EQ(number("SELECT count(*) FROM events WHERE system = %Q", "s*"), 0);
}

static void fields_do_not_hide_columns(void)
{
	CHECK(number("SELECT ns FROM \"%w\"", "SELECT") >= (s64)SYNTH_START_NS);
	CHECK_EQ(number("SELECT pid FROM \"%w\"", "SELECT"), 7);
	CHECK_EQ(number("SELECT Pid_field FROM \"%w\"", "SELECT"), 0x02020202);
	CHECK_EQ(number("SELECT ns_field + NS_field_field + ns_field_field_field FROM \"%w\"", "SELECT"),
		 3 * 0x02020202);
	CHECK_EQ(number("SELECT count(*) FROM pragma_table_xinfo(%Q)", "SELECT"), 13 + 6);
	CHECK_EQ(number("SELECT count(*) FROM streams WHERE stream = %Q", "gu\"est'"), 1);
}

int main(void)
{
	const char *const paths[] = { path = scratch("file") };
	const struct braid_sql_options options = { .paths = paths, .nr_paths = 1 };

	make();
	NEED(!braid_sql_open(&sql, &options));
	RUN(each_type_is_a_table);
	RUN(names_select_only_themselves);
	RUN(fields_do_not_hide_columns);
	braid_sql_close(sql);
	return VERDICT();
}
