/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files of the vhost-user port share among themselves. */
#ifndef BRAID_TRANSPORT_VHOST_USER_H
#define BRAID_TRANSPORT_VHOST_USER_H

#include "host_agent/transport/listener.h"
#include "host_agent/transport/port.h"
#include "host_agent/transport/vhost_user_queue.h"

#define BRAID_VHOST_CHUNKS_MAX		1024u	/* a mapping each: Linux has 65530 for a process */
#define BRAID_VHOST_REGION_BYTES	(16ULL << 20)	/* asked for, unless told */
#define BRAID_VHOST_REGION_BYTES_MAX	(1ULL << 30)

/* A controlq buffer that was dealt with and not yet given back. */
struct braid_vhost_held {
	u16 head;
	u32 written;
};

struct braid_vhost_port {
	struct braid_port port;
	struct braid_socket_address address;
	struct braid_listener listener;
	struct braid_virtio_config config;

	/* the connection */
	int socket;			/* -1: there is none */
	pid_t pid;
	u64 features;
	u64 protocol;
	struct braid_vhost_message in;
	bool answer_due;		/* the front end waits for: */
	struct braid_vhost_header answer_header;
	union braid_vhost_payload answer;
	int backend;			/* the backend channel, or -1 */
	struct braid_vhost_memory memory;
	struct braid_vhost_queue queues[BRAID_VIRTIO_NR_QUEUES];
	bool rung;			/* since braid_port_serve() told last */
	char trouble[256];		/* of a doorbell; ends the connection */

	/* the region */
	struct braid_virtio_chunk *chunks;	/* NULL: none is announced */
	u32 nr_chunks;
	u64 region_bytes;
	struct braid_vhost_held held[BRAID_VHOST_MAX_RING];
	u32 nr_held;
	bool unseen;			/* it was revoked before anybody asked for it */
	bool taken;			/* who wants the announced region has had it, or could not */
	bool letting_go;		/* no message is taken before the mapping is closed */
	u64 let_go_ns;			/* since when */
	u64 hold_ns;			/* how long nobody who wants it is waited for */
	const char *let_go_why;
	bool revoked;			/* by the driver, which gets its buffers back */
	struct braid_mapping *mapping;	/* in use; perhaps of a former connection */
};

/* vhost_user_request.c */

/**
 * braid_vhost_handle - do what a message asks for
 * @p: the port; its answer is set when there is to be one
 * @m: whole; file descriptors are taken out of it
 *
 * Return: 0, or -errno with braid_fail() when no front end would say that.
 */
int braid_vhost_handle(struct braid_vhost_port *p, struct braid_vhost_message *m);

/* vhost_user_device.c */

/** braid_vhost_queue_runs - whether a queue's memory may be touched */
bool braid_vhost_queue_runs(const struct braid_vhost_port *p, u32 index);

/**
 * braid_vhost_let_go - begin to let go of the region, if one is announced
 * @p: the port
 * @why: for those who have it mapped
 */
void braid_vhost_let_go(struct braid_vhost_port *p, const char *why);

/** braid_vhost_tell_gone - tell who has the region mapped that it is being let go of */
void braid_vhost_tell_gone(struct braid_vhost_port *p);

/** braid_vhost_awaits_reader - whether a region that is let go of may still be taken up first */
bool braid_vhost_awaits_reader(const struct braid_vhost_port *p);

/**
 * braid_vhost_settle - end to let go, if nobody has the region mapped any more
 * @p: the port
 *
 * Return: 0, or -errno with braid_fail() when the controlq is broken.
 */
int braid_vhost_settle(struct braid_vhost_port *p);

/**
 * braid_vhost_control - deal with what the driver put into the controlq
 * @p: the port
 *
 * Return: 0; 1 with braid_fail(): it was refused, and told so; -errno with braid_fail() when
 * the controlq is broken.
 */
int braid_vhost_control(struct braid_vhost_port *p);

/**
 * braid_vhost_notify - interrupt the driver, if it offers a buffer for that
 * @p: the port
 *
 * Return: 0, or -errno with braid_fail() when the notifyq is broken.
 */
int braid_vhost_notify(struct braid_vhost_port *p);

#endif /* BRAID_TRANSPORT_VHOST_USER_H */
