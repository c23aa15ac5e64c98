/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A VM's side of vhost-user, with its driver: controlled step by step, never waiting by itself. */
#ifndef BRAID_TESTS_FRONT_END_H
#define BRAID_TESTS_FRONT_END_H

#include <linux/virtio_ring.h>

#include "host_agent/transport/vhost_user_message.h"
#include "tracebraid/abi.h"
#include "tracebraid/virtio.h"

#define FRONT_RING		64u		/* descriptors of each queue */
#define FRONT_GUEST_ADDRESS	0x100000ULL	/* of its own memory */
#define FRONT_USER_ADDRESS	0x7f0000000000ULL
#define FRONT_BYTES		0x20000u	/* of it; queues first, then buffers */
#define FRONT_BUFFERS		0x8000u
#define FRONT_FEATURES		(1ULL << 32 | 1ULL << BRAID_VHOST_F_PROTOCOL_FEATURES | \
				 1ULL << BRAID_VIRTIO_F_NOTIFY)
#define FRONT_PROTOCOL		(1ULL << BRAID_VHOST_PROTOCOL_MQ | \
				 1ULL << BRAID_VHOST_PROTOCOL_REPLY_ACK | \
				 1ULL << BRAID_VHOST_PROTOCOL_BACKEND_REQ | \
				 1ULL << BRAID_VHOST_PROTOCOL_CONFIG)
#define FRONT_INBAND		(1ULL << BRAID_VHOST_PROTOCOL_INBAND)

struct front_queue {
	struct vring ring;
	u16 seen;		/* used buffers taken */
	u16 next;		/* the next descriptor to use */
	u32 buffers_at;		/* where the next buffer goes */
	int kick_fd;		/* eventfds */
	int call_fd;
};

struct front_end {
	int (*pump)(void *arg);	/* runs the device; its result is stored */
	void *pump_arg;
	int pumped;
	int socket;		/* -1: closed */
	u64 protocol;		/* to be negotiated */
	int memory_fd;
	u8 *memory;
	struct braid_vhost_region more[4];	/* other files in the memory table */
	int more_fds[4];
	u32 nr_more;
	struct front_queue queues[BRAID_VIRTIO_NR_QUEUES];
	int backend;		/* receives the device's own messages; -1: none yet */
	union braid_vhost_payload reply;
	u32 reply_bytes;
};

/* A front end with memory and empty queues, not connected. */
void front_end_init(struct front_end *f, int (*pump)(void *arg), void *arg);

/* Additional memory of the guest: a file that the caller keeps. */
void front_end_add_memory(struct front_end *f, u64 guest_address, int fd, u64 offset, u64 bytes);

/* Releases everything except added files. */
void front_end_free(struct front_end *f);

/* Return: false: no one listens there yet. */
bool front_end_try_connect(struct front_end *f, const char *path);

/* Connects, and disconnects as a VM that dies. */
void front_end_connect(struct front_end *f, const char *path);
void front_end_hang_up(struct front_end *f);

/* Sends bytes unchanged, with file descriptors that stay open here. False: no peer. */
bool front_end_send(struct front_end *f, const struct braid_vhost_header *header,
		    const void *payload, u32 payload_bytes, const int *fds, u32 nr_fds);

/* Checks for a reply: 1: it is in f->reply; 0: none; -1: the device has disconnected. */
int front_end_receive(struct front_end *f, u32 request);

/* Sends, and runs the device until it answers. False if it disconnects or refuses. */
bool front_end_ask(struct front_end *f, u32 request, const void *payload, u32 payload_bytes,
		   int fd);

/* A message's requirements. */
bool front_end_ask_value(struct front_end *f, u32 request, u64 value, int fd);
bool front_end_ask_state(struct front_end *f, u32 request, u32 index, u32 value);
bool front_end_set_memory(struct front_end *f);

/* All messages of QEMU until the device runs; queues begin at their present indexes. */
bool front_end_start(struct front_end *f);

/* QEMU's messages when a device is stopped. The queues' bases must be those in use. */
bool front_end_stop(struct front_end *f);

/* The guest's address of a byte of the front end's own memory. */
u64 front_end_address(const struct front_end *f, const void *at);

/* Puts a buffer into a queue: a copied readable part, then a writable part. Kicks. */
u8 *front_end_put(struct front_end *f, u32 queue, const void *data, u32 bytes, u32 room);
void front_end_kick(struct front_end *f, u32 queue);

/* ANNOUNCE of chunks, or REVOKE. Return: where the result will be. */
u32 *front_end_announce(struct front_end *f, const struct braid_virtio_chunk *chunks, u32 nr);
u32 *front_end_revoke(struct front_end *f);

/* Takes a used buffer: its bytes, or -1 for none. */
int front_end_used(struct front_end *f, u32 queue);

/* Runs the device until a buffer is returned. Return: its bytes, or -1 if it disconnects. */
int front_end_await(struct front_end *f, u32 queue);

/* Whether the device has interrupted for a queue since the last call. */
bool front_end_called(struct front_end *f, u32 queue);

#endif /* BRAID_TESTS_FRONT_END_H */
