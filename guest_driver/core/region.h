/* SPDX-License-Identifier: GPL-2.0 */
/* The guest's side of a region, in the pages that a transport delivers. */
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
	bool invited;		/* certainly for this driver: needs no mark of the host */
	bool has_pages;		/* vmap() made it, of pages with a reference count each */
	bool only_read;		/* the host writes nothing to it: no ring may wait for a reader */
	/*
	 * Another range has taken over, and this one is free: its transport may reuse it, but not
	 * call the client here. NULL: this range stays, and others are refused.
	 */
	void (*give_way)(void);
	/*
	 * Wakes the host; NULL: the transport has no doorbell. value is the host's doorbell value,
	 * any but 0. Context: hard interrupt.
	 */
	void (*ring)(void *transport, u32 value);
	void *transport;	/* for ring() */
};

/* The last command of the host; used only by the mailbox. */
struct braid_executed {
	u32 seq;
	s32 result;
	u32 matched, unseen;
	char reason[BRAID_REASON_BYTES];	/* why result is not 0 */
	bool waits;		/* it is confirmed later, ... */
	unsigned long until;	/* ... by then at the latest: jiffies */
};

/* The doorbell for writers, usable in any context. */
struct braid_bell {
	struct braid_wake wake;
	struct irq_work work;
};

struct braid_guest_region {
	struct braid_range range;
	/* A private copy of the layout: the shared one is never read back. */
	struct braid_superblock layout;
	struct braid_superblock *shared;
	struct braid_mailbox *mailbox;
	struct braid_clock_cells *clock;
	struct braid_comm_table *comms;
	struct braid_symbol_table *symbols;
	struct braid_stack_table *stacks;
	struct braid_directory *directory;
	u32 directory_room;		/* bytes of entries */
	u32 nr_comms;
	u32 nr_stacks, stack_frames;
	u32 nr_symbols;
	u64 agent_beat;			/* agent_heartbeat as last seen ... */
	unsigned long agent_moved_at;	/* ... and when it moved: jiffies */
	struct braid_executed executed;
	/* By buffer and CPU: final counts of rings whose memory was released; or NULL. */
	struct braid_ring_past *past[BRAID_MAX_BUFFERS];
	struct braid_clock_latch external;	/* converts counter values for the rings'
						   TIME_STAMPs */
	struct braid_bell bell;
};

/**
 * braid_region_plan - plan a region over a range
 * @region: filled; the range is not written yet
 * @range: from the transport
 *
 * Return: 0; -ENOSPC (too small; the message gives the size needed); -EBUSY (the range holds
 * other data); -ENODEV (no usable counter, or the host has not marked the range for this driver).
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

/** braid_region_go_live - the layout is complete; the host may read */
void braid_region_go_live(struct braid_guest_region *region);

/** braid_region_is_live - between go_live and stop */
static inline bool braid_region_is_live(const struct braid_guest_region *region)
{
	return region->layout.state == BRAID_STATE_LIVE;
}

/**
 * braid_region_publish_buffers - announce to the host that buffers[] has changed
 * @region: live; callers serialize
 */
void braid_region_publish_buffers(struct braid_guest_region *region);

/**
 * braid_region_await_agent - wait until an agent has processed the last change of buffers[]
 * @region: live
 *
 * Waits only while an agent is alive, for at most one second. A host that only reads is given
 * BRAID_BEACON_LINGER_MS instead.
 * Context: may sleep.
 */
void braid_region_await_agent(const struct braid_guest_region *region);

/** braid_region_agent_alive - whether an agent's heartbeat moves. Context: any */
bool braid_region_agent_alive(struct braid_guest_region *region);

/** braid_region_wake - how the region's writers wake the host; NULL: no doorbell */
static inline const struct braid_wake *braid_region_wake(const struct braid_guest_region *region)
{
	return region->range.ring ? &region->bell.wake : NULL;
}

/** braid_region_free - free its private memory; no writer is active. May sleep */
void braid_region_free(struct braid_guest_region *region);

/** braid_region_stop - end all writing; the contents are kept */
void braid_region_stop(struct braid_guest_region *region);

#endif /* BRAID_CORE_REGION_H */
