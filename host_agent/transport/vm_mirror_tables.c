// SPDX-License-Identifier: GPL-2.0-or-later
/* Reads for the copy of a region, and copies its tables and clock cells. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/transport/vm_mirror_private.h"
#include "host_agent/util/cleanup.h"
#include "shared/stack.h"

#define COMMS_NS	50000000ULL	/* the table of comms is large, and changes often */
#define CELLS_NS	2000000000ULL	/* at rest; clock cells change oftener: at each poll */
#define CELLS_SHARE	20		/* sooner: after that part of the time till now ... */
#define NARROW_NS	50000000ULL	/* ... if the poll sample is not wider */
#define ABSENT_NS	2000000000ULL	/* pages that are not in memory for longer won't return */

void braid_vm_mirror_gone(struct braid_vm_mirror *m, const char *why)
{
	if (!m->mapping->gone)
		m->mapping->gone = why;
	m->mapping->taken_back = true;	/* the VM runs, and may have another one */
}

bool braid_vm_mirror_read(struct braid_vm_mirror *m, u64 now_ns)
{
	int err = braid_vm_batch_read(&m->batch);

	if (!err) {
		m->absent_ns = 0;
		return true;
	}
	if (err == -EAGAIN)
		return false;
	if (err == -ESRCH) {
		braid_vm_mirror_gone(m, "its VMM has ended");
		m->mapping->taken_back = false;
	} else if (err == -ETIMEDOUT) {
		braid_vm_mirror_gone(m, "a read of its VMM's memory did not end: userfaultfd fills it");
	} else if (err != -ENODATA && err != -EFAULT) {
		braid_vm_mirror_gone(m, "its VMM's memory cannot be read any more");
	} else if (m->absent_ns && now_ns - m->absent_ns > ABSENT_NS) {
		braid_vm_mirror_gone(m, "its pages are not in memory any more");
	} else if (!m->absent_ns) {
		m->absent_ns = now_ns;
	}
	return false;
}

/* Tables --------------------------------------------------------------------------------------- */

static u64 vm_mirror_offset(const struct braid_vm_mirror *m, const void *at)
{
	return (const u8 *)at - m->mapping->base;
}

/* Of entries below bytes_used only the flags change. */
static void vm_mirror_copy_directory(struct braid_vm_mirror *m, u64 now_ns)
{
	struct braid_directory *to = braid_vm_mirror_section(m, BRAID_SECTION_DIRECTORY);
	u64 room = m->sb.sections[BRAID_SECTION_DIRECTORY].bytes - sizeof(*to);
	u64 used = m->tables.directory.bytes_used;

	if (to->generation == m->tables.directory.generation)
		return;
	used = used < room ? used : room;
	if (used)
		braid_vm_batch_add(&m->batch, vm_mirror_offset(m, to->data), to->data, used);
	if (braid_vm_mirror_read(m, now_ns))
		*to = m->tables.directory;
}

/* Entries below nr_used are final. */
static void vm_mirror_copy_symbols(struct braid_vm_mirror *m, u64 now_ns)
{
	struct braid_symbol_table *to = braid_vm_mirror_section(m, BRAID_SECTION_SYMBOLS);
	u64 room = (m->sb.sections[BRAID_SECTION_SYMBOLS].bytes - sizeof(*to)) /
		   sizeof(*to->entries);
	u64 used = m->tables.symbols.nr_used, had = to->nr_used < room ? to->nr_used : room;

	used = used < room ? used : room;
	if (used > had)
		braid_vm_batch_add(&m->batch, vm_mirror_offset(m, &to->entries[had]),
				   &to->entries[had], (used - had) * sizeof(*to->entries));
	if (braid_vm_mirror_read(m, now_ns) && used >= had)
		*to = m->tables.symbols;
}

/* A slot that was not complete is copied again; who reads the copy checks each. */
static void vm_mirror_copy_stacks(struct braid_vm_mirror *m, u64 now_ns)
{
	u64 bytes = m->sb.sections[BRAID_SECTION_STACKS].bytes;
	struct braid_stack_table *to = braid_vm_mirror_section(m, BRAID_SECTION_STACKS);
	struct braid_stack_shape shape;
	struct braid_stack_copy stack;
	u32 slot_bytes;
	u8 *at;

	if (!bytes)
		return;
	if (to->first != m->tables.stacks.first)
		m->nr_stacks = 0;
	*to = m->tables.stacks;
	shape = braid_stack_load_shape(to, bytes);
	if (shape.nr_used <= m->nr_stacks)
		return;
	slot_bytes = braid_stack_slot_bytes(shape.nr_frames);
	at = (u8 *)to->slots + (u64)m->nr_stacks * slot_bytes;
	braid_vm_batch_add(&m->batch, vm_mirror_offset(m, at), at,
			   (u64)(shape.nr_used - m->nr_stacks) * slot_bytes);
	if (!braid_vm_mirror_read(m, now_ns))
		return;
	while (m->nr_stacks < shape.nr_used &&
	       braid_stack_load(&stack, to, &shape, m->nr_stacks))
		m->nr_stacks++;
}

/* An entry is taken if its number was the same, and even, in two readings. */
static void vm_mirror_copy_comms(struct braid_vm_mirror *m, u64 now_ns)
{
	struct braid_comm_table *to = braid_vm_mirror_section(m, BRAID_SECTION_COMMS);
	u64 room = (m->sb.sections[BRAID_SECTION_COMMS].bytes - sizeof(*to)) / sizeof(*to->entries);
	u64 nr = m->tables.comms.nr_entries < room ? m->tables.comms.nr_entries : room, k;
	braid_auto_free struct braid_comm *first = NULL, *second = NULL;
	u64 at = vm_mirror_offset(m, to->entries), bytes = nr * sizeof(*first);

	if (to->generation == m->tables.comms.generation || !nr ||
	    (m->comms_ns && now_ns - m->comms_ns < COMMS_NS))
		return;
	m->comms_ns = now_ns;
	first = malloc(bytes);
	second = malloc(bytes);
	if (!first || !second)
		return;
	braid_vm_batch_add(&m->batch, at, first, bytes);
	if (!braid_vm_mirror_read(m, now_ns))
		return;
	braid_vm_batch_add(&m->batch, at, second, bytes);
	if (!braid_vm_mirror_read(m, now_ns))
		return;
	for (k = 0; k < nr; k++)
		if (first[k].seq == second[k].seq && !(first[k].seq & 1))
			to->entries[k] = first[k];
	*to = m->tables.comms;
}

/*
 * A line of the clock cells that begins with a number, if that was the same in both looks.
 * Return: whether it was, and is new.
 */
static bool vm_mirror_copy_line(struct braid_vm_mirror *m, size_t offset)
{
	u8 *to = (u8 *)braid_vm_mirror_section(m, BRAID_SECTION_CLOCK) + offset;
	const u32 *then = (const u32 *)((const u8 *)&m->then.cells + offset);
	const u32 *now = (const u32 *)((const u8 *)&m->now.cells + offset);

	if (*now != *then || (*now & 1) || !memcmp(to, now, sizeof(*now)))
		return false;
	memcpy(to, now, BRAID_CACHELINE_BYTES);
	return true;
}

/*
 * The guest can't load our host_ns. But it stores its heartbeat, then reads the counter of its poll
 * sample. If that is the larger one, it was read after the last look without that heartbeat.
 */
static void vm_mirror_copy_poll(struct braid_vm_mirror *m)
{
	struct braid_clock_cells *to = braid_vm_mirror_section(m, BRAID_SECTION_CLOCK);

	if (vm_mirror_copy_line(m, offsetof(struct braid_clock_cells, poll_seq)))
		to->poll_host_ns = (s64)(to->poll_counter - m->beat_seen) > 0 ? m->unbeaten_ns : 0;
}

bool braid_vm_mirror_wants_cells(const struct braid_vm_mirror *m)
{
	u64 since_ns = m->now_ns - m->cells_ns;

	return !m->cells_ns || since_ns >= CELLS_NS ||
	       since_ns >= (m->now_ns - m->begun_ns) / CELLS_SHARE;
}

bool braid_vm_mirror_cells_are_due(struct braid_vm_mirror *m)
{
	const struct braid_clock_cells *cells = braid_vm_mirror_section(m, BRAID_SECTION_CLOCK);
	bool narrow = m->now_ns - m->unbeaten_ns < NARROW_NS;

	return braid_vm_mirror_wants_cells(m) &&
	       (!m->cells_ns || m->now_ns - m->cells_ns >= CELLS_NS || narrow) &&
	       (cells->poll_seq != m->now.cells.poll_seq ||
		cells->wall_seq != m->now.cells.wall_seq || cells->vm_seq != m->now.cells.vm_seq);
}

void braid_vm_mirror_add_tables(struct braid_vm_mirror *m)
{
	const struct braid_section *sections = m->sb.sections;

	m->tables_ns = m->now_ns;
	braid_vm_batch_add(&m->batch, sections[BRAID_SECTION_DIRECTORY].offset,
			   &m->tables.directory, sizeof(m->tables.directory));
	braid_vm_batch_add(&m->batch, sections[BRAID_SECTION_SYMBOLS].offset, &m->tables.symbols,
			   sizeof(m->tables.symbols));
	braid_vm_batch_add(&m->batch, sections[BRAID_SECTION_COMMS].offset, &m->tables.comms,
			   sizeof(m->tables.comms));
	if (sections[BRAID_SECTION_STACKS].bytes)
		braid_vm_batch_add(&m->batch, sections[BRAID_SECTION_STACKS].offset,
				   &m->tables.stacks, sizeof(m->tables.stacks));
}

void braid_vm_mirror_copy_tables(struct braid_vm_mirror *m, u64 now_ns)
{
	m->cells_ns = now_ns;
	vm_mirror_copy_line(m, offsetof(struct braid_clock_cells, wall_seq));
	vm_mirror_copy_poll(m);
	vm_mirror_copy_line(m, offsetof(struct braid_clock_cells, vm_seq));
	if (m->tables_ns != m->now_ns)
		return;
	vm_mirror_copy_directory(m, now_ns);
	vm_mirror_copy_symbols(m, now_ns);
	vm_mirror_copy_stacks(m, now_ns);
	vm_mirror_copy_comms(m, now_ns);
}
