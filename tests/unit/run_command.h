/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Runs a command of the agent, in a process of its own if it drops privileges, and stores its
 * output.
 */
#ifndef BRAID_TESTS_RUN_COMMAND_H
#define BRAID_TESTS_RUN_COMMAND_H

/* The output of the last command, including errors. */
extern char printed[1 << 18];

/* Runs one with its name and arguments, ended by NULL. Return: its exit status. */
int run_command(int (*command)(int argc, char **argv), const char *const *words);

#define RUN_COMMAND(command, ...)						\
	run_command(command, (const char *const[]){ __VA_ARGS__, NULL })

#endif /* BRAID_TESTS_RUN_COMMAND_H */
