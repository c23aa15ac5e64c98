/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files of the vhost-user endpoint share among themselves. */
#ifndef BRAID_TRANSPORT_VHOST_USER_H
#define BRAID_TRANSPORT_VHOST_USER_H

#include "host_agent/transport/endpoint.h"
#include "host_agent/transport/listener.h"
#include "host_agent/transport/vhost_user_memory.h"
#include "tracebraid/virtio.h"

#define BRAID_VHOST_CHUNKS_MAX		1024u	/* a mapping each: Linux has 65530 for a process */
#define BRAID_VHOST_REGION_BYTES	(16ULL << 20)	/* the default size to request */
#define BRAID_VHOST_REGION_BYTES_MAX	(1ULL << 30)

/* A controlq buffer that was handled but not yet returned. */
struct braid_vhost_held {
	u16 head;
	u32 written;
};

struct braid_vhost_endpoint {
	struct braid_endpoint endpoint;
	struct braid_socket_address address;
	struct braid_listener listener;
	struct braid_virtio_config config;
	u64 region_bytes_max;		/* as in config */

	/* the connection */
	int socket;			/* -1: none */
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
	bool rung;			/* since braid_endpoint_serve() last reported */
	char trouble[256];		/* of a doorbell; ends the connection */

	/* the region */
	struct braid_vhost_chunk *chunks;	/* NULL: none is announced */
	u32 nr_chunks;
	u64 region_bytes;
	struct braid_vhost_held held[BRAID_VHOST_MAX_RING];
	u32 nr_held;
	bool unseen;			/* it was revoked before it was mapped */
	bool taken;			/* the announced region was offered to its reader */
	bool letting_go;		/* no message is taken before the mapping is closed */
	u64 let_go_ns;			/* since when */
	u64 hold_ns;			/* deadline for a reader that does not map it */
	const char *let_go_why;
	bool revoked;			/* by the driver, which gets its buffers returned */
	struct braid_mapping *mapping;	/* in use; perhaps of a former connection */
};

/* vhost_user_request.c */

/**
 * braid_vhost_handle - handle a message
 * @p: the endpoint; its answer is set if the message needs one
 * @m: whole; file descriptors are taken out of it
 *
 * Return: 0, or -errno with braid_fail() when the message is invalid.
 */
int braid_vhost_handle(struct braid_vhost_endpoint *p, struct braid_vhost_message *m);

/* vhost_user_device.c */

/** braid_vhost_queue_runs - whether a queue's memory may be touched */
bool braid_vhost_queue_runs(const struct braid_vhost_endpoint *p, u32 index);

/**
 * braid_vhost_let_go - begin to release the region, if one is announced
 * @p: the endpoint
 * @why: reason shown to users of the mapping
 */
void braid_vhost_let_go(struct braid_vhost_endpoint *p, const char *why);

/** braid_vhost_notify_gone - notify users of the mapping that the region is being released */
void braid_vhost_notify_gone(struct braid_vhost_endpoint *p);

/** braid_vhost_awaits_reader - whether a region being released may still be mapped first */
bool braid_vhost_awaits_reader(const struct braid_vhost_endpoint *p);

/**
 * braid_vhost_settle - finish the release, if the region is no longer mapped
 * @p: the endpoint
 *
 * Return: 0, or -errno with braid_fail() when the controlq is broken.
 */
int braid_vhost_settle(struct braid_vhost_endpoint *p);

/**
 * braid_vhost_control - handle the driver's controlq buffers
 * @p: the endpoint
 *
 * Return: 0; 1 with braid_fail(): a request was refused, and answered so; -errno with braid_fail()
 * when the controlq is broken.
 */
int braid_vhost_control(struct braid_vhost_endpoint *p);

/**
 * braid_vhost_notify - interrupt the driver, if it offers a buffer for that
 * @p: the endpoint
 *
 * Return: 0, or -errno with braid_fail() when the notifyq is broken.
 */
int braid_vhost_notify(struct braid_vhost_endpoint *p);

#endif /* BRAID_TRANSPORT_VHOST_USER_H */
