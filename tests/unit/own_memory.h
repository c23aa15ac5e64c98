/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The memory of a VM, in which a fake guest's region lies in chunks with beacons. */
#ifndef BRAID_TESTS_OWN_MEMORY_H
#define BRAID_TESTS_OWN_MEMORY_H

#include "tests/unit/fake_guest.h"
#include "tracebraid/beacon.h"

#define OWN_CHUNK_ROOM	((u64)BRAID_BEACON_STEP - BRAID_PAGE_BYTES)	/* for a region */

struct own_memory {
	u8 *vm;			/* chunks, in reverse order; and room for as many */
	u64 bytes;
	u64 before;		/* bytes of the same file and mapping before that */
	u32 nr_chunks;
	u64 nonce;
	pid_t pid;		/* of the process that has it, as a VMM */
	int in, out;		/* its standard input, and output */
};

/* Moves the region of a guest that does not run. Its size is a multiple of OWN_CHUNK_ROOM. */
void own_memory_begin(struct own_memory *memory, struct fake_guest *g, u64 nonce);

/* Likewise; its VMM has three pages before the guest's memory, in the same file and mapping. */
void own_memory_begin_joined(struct own_memory *memory, struct fake_guest *g, u64 nonce);

/*
 * Likewise, without them; its process is a fork of this one, which can't take pages out of its
 * tables.
 * @more: bytes of other memory that it has, a page of each 2 MiB of which is present
 */
void own_memory_begin_small(struct own_memory *memory, struct fake_guest *g, u64 nonce, u64 more);

/* As a driver that is unloaded: the beacons are void. */
void own_memory_clear(struct own_memory *memory);

/* As a kernel that follows a reset: overwrites pages from one on, of a chunk. */
void own_memory_scribble(struct own_memory *memory, u32 chunk, u32 page, u32 nr);

/* As a reset that leaves an earlier region whole: the same bytes once more, of another nonce. */
void own_memory_leave_copy(struct own_memory *memory, u64 nonce);

/* A place in that copy, which is in chunk 0. */
void *own_memory_in_copy(const struct own_memory *memory, u64 offset);

/* The pages are not in memory, or in memory again. */
void own_memory_set_present(struct own_memory *memory, bool present);

void own_memory_end(struct own_memory *memory);

#endif /* BRAID_TESTS_OWN_MEMORY_H */
