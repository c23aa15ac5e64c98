/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Finds the region that lies in a guest's own memory, in the memory of its VMM. */
#ifndef BRAID_TRANSPORT_VM_SEARCH_H
#define BRAID_TRANSPORT_VM_SEARCH_H

#include "host_agent/transport/vm_memory.h"
#include "tracebraid/beacon.h"

/* A region whose chunks have all been found, and confirmed by their beacons. */
struct braid_vm_region {
	u64 nonce;
	u64 bytes;			/* of the region */
	u32 page_bytes;			/* of the guest: a chunk's beacon */
	u32 nr_chunks;
	struct {
		u64 at;			/* in the process */
		u64 bytes;		/* its beacon included */
		u64 offset;		/* in the region, of what follows the beacon */
	} chunks[BRAID_BEACON_CHUNKS];
};

struct braid_vm_search {
	u32 nr_beacons;			/* valid ones, up to BRAID_VM_BEACONS */
	u32 nr_invalid;			/* pages with the magic that are no valid beacon */
	u32 nr_incomplete;		/* valid beacons of a chunk 0 without all of its chunks */
	u32 nr_regions;
};

#define BRAID_VM_BEACONS	4096u	/* that a search takes note of */
#define BRAID_VM_TRIES		64u	/* chunks 0 that it looks for the other chunks of */
#define BRAID_VM_REGIONS	8u	/* complete ones that it reports; a guest has one */

/**
 * braid_vm_search - find regions in a process' memory
 * @vm: the memory
 * @regions: room for BRAID_VM_REGIONS
 * @search: filled
 *
 * Looks at addresses, at distances from where a mapping begins, and at offsets in files, that are
 * multiples of BRAID_BEACON_STEP, and where braid_vm_search_whole() has found a region of this
 * process. Its work is bounded by the size of the mappings, whatever is in them.
 *
 * Return: 0, also without a region; or -errno with braid_fail(): -ESRCH, -EACCES, -ETIMEDOUT.
 */
int braid_vm_search(struct braid_vm_memory *vm, struct braid_vm_region *regions,
		    struct braid_vm_search *search);

/*
 * Called about every 2 MiB. Return: 0; or -errno, with braid_fail(), to end the search.
 * @done, @total: bytes of the mappings
 */
typedef int braid_vm_search_step(void *arg, u64 done, u64 total);

/**
 * braid_vm_search_whole - look for regions at each page that is present
 * @vm: the memory
 * @step: called during the search
 * @arg: handed to it
 *
 * Where chunks of valid regions are found is kept for braid_vm_search(), by the number of the
 * process: as a remainder of BRAID_BEACON_STEP, since a guest's memory does not move in its VMM.
 * Of a process up to BRAID_VM_PLACES are kept. Takes long: see docs/performance.md.
 *
 * Return: as braid_vm_search(); -ENOMEM; or what @step returned. With braid_fail().
 */
int braid_vm_search_whole(struct braid_vm_memory *vm, braid_vm_search_step *step, void *arg);

#define BRAID_VM_PLACES		16u

/**
 * braid_vm_region_parts - where bytes of a region are
 * @region: found
 * @offset: in the region
 * @to: where they are to be copied
 * @bytes: not 0, all in the region
 * @parts: room for one more than the chunks that they are in
 *
 * Return: the number of parts.
 */
size_t braid_vm_region_parts(const struct braid_vm_region *region, u64 offset, void *to, u64 bytes,
			     struct braid_vm_part *parts);

/**
 * braid_vm_region_read - copy bytes of a region
 * @vm: the memory
 * @region: found in it
 * @offset: in the region
 * @to: room for @bytes
 * @bytes: of it
 *
 * Return: as braid_vm_memory_read(); -EINVAL for what is not in the region.
 */
int braid_vm_region_read(struct braid_vm_memory *vm, const struct braid_vm_region *region,
			 u64 offset, void *to, u64 bytes);

/**
 * braid_vm_region_holds - whether the beacons are still there: the guest has not freed the chunks
 *
 * Call it after a copy; tracebraid/beacon.h says what it proves.
 */
bool braid_vm_region_holds(struct braid_vm_memory *vm, const struct braid_vm_region *region);

#endif /* BRAID_TRANSPORT_VM_SEARCH_H */
