/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Follows a fake guest whose region is in its own memory, and checks each event that is read. */
#ifndef BRAID_TESTS_VM_FOLLOWER_H
#define BRAID_TESTS_VM_FOLLOWER_H

#include "host_agent/transport/vm_mirror.h"
#include "tests/unit/own_memory.h"

#define VM_FOLLOWER_NONCE	0x7071727374757677ULL
#define FOLLOWED_BUFFERS	4u
#define FOLLOWED_FIRST_SEQ	(~0ULL - 99)	/* of a fake guest's rings */

/* What the guest has written to a ring: the numbers of its events, in their order. */
struct vm_written {
	u64 *numbers;
	size_t nr, capacity;
};

struct vm_follower {
	struct fake_guest *g;
	struct own_memory memory;
	struct braid_vm_mirror *mirror;
	struct braid_superblock sb;		/* as it was last taken from the copy */
	struct braid_reader readers[FOLLOWED_BUFFERS][FAKE_MAX_VCPUS];
	bool on[FOLLOWED_BUFFERS];		/* has readers */
	struct vm_written written[FOLLOWED_BUFFERS][FAKE_MAX_VCPUS];
	u64 read;
	u64 wrong;		/* events that are not what the guest wrote */
	u64 faults;		/* readings that failed */
};

/* Two rings of 16 sub-buffers, which overwrite. */
extern const struct fake_params vm_follower_usual;

/* A guest whose region lies in the memory of another process. */
void vm_follower_begin(struct vm_follower *f, const char *path, const struct fake_params *p,
		       u64 nonce);
void vm_follower_end(struct vm_follower *f);

/* Begins to follow. Several followers may be copies of one that has begun. */
void vm_follower_attach(struct vm_follower *f);
void vm_follower_detach(struct vm_follower *f);

/* Leaves the copy, and goes on in another one, of ->memory: another process' if it was replaced. */
void vm_follower_go_on(struct vm_follower *f);

/* Whether all rings of the copy add up. */
bool vm_follower_adds_up(const struct vm_follower *f);

/* Takes over changed buffers, as a recording does. */
void vm_follower_buffers(struct vm_follower *f);

/* All has been read of buffers that are about to be removed. */
void vm_follower_acknowledge(struct vm_follower *f);

/* Has the guest write, and notes what. Else the events of buffer 0 have the numbers 0, 1, ... */
void vm_follower_write(struct vm_follower *f, u32 buffer, u32 vcpu, u64 events);

/* Reads all that is readable in the copy of a ring. Return: events. */
u64 vm_follower_read(struct vm_follower *f, u32 buffer, u32 vcpu);

/* A turn of the guest's poll thread, and one of the copy. */
void vm_follower_beat(struct vm_follower *f);

/* What the copy has becomes readable in two turns. Return: events of buffer 0. */
u64 vm_follower_read_proven(struct vm_follower *f);

#endif /* BRAID_TESTS_VM_FOLLOWER_H */
