// SPDX-License-Identifier: GPL-2.0-or-later
/* Runs a command of the agent, and stores its output. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host_agent/cli/cli.h"
#include "tests/unit/need.h"
#include "tests/unit/run_command.h"

#define MAX_WORDS	32

char printed[1 << 18];

/* A command that drops privileges cannot undo that, so it runs in a child. */
static int in_child(int (*command)(int argc, char **argv), int argc, char **argv)
{
	pid_t pid = fork();
	int status;

	NEED(pid >= 0);
	if (!pid) {
		status = command(argc, argv);
		fflush(stdout);
		_exit(status);
	}
	NEED(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	return WEXITSTATUS(status);
}

int run_command(int (*command)(int argc, char **argv), const char *const *words)
{
	int saved = dup(STDOUT_FILENO), saved_error = dup(STDERR_FILENO), argc, ret;
	char *argv[MAX_WORDS + 1] = { NULL };	/* getopt moves them */
	FILE *f = tmpfile();
	ssize_t n;

	for (argc = 0; argc < MAX_WORDS && words[argc]; argc++)
		argv[argc] = (char *)words[argc];
	NEED(f && saved >= 0 && saved_error >= 0);
	fflush(stdout);
	dup2(fileno(f), STDOUT_FILENO);
	dup2(fileno(f), STDERR_FILENO);
	ret = braid_cli_confines() ? in_child(command, argc, argv) : command(argc, argv);
	fflush(stdout);
	dup2(saved, STDOUT_FILENO);
	dup2(saved_error, STDERR_FILENO);
	close(saved);
	close(saved_error);
	n = pread(fileno(f), printed, sizeof(printed) - 1, 0);
	printed[n < 0 ? 0 : n] = 0;
	fclose(f);
	return ret;
}
