/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A transport delivers a range of shared memory, optionally with a doorbell, and nothing else.
 *
 * Invariants:
 * - A transport knows no region. The client decides whether the range's contents may be overwritten
 *   (->invited).
 * - One range is used at a time; attach() refuses a second one with -ENODEV.
 * - The range stays mapped, and ring() usable, until detach() has returned; then the client uses
 *   neither.
 * - A doorbell is a hint. Without one, or if it fails, both sides poll.
 * - A device that sleeps has no range: suspend detaches it, resume attaches it again. A kdump
 *   kernel attaches none.
 * - Pages of the guest's own (virtio) are zeroed before they are shared, and freed only after the
 *   device has returned them or a reset has ended its access; else they are given up.
 */
#ifndef BRAID_TRANSPORT_TRANSPORT_H
#define BRAID_TRANSPORT_TRANSPORT_H

#include "guest_driver/core/region.h"

/* The user of a range. */
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
