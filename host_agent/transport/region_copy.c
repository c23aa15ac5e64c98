// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Copies a region while its guest runs: docs/ring.md, "Copying". Whatever is in it, the superblock's
 * checked copy bounds what is read.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include "host_agent/transport/post_mortem.h"
#include "host_agent/transport/region_copy.h"
#include "host_agent/util/error.h"
#include "shared/region.h"

#define COPY_TRIES	8
#define COPY_STEP_NS	25000000	/* between two tries: a guest changes its buffers rarely */
#define ENTRY_TRIES	64		/* of a table's entry that the guest changes */
#define BEATS		3		/* times BRAID_POLL_MS: heartbeats of a running guest in this time */

struct copy_call {
	const struct braid_mapping *from;
	struct braid_mapping *to;
	const struct braid_superblock *sb;
	bool last;		/* no further try: what is invalid, or half changed, stays so */
};

struct pair {
	const void *from;
	void *to;
	u64 bytes;		/* of the section */
};

static struct pair section(const struct copy_call *c, u32 id)
{
	return (struct pair){
		.from = braid_mapping_section(c->from, c->sb, id),
		.to = braid_mapping_section(c->to, c->sb, id),
		.bytes = c->sb->sections[id].bytes,
	};
}

/* Tables ----------------------------------------------------------------------------------- */

/*
 * What begins with a sequence number that is odd while the guest changes it. Return: whether it was
 * unchanged; if not, the copy is zeros.
 */
static bool copy_stable(void *to, const void *from, size_t bytes)
{
	int tries;

	for (tries = 0; tries < ENTRY_TRIES && braid_load((const u32 *)from); tries++)
		if (braid_stable_copy(to, from, bytes, 0))
			return true;
	memset(to, 0, bytes);
	return tries < ENTRY_TRIES;
}

static void copy_comms(const struct copy_call *c)
{
	struct pair p = section(c, BRAID_SECTION_COMMS);
	const struct braid_comm_table *from = p.from;
	struct braid_comm_table *to = p.to;
	u64 room = (p.bytes - sizeof(*from)) / sizeof(from->entries[0]), k;
	u32 nr = braid_load(&from->nr_entries);

	to->generation = braid_load_acquire(&from->generation);		/* (M2) */
	to->nr_entries = nr;
	for (k = 0; k < nr && k < room; k++)
		copy_stable(&to->entries[k], &from->entries[k], sizeof(from->entries[k]));
}

/* Entries below nr_used are final. */
static void copy_symbols(const struct copy_call *c)
{
	struct pair p = section(c, BRAID_SECTION_SYMBOLS);
	const struct braid_symbol_table *from = p.from;
	struct braid_symbol_table *to = p.to;
	u64 room = (p.bytes - sizeof(*from)) / sizeof(from->entries[0]);
	u32 used = braid_load_acquire(&from->nr_used);			/* (Y1) */

	to->nr_used = used;
	to->nr_entries = braid_load(&from->nr_entries);
	to->missed = braid_load(&from->missed);
	memcpy(to->entries, from->entries, (used < room ? used : room) * sizeof(from->entries[0]));
}

/* A slot that is being written has another check than its bytes: who reads the copy finds that. */
static void copy_stacks(const struct copy_call *c)
{
	struct pair p = section(c, BRAID_SECTION_STACKS);

	if (p.bytes)
		memcpy(p.to, p.from, p.bytes);
}

/* Of entries below bytes_used only the flags change. */
static void copy_directory(const struct copy_call *c)
{
	struct pair p = section(c, BRAID_SECTION_DIRECTORY);
	const struct braid_directory *from = p.from;
	struct braid_directory *to = p.to;
	u64 room = p.bytes - sizeof(*from);
	u32 used;

	to->generation = braid_load_acquire(&from->generation);
	to->nr_entries = braid_load(&from->nr_entries);
	to->nr_reused = braid_load(&from->nr_reused);
	used = braid_load_acquire(&from->bytes_used);			/* (D1) */
	to->bytes_used = used;
	memcpy(to->data, from->data, used < room ? used : room);
}

/* The cells that the host needs after the guest's end: those with sequence numbers. */
static bool copy_clock(const struct copy_call *c)
{
	const struct pair p = section(c, BRAID_SECTION_CLOCK);
	const struct braid_clock_cells *from = p.from;
	struct braid_clock_cells *to = p.to;

	copy_stable(&to->poll_seq, &from->poll_seq, BRAID_CACHELINE_BYTES);
	copy_stable(&to->vm_seq, &from->vm_seq, BRAID_CACHELINE_BYTES);
	return copy_stable(&to->wall_seq, &from->wall_seq, BRAID_CACHELINE_BYTES);
}

static void copy_mailbox(const struct copy_call *c)
{
	struct pair p = section(c, BRAID_SECTION_MAILBOX);

	memcpy(p.to, p.from, BRAID_MAILBOX_LEAST);
}

/* Rings ------------------------------------------------------------------------------------ */

/*
 * A ring that a guest is emptying in place looks invalid, too. Return: 0: invalid rings are invalid in
 * the copy, and its reader reports them; -EAGAIN.
 */
static int copy_rings(const struct copy_call *c)
{
	struct braid_ring_map from, to;
	u32 k, vcpu;
	int err;

	for (k = 0; k < c->sb->nr_buffers; k++) {
		for (vcpu = 0; vcpu < c->sb->buffers[k].nr_rings; vcpu++) {
			braid_mapping_ring(c->from, c->sb, k, vcpu, &from);
			braid_mapping_ring(c->to, c->sb, k, vcpu, &to);
			err = braid_ring_copy(&to, &from, c->sb->incarnation);
			if (err == -EAGAIN || (err && !c->last))
				return -EAGAIN;
		}
	}
	return 0;
}

/* Tables after the rings: they describe all events in these. */
static int copy_all(void *arg)
{
	const struct copy_call *c = arg;
	int err;

	memcpy(c->to->base, c->sb, sizeof(*c->sb));
	err = copy_rings(c);
	if (err)
		return err;
	copy_directory(c);
	copy_symbols(c);
	copy_stacks(c);
	copy_comms(c);
	if (!copy_clock(c) && !c->last)
		return -EAGAIN;
	copy_mailbox(c);
	return braid_mapping_same(c->from, c->sb->incarnation) &&		/* (R2) */
	       braid_mapping_buffers_seq(c->from) == c->sb->buffers_seq ?	/* (R3) */
	       0 : -EAGAIN;
}

/* The guest -------------------------------------------------------------------------------- */

/* Whether the guest polls its mailbox. */
static bool is_running(const struct braid_mapping *from, const struct braid_mapping *copy,
		       const struct braid_superblock *sb)
{
	const struct timespec step = { .tv_nsec = BRAID_POLL_MS * 1000000 };
	const struct braid_mailbox *box = braid_mapping_section(from, sb, BRAID_SECTION_MAILBOX);
	const struct braid_mailbox *then = braid_mapping_section(copy, sb, BRAID_SECTION_MAILBOX);
	u64 beat;
	int k;

	for (k = 0; k < BEATS && sb->state == BRAID_STATE_LIVE; k++) {
		nanosleep(&step, NULL);
		if (!braid_guard_copy(from->base, from->bytes, &beat, &box->guest_heartbeat,
				      sizeof(beat)) &&
		    beat != then->guest_heartbeat)
			return true;
	}
	return false;
}

/* One try. A guest that died while it changed its buffers left them so. */
static int copy_once(struct braid_mapping **out, const struct braid_mapping *from,
		     struct braid_superblock *sb, bool last)
{
	struct copy_call call = { .from = from, .sb = sb, .last = last };
	int err = braid_mapping_probe(from, sb, last);

	if (err)
		return err == -EINPROGRESS ? -EAGAIN : err;
	call.to = braid_mapping_private(sb->region_bytes, from->path);
	if (!call.to)
		return -ENOMEM;
	err = braid_guard_run(from->base, from->bytes, copy_all, &call);
	if (!err) {
		*out = call.to;
		return 0;
	}
	braid_mapping_close(call.to);
	if (err != -EAGAIN)
		return err;
	return braid_fail(err, "%s: busy: it changed during all %d attempts to copy it; try again, or record it with 'tracebraid record -r %s'",
			  from->path, COPY_TRIES, from->path);
}

int braid_region_copy(struct braid_mapping **out, const struct braid_mapping *from, bool *running)
{
	const struct timespec step = { .tv_nsec = COPY_STEP_NS };
	struct braid_superblock sb;
	int tries, err = -EAGAIN;

	for (tries = 0; tries < COPY_TRIES && err == -EAGAIN; tries++) {
		if (tries)
			nanosleep(&step, NULL);
		err = copy_once(out, from, &sb, tries == COPY_TRIES - 1);
	}
	if (!err)
		*running = is_running(from, *out, &sb);
	return err;
}
