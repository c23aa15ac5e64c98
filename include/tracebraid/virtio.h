/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The virtio device "trace": what crosses its virtqueues. docs/virtio-device.md is its specification. */
#ifndef TRACEBRAID_VIRTIO_H
#define TRACEBRAID_VIRTIO_H

#include "tracebraid/types.h"

/* Experimental, until one is registered. */
#define BRAID_VIRTIO_ID			176u

/* Feature bits. */
#define BRAID_VIRTIO_F_NOTIFY		1u	/* there is a notifyq */

enum braid_virtio_queue {
	BRAID_VIRTIO_CONTROLQ = 0,
	BRAID_VIRTIO_NOTIFYQ = 1,		/* with BRAID_VIRTIO_F_NOTIFY */
	BRAID_VIRTIO_NR_QUEUES = 2,
};

/* Configuration space. Read-only for the driver. */
struct braid_virtio_config {
	u64 region_bytes;	/* what the device would like to get; 0: as the driver likes */
	u64 region_bytes_max;	/* it refuses more; 0: it has no limit of its own */
	u32 chunks_max;		/* of one region, at most; never 0 */
	u32 reserved0;
};

enum braid_virtio_command {
	/*
	 * These chunks, one behind the other, are the region. The device keeps the buffer for
	 * as long as it uses them, and returns it when it has let go of them all.
	 */
	BRAID_VIRTIO_ANNOUNCE = 1,
	/* The device is to let go of the announced region, if there is one. */
	BRAID_VIRTIO_REVOKE = 2,
};

/* The start of a controlq buffer, device-readable. */
struct braid_virtio_control {
	u32 command;		/* enum braid_virtio_command */
	u32 nr_chunks;		/* of ANNOUNCE; else 0. That many struct braid_virtio_chunk follow */
};

/* A physically contiguous piece of the region. */
struct braid_virtio_chunk {
	u64 address;		/* guest-physical, a multiple of BRAID_PAGE_BYTES */
	u64 bytes;		/* likewise, never 0 */
};

enum braid_virtio_result {
	BRAID_VIRTIO_OK = 0,		/* ANNOUNCE: used, and let go of; REVOKE: done */
	BRAID_VIRTIO_BAD = 1,		/* not understood, or a rule is broken */
	BRAID_VIRTIO_BUSY = 2,		/* ANNOUNCE: there is one already */
	BRAID_VIRTIO_REFUSED = 3,	/* ANNOUNCE: it can't be mapped, or is too large */
};

/* The end of a controlq buffer, device-writable. */
struct braid_virtio_status {
	u32 result;		/* enum braid_virtio_result */
};

enum braid_virtio_event {
	BRAID_VIRTIO_LOOK = 1,		/* at the region's mailbox */
};

/* A notifyq buffer, device-writable. */
struct braid_virtio_notice {
	u32 event;		/* enum braid_virtio_event */
};

static_assert(sizeof(struct braid_virtio_config) == 24, "config layout");
static_assert(sizeof(struct braid_virtio_control) == 8, "control layout");
static_assert(sizeof(struct braid_virtio_chunk) == 16, "chunk layout");

#endif /* TRACEBRAID_VIRTIO_H */
