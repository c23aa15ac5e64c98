/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A UNIX socket that QEMUs connect to. */
#ifndef BRAID_TRANSPORT_LISTENER_H
#define BRAID_TRANSPORT_LISTENER_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "host_agent/util/monotonic.h"

/* What "SOCKET,key=value,..." says. */
struct braid_socket_address {
	char path[108];		/* of the socket, limited by struct sockaddr_un */
	char shm[256];		/* "": not given */
	u64 bytes;		/* size=; 0: not given */
	gid_t group;		/* group=; (gid_t)-1: not given */
};

/* A socket, and its budget of faults by clients. */
struct braid_listener {
	int fd;			/* -1: none */
	int folder;		/* that the socket's file is in, and ... */
	struct stat made;	/* ... that file */
	u32 nr_faults;
	u64 quiet_ns;		/* of braid_monotonic_ns(): no connection is accepted before */
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
 * braid_listener_open - create a socket and listen
 * @l: filled on success; else without a socket
 * @a: path and group are used; a socket left by a dead process is replaced
 *
 * Its mode is 0660: a client hands us memory, or gets ours.
 *
 * Return: 0, or -errno with braid_fail() (-EADDRINUSE: another process listens there).
 */
int braid_listener_open(struct braid_listener *l, const struct braid_socket_address *a);

/** braid_listener_close - close and remove the socket, if any, unless another has its name */
void braid_listener_close(struct braid_listener *l, const struct braid_socket_address *a);

/**
 * braid_listener_accept - take the next connection
 * @l: the listener
 * @a: its address
 * @pid: set to the peer's process on success
 *
 * Return: a non-blocking descriptor; -EAGAIN: none waits, or the listener is quiet; or another
 * -errno with braid_fail().
 */
int braid_listener_accept(struct braid_listener *l, const struct braid_socket_address *a,
			  pid_t *pid);

/**
 * braid_listener_fault - count a client's fault: some lines are reported at once, then one per
 * second
 */
void braid_listener_fault(struct braid_listener *l);

/** braid_listener_give_up - stop listening for good */
void braid_listener_give_up(struct braid_listener *l);

/** braid_listener_quiet - whether no connection is accepted now: do not sleep on its fd */
bool braid_listener_quiet(const struct braid_listener *l);

#endif /* BRAID_TRANSPORT_LISTENER_H */
