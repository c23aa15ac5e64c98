// SPDX-License-Identifier: GPL-2.0
/* Lays a region out and moves it through its states. */
#define pr_fmt(fmt) "tracebraid: " fmt

#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/moduleparam.h>
#include <linux/random.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/utsname.h>
#include <linux/uuid.h>

#include "guest_driver/core/counter.h"
#include "guest_driver/core/boot_id.h"
#include "guest_driver/core/region.h"
#include "shared/clock.h"
#include "shared/stack.h"
#include "tracebraid/beacon.h"

#define NR_COMMS		4096
#define MIN_SYMBOLS		16
#define MAX_SYMBOLS		(1u << 18)	/* an agent needs no longer */
#define MIN_STACKS		16
#define MIN_STACK_DEPTH		4
#define STACKS_SHARE		32	/* the table takes at most this part of the memory */
#define DIRECTORY_BYTES		(1536u << 10)
#define DRAIN_WAIT_MS		1000
#define DRAIN_STILL_MS		400	/* longer than the pauses of a running agent */
#define AGENT_GONE_AFTER	(2 * HZ)

static bool force;
module_param(force, bool, 0444);
MODULE_PARM_DESC(force, "1: overwrite shared memory that contains other data");

static unsigned int symbols = 2048;
module_param(symbols, uint, 0444);
MODULE_PARM_DESC(symbols, "capacity of the table of symbols for kernel addresses in events, 64 bytes each, 16 to 262144 (default 2048)");

static unsigned int stacks = 1024;
module_param(stacks, uint, 0444);
MODULE_PARM_DESC(stacks, "capacity of the table of stacks, 16 to 65536 (default 1024)");

static unsigned int stack_depth = 16;
module_param(stack_depth, uint, 0444);
MODULE_PARM_DESC(stack_depth, "frames of a stack, 4 to 64 (default 16); 8 bytes each");

static bool braid_region_page_is_zero(const void *page)
{
	return !memchr_inv(page, 0, BRAID_PAGE_BYTES);
}

/*
 * Waits until a word of the mailbox has a value. Waits only while the agent's heartbeat advances,
 * so a dead host causes no long delay. Return: false: timed out.
 */
static bool braid_region_await_word(const struct braid_mailbox *mailbox,
				    bool (*done)(const struct braid_mailbox *mailbox, u64 wanted),
				    u64 wanted)
{
	u64 beat, last = braid_load(&mailbox->agent_heartbeat);
	unsigned long begin = jiffies, moved = begin;

	if (!last)
		return true;
	do {
		if (done(mailbox, wanted))
			return true;
		beat = braid_load(&mailbox->agent_heartbeat);
		if (beat != last)
			moved = jiffies;
		last = beat;
		if (time_after(jiffies, moved + msecs_to_jiffies(DRAIN_STILL_MS)))
			return true;
		usleep_range(1000, 2000);
	} while (time_before(jiffies, begin + msecs_to_jiffies(DRAIN_WAIT_MS)));
	return false;
}

static bool braid_region_agent_drained(const struct braid_mailbox *mailbox, u64 incarnation)
{
	return braid_load_acquire(&mailbox->agent_drained) == incarnation;	/* (B3) */
}

static bool braid_region_agent_saw_buffers(const struct braid_mailbox *mailbox, u64 seq)
{
	return braid_load_acquire(&mailbox->agent_buffers_seq) == (u32)seq;	/* (B4) */
}

/* An agent that reads the former incarnation reports when it has drained its rings. */
static void braid_region_let_agent_drain(const struct braid_superblock *old)
{
	const struct braid_mailbox *mailbox = (const void *)old + BRAID_PAGE_BYTES;

	if (READ_ONCE(old->magic) != BRAID_MAGIC || READ_ONCE(old->state) != BRAID_STATE_DOWN)
		return;
	if (!braid_region_await_word(mailbox, braid_region_agent_drained,
				     READ_ONCE(old->incarnation)))
		pr_info("the agent did not drain the former rings within %d ms; continuing\n",
			DRAIN_WAIT_MS);
}

void braid_region_await_agent(const struct braid_guest_region *region)
{
	if (region->range.only_read)	/* no agent can say that it has copied the rings */
		msleep(BRAID_BEACON_LINGER_MS);
	else if (!braid_region_await_word(region->mailbox, braid_region_agent_saw_buffers,
				     region->layout.buffers_seq))
		pr_info("the agent did not drain a buffer within %d ms; continuing\n",
			DRAIN_WAIT_MS);
}

bool braid_region_agent_alive(struct braid_guest_region *region)
{
	u64 beat = braid_load(&region->mailbox->agent_heartbeat);

	if (beat != READ_ONCE(region->agent_beat)) {
		WRITE_ONCE(region->agent_moved_at, jiffies);
		WRITE_ONCE(region->agent_beat, beat);
	}
	return beat && time_before(jiffies, READ_ONCE(region->agent_moved_at) + AGENT_GONE_AFTER);
}

void braid_region_publish_buffers(struct braid_guest_region *region)
{
	struct braid_superblock *shared = region->shared;
	u32 seq = region->layout.buffers_seq;

	braid_store(&shared->buffers_seq, seq + 1);
	braid_fence();							/* (R3) */
	memcpy(shared->buffers, region->layout.buffers, sizeof(shared->buffers));
	shared->nr_buffers = region->layout.nr_buffers;
	region->layout.buffers_seq = seq + 2;
	braid_store_release(&shared->buffers_seq, seq + 2);		/* (R3) */
}

/*
 * Ringing may take locks and cause VM exits, which a writer cannot: it runs in any context, NMIs
 * included.
 */
static void braid_region_ring_later(const struct braid_wake *wake)
{
	irq_work_queue(&container_of(wake, struct braid_bell, wake)->work);
}

static void braid_region_ring_now(struct irq_work *work)
{
	const struct braid_guest_region *region =
		container_of(work, struct braid_guest_region, bell.work);
	u32 value = braid_load(&region->mailbox->wake_doorbell);

	if (value)
		region->range.ring(region->range.transport, value);
}

static void *braid_region_find_section(const struct braid_guest_region *region,
				       enum braid_section_id id)
{
	return region->range.base + region->layout.sections[id].offset;
}

static void braid_region_describe_guest(struct braid_superblock *sb)
{
	sb->magic = BRAID_MAGIC;
	sb->version_major = BRAID_VERSION_MAJOR;
	sb->version_minor = BRAID_VERSION_MINOR;
	sb->state = BRAID_STATE_INIT;
	do
		sb->incarnation = get_random_u64();
	while (!sb->incarnation);
	sb->counter_type = braid_counter_type();
	sb->counter_hz = braid_counter_hz();
	sb->init_counter = braid_counter();
	braid_boot_id(sb->boot_id);
	strscpy(sb->guest_name, init_utsname()->nodename, sizeof(sb->guest_name));
	strscpy(sb->kernel_release, init_utsname()->release, sizeof(sb->kernel_release));
	strscpy(sb->machine, init_utsname()->machine, sizeof(sb->machine));
}

/* Marks the superblock as being rewritten before a later byte changes. */
static void braid_region_enter_init(struct braid_guest_region *region)
{
	struct braid_superblock *sb = region->shared;

	braid_store(&sb->magic, BRAID_MAGIC);
	sb->version_major = BRAID_VERSION_MAJOR;
	sb->version_minor = BRAID_VERSION_MINOR;
	braid_store(&sb->state, BRAID_STATE_INIT);
	braid_fence();					/* (R2) */
	braid_store(&sb->incarnation, region->layout.incarnation);
	braid_fence();					/* (R2) */
	memset(braid_region_find_section(region, BRAID_SECTION_MAILBOX), 0,
	       region->layout.sections[BRAID_SECTION_RINGS].offset -
		       region->layout.sections[BRAID_SECTION_MAILBOX].offset);
}

/*
 * Memory that the host did not mark for this driver is not used. That includes blank memory,
 * because another device's memory is blank before its user starts.
 */
static int braid_region_check_invitation(const struct braid_range *range)
{
	const struct braid_superblock *old = range->base;
	u64 magic = READ_ONCE(old->magic);

	if (magic == BRAID_MAGIC || magic == BRAID_MARK || force)
		return 0;
	if (!braid_region_page_is_zero(range->base)) {
		pr_err("%s: the shared memory contains data other than a trace; load with force=1 to overwrite it\n",
		       range->name);
		return -EBUSY;
	}
	if (range->invited)
		return 0;
	pr_warn("%s: not used: the host has not marked this memory for tracing; create its file with 'tracebraid create FILE' or 'tracebraid attach DOMAIN' there, or load this driver with device=%s\n",
		range->name, range->name);
	return -ENODEV;
}

static bool braid_region_takes(const struct braid_range *range, const char *name, u32 value,
			       u32 least, u32 most)
{
	if (value >= least && value <= most)
		return true;
	pr_err("%s: %s=%u must be from %u to %u\n", range->name, name, value, least, most);
	return false;
}

/* In small memory the table has fewer than stacks= says. */
static u32 braid_region_room_for_stacks(const struct braid_range *range)
{
	u64 room = range->bytes / STACKS_SHARE / braid_stack_slot_bytes(stack_depth);

	return clamp_t(u64, room, MIN_STACKS, stacks);
}

int braid_region_plan(struct braid_guest_region *region, const struct braid_range *range)
{
	const struct braid_region_params params = {
		.region_bytes = range->bytes,
		.nr_vcpus = nr_cpu_ids,
		.nr_comms = NR_COMMS,
		.nr_symbols = symbols,
		.directory_bytes = DIRECTORY_BYTES,
		.nr_stacks = braid_region_room_for_stacks(range),
		.stack_frames = stack_depth,
		.page_bytes = PAGE_SIZE,
	};
	u64 needed;
	int err;

	memset(region, 0, sizeof(*region));
	region->range = *range;
	err = braid_region_check_invitation(range);
	if (err)
		return err;
	if (!braid_region_takes(range, "symbols", symbols, MIN_SYMBOLS, MAX_SYMBOLS) ||
	    !braid_region_takes(range, "stacks", stacks, MIN_STACKS, BRAID_STACK_SLOTS) ||
	    !braid_region_takes(range, "stack_depth", stack_depth, MIN_STACK_DEPTH,
				BRAID_STACK_FRAMES))
		return -EINVAL;
	if (braid_region_layout(&region->layout, &params, &needed)) {
		pr_err("%s: %llu KiB of shared memory is too small: the driver needs %llu KiB plus its rings; use 16M\n",
		       range->name, range->bytes >> 10, needed >> 10);
		return -ENOSPC;
	}
	if (!braid_clock_nominal_mult(braid_counter_hz())) {
		pr_err("%s: unknown frequency of this CPU's counter\n", range->name);
		return -ENODEV;
	}
	braid_region_describe_guest(&region->layout);
	region->shared = range->base;
	region->mailbox = braid_region_find_section(region, BRAID_SECTION_MAILBOX);
	region->clock = braid_region_find_section(region, BRAID_SECTION_CLOCK);
	region->comms = braid_region_find_section(region, BRAID_SECTION_COMMS);
	region->symbols = braid_region_find_section(region, BRAID_SECTION_SYMBOLS);
	region->directory = braid_region_find_section(region, BRAID_SECTION_DIRECTORY);
	region->stacks = braid_region_find_section(region, BRAID_SECTION_STACKS);
	region->directory_room = DIRECTORY_BYTES;
	region->nr_comms = NR_COMMS;
	region->nr_symbols = symbols;
	region->nr_stacks = params.nr_stacks;
	region->stack_frames = stack_depth;
	region->bell.wake.mailbox = region->mailbox;
	region->bell.wake.call = braid_region_ring_later;
	init_irq_work(&region->bell.work, braid_region_ring_now);
	return 0;
}

void braid_region_start(struct braid_guest_region *region)
{
	braid_region_let_agent_drain(region->shared);
	braid_region_enter_init(region);
	region->comms->nr_entries = NR_COMMS;
	region->symbols->nr_entries = region->nr_symbols;
	region->stacks->nr_slots = region->nr_stacks;
	region->stacks->nr_frames = region->stack_frames;
	region->stacks->first = 1;
	memcpy(region->shared, &region->layout, sizeof(region->layout));
}

void braid_region_go_live(struct braid_guest_region *region)
{
	region->layout.state = BRAID_STATE_LIVE;
	braid_store_release(&region->shared->state, BRAID_STATE_LIVE);	/* (R1) */
}

void braid_region_stop(struct braid_guest_region *region)
{
	region->layout.state = BRAID_STATE_DOWN;
	braid_store_release(&region->shared->state, BRAID_STATE_DOWN);	/* (R1) */
}

void braid_region_free(struct braid_guest_region *region)
{
	u32 k;

	irq_work_sync(&region->bell.work);
	for (k = 0; k < BRAID_MAX_BUFFERS; k++)
		kvfree(region->past[k]);
	memset(region->past, 0, sizeof(region->past));
}
