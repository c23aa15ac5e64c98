/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Runs a command of the agent in the test's process, and keeps what it prints. */
#ifndef BRAID_TESTS_RUN_COMMAND_H
#define BRAID_TESTS_RUN_COMMAND_H

/* What the last command printed, complaints included. */
extern char printed[1 << 18];

/* Runs one with its name and arguments, the last of them NULL. Its exit status. */
int run_command(int (*command)(int argc, char **argv), const char *const *words);

#define RUN_COMMAND(command, ...)						\
	run_command(command, (const char *const[]){ __VA_ARGS__, NULL })

#endif /* BRAID_TESTS_RUN_COMMAND_H */
