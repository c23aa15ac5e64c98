/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A transport delivers a range of shared memory, optionally with a doorbell, and nothing else.
 *
 * Invariants:
 * - A transport knows no region. The client decides whether the range's contents may be overwritten
 *   (->invited).
 * - One range is used at a time; attach() refuses a second one with -ENODEV, unless the first gives
 *   way (->give_way).
 * - The range stays mapped, and ring() usable, until detach() has returned; then the client uses
 *   neither.
 * - A doorbell is a hint. Without one, or if it fails, both sides poll.
 * - A device that sleeps has no range: suspend detaches it, resume attaches it again. A kdump
 *   kernel attaches none.
 * - Pages of the guest's own (virtio) are zeroed before they are shared, and freed only after the
 *   device has returned them or a reset has ended its access; else they are given up.
 * - Pages that the host only reads (memory) are freed after their beacons are cleared.
 */
#ifndef BRAID_TRANSPORT_TRANSPORT_H
#define BRAID_TRANSPORT_TRANSPORT_H

#include "guest_driver/core/region.h"

/* The user of a range. */
struct braid_transport_client {
	int (*attach)(const struct braid_range *range);	/* may sleep; 0 or -errno */
	void (*detach)(void);				/* may sleep; the range is free on return */
	void (*withdraw)(const struct braid_range *range);	/* the same, if it is in use */
	bool (*in_use)(void);				/* a range is */
	void (*rang)(void);	/* the host rang: poll the mailbox. Hard interrupt; at any time */
};

struct braid_transport_ops {
	const char *name;
	int (*init)(const struct braid_transport_client *client);
	void (*exit)(void);
};

extern const struct braid_transport_ops braid_ivshmem_ops;	/* with PCI */
extern const struct braid_transport_ops braid_virtio_ops;	/* a separate module */

/**
 * braid_memory_init - share pages of the guest's own, which need no device
 * @client: their user
 * @until_device: only until a device delivers memory
 *
 * Return: 0; -ENOMEM (reported); or what attach() returned. Where such memory is of no use to a
 * host: -ENODEV, or with @until_device 0 without any.
 */
int braid_memory_init(const struct braid_transport_client *client, bool until_device);

/** braid_memory_exit - detach, and free them. No other transport is active any more */
void braid_memory_exit(void);

/** braid_transports_init - start the transports that transport= asks for. 0 or -errno */
int braid_transports_init(const struct braid_transport_client *client);

/** braid_transports_exit - stop them */
void braid_transports_exit(void);

#endif /* BRAID_TRANSPORT_TRANSPORT_H */
