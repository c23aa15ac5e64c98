/* SPDX-License-Identifier: GPL-2.0-or-later */
/* tracebraid sql: printing what statements find, and the shell. */
#ifndef BRAID_CLI_SQL_COMMAND_H
#define BRAID_CLI_SQL_COMMAND_H

#include <signal.h>
#include <stdio.h>

#include "host_agent/sql/sql.h"

enum braid_sql_form { BRAID_SQL_COLUMNS, BRAID_SQL_JSON, BRAID_SQL_CSV, BRAID_SQL_LITERALS };

/**
 * braid_sql_print - run a statement, and print its rows
 * @to: where
 * @statement: prepared, with its parameters
 * @form: how
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_sql_print(FILE *to, sqlite3_stmt *statement, enum braid_sql_form form);

/**
 * braid_sql_run - run statements, separated by semicolons
 * @to: where their rows are printed
 * @sql: the captures
 * @text: the statements
 * @form: how
 *
 * Return: 0, or -errno with braid_fail() of the first one that failed.
 */
int braid_sql_run(FILE *to, const struct braid_sql *sql, const char *text,
		  enum braid_sql_form form);

/**
 * braid_sql_command - run a command of the shell
 * @to: where its result is printed
 * @sql: the captures
 * @command: begins with a dot
 * @stop: as below
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_sql_command(FILE *to, const struct braid_sql *sql, const char *command,
		      volatile sig_atomic_t *stop);

/**
 * braid_sql_shell - read statements and commands from standard input
 * @to: where their rows are printed
 * @sql: the captures
 * @form: how
 * @stop: what Ctrl-C sets; ends a statement. Not a terminal's: ends the shell
 *
 * Return: 0; of other input than a terminal, -errno with braid_fail() of the first failure.
 */
int braid_sql_shell(FILE *to, const struct braid_sql *sql, enum braid_sql_form form,
		    volatile sig_atomic_t *stop);

#endif /* BRAID_CLI_SQL_COMMAND_H */
