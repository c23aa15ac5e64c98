/* SPDX-License-Identifier: GPL-2.0 */
/* The guest's end of a region: made over the pages that a transport delivers. */
#ifndef BRAID_CORE_REGION_H
#define BRAID_CORE_REGION_H

#include <linux/irq_work.h>

#include "shared/clock.h"
#include "shared/region.h"
#include "shared/ring.h"

/* What a transport delivers. */
struct braid_range {
	void *base;		/* write-back mapped, shared with the host */
	u64 bytes;
	const char *name;	/* for messages: the device's */
	bool invited;		/* ours for sure: needs no mark of the host's */
	/*
	 * Wakes the host; NULL: the transport has no doorbell. value is what the host wants
	 * to be rung with, never 0 and otherwise anything. Context: hard interrupt.
	 */
	void (*ring)(void *transport, u32 value);
	void *transport;	/* for ring() */
};

/* The doorbell, as writers reach it: from any context. */
struct braid_bell {
	struct braid_wake wake;
	struct irq_work work;
};

struct braid_guest_region {
	struct braid_range range;
	/* A private copy of what was laid out: shared memory is never read back. */
	struct braid_superblock layout;
	struct braid_superblock *shared;
	struct braid_mailbox *mailbox;
	struct braid_clock_cells *clock;
	struct braid_comm_table *comms;
	struct braid_symbol_table *symbols;
	struct braid_directory *directory;
	u32 directory_room;		/* bytes of entries */
	u32 nr_comms;
	u32 nr_symbols;
	u64 agent_beat;			/* agent_heartbeat as last seen ... */
	unsigned long agent_moved_at;	/* ... and when it moved: jiffies */
	/* By buffer and CPU: where rings left off whose memory was given up; or NULL. */
	struct braid_ring_past *past[BRAID_MAX_BUFFERS];
	struct braid_clock_latch external;	/* what the rings' TIME_STAMPs tell of counter values */
	struct braid_bell bell;
};

/**
 * braid_region_plan - plan a region over a range
 * @region: filled; nothing is written to the range yet
 * @range: what the transport has
 *
 * Return: 0; -ENOSPC (too small; the message names the size needed); -EBUSY (the
 * range holds something that is not ours); -ENODEV (no counter to stamp with, or the
 * host has not marked the range for this driver).
 */
int braid_region_plan(struct braid_guest_region *region, const struct braid_range *range);

/**
 * braid_region_start - begin a new incarnation
 * @region: planned, its buffers placed
 *
 * Lets an agent that follows the former incarnation empty its rings first, for at
 * most a second. The state is BRAID_STATE_INIT until braid_region_go_live().
 *
 * Context: may sleep.
 */
void braid_region_start(struct braid_guest_region *region);

/** braid_region_go_live - the layout is done, the host may read */
void braid_region_go_live(struct braid_guest_region *region);

/** braid_region_is_live - between go_live and stop */
static inline bool braid_region_is_live(const struct braid_guest_region *region)
{
	return region->layout.state == BRAID_STATE_LIVE;
}

/**
 * braid_region_publish_buffers - tell the host that buffers[] has changed
 * @region: live; callers serialize
 */
void braid_region_publish_buffers(struct braid_guest_region *region);

/**
 * braid_region_await_agent - let an agent act upon the last change of buffers[]
 * @region: live
 *
 * Waits for as long as there is one that lives, but a second at most.
 * Context: may sleep.
 */
void braid_region_await_agent(const struct braid_guest_region *region);

/** braid_region_agent_alive - whether an agent's heartbeat moves. Context: any */
bool braid_region_agent_alive(struct braid_guest_region *region);

/** braid_region_wake - what the region's writers wake the host with; NULL: there is no doorbell */
static inline const struct braid_wake *braid_region_wake(const struct braid_guest_region *region)
{
	return region->range.ring ? &region->bell.wake : NULL;
}

/** braid_region_free - free what is private of it; nobody writes any more. May sleep */
void braid_region_free(struct braid_guest_region *region);

/** braid_region_stop - nothing will be written any more; all that is there stays */
void braid_region_stop(struct braid_guest_region *region);

#endif /* BRAID_CORE_REGION_H */
