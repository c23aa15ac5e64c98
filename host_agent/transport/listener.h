/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A UNIX socket that QEMUs connect to. */
#ifndef BRAID_TRANSPORT_LISTENER_H
#define BRAID_TRANSPORT_LISTENER_H

#include <sys/types.h>

#include "tracebraid/types.h"

/* What "SOCKET,key=value,..." says. */
struct braid_socket_address {
	char path[108];		/* of the socket, as struct sockaddr_un has room */
	char shm[256];		/* "": not given */
	u64 bytes;		/* size=; 0: not given */
	gid_t group;		/* group=; (gid_t)-1: not given */
};

/**
 * braid_socket_address_parse - take an address to pieces
 * @a: filled on success
 * @text: SOCKET[,size=SIZE][,shm=FILE][,group=GROUP]; SIZE in bytes, or with K, M or G
 *
 * Return: 0, or -EINVAL with braid_fail().
 */
int braid_socket_address_parse(struct braid_socket_address *a, const char *text);

/**
 * braid_listener_open - make a socket and listen
 * @a: path and group are used; a socket that a dead process left is replaced
 *
 * Its mode is 0660: whoever may connect hands us memory, or gets ours.
 *
 * Return: a non-blocking descriptor, or -errno with braid_fail() (-EADDRINUSE: another
 * process listens there).
 */
int braid_listener_open(const struct braid_socket_address *a);

/** braid_listener_close - close and remove the socket; fd -1 is fine */
void braid_listener_close(int fd, const struct braid_socket_address *a);

/**
 * braid_listener_accept - take the next connection
 * @fd: of braid_listener_open()
 * @pid: set to the peer's process on success
 *
 * Return: a non-blocking descriptor, or -EAGAIN: there is none, or another -errno.
 */
int braid_listener_accept(int fd, pid_t *pid);

#endif /* BRAID_TRANSPORT_LISTENER_H */
