/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where a guest's region comes from: a file, or a socket that its QEMU connects to. */
#ifndef BRAID_TRANSPORT_PORT_H
#define BRAID_TRANSPORT_PORT_H

#include <poll.h>

#include "host_agent/transport/transport.h"

#define BRAID_PORT_FDS	8	/* that one port wants watched, at most */

struct braid_port;

/* A kind of port. Functions as those below that have their names. */
struct braid_port_ops {
	const char *scheme;	/* what addresses begin with, the colon included; "": all others */
	int (*open)(struct braid_port **out, const char *address);
	void (*close)(struct braid_port *p);
	int (*map)(struct braid_port *p, struct braid_mapping **out);
	int (*serve)(struct braid_port *p);		/* NULL: nobody talks to it */
	size_t (*fds)(const struct braid_port *p, struct pollfd *fds);	/* NULL: none */
	void (*ring)(struct braid_port *p);		/* NULL: there is no doorbell */
	u32 (*doorbell)(const struct braid_port *p);	/* NULL: the guest has none */
};

/* Each kind begins with it. */
struct braid_port {
	const struct braid_port_ops *ops;
};

extern const struct braid_port_ops braid_file_port_ops, braid_doorbell_port_ops,
				   braid_vhost_user_port_ops;

/**
 * braid_port_is_socket - whether an address names a socket, not a region's file
 * @address: of a port
 */
bool braid_port_is_socket(const char *address);

/**
 * braid_port_open - be there for a region
 * @out: set on success
 * @address: [SCHEME:]PATH; a socket is made and listened on
 *
 * A region's file is not looked at before braid_port_map().
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_port_open(struct braid_port **out, const char *address);

/** braid_port_close - its mapping was closed before; NULL is fine */
void braid_port_close(struct braid_port *p);

/**
 * braid_port_map - map the region, to drain it
 * @p: the port; it has no mapping now
 * @out: set on success, writable and nobody else's; to be closed by braid_mapping_close()
 * when braid_mapping_gone() tells something: a guest may wait for that
 *
 * Never waits.
 *
 * Return: 0; -ENODATA: nobody gave one yet; -ENOTCONN: nor is anybody connected; else
 * -errno as braid_mapping_take(). With braid_fail().
 */
int braid_port_map(struct braid_port *p, struct braid_mapping **out);

/**
 * braid_port_serve - take connections, answer messages, quench doorbells
 * @p: the port
 *
 * A bounded piece of work that never waits. Whoever sends nonsense is let go of.
 *
 * Return: 1 when the guest has rung, or has given a region; 0; or -errno with braid_fail()
 * when a connection was closed for what came over it, or a region refused: worth a line, and
 * all goes on.
 */
int braid_port_serve(struct braid_port *p);

/**
 * braid_port_fds - what to sleep on
 * @p: the port
 * @fds: room for BRAID_PORT_FDS; fd and events are filled in
 *
 * Return: how many there are. When one is ready, braid_port_serve() has work.
 */
size_t braid_port_fds(const struct braid_port *p, struct pollfd *fds);

/** braid_port_ring - interrupt the guest, if it can be: it looks at its mailbox at once */
void braid_port_ring(struct braid_port *p);

/**
 * braid_port_doorbell - what the guest is to ring when it wants us to wake
 * @p: the port
 *
 * Return: for braid_mailbox.wake_doorbell, never 0; 0: it can't wake us.
 */
u32 braid_port_doorbell(const struct braid_port *p);

#endif /* BRAID_TRANSPORT_PORT_H */
