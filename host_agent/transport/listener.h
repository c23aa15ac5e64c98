/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A UNIX socket that QEMUs connect to. */
#ifndef BRAID_TRANSPORT_LISTENER_H
#define BRAID_TRANSPORT_LISTENER_H

#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

#include "tracebraid/types.h"

#define BRAID_SECOND_NS	1000000000ULL

/* What "SOCKET,key=value,..." says. */
struct braid_socket_address {
	char path[108];		/* of the socket, as struct sockaddr_un has room */
	char shm[256];		/* "": not given */
	u64 bytes;		/* size=; 0: not given */
	gid_t group;		/* group=; (gid_t)-1: not given */
};

/* A socket, and how patient we still are with those who connect. */
struct braid_listener {
	int fd;			/* -1: none */
	u32 nr_faults;
	u64 quiet_ns;		/* of braid_monotonic_ns(): nobody is listened to before */
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
 * @l: filled on success; else there is none
 * @a: path and group are used; a socket that a dead process left is replaced
 *
 * Its mode is 0660: whoever may connect hands us memory, or gets ours.
 *
 * Return: 0, or -errno with braid_fail() (-EADDRINUSE: another process listens there).
 */
int braid_listener_open(struct braid_listener *l, const struct braid_socket_address *a);

/** braid_listener_close - close and remove the socket; none is fine */
void braid_listener_close(struct braid_listener *l, const struct braid_socket_address *a);

/**
 * braid_listener_accept - take the next connection
 * @l: the listener
 * @a: its address
 * @pid: set to the peer's process on success
 *
 * Return: a non-blocking descriptor; -EAGAIN: there is none, or we are quiet; or another -errno
 * with braid_fail().
 */
int braid_listener_accept(struct braid_listener *l, const struct braid_socket_address *a,
			  pid_t *pid);

/** braid_listener_fault - a line is told of who connected: some at once, then one a second */
void braid_listener_fault(struct braid_listener *l);

/** braid_listener_give_up - listen to nobody any more */
void braid_listener_give_up(struct braid_listener *l);

/** braid_listener_quiet - whether nobody is listened to now: its fd is not to be slept on */
bool braid_listener_quiet(const struct braid_listener *l);

/** braid_monotonic_ns - the clock of all patience with peers */
static inline u64 braid_monotonic_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (u64)t.tv_sec * BRAID_SECOND_NS + t.tv_nsec;
}

#endif /* BRAID_TRANSPORT_LISTENER_H */
