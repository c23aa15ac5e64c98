/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A bounded queue of bytes in shared memory, from one thread or process to another. */
#ifndef BRAID_CAPTURE_QUEUE_H
#define BRAID_CAPTURE_QUEUE_H

#include <stdbool.h>

#include "tracebraid/types.h"

#define BRAID_QUEUE_SLOTS	64u
#define BRAID_QUEUE_SLOT_BYTES	((1u << 20) + 4096u)	/* most that is contiguous */

/*
 * The bytes are in slots, which are reused: the producer fills one after the other, and the
 * consumer takes bytes as they are committed. A consumer in another process finds what a producer
 * committed before it died. Each word has one writer, except the two flags that wake.
 */
struct braid_queue {
	u64 head;			/* producer: slots begun; the last one is being filled */
	u64 bytes_in;			/* producer: committed */
	u64 segment_end;		/* producer: bytes after which a packed file's segment ends */
	u32 finish;			/* producer: no more bytes come */
	u32 order[BRAID_QUEUE_SLOTS];	/* producer: which slots, by head */
	u64 used[BRAID_QUEUE_SLOTS];	/* producer: committed bytes of each slot */
	u64 tail;			/* consumer: slots that it is done with */
	u64 bytes_out;			/* consumer: taken */
	u64 slot_out;			/* consumer: of them, in the oldest slot */
	u64 file_bytes;			/* consumer: of a packed file, whole chunks */
	u32 finished;			/* consumer: after ->finish, it has written the file's end */
	s32 error;			/* consumer: -errno, when it takes no more */
	u32 consumer_waits;		/* set before it sleeps, cleared by the producer */
	u32 producer_waits;
	u8 slots[] __attribute__((__aligned__(4096)));
};

/** braid_queue_new - NULL when memory is out; a later fork() shares it */
struct braid_queue *braid_queue_new(void);

/** braid_queue_free - NULL is fine */
void braid_queue_free(struct braid_queue *q);

/**
 * braid_queue_place - producer: where the next bytes go
 * @q: the queue
 * @bytes: at most BRAID_QUEUE_SLOT_BYTES, contiguous
 *
 * Return: the same place until braid_queue_commit(), if @bytes fit there; NULL: the queue is full.
 */
u8 *braid_queue_place(struct braid_queue *q, u32 bytes);

/** braid_queue_commit - producer: the consumer may take the first @bytes of the place */
void braid_queue_commit(struct braid_queue *q, u32 bytes);

/** braid_queue_free_slots - producer: slots that nothing waits in */
u32 braid_queue_free_slots(const struct braid_queue *q);

/**
 * braid_queue_peek - consumer: the oldest bytes
 * Return: how many there are at *@data, 0: none.
 */
u64 braid_queue_peek(struct braid_queue *q, const u8 **data);

/** braid_queue_took - consumer: done with the first @bytes of braid_queue_peek() */
void braid_queue_took(struct braid_queue *q, u64 bytes);

/**
 * braid_queue_oldest - producer, once the consumer has failed: the slot that it was in
 * @taken: set to the bytes taken from it
 */
const u8 *braid_queue_oldest(const struct braid_queue *q, u64 *taken);

#endif /* BRAID_CAPTURE_QUEUE_H */
