// SPDX-License-Identifier: GPL-2.0-or-later
/* Copies a region turn by turn. All that is read may be forged, and is checked as a shared region is. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "host_agent/transport/vm_batch.h"
#include "host_agent/transport/vm_mirror.h"
#include "host_agent/transport/vm_ring.h"
#include "host_agent/util/array.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "shared/region.h"

#define COMMS_NS	50000000ULL	/* the table of comms is large, and changes often */
#define ABSENT_NS	2000000000ULL	/* pages that are not in memory for longer won't return */
#define DOWN_NS		1000000000ULL	/* after it was seen LIVE, a kernel that reboots still lives */
#define SETTLE_STEP_NS	1000000
#define TRIES		16

/* The words that a turn begins and ends with. */
struct head {
	struct braid_beacon_head {
		u64 magic;
		u64 version;
		u64 nonce;
	} beacon;
	struct {
		u64 magic;
		u32 version;
		u32 state;
		u64 incarnation;
	} region;
	u32 buffers_seq;
	u64 beat;
	struct braid_clock_cells cells;
	struct braid_directory directory;
	struct braid_symbol_table symbols;
	struct braid_comm_table comms;
};

struct braid_vm_mirror {
	struct braid_vm_memory vm;
	struct braid_vm_region region;
	struct braid_mapping *mapping;
	struct braid_superblock sb;	/* validated */
	struct braid_vm_batch batch;
	struct ring {
		u32 buffer, vcpu;
		struct braid_vm_ring r;
	} *rings;
	size_t nr_rings, capacity;
	u64 *slots;			/* of one ring */
	struct head now, then;		/* at the first and the second look of a turn */
	u64 beat;			/* as it was last seen, and when */
	u64 beat_ns;
	u64 live_ns;			/* when the region was last seen LIVE; 0: never */
	u64 absent_ns;			/* since when it can't be read; 0: it can */
	u64 comms_ns;
	u64 turn, proven;		/* number of this turn, and of the last one that is proven */
};

static u64 vm_mirror_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return (u64)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void *vm_mirror_section(struct braid_vm_mirror *m, u32 id)
{
	return braid_mapping_section(m->mapping, &m->sb, id);
}

/* The head ------------------------------------------------------------------------------------- */

static void vm_mirror_add_head(struct braid_vm_mirror *m, struct head *to)
{
	const struct braid_section *sections = m->sb.sections;
	struct braid_vm_batch *b = &m->batch;

	braid_vm_batch_add_beacon(b, &to->beacon, sizeof(to->beacon));
	braid_vm_batch_add(b, 0, &to->region, sizeof(to->region));
	braid_vm_batch_add(b, offsetof(struct braid_superblock, buffers_seq), &to->buffers_seq,
			   sizeof(to->buffers_seq));
	braid_vm_batch_add(b, sections[BRAID_SECTION_MAILBOX].offset +
			   offsetof(struct braid_mailbox, guest_heartbeat), &to->beat,
			   sizeof(to->beat));
	braid_vm_batch_add(b, sections[BRAID_SECTION_CLOCK].offset, &to->cells, sizeof(to->cells));
	braid_vm_batch_add(b, sections[BRAID_SECTION_DIRECTORY].offset, &to->directory,
			   sizeof(to->directory));
	braid_vm_batch_add(b, sections[BRAID_SECTION_SYMBOLS].offset, &to->symbols,
			   sizeof(to->symbols));
	braid_vm_batch_add(b, sections[BRAID_SECTION_COMMS].offset, &to->comms, sizeof(to->comms));
}

static bool vm_mirror_is_same(const struct braid_vm_mirror *m, const struct head *head)
{
	return head->beacon.magic == BRAID_BEACON_MAGIC && head->beacon.nonce == m->region.nonce &&
	       head->region.magic == BRAID_MAGIC && head->region.incarnation == m->sb.incarnation &&
	       (head->region.state == BRAID_STATE_LIVE || head->region.state == BRAID_STATE_DOWN);
}

/*
 * Whether the guest's poll thread has run since the last look. The heartbeat is its counter: what a
 * new kernel writes over it is hardly ever a little more than it was.
 */
static bool vm_mirror_beats(struct braid_vm_mirror *m, u64 now_ns)
{
	u64 steps = m->now.beat - m->beat, elapsed_us = (now_ns - m->beat_ns) / 1000;
	u64 most = (2 * elapsed_us + 1000000) * (m->sb.counter_hz / 1000000 + 1);

	if (!steps)
		return false;
	m->beat = m->now.beat;
	m->beat_ns = now_ns;
	return steps <= most;
}

static void vm_mirror_gone(struct braid_vm_mirror *m, const char *why)
{
	if (!m->mapping->gone)
		m->mapping->gone = why;
}

/* Reads what was added. Return: whether that succeeded; else the copy is gone, or it is to be tried again. */
static bool vm_mirror_read(struct braid_vm_mirror *m)
{
	int err = braid_vm_batch_read(&m->batch);
	u64 now_ns;

	if (!err) {
		m->absent_ns = 0;
		return true;
	}
	now_ns = vm_mirror_now_ns();
	if (err == -ESRCH)
		vm_mirror_gone(m, "its VMM has ended");
	else if (err != -ENODATA && err != -EFAULT)
		vm_mirror_gone(m, "its VMM's memory cannot be read any more");
	else if (m->absent_ns && now_ns - m->absent_ns > ABSENT_NS)
		vm_mirror_gone(m, "its pages are not in memory any more");
	else if (!m->absent_ns)
		m->absent_ns = now_ns;
	return false;
}

/* Buffers -------------------------------------------------------------------------------------- */

/* A consistent copy of the superblock. Return: 0, or -EAGAIN. */
static int vm_mirror_load_superblock(struct braid_vm_mirror *m, struct braid_superblock *sb)
{
	struct braid_superblock again;
	int tries;

	for (tries = 0; tries < TRIES; tries++) {
		braid_vm_batch_add(&m->batch, 0, sb, sizeof(*sb));
		if (braid_vm_batch_read(&m->batch))
			return -EAGAIN;
		braid_vm_batch_add(&m->batch, 0, &again, sizeof(again));
		if (braid_vm_batch_read(&m->batch))
			return -EAGAIN;
		if (!(sb->buffers_seq & 1) && !memcmp(sb, &again, sizeof(again)))
			return 0;
	}
	return -EAGAIN;
}

/* Reads all slots of a ring, and finds where it is. */
static void vm_mirror_place(struct braid_vm_mirror *m, struct braid_vm_ring *r)
{
	struct braid_ring_private head;
	u64 *slots = realloc(m->slots, r->map.nr_slots * sizeof(*slots));

	if (!slots)
		return;
	m->slots = slots;
	braid_vm_batch_add(&m->batch, r->private_at, &head, sizeof(head));
	braid_vm_batch_add(&m->batch, r->private_at + BRAID_RING_SLOTS_OFFSET, slots,
			   r->map.nr_slots * sizeof(*slots));
	if (vm_mirror_read(m) && head.incarnation == m->sb.incarnation)
		braid_vm_ring_place(r, &head, slots);
}

static int vm_mirror_add_ring(struct braid_vm_mirror *m, const struct braid_superblock *sb,
			      u32 buffer, u32 vcpu)
{
	struct ring ring = { .buffer = buffer, .vcpu = vcpu };
	struct braid_ring_map map;
	int err;

	braid_mapping_ring(m->mapping, sb, buffer, vcpu, &map);
	memset(map.priv, 0, braid_ring_private_used(map.nr_slots));
	err = braid_vm_ring_begin(&ring.r, &map, m->mapping->base);
	if (!err && braid_array_push(m->rings, m->nr_rings, m->capacity, ring)) {
		braid_vm_ring_end(&ring.r);
		err = braid_out_of_memory();
	}
	if (!err)
		vm_mirror_place(m, &m->rings[m->nr_rings - 1].r);
	return err;
}

static void vm_mirror_drop_buffer(struct braid_vm_mirror *m, u32 buffer)
{
	size_t k, kept = 0;

	for (k = 0; k < m->nr_rings; k++) {
		if (m->rings[k].buffer == buffer)
			braid_vm_ring_end(&m->rings[k].r);
		else
			m->rings[kept++] = m->rings[k];
	}
	m->nr_rings = kept;
}

/* Whether a buffer's rings are other ones than before. */
static bool vm_mirror_moved(const struct braid_buffer_desc *a, const struct braid_buffer_desc *b)
{
	return a->layout != b->layout || a->nr_rings != b->nr_rings ||
	       a->rings_offset != b->rings_offset || a->ring_stride != b->ring_stride ||
	       a->nr_slots != b->nr_slots || a->subbuf_bytes != b->subbuf_bytes ||
	       a->flags != b->flags || a->private_bytes != b->private_bytes;
}

/* Takes over the buffers of a superblock that was checked. */
static int vm_mirror_set_buffers(struct braid_vm_mirror *m, const struct braid_superblock *sb)
{
	static const struct braid_buffer_desc none;
	u32 k, vcpu;
	int err = 0;

	for (k = 0; k < sb->nr_buffers && !err; k++) {
		const struct braid_buffer_desc *former = k < m->sb.nr_buffers ? &m->sb.buffers[k] :
									       &none;

		if (!vm_mirror_moved(&sb->buffers[k], former))
			continue;
		vm_mirror_drop_buffer(m, k);
		for (vcpu = 0; vcpu < sb->buffers[k].nr_rings && !err; vcpu++)
			err = vm_mirror_add_ring(m, sb, k, vcpu);
	}
	m->sb = *sb;
	memcpy(m->mapping->base, sb, sizeof(*sb));
	return err;
}

static void vm_mirror_follow_buffers(struct braid_vm_mirror *m)
{
	struct braid_superblock sb;

	if (m->now.buffers_seq == m->sb.buffers_seq || m->now.buffers_seq & 1 ||
	    vm_mirror_load_superblock(m, &sb) || sb.incarnation != m->sb.incarnation)
		return;
	if (braid_region_check(&sb, m->region.bytes) ||
	    memcmp(sb.sections, m->sb.sections, sizeof(sb.sections)))
		vm_mirror_gone(m, "its superblock is not valid any more");
	else if (vm_mirror_set_buffers(m, &sb))
		vm_mirror_gone(m, "out of memory");
}

/* Tables --------------------------------------------------------------------------------------- */

static u64 vm_mirror_offset(const struct braid_vm_mirror *m, const void *at)
{
	return (const u8 *)at - m->mapping->base;
}

/* Of entries below bytes_used only the flags change. */
static void vm_mirror_copy_directory(struct braid_vm_mirror *m)
{
	struct braid_directory *to = vm_mirror_section(m, BRAID_SECTION_DIRECTORY);
	u64 room = m->sb.sections[BRAID_SECTION_DIRECTORY].bytes - sizeof(*to);
	u64 used = m->then.directory.bytes_used;

	if (to->generation == m->then.directory.generation)
		return;
	used = used < room ? used : room;
	if (used)
		braid_vm_batch_add(&m->batch, vm_mirror_offset(m, to->data), to->data, used);
	if (vm_mirror_read(m))
		*to = m->then.directory;
}

/* Entries below nr_used are final. */
static void vm_mirror_copy_symbols(struct braid_vm_mirror *m)
{
	struct braid_symbol_table *to = vm_mirror_section(m, BRAID_SECTION_SYMBOLS);
	u64 room = (m->sb.sections[BRAID_SECTION_SYMBOLS].bytes - sizeof(*to)) /
		   sizeof(*to->entries);
	u64 used = m->then.symbols.nr_used, had = to->nr_used < room ? to->nr_used : room;

	used = used < room ? used : room;
	if (used > had)
		braid_vm_batch_add(&m->batch, vm_mirror_offset(m, &to->entries[had]),
				   &to->entries[had], (used - had) * sizeof(*to->entries));
	if (vm_mirror_read(m) && used >= had)
		*to = m->then.symbols;
}

/* An entry is taken if its number was the same, and even, in two readings. */
static void vm_mirror_copy_comms(struct braid_vm_mirror *m, u64 now_ns)
{
	struct braid_comm_table *to = vm_mirror_section(m, BRAID_SECTION_COMMS);
	u64 room = (m->sb.sections[BRAID_SECTION_COMMS].bytes - sizeof(*to)) / sizeof(*to->entries);
	u64 nr = m->then.comms.nr_entries < room ? m->then.comms.nr_entries : room, k;
	braid_auto_free struct braid_comm *first = NULL, *second = NULL;
	u64 at = vm_mirror_offset(m, to->entries), bytes = nr * sizeof(*first);

	if (to->generation == m->then.comms.generation || !nr ||
	    (m->comms_ns && now_ns - m->comms_ns < COMMS_NS))
		return;
	m->comms_ns = now_ns;
	first = malloc(bytes);
	second = malloc(bytes);
	if (!first || !second)
		return;
	braid_vm_batch_add(&m->batch, at, first, bytes);
	if (!vm_mirror_read(m))
		return;
	braid_vm_batch_add(&m->batch, at, second, bytes);
	if (!vm_mirror_read(m))
		return;
	for (k = 0; k < nr; k++)
		if (first[k].seq == second[k].seq && !(first[k].seq & 1))
			to->entries[k] = first[k];
	*to = m->then.comms;
}

/* A line of the clock cells that begins with a number, if that was the same in both looks. */
static void vm_mirror_copy_line(struct braid_vm_mirror *m, size_t offset)
{
	u8 *to = (u8 *)vm_mirror_section(m, BRAID_SECTION_CLOCK) + offset;
	const u32 *then = (const u32 *)((const u8 *)&m->then.cells + offset);
	const u32 *now = (const u32 *)((const u8 *)&m->now.cells + offset);

	if (*now == *then && !(*now & 1))
		memcpy(to, now, BRAID_CACHELINE_BYTES);
}

static bool vm_mirror_tables_changed(struct braid_vm_mirror *m)
{
	const struct braid_directory *directory = vm_mirror_section(m, BRAID_SECTION_DIRECTORY);
	const struct braid_symbol_table *symbols = vm_mirror_section(m, BRAID_SECTION_SYMBOLS);
	const struct braid_comm_table *comms = vm_mirror_section(m, BRAID_SECTION_COMMS);
	const struct braid_clock_cells *cells = vm_mirror_section(m, BRAID_SECTION_CLOCK);

	return directory->generation != m->now.directory.generation ||
	       symbols->nr_used != m->now.symbols.nr_used ||
	       symbols->missed != m->now.symbols.missed ||
	       comms->generation != m->now.comms.generation ||
	       cells->poll_seq != m->now.cells.poll_seq ||
	       cells->wall_seq != m->now.cells.wall_seq || cells->vm_seq != m->now.cells.vm_seq;
}

static void vm_mirror_copy_tables(struct braid_vm_mirror *m, u64 now_ns)
{
	struct braid_mailbox *box = vm_mirror_section(m, BRAID_SECTION_MAILBOX);

	box->guest_heartbeat = m->then.beat;
	vm_mirror_copy_line(m, offsetof(struct braid_clock_cells, wall_seq));
	vm_mirror_copy_line(m, offsetof(struct braid_clock_cells, poll_seq));
	vm_mirror_copy_line(m, offsetof(struct braid_clock_cells, vm_seq));
	vm_mirror_copy_directory(m);
	vm_mirror_copy_symbols(m);
	vm_mirror_copy_comms(m, now_ns);
}

/* A turn --------------------------------------------------------------------------------------- */

/* All that was copied in former turns. */
static bool vm_mirror_prove(struct braid_vm_mirror *m)
{
	bool any = false;
	size_t k;

	for (k = 0; k < m->nr_rings; k++)
		any |= braid_vm_ring_prove(&m->rings[k].r);
	m->proven = m->turn;
	return any;
}

static bool vm_mirror_first_look(struct braid_vm_mirror *m)
{
	size_t k;

	vm_mirror_add_head(m, &m->now);
	for (k = 0; k < m->nr_rings; k++)
		braid_vm_ring_look(&m->rings[k].r, &m->batch);
	if (!vm_mirror_read(m))
		return false;
	if (vm_mirror_is_same(m, &m->now))
		return true;
	vm_mirror_gone(m, "the guest has freed it, or was reset");
	return false;
}

static bool vm_mirror_copy(struct braid_vm_mirror *m)
{
	size_t k;

	for (k = 0; k < m->nr_rings; k++) {
		if (m->rings[k].r.placed)
			continue;
		vm_mirror_place(m, &m->rings[k].r);
		braid_vm_ring_look(&m->rings[k].r, &m->batch);	/* it is about to be lapped */
	}
	if (!vm_mirror_read(m))
		return false;
	for (k = 0; k < m->nr_rings; k++)
		braid_vm_ring_choose(&m->rings[k].r, &m->batch);
	if (!vm_mirror_read(m))
		return false;
	for (k = 0; k < m->nr_rings; k++)
		braid_vm_ring_copy(&m->rings[k].r, &m->batch);
	return vm_mirror_read(m);
}

/* Return: whether something was copied that the second look confirms. */
static bool vm_mirror_second_look(struct braid_vm_mirror *m)
{
	bool copied = false;
	size_t k;

	for (k = 0; k < m->nr_rings; k++) {
		copied |= m->rings[k].r.nr;
		braid_vm_ring_again(&m->rings[k].r, &m->batch);
	}
	vm_mirror_add_head(m, &m->then);
	if (!vm_mirror_read(m))
		return false;
	if (!vm_mirror_is_same(m, &m->then)) {
		vm_mirror_gone(m, "the guest has freed it, or was reset");
		return false;
	}
	for (k = 0; k < m->nr_rings; k++)
		braid_vm_ring_stage(&m->rings[k].r);
	return copied;
}

/*
 * The guest writes no more. Its driver clears the beacons before it frees a page; a kernel that
 * reboots lives a while. What is found DOWN may be the remains of a kernel that was reset.
 */
static bool vm_mirror_down(struct braid_vm_mirror *m, u64 now_ns, bool copied)
{
	struct braid_superblock *sb = (struct braid_superblock *)m->mapping->base;
	bool any = m->live_ns && now_ns - m->live_ns < DOWN_NS && vm_mirror_prove(m);

	if (!copied)
		sb->state = BRAID_STATE_DOWN;
	else
		m->live_ns = m->live_ns ? now_ns : 0;
	return any;
}

bool braid_vm_mirror_pull(struct braid_vm_mirror *m)
{
	bool any = false, copied = false;
	u64 now_ns = vm_mirror_now_ns();
	size_t k;

	if (m->mapping->gone || !vm_mirror_first_look(m))
		return false;
	for (k = 0; k < m->nr_rings; k++)
		any |= braid_vm_ring_lives(&m->rings[k].r);
	any |= vm_mirror_beats(m, now_ns);
	any = any && vm_mirror_prove(m);
	m->turn++;
	if (m->now.region.state == BRAID_STATE_LIVE)
		m->live_ns = now_ns;
	vm_mirror_follow_buffers(m);
	if (!vm_mirror_copy(m))
		return any;
	for (k = 0; k < m->nr_rings && !copied; k++)
		copied = m->rings[k].r.nr;
	if (copied || vm_mirror_tables_changed(m) || m->now.region.state == BRAID_STATE_DOWN) {
		copied = vm_mirror_second_look(m);
		if (m->mapping->gone)
			return any;
		vm_mirror_copy_tables(m, now_ns);
		if (m->now.region.state == BRAID_STATE_DOWN)
			any |= vm_mirror_down(m, now_ns, copied);
	}
	return any;
}

void braid_vm_mirror_settle(struct braid_vm_mirror *m)
{
	const struct timespec step = { .tv_nsec = SETTLE_STEP_NS };
	u64 end_ns = vm_mirror_now_ns() + 3000000ULL * BRAID_POLL_MS, turn;

	braid_vm_mirror_pull(m);
	for (turn = m->turn; m->proven < turn && !m->mapping->gone && braid_vm_mirror_unproven(m) &&
	     vm_mirror_now_ns() < end_ns; braid_vm_mirror_pull(m))
		nanosleep(&step, NULL);
}

/* Open and close ------------------------------------------------------------------------------- */

u64 braid_vm_mirror_unproven(const struct braid_vm_mirror *m)
{
	u64 events = 0;
	size_t k;

	for (k = 0; k < m->nr_rings; k++)
		events += braid_vm_ring_unproven(&m->rings[k].r);
	return events;
}

struct braid_mapping *braid_vm_mirror_mapping(struct braid_vm_mirror *m)
{
	return m->mapping;
}

void braid_vm_mirror_close(struct braid_vm_mirror *m)
{
	size_t k;

	if (!m)
		return;
	for (k = 0; k < m->nr_rings; k++)
		braid_vm_ring_end(&m->rings[k].r);
	free(m->rings);
	free(m->slots);
	braid_vm_memory_close(&m->vm);
	free(m);
}

/* Of several regions the one whose driver lives; others are of kernels before a reset. */
static int vm_mirror_find(struct braid_vm_mirror *m, const char *path)
{
	struct braid_vm_region regions[BRAID_VM_REGIONS];
	struct braid_vm_search search;
	struct braid_superblock sb;
	bool found = false;
	u32 k;
	int err = braid_vm_search(&m->vm, regions, &search);

	for (k = 0; !err && k < search.nr_regions; k++) {
		m->region = regions[k];
		if (regions[k].bytes < sizeof(sb) || vm_mirror_load_superblock(m, &sb) ||
		    braid_region_check(&sb, regions[k].bytes) ||
		    (found && sb.state != BRAID_STATE_LIVE))
			continue;
		m->sb = sb;
		regions[0] = regions[k];
		found = true;
	}
	if (err)
		return err;
	if (!found)
		return braid_fail(-ENODATA, "%s: no region in the guest's memory; load the driver in the guest%s",
				  path, search.nr_incomplete ? ", whose memory is not complete here" : "");
	m->region = regions[0];
	return 0;
}

static int vm_mirror_begin(struct braid_vm_mirror *m, pid_t pid, const char *path)
{
	struct braid_superblock sb;
	int err = vm_mirror_find(m, path);

	if (err)
		return err;
	sb = m->sb;
	m->mapping = braid_mapping_private(sb.region_bytes, path);
	if (!m->mapping)
		return -ENOMEM;
	m->mapping->qemu_pid = pid;
	m->mapping->one_way = true;
	m->sb.nr_buffers = 0;
	err = vm_mirror_set_buffers(m, &sb);
	if (!err)
		braid_vm_mirror_pull(m);
	if (!err && m->mapping->gone)
		err = braid_fail(-ENODATA, "%s: %s", path, m->mapping->gone);
	if (err)
		braid_mapping_close(m->mapping);
	return err;
}

int braid_vm_mirror_open(struct braid_vm_mirror **out, pid_t pid, const char *path)
{
	struct braid_vm_mirror *m = calloc(1, sizeof(*m));
	int err;

	if (!m)
		return braid_out_of_memory();
	err = braid_vm_memory_open(&m->vm, pid);
	if (err) {
		free(m);
		return err;
	}
	m->batch.vm = &m->vm;
	m->batch.region = &m->region;
	err = vm_mirror_begin(m, pid, path);
	if (err) {
		braid_vm_mirror_close(m);
		return err;
	}
	*out = m;
	return 0;
}
