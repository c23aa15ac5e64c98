/* SPDX-License-Identifier: GPL-2.0 */
/* A virtio device for tests, in the kernel that drives it: correct or faulty as a test requires. */
#ifndef BRAID_TESTS_KUNIT_FAKE_VIRTIO_H
#define BRAID_TESTS_KUNIT_FAKE_VIRTIO_H

#include "tracebraid/virtio.h"

#define BRAID_FAKE_CHUNKS	64

struct braid_fake_virtio {
	/* Set by the test before it plugs the device. */
	struct braid_virtio_config config;
	bool legacy;			/* VERSION_1 is not offered */
	bool translated;		/* ACCESS_PLATFORM is offered */
	bool encrypted;			/* the guest's memory is */
	bool deaf;			/* REVOKE is not answered */
	bool no_queues;			/* finding queues fails */
	bool refuse;			/* ANNOUNCE is returned at once, with */
	u32 result;			/* this result, */
	u32 result_bytes;		/* and this many bytes of it written */
	/* What the device has seen. */
	u32 announced, revoked;		/* commands */
	u32 state_at_revoke;		/* of the region */
	struct braid_virtio_chunk chunks[BRAID_FAKE_CHUNKS];
	u32 nr_chunks;
};

extern struct braid_fake_virtio braid_fake_virtio;

/** braid_fake_virtio_plug - add the device. Return: whether a driver bound to it */
bool braid_fake_virtio_plug(void);

/** braid_fake_virtio_unplug - remove the device, if present; what it has seen stays */
void braid_fake_virtio_unplug(void);

/** braid_fake_virtio_freeze - have the driver freeze the device, as the virtio core does */
int braid_fake_virtio_freeze(void);

/** braid_fake_virtio_restore - have the driver restore it. Return: 0, or the driver's -errno */
int braid_fake_virtio_restore(void);

/** braid_fake_virtio_region - the first announced chunk, as the host sees it */
void *braid_fake_virtio_region(void);

/** braid_fake_virtio_notified - how often the driver has notified the device of the notifyq */
int braid_fake_virtio_notified(void);

/** braid_fake_virtio_offered - notifyq buffers that the device has not taken */
u32 braid_fake_virtio_offered(void);

/**
 * braid_fake_virtio_notice - the device returns a buffer of the notifyq
 * @event: written to it
 * @bytes: reported as written
 *
 * Return: false when there is no buffer.
 */
bool braid_fake_virtio_notice(u32 event, u32 bytes);

#endif /* BRAID_TESTS_KUNIT_FAKE_VIRTIO_H */
