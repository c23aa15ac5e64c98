/* SPDX-License-Identifier: GPL-2.0 */
/* A transport delivers a range of shared memory, optionally with a doorbell, and nothing else. */
#ifndef BRAID_TRANSPORT_TRANSPORT_H
#define BRAID_TRANSPORT_TRANSPORT_H

#include "guest_driver/core/region.h"

/* The user of a range. One range at a time: a second one is refused. */
struct braid_transport_client {
	int (*attach)(const struct braid_range *range);	/* may sleep; 0 or -errno */
	void (*detach)(void);				/* may sleep; the range is free on return */
	void (*rang)(void);	/* the host rang: poll the mailbox. Hard interrupt; at any time */
};

struct braid_transport_ops {
	const char *name;
	int (*init)(const struct braid_transport_client *client);
	void (*exit)(void);
};

extern const struct braid_transport_ops braid_ivshmem_ops;	/* with PCI */
extern const struct braid_transport_ops braid_virtio_ops;	/* a separate module */

#endif /* BRAID_TRANSPORT_TRANSPORT_H */
