/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* A ring's shared words, and where its parts are. Positions are on a circle of BRAID_POS_BITS. */
#ifndef BRAID_SHARED_RING_MAP_H
#define BRAID_SHARED_RING_MAP_H

#include "shared/platform.h"
#include "tracebraid/abi.h"

/* Words ------------------------------------------------------------------------ */

static inline u64 braid_slot_word(u64 position, u32 state, u32 id)
{
	return (position & BRAID_POS_MASK) << BRAID_SLOT_POS_SHIFT |
	       (u64)state << BRAID_SLOT_STATE_SHIFT | id;
}

static inline u64 braid_slot_position(u64 word)
{
	return word >> BRAID_SLOT_POS_SHIFT & BRAID_POS_MASK;
}

static inline u32 braid_slot_state(u64 word)
{
	return word >> BRAID_SLOT_STATE_SHIFT & BRAID_SLOT_STATE_MASK;
}

static inline u32 braid_slot_id(u64 word)
{
	return word & BRAID_SLOT_ID_MASK;
}

static inline u64 braid_commit_position(u64 word)
{
	return word >> BRAID_COMMIT_POS_SHIFT;
}

static inline u32 braid_commit_bytes(u64 word)
{
	return word & BRAID_COMMIT_BYTES_MASK;
}

/* a - b on the circle of positions */
static inline s64 braid_position_diff(u64 a, u64 b)
{
	return (s64)((a - b) << (64 - BRAID_POS_BITS)) >> (64 - BRAID_POS_BITS);
}

/* Placement of a ring ---------------------------------------------------------------- */

/* Addresses and shape of one ring, private to the side that uses it. */
struct braid_ring_map {
	struct braid_meta *meta;
	struct braid_ring_private *priv;
	u64 *slots;
	struct braid_subbuf_state *states;
	u8 *subbufs;
	u32 nr_slots;		/* power of two */
	u32 subbuf_bytes;	/* header included */
	u32 page_bytes;		/* of the meta page */
	u32 flags;		/* BRAID_BUFFER_* */
};

/* Where the states are, from the private part's start. */
static inline u32 braid_ring_states_offset(u32 nr_slots)
{
	u32 bytes = BRAID_RING_SLOTS_OFFSET + 8 * nr_slots;

	return (bytes + BRAID_CACHELINE_BYTES - 1) & ~(BRAID_CACHELINE_BYTES - 1);
}

/** braid_ring_private_used - bytes of a ring's private part, without the padding to a whole page */
static inline u32 braid_ring_private_used(u32 nr_slots)
{
	return braid_ring_states_offset(nr_slots) +
	       (nr_slots + 1) * (u32)sizeof(struct braid_subbuf_state);
}

/**
 * braid_ring_private_bytes - size of a ring's private part
 * @nr_slots: a power of two, BRAID_MIN_SLOTS to BRAID_MAX_SLOTS
 * @page_bytes: of the guest's page; a power of two, BRAID_PAGE_BYTES to BRAID_MAX_PAGE_BYTES
 *
 * Return: bytes, a multiple of @page_bytes, so that no mapping of the rest contains any of it.
 */
static inline u32 braid_ring_private_bytes(u32 nr_slots, u32 page_bytes)
{
	return (braid_ring_private_used(nr_slots) + page_bytes - 1) & ~(page_bytes - 1);
}

/** braid_ring_bytes - size of a ring: its private part, meta page and sub-buffers */
static inline u64 braid_ring_bytes(u32 nr_slots, u32 subbuf_bytes, u32 page_bytes)
{
	return (u64)braid_ring_private_bytes(nr_slots, page_bytes) + page_bytes +
	       (u64)(nr_slots + 1) * subbuf_bytes;
}

/* Sets the addresses in the private part. */
static inline void braid_ring_map_private(struct braid_ring_map *map, void *start)
{
	u8 *at = start;

	map->priv = start;
	map->slots = (u64 *)(at + BRAID_RING_SLOTS_OFFSET);
	map->states = (struct braid_subbuf_state *)(at + braid_ring_states_offset(map->nr_slots));
}

/**
 * braid_ring_map_init - find the parts of a ring of this minor version; see braid_region_ring()
 * @map: filled
 * @base: where the ring begins
 * @nr_slots: as validated, never re-read from shared memory
 * @subbuf_bytes: likewise
 * @page_bytes: likewise: of the meta page
 * @flags: likewise
 */
void braid_ring_map_init(struct braid_ring_map *map, void *base, u32 nr_slots,
			 u32 subbuf_bytes, u32 page_bytes, u32 flags);

static inline struct braid_subbuf *braid_ring_subbuf(const struct braid_ring_map *map, u32 id)
{
	return (struct braid_subbuf *)(map->subbufs + (size_t)id * map->subbuf_bytes);
}

#endif /* BRAID_SHARED_RING_MAP_H */
