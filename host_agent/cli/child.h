/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A process for work that may crash: libraries that parse untrusted files. */
#ifndef BRAID_CLI_CHILD_H
#define BRAID_CLI_CHILD_H

#include "tracebraid/types.h"

struct braid_child_limits {
	u64 cpu_s;
	u64 memory_bytes;	/* of address space */
};

/**
 * braid_child_run - run a function in a child process, and wait for it
 * @limits: of the process
 * @run: called in the child; prints its own errors and returns an exit code
 * @arg: handed to @run
 *
 * Call before braid_cli_confine(), which forbids new processes.
 *
 * Return: the exit code; or -errno with braid_fail(): it crashed, or took too long.
 */
int braid_child_run(const struct braid_child_limits *limits, int (*run)(void *arg), void *arg);

/** braid_child_does - in the child: note what it reads now, for the line about its death */
void braid_child_does(const char *what);

#endif /* BRAID_CLI_CHILD_H */
