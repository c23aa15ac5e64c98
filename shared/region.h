/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The region's layout: computed by the guest, validated by the host.
 *
 * Invariants:
 * - Nothing here reads or writes shared memory: functions take a private superblock, and add its
 *   offsets to a base.
 * - The host uses an offset only of a copy that braid_region_check() has accepted.
 * - Sections follow the superblock in the order of their ids, at multiples of BRAID_PAGE_BYTES,
 *   rings last. They do not move during an incarnation.
 * - A name keeps its buffer's index during an incarnation. An entry's layout is incremented each
 *   time it gets rings; while nr_rings is 0, its shape and offsets are not checked.
 * - braid_region_ring() alone finds a ring's parts: they lie elsewhere in regions of older minor
 *   versions.
 * - Callers serialize changes of a superblock.
 */
#ifndef BRAID_SHARED_REGION_H
#define BRAID_SHARED_REGION_H

#include "shared/platform.h"
#include "shared/ring.h"
#include "tracebraid/abi.h"

/* Of the mailbox's section in regions of minor 5 or less; zeros follow in its page. */
#define BRAID_MAILBOX_LEAST	offsetof(struct braid_mailbox, program)

/* Sizes of the fixed sections. */
struct braid_region_params {
	u64 region_bytes;	/* the whole range */
	u32 nr_vcpus;		/* possible ones */
	u32 nr_comms;
	u32 nr_symbols;
	u32 directory_bytes;	/* of entries */
	u32 nr_stacks;		/* 0: no table of stacks */
	u32 stack_frames;	/* room of each */
	u32 page_bytes;		/* of the guest's page; 0: BRAID_PAGE_BYTES */
};

/* Parameters of a new buffer. */
struct braid_buffer_params {
	const char *name;	/* 1 to BRAID_NAME_BYTES - 1 bytes */
	u32 flags;		/* BRAID_BUFFER_* */
	u32 subbuf_bytes;	/* multiple of 8 */
	u32 page_bytes;		/* as of the region's parameters */
	u32 nr_slots;		/* power of two, or 0: as many as fit in max_bytes */
	u64 max_bytes;		/* for all its rings, when nr_slots is 0 */
	const char *events_of;	/* the buffer whose events it uses; NULL: its own */
};

/**
 * braid_region_layout - place the fixed sections
 * @sb: sections[] and region_bytes are set; the rest is unchanged
 * @params: sizes
 * @needed_bytes: set on success and on -ENOSPC
 *
 * Return: 0, or -ENOSPC when the sections don't fit the region.
 */
int braid_region_layout(struct braid_superblock *sb, const struct braid_region_params *params,
			u64 *needed_bytes);

/**
 * braid_region_add_buffer - place one more buffer in the first gap that is large enough
 * @sb: after braid_region_layout(); buffers[] and nr_buffers are extended, or the entry that had
 *	the name before is reused
 * @params: its shape
 * @needed_bytes: the region size that the buffer needs; set on success and on -ENOSPC
 *
 * Return: its index; -ENOSPC (no gap is large enough), -EEXIST (a buffer has that name), -ENFILE
 * (BRAID_MAX_BUFFERS names were used), -EINVAL (shape or name).
 */
int braid_region_add_buffer(struct braid_superblock *sb, const struct braid_buffer_params *params,
			    u64 *needed_bytes);

/**
 * braid_region_remove_buffer - free a buffer's space; its entry keeps its name
 * @sb: the layout
 * @index: of the buffer
 */
void braid_region_remove_buffer(struct braid_superblock *sb, u32 index);

/**
 * braid_region_largest_gap - the largest gap, for a new buffer
 * @sb: the layout
 *
 * Return: bytes.
 */
u64 braid_region_largest_gap(const struct braid_superblock *sb);

/**
 * braid_region_check - check that a region is readable
 * @sb: a private copy of the superblock
 * @bytes: of the mapping
 *
 * Checks identity, version, and that every section and every ring lies inside the mapping and
 * overlaps no other. Of a region in BRAID_STATE_INIT only the identity is checked.
 *
 * Return: NULL, or a short description of the problem.
 */
const char *braid_region_check(const struct braid_superblock *sb, u64 bytes);

/**
 * braid_ring_offset - where a ring begins
 * @desc: of a checked superblock
 * @vcpu: less than nr_rings
 */
static inline u64 braid_ring_offset(const struct braid_buffer_desc *desc, u32 vcpu)
{
	return desc->rings_offset + vcpu * desc->ring_stride;
}

/**
 * braid_region_ring - find a ring's parts, in a region of any minor version
 * @desc: of a checked superblock
 * @base: where the region is mapped
 * @vcpu: less than nr_rings
 * @map: filled
 */
void braid_region_ring(const struct braid_buffer_desc *desc, void *base, u32 vcpu,
		       struct braid_ring_map *map);

#endif /* BRAID_SHARED_REGION_H */
