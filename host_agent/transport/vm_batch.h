/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads of a region in a guest's own memory, collected and made together. */
#ifndef BRAID_TRANSPORT_VM_BATCH_H
#define BRAID_TRANSPORT_VM_BATCH_H

#include "host_agent/transport/vm_search.h"

#define BRAID_VM_BATCH_PARTS	256u

struct braid_vm_batch {
	struct braid_vm_memory *vm;
	const struct braid_vm_region *region;
	struct braid_vm_part parts[BRAID_VM_BATCH_PARTS];
	size_t nr;
	size_t then;			/* parts from here on are read after those before */
	int err;			/* of what was read early, because there was no more room */
};

/**
 * braid_vm_batch_add - read this, too
 * @b: the batch
 * @offset: in the region
 * @to: private memory
 * @bytes: not 0, all in the region
 */
void braid_vm_batch_add(struct braid_vm_batch *b, u64 offset, void *to, u64 bytes);

/** braid_vm_batch_add_beacon - add the first bytes of chunk 0's beacon */
void braid_vm_batch_add_beacon(struct braid_vm_batch *b, void *to, u64 bytes);

/** braid_vm_batch_then - what is added from here on is read after what was added before */
void braid_vm_batch_then(struct braid_vm_batch *b);

/**
 * braid_vm_batch_read - read all that was added, before what is read by later calls
 *
 * Return: as braid_vm_memory_parts(). The batch is empty then.
 */
int braid_vm_batch_read(struct braid_vm_batch *b);

/**
 * braid_vm_batch_gather - have the next braid_vm_memory_fetch() read what was added
 *
 * braid_vm_batch_read() returns the result.
 *
 * Return: whether there is something to fetch. If not, it was read already, it failed, or nothing
 * was added.
 */
bool braid_vm_batch_gather(struct braid_vm_batch *b);

#endif /* BRAID_TRANSPORT_VM_BATCH_H */
