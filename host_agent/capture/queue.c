// SPDX-License-Identifier: GPL-2.0-or-later
/* Passes bytes from one producer to one consumer, without locks. */
#include <sys/mman.h>

#include "host_agent/capture/queue.h"
#include "shared/platform.h"

#define QUEUE_BYTES	(sizeof(struct braid_queue) + \
			 (size_t)BRAID_QUEUE_SLOTS * BRAID_QUEUE_SLOT_BYTES)

struct braid_queue *braid_queue_new(void)
{
	/* Slots that are never used take no memory. */
	void *memory = mmap(NULL, QUEUE_BYTES, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

void braid_queue_free(struct braid_queue *q)
{
	if (q)
		munmap(q, QUEUE_BYTES);
}

static u8 *slot_of(const struct braid_queue *q, u64 position)
{
	return (u8 *)q->slots +
	       (size_t)q->order[position % BRAID_QUEUE_SLOTS] * BRAID_QUEUE_SLOT_BYTES;
}

/* The lowest free slot: a consumer that keeps up needs two of them. */
static u32 free_slot(const struct braid_queue *q, u64 tail)
{
	u64 busy = 0, at;
	u32 slot = 0;

	for (at = tail; at != q->head; at++)
		busy |= 1ULL << q->order[at % BRAID_QUEUE_SLOTS];
	while (busy >> slot & 1)
		slot++;
	return slot;
}

u32 braid_queue_free_slots(const struct braid_queue *q)
{
	return BRAID_QUEUE_SLOTS - (u32)(q->head - braid_load_acquire(&q->tail));
}

u8 *braid_queue_place(struct braid_queue *q, u32 bytes)
{
	u32 slot;

	if (q->head) {
		slot = q->order[(q->head - 1) % BRAID_QUEUE_SLOTS];
		if (q->used[slot] + bytes <= BRAID_QUEUE_SLOT_BYTES)
			return slot_of(q, q->head - 1) + q->used[slot];
	}
	if (!braid_queue_free_slots(q))
		return NULL;
	slot = free_slot(q, braid_load_acquire(&q->tail));
	braid_store(&q->used[slot], 0);
	q->order[q->head % BRAID_QUEUE_SLOTS] = slot;
	/* The consumer that sees this finds the former slot's bytes complete. */
	braid_store_release(&q->head, q->head + 1);
	return slot_of(q, q->head - 1);
}

void braid_queue_commit(struct braid_queue *q, u32 bytes)
{
	u32 slot = q->order[(q->head - 1) % BRAID_QUEUE_SLOTS];

	q->bytes_in += bytes;
	/* Ordered before the load of consumer_waits by who wakes the consumer. */
	__atomic_store_n(&q->used[slot], q->used[slot] + bytes, __ATOMIC_SEQ_CST);
}

u64 braid_queue_peek(struct braid_queue *q, const u8 **data)
{
	u64 head, used;

	for (;;) {
		head = braid_load_acquire(&q->head);
		if (q->tail == head)
			return 0;
		/* Ordered after the store of consumer_waits by who is about to wait. */
		used = __atomic_load_n(&q->used[q->order[q->tail % BRAID_QUEUE_SLOTS]],
				       __ATOMIC_SEQ_CST);
		if (q->slot_out < used) {
			*data = slot_of(q, q->tail) + q->slot_out;
			return used - q->slot_out;
		}
		if (q->tail + 1 == head)
			return 0;
		braid_store(&q->slot_out, 0);
		braid_store_release(&q->tail, q->tail + 1);
	}
}

void braid_queue_took(struct braid_queue *q, u64 bytes)
{
	braid_store(&q->slot_out, q->slot_out + bytes);
	__atomic_store_n(&q->bytes_out, q->bytes_out + bytes, __ATOMIC_SEQ_CST);
}

const u8 *braid_queue_oldest(const struct braid_queue *q, u64 *taken)
{
	*taken = braid_load(&q->slot_out);
	return slot_of(q, braid_load_acquire(&q->tail));
}
