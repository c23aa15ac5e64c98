// SPDX-License-Identifier: GPL-2.0-or-later
/* tracebraid sql: captures as tables. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "host_agent/cli/cli.h"
#include "host_agent/cli/sql_command.h"
#include "host_agent/export/export.h"
#include "host_agent/library/options.h"
#include "host_agent/util/error.h"
#include "tracebraid/tracebraid.h"

struct sql {
	bool json, csv, literals;
	const char *out;
	const char *clock;
	const char *since;
};

#define SQL	struct sql

/* As the library takes it; checked before captures are opened. */
static int sql_take_since(const struct braid_option *o, void *to, const char *value)
{
	char word[128];
	const char *const words[] = { word, NULL };
	int err;

	(void)o;
	snprintf(word, sizeof(word), "since=%s", value);
	err = tracebraid_export_check("text", "-", words);
	if (err)	/* the option precedes the reason */
		return braid_fail(err, "%s", (strstr(braid_failure(), ": ") ?: ": ") + 2);
	*(const char **)to = value;
	return 0;
}

static const struct braid_option options[] = {
	{ 'j', "json", NULL, BRAID_FLAG(SQL, json), "one JSON object per row and line" },
	{ 0, "csv", NULL, BRAID_FLAG(SQL, csv),
	  "comma-separated values; the first line names the columns" },
	{ 0, "quote", NULL, BRAID_FLAG(SQL, literals),
	  "values as literals of SQL, separated by commas, exact in type and value; the first line "
	  "names the columns" },
	{ 0, "since", "TIME", BRAID_TAKE(sql_take_since, const char *, SQL, since),
	  "events, losses and notes from TIME on, as of `tracebraid report`; tables of states cannot be "
	  "limited by it" },
	{ 'o', "output", "OUT", BRAID_STRING(SQL, out),
	  "write to OUT instead of standard output" },
	{ 0, "clock-source", "SOURCE", BRAID_TAKE(braid_take_named, const char *, SQL, clock),
	  "convert guests' times only by SOURCE: kvm, exchange, pairs, nominal, windows or reads; "
	  "auto (default) selects the best except windows. See tracebraid-report(1)",
	  .values = BRAID_WORDS_SOURCE },
	{ 0 },
};

const struct braid_cli_command braid_command_sql = {
	.name = "sql", .summary = "query captures with SQL", .run = braid_cmd_sql,
	.usage = "[OPTION]... FILE... [STATEMENTS]",
	.text =
	"Runs SQL statements on captures, in the dialect of SQLite. Nothing is imported: a table "
	"is the merged timeline, or a part of it. Without STATEMENTS they are read from standard "
	"input; a terminal gets a shell, '.help' lists its commands. Statements cannot modify "
	"anything; they may create temporary tables, kept in memory.\nTable events has all "
	"events; each event type has a table of its name, such as sched_switch, whose columns are "
	"its fields. losses, notes, streams, rings, filters, probes, clocks and recordings describe "
	"the trace; "
	"vcpu_state, task_state, exits, wakeups and stalls are what the analyses find. "
	"docs/sql.md (installed in share/doc/tracebraid) has all tables and columns, and examples.",
	.options = options, .least = 1, .most = BRAID_ANY_NUMBER,
	.expected = "a capture: 'tracebraid sql FILE... STATEMENTS'",
};

static volatile sig_atomic_t stopped;

static void cmd_sql_stop(int signal)
{
	stopped = signal;
}

/* Without SA_RESTART: a shell's Ctrl-C ends the line that is being read. */
static void catch_signals(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction action = { .sa_handler = cmd_sql_stop };
	size_t k;

	for (k = 0; k < sizeof(signals) / sizeof(*signals); k++) {
		sigaction(signals[k], &action, NULL);
		action.sa_flags = SA_RESETHAND;
	}
}

/* The last operand, unless it is a file's name. */
static const char *statements_of(char **words, size_t nr)
{
	const char *last = words[nr - 1];
	struct stat st;

	return nr > 1 && (*last == '.' || strpbrk(last, " \t\n(*;")) && stat(last, &st) ? last : NULL;
}

static int write_to(FILE *to, const struct braid_sql *sql, const struct sql *s,
		    const char *statements)
{
	enum braid_sql_form form = s->json ? BRAID_SQL_JSON : s->csv ? BRAID_SQL_CSV :
				  s->literals ? BRAID_SQL_LITERALS : BRAID_SQL_COLUMNS;

	if (statements && *statements == '.')
		return braid_sql_command(to, sql, statements, &stopped);
	return statements ? braid_sql_run(to, sql, statements, form) :
			    braid_sql_shell(to, sql, form, &stopped);
}

static int cmd_sql_check(const struct sql *s, const char *statements, char **paths, size_t nr)
{
	size_t k;

	if (s->json + s->csv + s->literals > 1)
		return braid_fail(-EINVAL, "only one of --json, --csv and --quote can be given");
	for (k = 0; k < nr && !statements; k++)
		if (!strcmp(paths[k], "-"))
			return braid_fail(-EINVAL, "standard input is the capture: the statements must be an argument");
	return 0;
}

static int cmd_sql_run(const struct sql *s, const char *statements, char **paths, size_t nr)
{
	const char *out = s->out ? s->out : "-";
	const struct braid_walk_options inputs = { .inputs = paths, .nr_inputs = nr };
	const struct braid_sql_options o = {
		.paths = (const char *const *)paths, .nr_paths = nr,
		.clock_source = s->clock, .since = s->since, .warn = braid_cli_warn,
		.stop = &stopped,
	};
	struct braid_export_file file;
	struct braid_sql *sql = NULL;
	int err;

	err = braid_cli_confine_to(out, paths, nr);
	if (!err)
		err = braid_sql_open(&sql, &o);
	if (err)
		return err;
	catch_signals();
	err = braid_export_file_open(&file, out, &inputs);
	if (!err)
		err = braid_export_file_close(&file, write_to(file.to, sql, s, statements));
	braid_sql_close(sql);
	return err;
}

int braid_cmd_sql(int argc, char **argv)
{
	struct sql s = { 0 };
	const char *statements;		/* NULL: a shell */
	int err = braid_options_parse(&braid_command_sql, &s, argc, argv);

	if (err)
		return braid_options_exit(err);
	argv += optind;
	argc -= optind;
	statements = statements_of(argv, argc);
	argc -= !!statements;
	err = cmd_sql_check(&s, statements, argv, argc);
	if (!err)
		err = cmd_sql_run(&s, statements, argv, argc);
	return !err || err == -EPIPE ? 0 : braid_complain();
}
