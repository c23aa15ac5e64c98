/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A UDP socket whose messages have the host's time, by the kernel's stamps if they can be had. */
#ifndef BRAID_CLOCK_SYNC_PEER_SOCKET_H
#define BRAID_CLOCK_SYNC_PEER_SOCKET_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

#include "host_agent/clock_sync/peer_link.h"

/* The host's clock less CLOCK_REALTIME, of which the kernel's stamps are. */
struct braid_peer_offset {
	u64 host_ns;			/* when it was read; 0: not yet */
	s64 low_ns, high_ns;		/* it is within */
};

struct braid_peer_socket {
	int fd;
	bool stamps;			/* of what is sent are to be had */
	u32 next_id;			/* what the kernel will call the next message */
	struct braid_peer_offset offset;	/* as read last */
};

struct braid_peer_address {
	union {
		struct sockaddr any;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	};
	socklen_t bytes;
};

/* A message that came. */
struct braid_peer_received {
	u8 data[sizeof(struct braid_peer_message) + 1];
	size_t bytes;			/* of it; longer ones: more than a message */
	struct braid_peer_address from;
	u64 ns;				/* of the host's clock: it had come by then */
};

/* A message has left. */
struct braid_peer_stamp {
	u32 id;
	u64 ns;				/* not before this */
};

/**
 * braid_peer_socket_open - open it
 * @s: filled; braid_peer_socket_close() it in any case
 * @listen: [ADDRESS:]PORT; NULL: any port
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_peer_socket_open(struct braid_peer_socket *s, const char *listen);

/** braid_peer_address_find - the address of HOST[:PORT]. Return: 0, or -errno with braid_fail() */
int braid_peer_address_find(struct braid_peer_address *address, const struct braid_peer_socket *s,
			    const char *host);

bool braid_peer_address_same(const struct braid_peer_address *a,
			     const struct braid_peer_address *b);

/** braid_peer_address_name - in numbers */
void braid_peer_address_name(const struct braid_peer_address *address, char name[64]);

/** braid_peer_socket_send - send, without waiting. @id: set. Return: whether it was sent */
bool braid_peer_socket_send(struct braid_peer_socket *s, const struct braid_peer_address *to,
			    const void *data, size_t bytes, u32 *id);

/** braid_peer_socket_receive - take what has come, at most @max. Return: how many */
u32 braid_peer_socket_receive(struct braid_peer_socket *s, struct braid_peer_received *received,
			      u32 max);

/** braid_peer_socket_stamps - when messages left; none of them twice. Return: how many */
u32 braid_peer_socket_stamps(struct braid_peer_socket *s, struct braid_peer_stamp *stamps, u32 max);

void braid_peer_socket_close(struct braid_peer_socket *s);

#endif /* BRAID_CLOCK_SYNC_PEER_SOCKET_H */
