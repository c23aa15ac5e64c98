/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Beacons: how a host finds a region in a guest's own memory. This header is the specification. */
#ifndef TRACEBRAID_BEACON_H
#define TRACEBRAID_BEACON_H

#include "tracebraid/types.h"

/*
 * Without a device, the driver lays the region out in pages of the guest's own: in chunks, each of
 * which is contiguous in guest-physical memory and begins with a beacon of one page (of the guest's
 * page size). The region is what is left of the chunks, in the order of their indices:
 *
 *     chunk 0                chunk 1                    chunk nr_chunks - 1
 *   +--------+--------+    +--------+--------+        +--------+--------+
 *   | beacon | region |    | beacon | region |  ...   | beacon | region |
 *   +--------+--------+    +--------+--------+        +--------+--------+
 *   address               (of each chunk: page_bytes + the rest of bytes)
 *
 * A chunk's size is a power of two, and its guest-physical address a multiple of that. Chunk 0,
 * and every other one if the guest can allocate them, has at least BRAID_BEACON_STEP bytes: a host
 * finds these at multiples of that step. Smaller chunks come last; a host finds them by the list
 * that chunk 0's beacon has of all, and confirms each by its own beacon.
 *
 * All words are little endian and written by the guest alone. A host that finds the region this way
 * never writes to it: not to the mailbox, nor to clock cells, nor to a ring. So its rings are in
 * overwrite mode, and agent_heartbeat stays 0.
 *
 *   region LIVE --> magic of each beacon stored, chunk 0's last
 *   region DOWN --BRAID_BEACON_LINGER_MS--> magic of each cleared, chunk 0's first --> pages freed
 *   buffer CLOSING --BRAID_BEACON_LINGER_MS--> its rings are removed, and their memory reused
 *
 * So what a host has copied out of a chunk was the region's if it afterwards finds the chunk's
 * magic and nonce in place, unless the guest was reset: a reset clears nothing, and the next kernel
 * reuses the pages in any order. Then only a guest_heartbeat that advances after the copy proves
 * it. When the guest reboots in order, or sleeps, the region is DOWN and the beacons stay; after it
 * wakes, the region has another incarnation.
 */

#define BRAID_BEACON_MAGIC		0x4E4F434242435254ULL	/* the bytes "TRCBBCON" */
#define BRAID_BEACON_VERSION_MAJOR	1	/* a reader refuses another major */
#define BRAID_BEACON_VERSION_MINOR	0	/* and accepts any minor */

#define BRAID_BEACON_STEP		(2u << 20)
#define BRAID_BEACON_CHUNKS		248u	/* of one region, at most */
#define BRAID_BEACON_MIN_PAGES		16u	/* of the guest, in one chunk */
#define BRAID_BEACON_LINGER_MS		100u

/* One chunk in chunk 0's list. */
struct braid_beacon_chunk {
	u64 address;			/* guest-physical, of its beacon */
	u64 bytes;			/* its beacon included */
};

/* The start of each chunk; zeros up to page_bytes. */
struct braid_beacon {
	u64 magic;			/* 0: this beacon is void */
	u16 version_major;
	u16 version_minor;
	u32 page_bytes;			/* of the guest's page: 4096 to 65536, a power of two */
	u64 nonce;			/* the same in all beacons of a region, different at each
					   load, never 0 */
	u32 index;			/* of this chunk */
	u32 nr_chunks;			/* of the region */
	u64 address;			/* guest-physical, of this beacon */
	u64 bytes;			/* of this chunk, its beacon included */
	u64 region_bytes;		/* as in the superblock */
	u64 reserved[9];
	struct braid_beacon_chunk chunks[BRAID_BEACON_CHUNKS];	/* in chunk 0; else zeros */
};

static_assert(sizeof(struct braid_beacon_chunk) == 16, "beacon's list");
static_assert(offsetof(struct braid_beacon, nonce) == 16, "beacon");
static_assert(offsetof(struct braid_beacon, address) == 32, "beacon");
static_assert(offsetof(struct braid_beacon, chunks) == 128, "beacon");
static_assert(sizeof(struct braid_beacon) == 4096, "beacon fits the smallest page");

#endif /* TRACEBRAID_BEACON_H */
