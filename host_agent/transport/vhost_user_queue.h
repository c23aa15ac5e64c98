/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A split virtqueue in a front end's memory, from the device's side. */
#ifndef BRAID_TRANSPORT_VHOST_USER_QUEUE_H
#define BRAID_TRANSPORT_VHOST_USER_QUEUE_H

#include "host_agent/transport/vhost_user_memory.h"

#define BRAID_VHOST_MAX_RING	1024u	/* descriptors */
#define BRAID_VHOST_MAX_CHAIN	256u	/* of them, in one buffer */

struct braid_vhost_queue {
	u32 index;
	/* as set by the front end */
	u32 size;		/* descriptors; 0: not set */
	struct braid_vhost_ring_address address;
	bool has_address;
	bool enabled;
	bool kicked;		/* once: from then on it is started */
	int kick_fd;		/* or -1 */
	int call_fd;		/* or -1 */
	bool polled;		/* the front end wants no call, not even in band */
	/* ours */
	u16 seen;		/* available buffers taken */
	u16 returned;		/* of them, given back */
	struct braid_vhost_window descriptors;	/* open while it runs */
	struct braid_vhost_window available;
	struct braid_vhost_window used;
};

/* An extent of a buffer. */
struct braid_vhost_extent {
	u64 address;		/* guest-physical */
	u32 bytes;
};

/* An available buffer: nr_readable extents, then nr_writable ones. */
struct braid_vhost_chain {
	u16 head;
	u32 nr_readable;
	u32 nr_writable;
	struct braid_vhost_extent extents[BRAID_VHOST_MAX_CHAIN];
};

/** braid_vhost_queue_init - initialize a queue without state */
void braid_vhost_queue_init(struct braid_vhost_queue *q, u32 index);

/** braid_vhost_queue_reset - close its descriptors, and initialize it again */
void braid_vhost_queue_reset(struct braid_vhost_queue *q);

/** braid_vhost_queue_unmap - its memory is not touched before braid_vhost_queue_map() */
void braid_vhost_queue_unmap(struct braid_vhost_queue *q);

/**
 * braid_vhost_queue_map - map the ring, if it is not
 * @q: size and address are known
 * @memory: the table
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_vhost_queue_map(struct braid_vhost_queue *q, const struct braid_vhost_memory *memory);

/**
 * braid_vhost_queue_pop - get the next available buffer
 * @q: mapped
 * @chain: filled on success; its extents are not looked up
 *
 * Return: 1; 0: none; -errno with braid_fail(): the ring is broken.
 */
int braid_vhost_queue_pop(struct braid_vhost_queue *q, struct braid_vhost_chain *chain);

/**
 * braid_vhost_queue_push - return a buffer; in the order of the pops
 * @q: mapped
 * @head: the buffer
 * @written: bytes written into it
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_vhost_queue_push(struct braid_vhost_queue *q, u16 head, u32 written);

/**
 * braid_vhost_queue_wants_call - whether the driver is to be interrupted
 * @q: mapped
 *
 * Return: 1, 0, or -errno with braid_fail().
 */
int braid_vhost_queue_wants_call(const struct braid_vhost_queue *q);

/* Of all readable, or of all writable extents. */
u64 braid_vhost_chain_bytes(const struct braid_vhost_chain *chain, bool writable);

/**
 * braid_vhost_chain_copy - read a buffer's readable part, or write into its writable one
 * @chain: the buffer
 * @memory: the table
 * @data: the bytes
 * @bytes: at most the size of that part
 * @write: the writable part; else the readable one
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_vhost_chain_copy(const struct braid_vhost_chain *chain,
			   const struct braid_vhost_memory *memory, void *data, u32 bytes,
			   bool write);

#endif /* BRAID_TRANSPORT_VHOST_USER_QUEUE_H */
