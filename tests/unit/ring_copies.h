/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A ring whose events identify themselves, and copies of it, of which each event is checked. */
#ifndef BRAID_TESTS_RING_COPIES_H
#define BRAID_TESTS_RING_COPIES_H

#include "shared/ring.h"

#define INCARNATION	77u
#define FIRST_SEQ	(0ULL - 1000)
#define FIRST_POSITION	(BRAID_POS_MASK - 50)

struct shape {
	u32 nr_slots;
	u32 subbuf_bytes;
	u32 flags;
	bool reader;
};

/* The only one: reset by ring_copies_begin(). */
struct ring_copies {
	struct braid_ring_map ring, copy;
	struct braid_writer *w;
	size_t ring_bytes;
	u64 offered;
	u64 committed_seq;	/* one past the last event that was committed */
	u64 consumed_seq;	/* the reader's */

	/* An event that a copy must have, because the reader took it unread. */
	bool wanted, wanted_found;
	u64 wanted_seq;

	/* Of all copies. */
	u64 nr_events, nr_lost, nr_busy, nr_invalid;
};

extern struct ring_copies rc;

u64 ring_copies_counter(void);
void ring_copies_begin(const struct shape *shape);
void ring_copies_end(void);

/* An event's number in its ring is also in its payload. Returns what commits it, or 0. */
u64 ring_copies_reserve_one(void);
void ring_copies_put(u64 events);

/* Events of a span, in [from_bytes, to_bytes). */
u64 ring_copies_count_span(const struct braid_ring_map *map, const struct braid_span *span);

/* Returns whether there was one. */
bool ring_copies_read_one(struct braid_reader *r);

/* Copies the ring, and checks the copy. */
void ring_copies_copy_by(int (*copy_ring)(const struct braid_ring_map *to,
					  const struct braid_ring_map *from, u64 incarnation));

#endif /* BRAID_TESTS_RING_COPIES_H */
