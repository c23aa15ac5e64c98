// SPDX-License-Identifier: GPL-2.0-or-later
/* tracebraid sql: forms of output, what is a statement, and errors. */
#include <stdio_ext.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/cli/cli.h"
#include "tests/unit/check.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"
#include "tests/unit/run_command.h"
#include "tests/unit/scratch.h"

static char *path;

#define SQL(...)	RUN_COMMAND(braid_cmd_sql, "sql", __VA_ARGS__)

static void prints(const char *what)
{
	if (strcmp(printed, what))
		fprintf(stderr, "%s", printed);
	CHECK(!strcmp(printed, what));
}

static void columns_are_aligned(void)
{
	CHECK_EQ(SQL(path, "SELECT name, 7 AS n, 'x' AS t FROM events LIMIT 1; SELECT 1.5, NULL, x'00ff', ''"), 0);
	prints("name  n  t\n"
	       "tock  7  x\n"
	       "1.5  NULL  x'00ff'  ''\n"
	       "1.5     -  00ff     -\n");
	CHECK_EQ(SQL(path, "SELECT stream, cpu FROM rings WHERE stream != 'guest2'"), 0);
	prints("stream  cpu\n"
	       "guest1    0\n"
	       "guest1    1\n"
	       "host      1\n");
}

static void json_and_csv(void)
{
	CHECK_EQ(SQL("--json", path, "SELECT 1 AS a, NULL AS b, 'x\"y' || char(10) AS c, 9e999 AS d, x'0a' AS e"), 0);
	prints("{\"a\":1,\"b\":null,\"c\":\"x\\\"y\\u000a\",\"d\":null,\"e\":\"0a\"}\n");
	CHECK_EQ(SQL("--csv", path, "SELECT 1 AS a, NULL AS \"b,c\", 'x\"y' AS c, 'a,b' AS d, 1.5 AS e"), 0);
	prints("a,\"b,c\",c,d,e\n1,,\"x\"\"y\",\"a,b\",1.5\n");
	CHECK_EQ(SQL("--csv", path, "SELECT ns FROM events WHERE name = 'none'"), 0);
	prints("ns\n");
	/* No control character reaches a terminal. */
	CHECK_EQ(SQL(path, "SELECT 'a' || char(27) || '[2J' AS a"), 0);
	prints("a\na?[2J\n");
}

static void says_what_is_wrong(void)
{
	CHECK_EQ(SQL(path, "SELECT nowhere FROM events"), 1);
	CHECK(strstr(printed, "no such column: nowhere"));
	CHECK_EQ(SQL(path, "SELECT * FROM sched_swich"), 1);
	CHECK(strstr(printed, "no such table: sched_swich"));
	CHECK_EQ(SQL(path, "ATTACH 'x' AS y"), 1);
	CHECK(strstr(printed, "statements can only read"));
	CHECK_EQ(SQL("--json", "--csv", path, "SELECT 1"), 1);
	CHECK(strstr(printed, "only one of --json, --csv and --quote can be given"));
	CHECK_EQ(SQL(path, "misspelt.braid"), 1);
	CHECK(strstr(printed, "misspelt.braid"));
	CHECK_EQ(SQL("-o", path, path, "SELECT 1"), 1);
	CHECK(strstr(printed, "is an input file"));
}

/* The shell of @input, which is not a terminal's. */
static int shell(const char *input)
{
	FILE *f = tmpfile();

	NEED(f && fputs(input, f) >= 0 && !fflush(f) && !fseek(f, 0, SEEK_SET));
	NEED(dup2(fileno(f), STDIN_FILENO) == STDIN_FILENO);
	fclose(f);
	__fpurge(stdin);
	rewind(stdin);
	return SQL(path);
}

static void a_shell_reads_statements(void)
{
	CHECK_EQ(shell(".tables t[io]*\n\nSELECT\n 1 AS a;SELECT 2 AS b;\n.schema rings\n.quit\nSELECT 3;\n"), 0);
	prints("tick\ntock\na\n1\nb\n2\n"
	       "rings(stream_id, stream, buffer, cpu, written, read, lost, left)\n");
	CHECK_EQ(shell("CREATE TEMP TABLE t AS SELECT name FROM events LIMIT 3;\nSELECT count(*) AS n FROM t"), 0);
	prints("n\n3\n");
	/* A script ends at the first error. */
	CHECK_EQ(shell("SELECT 1 AS a;\nSELECT misspelt;\nSELECT 2;\n"), 1);
	prints("a\n1\ntracebraid: no such column: misspelt\n");
	/* What people type to leave it, or when they don't know how. */
	CHECK_EQ(shell("SELECT 1 AS a;\nexit\nSELECT 2;\n"), 0);
	prints("a\n1\n");
	CHECK_EQ(shell("quit;\nSELECT 2;\n"), 0);
	prints("");
	CHECK_EQ(shell("help\n"), 0);
	CHECK(strstr(printed, ".schema [GLOB]"));
	/* A command as an argument. */
	CHECK_EQ(SQL(path, ".tables t[io]*"), 0);
	prints("tick\ntock\n");
	CHECK_EQ(SQL(path, ".schema rings"), 0);
	prints("rings(stream_id, stream, buffer, cpu, written, read, lost, left)\n");
	CHECK_EQ(SQL(path, ".none"), 1);
	CHECK_EQ(shell(".none\n"), 1);
	CHECK(strstr(printed, "'.help' lists all"));
}

int main(void)
{

	path = scratch("file");
	synth_standard(path);
	RUN(columns_are_aligned);
	RUN(json_and_csv);
	RUN(says_what_is_wrong);
	RUN(a_shell_reads_statements);
	return VERDICT();
}
