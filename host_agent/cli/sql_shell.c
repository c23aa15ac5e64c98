// SPDX-License-Identifier: GPL-2.0-or-later
/* The shell of tracebraid sql: statements, and commands that begin with a dot. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/cli/cli.h"
#include "host_agent/cli/sql_command.h"
#include "host_agent/util/error.h"

#define SCREEN_LINES	40	/* of .tables without a GLOB, at a terminal */

struct shell {
	FILE *to;
	const struct braid_sql *sql;
	enum braid_sql_form form;
	volatile sig_atomic_t *stop;
	bool terminal;
	bool quit;
	struct braid_text statement;	/* read so far */
};

/* Commands ------------------------------------------------------------------------------------ */

static bool matches(const char *glob, const char *name)
{
	return !*glob || !sqlite3_strglob(glob, name);
}

static int show_tables(struct shell *s, const char *glob)
{
	const char *name;
	size_t k, nr = 0;

	for (k = 0; (name = braid_sql_table_name(s->sql, k)); k++) {
		if (!matches(glob, name))
			continue;
		if (!s->terminal || *glob || nr < SCREEN_LINES)
			fprintf(s->to, "%s\n", name);
		nr++;
	}
	if (s->terminal && !*glob && nr > SCREEN_LINES)
		fprintf(s->to, "... and %zu more; '.tables GLOB' shows a part: .tables sched*\n", nr - SCREEN_LINES);
	return 0;
}

/* TABLE(COLUMN TYPE, ...), what SELECT * leaves out in brackets. */
static int show_columns(struct shell *s, sqlite3_stmt *columns, const char *table)
{
	const char *between = "";
	int ret;

	sqlite3_reset(columns);
	sqlite3_bind_text(columns, 1, table, -1, SQLITE_STATIC);
	fprintf(s->to, "%s(", table);
	while ((ret = sqlite3_step(columns)) == SQLITE_ROW) {
		const char *name = (const char *)sqlite3_column_text(columns, 0);
		const char *type = (const char *)sqlite3_column_text(columns, 1);
		bool hidden = sqlite3_column_int(columns, 2);

		fprintf(s->to, "%s%s%s%s%s%s", between, hidden ? "[" : "", name ?: "",
			type && *type ? " " : "", type ?: "", hidden ? "]" : "");
		between = ", ";
	}
	fputs(")\n", s->to);
	return ret == SQLITE_DONE ? 0 :
	       braid_fail(-EIO, "%s", sqlite3_errmsg(braid_sql_database(s->sql)));
}

static int show_schema(struct shell *s, const char *glob)
{
	sqlite3_stmt *columns;
	const char *name;
	int err = 0;
	size_t k;

	if (sqlite3_prepare_v2(braid_sql_database(s->sql),
			       "SELECT name, type, hidden FROM pragma_table_xinfo(?)", -1, &columns,
			       NULL))
		return braid_fail(-EIO, "%s", sqlite3_errmsg(braid_sql_database(s->sql)));
	for (k = 0; !err && !*s->stop && (name = braid_sql_table_name(s->sql, k)); k++)
		if (matches(glob, name))
			err = show_columns(s, columns, name);
	sqlite3_finalize(columns);
	return err;
}

static int show_help(struct shell *s, const char *word)
{
	(void)word;
	fputs(".tables [GLOB]   names of tables: of the trace, and one for each event type\n"
	      ".schema [GLOB]   their columns; those in brackets are not in SELECT *\n"
	      ".quit            leave the shell, as does the end of the input\n"
	      "Anything else is SQL, up to a semicolon. docs/sql.md has examples.\n", s->to);
	return 0;
}

static int quit(struct shell *s, const char *word)
{
	(void)word;
	s->quit = true;
	return 0;
}

/* Those without a dot are what people type to leave a shell, or when they don't know how. */
static const struct {
	const char *name;
	int (*run)(struct shell *s, const char *word);
} commands[] = {
	{ ".tables", show_tables }, { ".schema", show_schema }, { ".help", show_help },
	{ ".quit", quit }, { ".exit", quit }, { "help", show_help }, { "quit", quit }, { "exit", quit },
};

#define NR_COMMANDS	(sizeof(commands) / sizeof(*commands))

static int run_command(struct shell *s, char *line)
{
	char *rest = line + strcspn(line, " \t\r\n;");
	size_t k;

	if (*rest)
		*rest++ = 0;
	rest += strspn(rest, " \t\n");
	rest[strcspn(rest, " \t\n")] = 0;
	for (k = 0; k < NR_COMMANDS; k++)
		if (!strcmp(line, commands[k].name))
			return commands[k].run(s, rest);
	return braid_fail(-EINVAL, "unknown command '%.63s'; '.help' lists all", line);
}

/* Lines --------------------------------------------------------------------------------------- */

static bool is_command(const char *line)
{
	size_t n = strcspn(line, " \t\r\n;"), k;

	for (k = 0; k < NR_COMMANDS; k++)
		if (strlen(commands[k].name) == n && !memcmp(commands[k].name, line, n))
			return !line[n + strspn(line + n, " \t\r\n;")];
	return false;
}

static bool is_blank(const char *text)
{
	return !text[strspn(text, " \t\r\n;")];
}

/* One more line; a complete statement is run. */
static int take_line(struct shell *s, char *line)
{
	int err;

	if (!s->statement.bytes && (*line == '.' || is_command(line)))
		return run_command(s, line);
	if (!s->statement.bytes && is_blank(line))
		return 0;
	braid_text_puts(&s->statement, line);
	braid_text_putc(&s->statement, '\0');
	if (s->statement.failed)
		return braid_out_of_memory();
	s->statement.bytes--;
	if (!sqlite3_complete(s->statement.data))
		return 0;
	err = braid_sql_run(s->to, s->sql, s->statement.data, s->form);
	s->statement.bytes = 0;
	return err;
}

static void prompt(const struct shell *s)
{
	if (!s->terminal)
		return;
	fputs(s->statement.bytes ? "...> " : "sql> ", stdout);
	fflush(stdout);
}

/* A failure ends a script. At a terminal it is shown, and Ctrl-C drops what was typed. */
static int sql_shell_judge(struct shell *s, int err)
{
	fflush(s->to);
	if (!s->terminal)
		return *s->stop && !err ? braid_fail(-EINTR, "interrupted") : err;
	if (*s->stop)
		s->statement.bytes = 0;
	*s->stop = 0;
	if (err == -EPIPE)
		return err;
	if (err)
		braid_complain();
	return 0;
}

int braid_sql_command(FILE *to, const struct braid_sql *sql, const char *command,
		      volatile sig_atomic_t *stop)
{
	struct shell s = { .to = to, .sql = sql, .stop = stop };
	char *line = strdup(command);
	int err = line ? run_command(&s, line) : braid_out_of_memory();

	free(line);
	return err;
}

int braid_sql_shell(FILE *to, const struct braid_sql *sql, enum braid_sql_form form,
		    volatile sig_atomic_t *stop)
{
	struct shell s = {
		.to = to, .sql = sql, .form = form, .stop = stop,
		.terminal = isatty(STDIN_FILENO),
	};
	char *line = NULL;
	size_t capacity = 0;
	int err = 0;

	while (!err && !s.quit) {
		prompt(&s);
		if (getline(&line, &capacity, stdin) < 0) {
			if (!*stop || !s.terminal)
				break;
			clearerr(stdin);	/* Ctrl-C */
			fputc('\n', stdout);
			err = sql_shell_judge(&s, 0);
			continue;
		}
		err = sql_shell_judge(&s, take_line(&s, line));
	}
	/* The last statement needs no semicolon. */
	if (!err && !s.quit && s.statement.bytes)
		err = sql_shell_judge(&s, braid_sql_run(to, sql, s.statement.data, form));
	if (s.terminal && !s.quit)
		fputc('\n', stdout);
	free(line);
	braid_text_free(&s.statement);
	return err;
}
