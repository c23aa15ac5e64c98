/* SPDX-License-Identifier: GPL-2.0 */
/* A virtio device for tests, in the kernel that drives it: as good or as bad as a test wants it. */
#ifndef BRAID_TESTS_KUNIT_FAKE_VIRTIO_H
#define BRAID_TESTS_KUNIT_FAKE_VIRTIO_H

#include "tracebraid/virtio.h"

#define BRAID_FAKE_CHUNKS	64

struct braid_fake_virtio {
	/* Set by the test, before it plugs. */
	struct braid_virtio_config config;
	bool legacy;			/* it does not offer VERSION_1 */
	bool deaf;			/* it does not answer REVOKE */
	bool no_queues;			/* it has none for the driver */
	bool refuse;			/* it returns ANNOUNCE at once, with ... */
	u32 result;			/* ... this, and ... */
	u32 result_bytes;		/* ... so many bytes of it */
	/* What it has seen. */
	u32 announced, revoked;		/* commands */
	u32 state_at_revoke;		/* of the region */
	struct braid_virtio_chunk chunks[BRAID_FAKE_CHUNKS];
	u32 nr_chunks;
};

extern struct braid_fake_virtio braid_fake_virtio;

/** braid_fake_virtio_plug - the device comes. Return: whether a driver took it */
bool braid_fake_virtio_plug(void);

/** braid_fake_virtio_unplug - it goes, if it is there; what it has seen stays */
void braid_fake_virtio_unplug(void);

/** braid_fake_virtio_freeze - the driver puts the device to sleep, as virtio's core asks it to */
int braid_fake_virtio_freeze(void);

/** braid_fake_virtio_restore - and wakes it. Return: 0, or -errno of the driver */
int braid_fake_virtio_restore(void);

/** braid_fake_virtio_region - the announced memory's first chunk, as the host sees it */
void *braid_fake_virtio_region(void);

/** braid_fake_virtio_notified - how often the driver has notified the device about the notifyq */
int braid_fake_virtio_notified(void);

/** braid_fake_virtio_offered - buffers of the notifyq that the device has not taken */
u32 braid_fake_virtio_offered(void);

/**
 * braid_fake_virtio_notice - the device returns a buffer of the notifyq
 * @event: in it
 * @bytes: of it written
 *
 * Return: false when there is no buffer.
 */
bool braid_fake_virtio_notice(u32 event, u32 bytes);

#endif /* BRAID_TESTS_KUNIT_FAKE_VIRTIO_H */
