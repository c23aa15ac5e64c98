/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files of the copy of a region share. */
#ifndef BRAID_TRANSPORT_VM_MIRROR_PRIVATE_H
#define BRAID_TRANSPORT_VM_MIRROR_PRIVATE_H

#include "host_agent/transport/vm_batch.h"
#include "host_agent/transport/vm_mirror.h"
#include "host_agent/transport/vm_ring.h"

/* The words that a turn begins and ends with. */
struct braid_vm_head {
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
	struct braid_clock_cells cells;
};

struct braid_vm_mirror {
	struct braid_vm_memory vm;
	struct braid_vm_region region;
	struct braid_mapping *mapping;
	struct braid_superblock sb;	/* validated; its buffers are those of the copy */
	struct braid_superblock next;	/* likewise, those that the guest has */
	u32 changed;			/* buffers that differ; a bit each */
	u32 closing;			/* buffers that the guest is about to remove; likewise */
	u32 copied;			/* of those: nothing is left to be copied */
	u32 tries;			/* to take them over */
	u64 changed_ns;			/* since when; 0: none do */
	u64 closing_ns;			/* since when the copy shows that some go; 0: it does not */
	struct braid_reader_block *past;	/* readers of rings left, by buffer and vCPU */
	struct braid_vm_batch batch;
	struct braid_vm_mirror_ring {
		u32 buffer, vcpu;
		struct braid_vm_ring r;
	} *rings;
	size_t nr_rings, capacity;
	u64 *slots;			/* of one ring */
	struct braid_vm_head now, then;		/* at the first and the second look of a turn */
	struct {				/* at the second one */
		struct braid_directory directory;
		struct braid_symbol_table symbols;
		struct braid_stack_table stacks;
		struct braid_comm_table comms;
	} tables;
	u64 beat_seen;			/* the heartbeat at the first look */
	u64 beat;			/* as it was last seen, and when */
	u64 beat_ns;
	u64 unbeaten_ns;		/* the last look that did not show it; 0: none */
	u64 looked_ns;			/* the look before this one ... */
	u64 begun_ns;			/* ... and the first one */
	u64 live_ns;			/* when the region was last seen LIVE; 0: never */
	u64 beacon_ns;			/* when the first look last included the beacon */
	u64 absent_ns;			/* since when it can't be read; 0: it can */
	u64 comms_ns;			/* when the comms were copied last */
	u32 nr_stacks;			/* slots of the table of stacks, all copied complete */
	u64 now_ns;			/* before this turn's first look */
	u64 seek_ns;			/* when the next search for another region is due */
	u64 other_nonce, other_beat;	/* of the other region that the last one found */
	u64 rest_ns;			/* until the next turn */
	u64 cells_ns;			/* when clock cells were copied last ... */
	u64 tables_ns;			/* ... and the second look last had the tables */
	enum braid_vm_step {		/* of a turn: what was read last */
		BRAID_VM_BEGIN, BRAID_VM_LOOKED, BRAID_VM_CHOSEN, BRAID_VM_LOOKED_AGAIN,
	} step;
	bool done;			/* the turn has no more steps */
	bool news;			/* there are new events */
	bool staged;			/* events may be kept aside that are not proven */
	bool brief;			/* the last turn copied nothing: the first look is brief */
	u64 turn, proven;		/* number of this turn; of the last one proven */
};

static inline void *braid_vm_mirror_section(struct braid_vm_mirror *m, u32 id)
{
	return braid_mapping_section(m->mapping, &m->sb, id);
}

/* vm_mirror_find.c ------------------------------------------------------------------------- */

u64 braid_vm_mirror_now_ns(void);

/* Sets ->region and ->sb. Return: 0; -ENODATA: none; or -errno. With braid_fail(). */
int braid_vm_mirror_find(struct braid_vm_mirror *m, const char *path);

/* Without a heartbeat for a second, and now and then: the copy is gone if another region lives. */
void braid_vm_mirror_seek(struct braid_vm_mirror *m);

/* vm_mirror_buffers.c ---------------------------------------------------------------------- */

/* A consistent copy of the superblock. Return: 0, or -EAGAIN. */
int braid_vm_mirror_load_superblock(struct braid_vm_mirror *m, struct braid_superblock *sb);

/* Reads all slots of a ring, and finds where it is. */
void braid_vm_mirror_place(struct braid_vm_mirror *m, struct braid_vm_ring *r);

/*
 * Takes over the buffers of ->sb. @former: NULL, or whose readers go on. Return: 0 or -errno with
 * braid_fail().
 */
int braid_vm_mirror_begin_buffers(struct braid_vm_mirror *m, const struct braid_vm_mirror *former);

/* Before the second look: notes the CLOSING buffers of which this turn copies nothing more. */
void braid_vm_mirror_note_copied(struct braid_vm_mirror *m);

/* Follows what the first look shows of them. */
void braid_vm_mirror_follow_buffers(struct braid_vm_mirror *m);

/* vm_mirror_tables.c ----------------------------------------------------------------------- */

/* There is no more to come, for this reason, unless there was one before. */
void braid_vm_mirror_gone(struct braid_vm_mirror *m, const char *why);

/*
 * Reads what was added to the batch. Return: whether that succeeded; if not, the copy is gone, or
 * the next turn tries again.
 */
bool braid_vm_mirror_read(struct braid_vm_mirror *m, u64 now_ns);

/*
 * Whether the first look is to have the clock cells. The clock's bound becomes smaller with each
 * narrow poll sample, but ever less.
 */
bool braid_vm_mirror_wants_cells(const struct braid_vm_mirror *m);

/*
 * Whether the first look shows that clock cells are to be copied, and tables with them. Tables that
 * new events refer to are copied in the turn that copies the events.
 */
bool braid_vm_mirror_cells_are_due(struct braid_vm_mirror *m);

/* Adds the tables' heads to the second look. */
void braid_vm_mirror_add_tables(struct braid_vm_mirror *m);

/* Copies those that the second look shows to have changed, and the clock cells. */
void braid_vm_mirror_copy_tables(struct braid_vm_mirror *m, u64 now_ns);

#endif /* BRAID_TRANSPORT_VM_MIRROR_PRIVATE_H */
