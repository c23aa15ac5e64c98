// SPDX-License-Identifier: GPL-2.0-or-later
/* Collects reads. */
#include <errno.h>

#include "host_agent/transport/vm_batch.h"
#include "shared/platform.h"
#include "tracebraid/abi.h"

/* What is added at a time, and the parts that it has in the smallest chunks. */
#define MOST_BYTES	(1u << 20)
#define MOST_PARTS	(2 + MOST_BYTES / (BRAID_BEACON_MIN_PAGES * BRAID_PAGE_BYTES / 2))

static void vm_batch_flush(struct braid_vm_batch *b)
{
	if (!b->err)
		b->err = braid_vm_memory_parts(b->vm, b->parts, b->then);
	braid_fence();
	if (!b->err)
		b->err = braid_vm_memory_parts(b->vm, b->parts + b->then, b->nr - b->then);
	b->nr = b->then = 0;
}

void braid_vm_batch_add(struct braid_vm_batch *b, u64 offset, void *to, u64 bytes)
{
	u64 n;

	/* Whatever a guest claims, nothing else of the VMM is read. */
	if (offset > b->region->bytes || bytes > b->region->bytes - offset) {
		b->err = -EINVAL;
		return;
	}
	for (; bytes; offset += n, to = (u8 *)to + n, bytes -= n) {
		n = bytes < MOST_BYTES ? bytes : MOST_BYTES;
		if (b->nr + MOST_PARTS > BRAID_VM_BATCH_PARTS)
			vm_batch_flush(b);
		b->nr += braid_vm_region_parts(b->region, offset, to, n, b->parts + b->nr);
	}
}

void braid_vm_batch_add_beacon(struct braid_vm_batch *b, void *to, u64 bytes)
{
	if (b->nr == BRAID_VM_BATCH_PARTS)
		vm_batch_flush(b);
	b->parts[b->nr++] = (struct braid_vm_part){ b->region->chunks[0].at, to, bytes };
}

void braid_vm_batch_then(struct braid_vm_batch *b)
{
	b->then = b->nr;
}

int braid_vm_batch_read(struct braid_vm_batch *b)
{
	int err;

	vm_batch_flush(b);
	err = b->err;
	b->err = 0;
	braid_fence();
	return err;
}

bool braid_vm_batch_gather(struct braid_vm_batch *b)
{
	bool waits = false;

	if (!b->err)
		waits = braid_vm_memory_gather(b->vm, b->parts, b->then, &b->err);
	if (!b->err)
		waits |= braid_vm_memory_gather(b->vm, b->parts + b->then, b->nr - b->then,
						&b->err);
	b->nr = b->then = 0;
	return waits;
}
