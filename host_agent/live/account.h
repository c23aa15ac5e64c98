/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The accounting of one live ring, by a read-only walk. */
#ifndef BRAID_LIVE_ACCOUNT_H
#define BRAID_LIVE_ACCOUNT_H

#include "host_agent/transport/transport.h"

/* What a walk found. All counts are events since the ring's init. */
struct braid_ring_account {
	u64 written;
	u64 read;
	u64 lost;
	u64 left;
	u64 left_bytes;		/* of unread event data */
	u32 left_subbufs;	/* that hold them */
	u64 bytes;		/* bytes that events have used in the ring, approximate: by whole
				   sub-buffers */
	u64 next_seq;		/* of the next event to be read */
	u64 end_seq;		/* of the next event that the guest will write ... */
	u64 end_position;	/* ... into this sub-buffer, ... */
	u32 end_bytes;		/* ... after this much of its data */
	u32 broken;		/* enum braid_ring_fault, the guest's word */
	bool moving;		/* the ring was faster than the walk: counts are a guess */
	char fault[160];	/* why it doesn't add up, "" when it does; fit for a terminal */
};

/* How often and how long recording into a ring was off, by the guest's word. */
struct braid_ring_off {
	bool known;		/* the guest's driver says so */
	bool now;
	u64 times;
	u64 steps;		/* of the guest's counter */
};

/* Called for each event of a walk; view is of private memory. */
typedef void (*braid_account_event_fn)(void *arg, const struct braid_event_view *view);

/**
 * braid_ring_account - walk a ring and count
 * @a: filled, also when ->fault is set
 * @map: the ring
 * @m: its mapping
 * @incarnation: the region's
 * @fn: called for each unread event, oldest first; may be NULL
 * @arg: handed to @fn
 *
 * Each sub-buffer is copied, checked to be still itself, and decoded: counts are of events found,
 * not of the guest's claims; both are compared. written = read + lost + left unless ->fault is set.
 * Must be called under braid_guard_run().
 *
 * Return: 0; -EBADMSG with braid_fail() when the ring's words are invalid; -ESTALE with
 * braid_fail() when the region was reinitialized meanwhile.
 */
int braid_ring_account(struct braid_ring_account *a, const struct braid_ring_map *map,
		       const struct braid_mapping *m, u64 incarnation,
		       braid_account_event_fn fn, void *arg);

/**
 * braid_ring_gauge - a fast version, by the guest's counts of its full sub-buffers
 * @a: filled; the guest's counts are not checked, so ->fault is meaningless here
 * @map: the ring
 * @m: its mapping
 * @incarnation: the region's
 *
 * Only the sub-buffer being written and the reader's one are copied and decoded. Must be called
 * under braid_guard_run().
 *
 * Return: as braid_ring_account().
 */
int braid_ring_gauge(struct braid_ring_account *a, const struct braid_ring_map *map,
		     const struct braid_mapping *m, u64 incarnation);

/** braid_ring_off - what the guest says; must be called under braid_guard_run() */
struct braid_ring_off braid_ring_off(const struct braid_ring_map *map);

/** braid_ring_off_ns - @steps of a counter of @hz, not 0, in ns; at most UINT64_MAX */
u64 braid_ring_off_ns(u64 steps, u64 hz);

#endif /* BRAID_LIVE_ACCOUNT_H */
