// SPDX-License-Identifier: GPL-2.0-or-later
/* A region in a guest's own memory that moves, or goes back: migrations, and restored snapshots. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/check.h"
#include "tests/unit/need.h"
#include "tests/unit/vm_follower.h"

#define DUE_US	2100000	/* after which clock cells are copied again */

static char region_path[] = "/tmp/test_vm_moves.XXXXXX";

/* Turns of a guest that stands still, step by step. */
static void limits_single_poll_samples(void)
{
	struct braid_clock_cells *cells, *theirs;
	struct braid_mailbox *box;
	struct vm_follower f;
	u64 before;

	vm_follower_begin(&f, region_path, &vm_follower_usual, VM_FOLLOWER_NONCE);
	vm_follower_attach(&f);
	cells = braid_mapping_section(braid_vm_mirror_mapping(f.mirror), &f.sb,
				      BRAID_SECTION_CLOCK);
	fake_guest_look(f.g);
	braid_vm_mirror_pull(f.mirror);

	/* Seen in the middle of the guest's turn: the sample is of the turn before. */
	theirs = (void *)(f.g->base + f.sb.sections[BRAID_SECTION_CLOCK].offset);
	box = (void *)(f.g->base + f.sb.sections[BRAID_SECTION_MAILBOX].offset);
	usleep(DUE_US);	/* until the cells are due again */
	before = theirs->poll_counter;
	box->guest_heartbeat = fake_counter();
	theirs->poll_seq += 2;
	braid_vm_mirror_pull(f.mirror);
	CHECK_EQ(cells->poll_counter, before);
	CHECK_EQ(cells->poll_host_ns, 0);

	/* A saved state of the VM is restored: what it brings back is older than the last look. */
	usleep(DUE_US);
	box->guest_heartbeat = before - 600000000;
	theirs->poll_counter = before - 599990000;
	theirs->poll_seq += 2;
	braid_vm_mirror_pull(f.mirror);
	CHECK_EQ(cells->poll_counter, theirs->poll_counter);
	CHECK_EQ(cells->poll_host_ns, 0);
	usleep(DUE_US);	/* and what is seen of the guest's next turn has a limit again */
	box->guest_heartbeat += 20000000;
	braid_vm_mirror_pull(f.mirror);
	theirs->poll_counter = box->guest_heartbeat + 1000;
	theirs->poll_seq += 2;
	usleep(DUE_US);
	braid_vm_mirror_pull(f.mirror);
	CHECK_EQ(cells->poll_counter, theirs->poll_counter);
	CHECK(cells->poll_host_ns);
	vm_follower_detach(&f);
	vm_follower_end(&f);
}

/*
 * The guest is migrated: the copy of its memory in another process is read from where the reading
 * of the first one ended, also in the middle of a sub-buffer, and after more than a lap.
 */
static void follows_migrations(void)
{
	struct own_memory source;
	struct vm_follower f;
	u64 lost;
	u32 k;

	vm_follower_begin(&f, region_path, &vm_follower_usual, VM_FOLLOWER_NONCE);
	vm_follower_attach(&f);
	for (k = 0; k < 40; k++) {
		fake_guest_write(f.g, 0, k * 31 % 97);
		fake_guest_write(f.g, 1, k % 5 ? k * 57 % 400 : 0);
		if (k % 4)
			vm_follower_read_proven(&f);
		if (k % 3 == 1) {	/* copied there, and not proven */
			fake_guest_write(f.g, 0, 7);
			braid_vm_mirror_pull(f.mirror);
		}
		lost = f.readers[0][0].lost + f.readers[0][1].lost;
		source = f.memory;
		own_memory_begin(&f.memory, f.g, VM_FOLLOWER_NONCE);
		if (k % 3)
			fake_guest_write(f.g, k & 1, k % 8 == 7 ? 9000 : k % 3 * 20);
		vm_follower_go_on(&f);
		own_memory_end(&source);
		CHECK(vm_follower_adds_up(&f));
		CHECK_EQ(vm_follower_read(&f, 0, 0) + vm_follower_read(&f, 0, 1), 0);
		if (k % 6 < 4 || k % 8 == 7)
			vm_follower_read_proven(&f);
		CHECK(k % 8 == 7 || f.readers[0][0].lost + f.readers[0][1].lost == lost);
		CHECK(vm_follower_adds_up(&f));
	}
	vm_follower_read_proven(&f);
	for (k = 0; k < 2; k++)
		CHECK_EQ(f.readers[0][k].read + f.readers[0][k].lost, f.g->ctl->offered[k]);
	CHECK_EQ(f.read, f.readers[0][0].read + f.readers[0][1].read);
	CHECK(f.readers[0][0].lost + f.readers[0][1].lost > 5000);
	CHECK_EQ(f.wrong + f.faults, 0);
	vm_follower_detach(&f);
	vm_follower_end(&f);
}

/* A guest forges ids in its slots while it is migrated: nothing outside of its region is read. */
static void stands_forged_ids(void)
{
	struct braid_ring_map *map;
	struct vm_follower f;
	u64 newest;
	u32 k;

	vm_follower_begin(&f, region_path, &vm_follower_usual, VM_FOLLOWER_NONCE);
	vm_follower_attach(&f);
	map = &f.g->writers[0][0]->map;
	fake_guest_write(f.g, 0, 100);
	CHECK_EQ(vm_follower_read_proven(&f), 100);
	fake_guest_write(f.g, 0, 1000);
	newest = f.g->writers[0][0]->position & BRAID_POS_MASK;
	for (k = 0; k < map->nr_slots; k++)
		if (braid_slot_position(map->slots[k]) != newest)
			map->slots[k] |= BRAID_SLOT_ID_MASK;
	vm_follower_go_on(&f);
	CHECK(vm_follower_read_proven(&f));
	CHECK_EQ(f.readers[0][0].read + f.readers[0][0].lost, 1100);
	CHECK_EQ(f.wrong + f.faults, 0);
	vm_follower_detach(&f);
	vm_follower_end(&f);
}

/* A snapshot is restored: what was read of the rings is not read again. */
static void doubts_older_rings(void)
{
	struct braid_vm_mirror *former, *next;
	struct vm_follower f;
	void *snapshot;

	vm_follower_begin(&f, region_path, &vm_follower_usual, VM_FOLLOWER_NONCE);
	snapshot = malloc(f.memory.bytes);
	NEED(snapshot);
	vm_follower_attach(&f);
	fake_guest_write(f.g, 0, 100);
	memcpy(snapshot, f.memory.vm, f.memory.bytes);
	fake_guest_write(f.g, 0, 1000);
	CHECK_EQ(vm_follower_read_proven(&f), 1100);
	former = f.mirror;
	braid_vm_mirror_leave(former);
	braid_mapping_close(braid_vm_mirror_mapping(former));
	memcpy(f.memory.vm, snapshot, f.memory.bytes);
	free(snapshot);
	CHECK_EQ(braid_vm_mirror_open(&next, f.memory.pid, "pid:1", former), -ESTALE);
	braid_vm_mirror_close(former);
	vm_follower_end(&f);
}

int main(void)
{
	int fd = mkstemp(region_path);

	NEED(fd >= 0);
	close(fd);
	RUN(limits_single_poll_samples);
	RUN(follows_migrations);
	RUN(stands_forged_ids);
	RUN(doubts_older_rings);
	unlink(region_path);
	return VERDICT();
}
