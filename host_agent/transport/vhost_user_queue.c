// SPDX-License-Identifier: GPL-2.0-or-later
/* Pops buffers from a split virtqueue and returns them. Every word of it is the guest's. */
#include <errno.h>
#include <linux/virtio_ring.h>
#include <string.h>

#include "host_agent/transport/untrusted_fd.h"
#include "host_agent/transport/vhost_user_memory.h"
#include "host_agent/util/error.h"
#include "shared/platform.h"

static_assert(sizeof(struct vring_desc) == 16, "descriptor layout");
static_assert(sizeof(struct vring_used_elem) == 8, "used element layout");

void braid_vhost_queue_init(struct braid_vhost_queue *q, u32 index)
{
	memset(q, 0, sizeof(*q));
	q->index = index;
	q->kick_fd = -1;
	q->call_fd = -1;
}

void braid_vhost_queue_reset(struct braid_vhost_queue *q)
{
	braid_vhost_queue_unmap(q);
	braid_untrusted_fd_close(q->kick_fd);
	braid_untrusted_fd_close(q->call_fd);
	braid_vhost_queue_init(q, q->index);
}

void braid_vhost_queue_unmap(struct braid_vhost_queue *q)
{
	braid_vhost_window_close(&q->descriptors);
	braid_vhost_window_close(&q->available);
	braid_vhost_window_close(&q->used);
}

int braid_vhost_queue_map(struct braid_vhost_queue *q, const struct braid_vhost_memory *memory)
{
	const struct braid_vhost_ring_address *at = &q->address;
	int err;

	if (q->used.at)
		return 0;
	err = braid_vhost_window_open(&q->descriptors, memory, at->descriptors,
				      sizeof(struct vring_desc) * q->size);
	if (!err)
		err = braid_vhost_window_open(&q->available, memory, at->available,
					      offsetof(struct vring_avail, ring[q->size]));
	if (!err)
		err = braid_vhost_window_open(&q->used, memory, at->used,
					      offsetof(struct vring_used, ring[q->size]));
	if (!err && ((uintptr_t)q->descriptors.at % VRING_DESC_ALIGN_SIZE ||
		     (uintptr_t)q->available.at % VRING_AVAIL_ALIGN_SIZE ||
		     (uintptr_t)q->used.at % VRING_USED_ALIGN_SIZE))
		err = braid_fail(-EPROTO, "a virtqueue that is not aligned");
	if (err)
		braid_vhost_queue_unmap(q);
	return err;
}

/* The descriptor's part of the chain. 0 or -EPROTO with braid_fail(). */
static int add_extent(struct braid_vhost_chain *chain, const struct vring_desc *d)
{
	u32 nr = chain->nr_readable + chain->nr_writable;

	if (d->flags & ~(VRING_DESC_F_NEXT | VRING_DESC_F_WRITE))
		return braid_fail(-EPROTO, "unsupported descriptor flags 0x%x",
				  d->flags);
	if (nr == BRAID_VHOST_MAX_CHAIN)
		return braid_fail(-EPROTO, "a buffer of more than %u descriptors",
				  BRAID_VHOST_MAX_CHAIN);
	if (d->flags & VRING_DESC_F_WRITE)
		chain->nr_writable++;
	else if (chain->nr_writable)
		return braid_fail(-EPROTO, "device-readable descriptor after a writable one");
	else
		chain->nr_readable++;
	chain->extents[nr] = (struct braid_vhost_extent){ d->addr, d->len };
	return 0;
}

static int follow_chain(struct braid_vhost_queue *q, struct braid_vhost_chain *chain)
{
	struct vring_desc d = { .flags = VRING_DESC_F_NEXT, .next = chain->head };
	u32 nr;
	int err;

	chain->nr_readable = chain->nr_writable = 0;
	for (nr = 0; d.flags & VRING_DESC_F_NEXT; nr++) {
		if (d.next >= q->size)
			return braid_fail(-EPROTO, "descriptor index %u out of range (queue size %u)",
					  d.next, q->size);
		if (nr == q->size)
			return braid_fail(-EPROTO, "a chain of descriptors without an end");
		err = braid_vhost_window_copy(&q->descriptors, d.next * sizeof(d), &d, sizeof(d),
					      false);
		if (!err)
			err = add_extent(chain, &d);
		if (err)
			return err;
	}
	return 0;
}

int braid_vhost_queue_pop(struct braid_vhost_queue *q, struct braid_vhost_chain *chain)
{
	u16 available, there;
	int err = braid_vhost_window_load(&q->available, offsetof(struct vring_avail, idx),
					  &available);

	if (err || available == q->seen)
		return err;
	there = available - q->returned;
	if (there > q->size || there < (u16)(q->seen - q->returned))
		return braid_fail(-EPROTO, "a virtqueue that jumps from %u to %u buffers", q->seen,
				  available);
	err = braid_vhost_window_load(&q->available,
				      offsetof(struct vring_avail, ring[q->seen % q->size]),
				      &chain->head);
	if (!err)
		err = follow_chain(q, chain);
	if (err)
		return err;
	q->seen++;
	return 1;
}

int braid_vhost_queue_push(struct braid_vhost_queue *q, u16 head, u32 written)
{
	struct vring_used_elem element = { .id = head, .len = written };
	int err = braid_vhost_window_copy(&q->used,
					  offsetof(struct vring_used, ring[q->returned % q->size]),
					  &element, sizeof(element), true);

	if (!err)
		err = braid_vhost_window_store(&q->used, offsetof(struct vring_used, idx),
					       q->returned + 1);
	if (!err)
		q->returned++;
	return err;
}

int braid_vhost_queue_wants_call(const struct braid_vhost_queue *q)
{
	u16 flags;
	int err;

	braid_fence();	/* the used index is seen before what the driver says of it is read */
	err = braid_vhost_window_load(&q->available, offsetof(struct vring_avail, flags), &flags);
	return err ? err : !(flags & VRING_AVAIL_F_NO_INTERRUPT);
}

u64 braid_vhost_chain_bytes(const struct braid_vhost_chain *chain, bool writable)
{
	const struct braid_vhost_extent *at = chain->extents + (writable ? chain->nr_readable : 0);
	u32 nr = writable ? chain->nr_writable : chain->nr_readable, k;
	u64 bytes = 0;

	for (k = 0; k < nr; k++)
		bytes += at[k].bytes;
	return bytes;
}

int braid_vhost_chain_copy(const struct braid_vhost_chain *chain,
			   const struct braid_vhost_memory *memory, void *data, u32 bytes,
			   bool write)
{
	const struct braid_vhost_extent *at = chain->extents + (write ? chain->nr_readable : 0);
	u32 extent;
	int err;

	for (; bytes; bytes -= extent, data = (u8 *)data + extent, at++) {
		extent = bytes < at->bytes ? bytes : at->bytes;
		err = braid_vhost_memory_copy(memory, at->address, data, extent, write);
		if (err)
			return err;
	}
	return 0;
}
