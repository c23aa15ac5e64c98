/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Runs the program `tracebraid` in a process of its own. */
#ifndef BRAID_LIBRARY_PROGRAM_H
#define BRAID_LIBRARY_PROGRAM_H

#include <stddef.h>
#include <sys/types.h>

#define BRAID_PROGRAM_STATUS_FD	3	/* of the child: what it is given as its status */

/* A process, and what it writes to its standard error. */
struct braid_program {
	pid_t pid;		/* 0: none, or it was waited for */
	int errors_fd;		/* its standard error, read without waiting; -1: at its end */
	char error[512];	/* the last line of that */
	size_t error_bytes;
	char line[512];		/* a later one, as far as it is there */
	size_t line_bytes;
	int status;		/* once waited for, as of a shell: its exit code, or 128 + its signal */
};

/**
 * braid_program_start - start it
 * @p: set on success
 * @program: a path; NULL: the one in this library's folder, in the folder bin beside that, or in PATH
 * @words: its arguments, then NULL
 * @out_fd: its standard output; -1: none
 * @status_fd: its descriptor BRAID_PROGRAM_STATUS_FD; -1: none
 *
 * It has no other of our descriptors, its own process group, and the default of all signals.
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_program_start(struct braid_program *p, const char *program, const char *const *words,
			int out_fd, int status_fd);

/** braid_program_listen - read what it has written to its standard error, without waiting */
void braid_program_listen(struct braid_program *p);

/**
 * braid_program_wait - wait until it ends
 * @good: a status that is no failure, besides 0
 *
 * Return: 0; -EIO with braid_fail(), the program's own words, if its status is neither 0 nor @good.
 */
int braid_program_wait(struct braid_program *p, int good);

/** braid_program_kill - end it at once, and wait for that */
void braid_program_kill(struct braid_program *p);

#endif /* BRAID_LIBRARY_PROGRAM_H */
