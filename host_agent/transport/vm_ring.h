/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The copy of a ring that lies in a guest's own memory: new events are appended to it, as a writer
 * would do that overwrites. docs/guest-memory.md, "Following", says why each event in it is what
 * the guest wrote.
 *
 * Invariants:
 * - What is read is private before it is checked, and checked before it is used.
 * - Bytes become readable in the copy only after the original was looked at a second time, and
 *   after braid_vm_ring_prove().
 * - Positions and sequence numbers are the original's. Ids of the copy are its own: its reader
 *   exchanges them, and so may one in the guest, of the original's.
 * - A turn's work is bounded, whatever the guest does.
 */
#ifndef BRAID_TRANSPORT_VM_RING_H
#define BRAID_TRANSPORT_VM_RING_H

#include "host_agent/transport/vm_search.h"
#include "shared/ring.h"

#define BRAID_VM_RING_WINDOW	32u	/* sub-buffers that a turn copies at most */

/* Words of the original, as they were at one time. */
struct braid_vm_ring_look {
	u64 slots[BRAID_VM_RING_WINDOW];		/* from that of ->next on */
	struct braid_subbuf_state states[BRAID_VM_RING_WINDOW];	/* of their sub-buffers */
};

struct braid_vm_ring {
	struct braid_ring_map map;	/* the copy */
	u64 private_at, subbufs_at;	/* the original, in its region */
	struct braid_reader_block past;	/* of the ring's reader before it was resized, or of the
					   reader of the copy before a migration */
	bool left;			/* its memory may be another ring's: it is not read */
	bool placed;			/* next is valid; else a turn looks at all slots */
	bool older;			/* not placed: it has less than was read of it */
	u64 next;			/* position that is to be copied, or is being */

	/* The sub-buffer at next, if a part of it was copied; begun: */
	bool begun;
	u32 id, from_id;		/* in the copy, in the original */
	u64 commit;			/* as it was at the second look ... */
	bool unseen;			/* ... or, before the first one, the least that it can be */

	/* Else, the slot's word at the second look; 0: unknown. */
	u64 slot;

	/* Sub-buffer in the original that the first position after what is copied will have. */
	u32 coming_id;
	bool coming;			/* it is known */

	/* Copied, and not proven: commit words and ids in the copy, by slot; 0: none. */
	struct braid_vm_staged {
		u64 commit;
		u32 id;
	} *staged;
	u64 oldest_staged;		/* position; all from there to next may be staged */

	/* A turn. */
	u32 window;			/* slots looked at */
	u32 nr;				/* sub-buffers to be copied: consecutive, from next on */
	struct braid_vm_ring_look look, second;
	struct braid_subbuf_state coming_state;	/* read with the first look, after its slots */
};

struct braid_vm_batch;

/**
 * braid_vm_ring_begin - get ready to copy a ring
 * @r: zeros
 * @map: of the copy, in memory that is zeros
 * @base: where the copy's region begins
 *
 * Return: 0, or -ENOMEM with braid_fail().
 */
int braid_vm_ring_begin(struct braid_vm_ring *r, const struct braid_ring_map *map, const u8 *base);

/** braid_vm_ring_end - the reverse */
void braid_vm_ring_end(struct braid_vm_ring *r);

/**
 * braid_vm_ring_place - find the oldest position that can be copied
 * @r: not placed
 * @head: the original's private part, up to its slots
 * @slots: all slots of the original
 *
 * At first all that the ring has, and ->past has not read; after the writer has lapped the copy,
 * not the oldest eighth, which it is about to overwrite.
 */
void braid_vm_ring_place(struct braid_vm_ring *r, const struct braid_ring_private *head,
			 const u64 *slots);

/** braid_vm_ring_leave - read it no more; what is kept aside can still be proven */
void braid_vm_ring_leave(struct braid_vm_ring *r);

/**
 * braid_vm_ring_look - add a turn's first look: slots, and the state of what is begun
 * @r: the ring
 * @batch: to add to
 * @brief: only what braid_vm_ring_has_news() needs
 */
void braid_vm_ring_look(struct braid_vm_ring *r, struct braid_vm_batch *batch, bool brief);

/** braid_vm_ring_has_news - whether a look shows that there may be something to copy */
bool braid_vm_ring_has_news(const struct braid_vm_ring *r);

/**
 * braid_vm_ring_lives - whether a look shows something that the guest wrote after the last turn
 *
 * That is a later commit word of the same position, or the next position opened: 42 bits of a
 * position that began at random, which what a new kernel leaves in memory does not have.
 */
bool braid_vm_ring_lives(const struct braid_vm_ring *r);

/** braid_vm_ring_choose - decide what is to be copied; add the states that are not known yet */
void braid_vm_ring_choose(struct braid_vm_ring *r, struct braid_vm_batch *batch);

/** braid_vm_ring_copy - check these states; add the bytes */
void braid_vm_ring_copy(struct braid_vm_ring *r, struct braid_vm_batch *batch);

/** braid_vm_ring_again - add the second look, if something is being copied */
void braid_vm_ring_again(struct braid_vm_ring *r, struct braid_vm_batch *batch);

/** braid_vm_ring_stage - keep aside what the second look confirms */
void braid_vm_ring_stage(struct braid_vm_ring *r);

/**
 * braid_vm_ring_prove - make readable what is kept aside: the guest lived after it was copied
 *
 * Return: whether there was something.
 */
bool braid_vm_ring_prove(struct braid_vm_ring *r);

/** braid_vm_ring_unproven - events that are kept aside */
u64 braid_vm_ring_unproven(const struct braid_vm_ring *r);

#endif /* BRAID_TRANSPORT_VM_RING_H */
