/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The virtio device "trace": its configuration space and the contents of its virtqueues.
 * docs/virtio-device.md is its specification.
 */
#ifndef TRACEBRAID_VIRTIO_H
#define TRACEBRAID_VIRTIO_H

#include "tracebraid/types.h"

/* Experimental, until one is registered. */
#define BRAID_VIRTIO_ID			176
/*
 * For hosts that only offer ids that they know, as QEMU does: the id of a device (pstore) that
 * Linux has no driver for. The driver binds to it if its parameter virtio_id says so.
 */
#define BRAID_VIRTIO_ID_QEMU		22

/* Feature bits. */
#define BRAID_VIRTIO_F_NOTIFY		1u	/* there is a notifyq */

enum braid_virtio_queue {
	BRAID_VIRTIO_CONTROLQ = 0,
	BRAID_VIRTIO_NOTIFYQ = 1,		/* with BRAID_VIRTIO_F_NOTIFY */
	BRAID_VIRTIO_NR_QUEUES = 2,
};

/* Configuration space. Read-only for the driver. */
struct braid_virtio_config {
	__le64 region_bytes;	/* the size that the device prefers; 0: the driver chooses */
	__le64 region_bytes_max;	/* the device's limit; 0: none */
	__le32 chunks_max;	/* of one region, at most; never 0 */
	__le32 reserved0;
};

enum braid_virtio_command {
	/*
	 * These chunks, in sequence, form the region. The device holds the buffer while it uses
	 * them, and returns it after it has released them all.
	 */
	BRAID_VIRTIO_ANNOUNCE = 1,
	/* The device must release the announced region, if any. */
	BRAID_VIRTIO_REVOKE = 2,
};

/* The start of a controlq buffer, device-readable. */
struct braid_virtio_control {
	__le32 command;		/* enum braid_virtio_command */
	__le32 nr_chunks;	/* of ANNOUNCE; else 0. That many struct braid_virtio_chunk follow */
};

/* A physically contiguous piece of the region. */
struct braid_virtio_chunk {
	__le64 address;		/* guest-physical, a multiple of BRAID_PAGE_BYTES */
	__le64 bytes;		/* likewise, never 0 */
};

enum braid_virtio_result {
	BRAID_VIRTIO_OK = 0,		/* ANNOUNCE: used and released; REVOKE: done */
	BRAID_VIRTIO_BAD = 1,		/* not understood, or a rule is broken */
	BRAID_VIRTIO_BUSY = 2,		/* ANNOUNCE: one is already announced */
	BRAID_VIRTIO_REFUSED = 3,	/* ANNOUNCE: it can't be mapped, or is too large */
};

/* The end of a controlq buffer, device-writable. */
struct braid_virtio_status {
	__le32 result;		/* enum braid_virtio_result */
};

enum braid_virtio_event {
	BRAID_VIRTIO_WAKE = 1,		/* at the region's mailbox */
};

/* A notifyq buffer, device-writable. */
struct braid_virtio_notice {
	__le32 event;		/* enum braid_virtio_event */
};

static_assert(sizeof(struct braid_virtio_config) == 24, "config layout");
static_assert(sizeof(struct braid_virtio_control) == 8, "control layout");
static_assert(sizeof(struct braid_virtio_chunk) == 16, "chunk layout");

#endif /* TRACEBRAID_VIRTIO_H */
