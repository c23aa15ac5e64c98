/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The vhost-user protocol: what crosses its socket, framed and with its file descriptors. */
#ifndef BRAID_TRANSPORT_VHOST_USER_MESSAGE_H
#define BRAID_TRANSPORT_VHOST_USER_MESSAGE_H

#include <stdbool.h>
#include <sys/types.h>

#include "tracebraid/types.h"

#define BRAID_VHOST_MAX_REGIONS		8	/* of the memory table */
#define BRAID_VHOST_MAX_CONFIG_BYTES	256
#define BRAID_VHOST_MAX_FDS		BRAID_VHOST_MAX_REGIONS

/* Bits of braid_vhost_header.flags */
#define BRAID_VHOST_VERSION		1u
#define BRAID_VHOST_VERSION_MASK	3u
#define BRAID_VHOST_REPLY		(1u << 2)
#define BRAID_VHOST_NEED_REPLY		(1u << 3)

/* Of the payload that names a ring's file descriptor: its index, and a flag that none is passed */
#define BRAID_VHOST_RING_MASK		0xffu
#define BRAID_VHOST_NO_FD		0x100u

/* The virtio feature bit for protocol features */
#define BRAID_VHOST_F_PROTOCOL_FEATURES	30u

/* Protocol feature bits */
enum braid_vhost_protocol_feature {
	BRAID_VHOST_PROTOCOL_MQ = 0,
	BRAID_VHOST_PROTOCOL_REPLY_ACK = 3,
	BRAID_VHOST_PROTOCOL_BACKEND_REQ = 5,
	BRAID_VHOST_PROTOCOL_CONFIG = 9,
	BRAID_VHOST_PROTOCOL_INBAND = 14,
};

enum braid_vhost_request {
	BRAID_VHOST_GET_FEATURES = 1,
	BRAID_VHOST_SET_FEATURES = 2,
	BRAID_VHOST_SET_OWNER = 3,
	BRAID_VHOST_RESET_OWNER = 4,
	BRAID_VHOST_SET_MEM_TABLE = 5,
	BRAID_VHOST_SET_VRING_NUM = 8,
	BRAID_VHOST_SET_VRING_ADDR = 9,
	BRAID_VHOST_SET_VRING_BASE = 10,
	BRAID_VHOST_GET_VRING_BASE = 11,
	BRAID_VHOST_SET_VRING_KICK = 12,
	BRAID_VHOST_SET_VRING_CALL = 13,
	BRAID_VHOST_SET_VRING_ERR = 14,
	BRAID_VHOST_GET_PROTOCOL_FEATURES = 15,
	BRAID_VHOST_SET_PROTOCOL_FEATURES = 16,
	BRAID_VHOST_GET_QUEUE_NUM = 17,
	BRAID_VHOST_SET_VRING_ENABLE = 18,
	BRAID_VHOST_SET_BACKEND_REQ_FD = 21,
	BRAID_VHOST_GET_CONFIG = 24,
	BRAID_VHOST_SET_CONFIG = 25,
	BRAID_VHOST_VRING_KICK = 35,
};

/* Of the backend channel. */
enum braid_vhost_backend_request {
	BRAID_VHOST_BACKEND_VRING_CALL = 4,
};

struct braid_vhost_header {
	u32 request;
	u32 flags;
	u32 bytes;		/* of the payload */
};

/* Guest memory, as the memory table names it. */
struct braid_vhost_region {
	u64 guest_address;
	u64 bytes;
	u64 user_address;	/* in the front end */
	u64 offset;		/* in the file descriptor's file */
};

struct braid_vhost_ring_state {
	u32 index;
	u32 value;
};

struct braid_vhost_ring_address {
	u32 index;
	u32 flags;
	u64 descriptors;	/* user addresses, all of them */
	u64 used;
	u64 available;
	u64 log;
};

union braid_vhost_payload {
	u64 value;
	struct braid_vhost_ring_state state;
	struct braid_vhost_ring_address address;
	struct {
		u32 nr_regions;
		u32 reserved;
		struct braid_vhost_region regions[BRAID_VHOST_MAX_REGIONS];
	} memory;
	struct {
		u32 offset;
		u32 bytes;
		u32 flags;
		u8 data[BRAID_VHOST_MAX_CONFIG_BYTES];
	} config;
};

/* A message being received, with its file descriptors. */
struct braid_vhost_message {
	struct braid_vhost_header header;
	union braid_vhost_payload payload;
	u32 got_bytes;		/* of header and payload, received up to now */
	u32 nr_fds;
	int fds[BRAID_VHOST_MAX_FDS];
};

static_assert(sizeof(struct braid_vhost_header) == 12, "header layout");
static_assert(sizeof(struct braid_vhost_region) == 32, "region layout");
static_assert(sizeof(struct braid_vhost_ring_address) == 40, "ring address layout");

/**
 * braid_vhost_receive - continue to receive a message
 * @socket: of the front end, non-blocking
 * @m: all 0 before the first call, and after braid_vhost_message_clear()
 *
 * Afterwards the message is complete and its size plausible; the caller checks the rest.
 *
 * Return: 1: it is whole; 0: not yet; -ECONNRESET: the front end has hung up, between
 * messages or not; another -errno with braid_fail().
 */
int braid_vhost_receive(int socket, struct braid_vhost_message *m);

/**
 * braid_vhost_take_fd - take the message's only file descriptor
 * @m: the message
 *
 * Return: it, or -1.
 */
int braid_vhost_take_fd(struct braid_vhost_message *m);

/** braid_vhost_message_clear - close what file descriptors are left, and be ready for the next */
void braid_vhost_message_clear(struct braid_vhost_message *m);

/**
 * braid_vhost_send - send a message without waiting
 * @socket: of the front end, non-blocking; or a backend channel, which may be a pipe
 * @header: complete
 * @payload: header->bytes of it
 *
 * Return: 0, or -errno with braid_fail(): disconnected, or the peer does not read.
 */
int braid_vhost_send(int socket, const struct braid_vhost_header *header, const void *payload);

#endif /* BRAID_TRANSPORT_VHOST_USER_MESSAGE_H */
