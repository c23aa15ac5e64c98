/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The processes that the service starts. */
#ifndef BRAID_SERVE_CHILD_H
#define BRAID_SERVE_CHILD_H

#include <sys/types.h>

/**
 * braid_serve_child_start - start a process, with a socket to it
 * @pid: written in the service; 0 after an error
 * @fd: each side's end of a SOCK_SEQPACKET pair; -1 after an error
 *
 * Return: 1 in the new process, after braid_serve_child_begin(); 0 in the service; -errno with
 * braid_fail().
 */
int braid_serve_child_start(pid_t *pid, int *fd);

/**
 * braid_serve_child_begin - what a new process of the service does first
 *
 * It ends with the service. Signals of a terminal are for the service, which decides what ends.
 */
void braid_serve_child_begin(void);

/** braid_serve_child_keep - close all files but the standard ones and @fd */
void braid_serve_child_keep(int fd);

#endif /* BRAID_SERVE_CHILD_H */
