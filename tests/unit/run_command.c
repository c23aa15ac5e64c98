// SPDX-License-Identifier: GPL-2.0-or-later
/* Runs a command of the agent in the test's process, and stores its output. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/need.h"
#include "tests/unit/run_command.h"

#define MAX_WORDS	32

char printed[1 << 18];

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
	ret = command(argc, argv);
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
