// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Follows a region in a guest's own memory: each event that is read is what the guest wrote, once,
 * and nothing is lost without being counted.
 */
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host_agent/transport/vm_memory.h"
#include "host_agent/util/monotonic.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"
#include "tests/unit/vm_follower.h"

static char region_path[] = "/tmp/test_vm_mirror.XXXXXX";

/* Events are readable only after a sign of life that is later than their copy. */
static void waits_for_proof(void)
{
	struct vm_follower f;

	vm_follower_begin(&f, region_path, &vm_follower_usual, VM_FOLLOWER_NONCE);
	fake_guest_look(f.g);
	fake_guest_write(f.g, 0, 300);
	vm_follower_attach(&f);
	CHECK_EQ(vm_follower_read(&f, 0, 0), 0);
	CHECK_EQ(braid_vm_mirror_unproven(f.mirror), 300);
	braid_vm_mirror_pull(f.mirror);
	CHECK_EQ(vm_follower_read(&f, 0, 0), 0);
	fake_guest_look(f.g);			/* a heartbeat */
	CHECK(braid_vm_mirror_pull(f.mirror));
	CHECK_EQ(vm_follower_read(&f, 0, 0), 300);
	CHECK_EQ(braid_vm_mirror_unproven(f.mirror), 0);

	fake_guest_write(f.g, 0, 5);
	braid_vm_mirror_pull(f.mirror);
	CHECK_EQ(vm_follower_read(&f, 0, 0), 0);
	fake_guest_write(f.g, 1, 1);		/* as good: another ring's */
	CHECK(braid_vm_mirror_pull(f.mirror));
	CHECK_EQ(vm_follower_read(&f, 0, 0), 5);
	CHECK_EQ(vm_follower_read(&f, 0, 1), 0);
	CHECK_EQ(braid_vm_mirror_unproven(f.mirror), 1);
	fake_guest_look(f.g);
	braid_vm_mirror_pull(f.mirror);
	CHECK_EQ(vm_follower_read(&f, 0, 1), 1);
	CHECK_EQ(f.wrong + f.faults, 0);
	vm_follower_detach(&f);
	vm_follower_end(&f);
}

/* Of a guest that was not reset since its last heartbeat, what is copied is its own. */
static void takes_a_word_for_it(void)
{
	struct vm_follower f;
	u64 before_ns, after_ns;

	vm_follower_begin(&f, region_path, &vm_follower_usual, VM_FOLLOWER_NONCE);
	fake_guest_look(f.g);
	vm_follower_attach(&f);
	fake_guest_write(f.g, 0, 30);
	braid_vm_mirror_pull(f.mirror);
	braid_vm_mirror_vouch(f.mirror, 1);	/* it was not seen to live */
	CHECK_EQ(vm_follower_read(&f, 0, 0), 0);
	before_ns = braid_clock_read_ns(CLOCK_MONOTONIC_RAW);
	braid_vm_mirror_pull(f.mirror);
	fake_guest_look(f.g);
	braid_vm_mirror_pull(f.mirror);
	after_ns = braid_clock_read_ns(CLOCK_MONOTONIC_RAW);
	CHECK_EQ(vm_follower_read(&f, 0, 0), 30);
	fake_guest_write(f.g, 0, 7);
	braid_vm_mirror_pull(f.mirror);
	braid_vm_mirror_vouch(f.mirror, after_ns);	/* a reset between heartbeat and copy */
	CHECK_EQ(vm_follower_read(&f, 0, 0), 0);
	CHECK_EQ(braid_vm_mirror_unproven(f.mirror), 7);
	braid_vm_mirror_vouch(f.mirror, before_ns);
	CHECK_EQ(vm_follower_read(&f, 0, 0), 7);
	CHECK_EQ(braid_vm_mirror_unproven(f.mirror) + f.wrong + f.faults, 0);
	vm_follower_detach(&f);
	vm_follower_end(&f);
}

/* Steps of a turn are read beforehand: what is written after its first look is the next turn's. */
static void looks_beforehand(void)
{
	struct vm_follower f;
	u64 read = 0, written = 0;
	int k, step;

	vm_follower_begin(&f, region_path, &vm_follower_usual, VM_FOLLOWER_NONCE);
	vm_follower_attach(&f);
	for (k = 0; k < 300; k++) {
		fake_guest_write(f.g, k % 2, 40 + k % 5);
		written += 40 + k % 5;
		fake_guest_look(f.g);
		if (k % 4)
			braid_vm_mirror_gather(f.mirror);
		if (k % 4 == 3) {
			fake_guest_write(f.g, k % 2, 30);
			written += 30;
		}
		braid_vm_memory_fetch();
		for (step = 0; step < k % 5 && braid_vm_mirror_gather(f.mirror); step++)
			braid_vm_memory_fetch();
		if (k % 4 == 2) {
			fake_guest_write(f.g, k % 2, 50);
			written += 50;
		}
		braid_vm_mirror_pull(f.mirror);
		read += vm_follower_read(&f, 0, 0) + vm_follower_read(&f, 0, 1);
	}
	for (k = 0; k < 4; k++) {
		fake_guest_look(f.g);
		braid_vm_mirror_pull(f.mirror);
		read += vm_follower_read(&f, 0, 0) + vm_follower_read(&f, 0, 1);
	}
	CHECK_EQ(read, written);
	CHECK_EQ(f.wrong + f.faults, 0);
	vm_follower_detach(&f);
	vm_follower_end(&f);
}

/* A slow follower is lapped: it continues with the oldest that exist, and counts the rest. */
static void counts_laps(void)
{
	struct vm_follower f;
	u64 read = 0;
	int k;

	vm_follower_begin(&f, region_path, &vm_follower_usual, VM_FOLLOWER_NONCE);
	vm_follower_attach(&f);
	for (k = 0; k < 200; k++) {
		fake_guest_write(f.g, 0, k % 7 ? 300 : 9000);
		fake_guest_look(f.g);
		braid_vm_mirror_pull(f.mirror);
		if (k % 3)
			read += vm_follower_read(&f, 0, 0);
	}
	for (k = 0; k < 8; k++) {
		fake_guest_look(f.g);
		braid_vm_mirror_pull(f.mirror);
		read += vm_follower_read(&f, 0, 0);
	}
	CHECK_EQ(f.readers[0][0].read, read);
	CHECK_EQ(f.readers[0][0].read + f.readers[0][0].lost, f.g->ctl->offered[0]);
	CHECK(f.readers[0][0].lost > 0 && read > 40000);
	CHECK_EQ(f.wrong + f.faults, 0);
	vm_follower_detach(&f);
	vm_follower_end(&f);
}

/* A guest that writes as fast as it can, while two followers read. */
static void follows_storms(void)
{
	struct fake_params p = vm_follower_usual;
	struct vm_follower f, other;
	u64 k, laps, turns = 0;

	p.rate = 300000;
	p.subbuf_bytes = 1024;
	p.nr_slots = 8;
	vm_follower_begin(&f, region_path, &p, VM_FOLLOWER_NONCE);
	vm_follower_attach(&f);
	other = f;
	vm_follower_attach(&other);
	fake_guest_start_process(f.g);
	do {
		braid_vm_mirror_pull(f.mirror);
		vm_follower_read(&f, 0, turns % 2);
		if (turns % 16 == 0) {
			braid_vm_mirror_pull(other.mirror);
			vm_follower_read(&other, 0, 0);
			vm_follower_read(&other, 0, 1);
		}
		turns++;
		laps = __atomic_load_n(&f.g->ctl->offered[0], __ATOMIC_RELAXED) / (8 * 22);
	} while (laps < 1000 || f.readers[0][0].read < 1000 || f.readers[0][1].read < 1000);
	fake_guest_stop(f.g);
	f.g->p.rate = 0;
	for (k = 0; k < 20; k++) {
		fake_guest_look(f.g);
		braid_vm_mirror_pull(f.mirror);
		braid_vm_mirror_pull(other.mirror);
		vm_follower_read(&f, 0, 0);
		vm_follower_read(&f, 0, 1);
		vm_follower_read(&other, 0, 0);
		vm_follower_read(&other, 0, 1);
	}
	for (k = 0; k < 2; k++) {
		CHECK_EQ(f.readers[0][k].read + f.readers[0][k].lost, f.g->ctl->offered[k]);
		CHECK_EQ(other.readers[0][k].read + other.readers[0][k].lost, f.g->ctl->offered[k]);
	}
	printf("%llu laps", (unsigned long long)laps);
	for (k = 0; k < 2; k++)
		printf(", read %llu and %llu", (unsigned long long)f.readers[0][k].read,
		       (unsigned long long)other.readers[0][k].read);
	puts("");
	CHECK_EQ(f.wrong + f.faults + other.wrong + other.faults, 0);
	vm_follower_detach(&f);
	vm_follower_detach(&other);
	vm_follower_end(&f);
}

/* After a reset nothing is believed that was copied after the last sign of life. */
static void believes_no_reset(void)
{
	struct braid_mapping *m;
	struct vm_follower f;

	vm_follower_begin(&f, region_path, &vm_follower_usual, VM_FOLLOWER_NONCE);
	fake_guest_look(f.g);
	vm_follower_attach(&f);
	m = braid_vm_mirror_mapping(f.mirror);
	fake_guest_write(f.g, 0, 100);
	fake_guest_look(f.g);
	braid_vm_mirror_pull(f.mirror);
	fake_guest_look(f.g);
	braid_vm_mirror_pull(f.mirror);
	fake_guest_write(f.g, 0, 50);
	/* Rings are overwritten, while superblock and beacons are not. */
	own_memory_scribble(&f.memory, 0, 60, 300);
	braid_vm_mirror_pull(f.mirror);
	braid_vm_mirror_pull(f.mirror);
	CHECK_EQ(vm_follower_read(&f, 0, 0), 100);
	CHECK(!m->gone);
	own_memory_scribble(&f.memory, 0, 0, 1);
	braid_vm_mirror_pull(f.mirror);
	CHECK(m->gone && m->taken_back);
	CHECK_EQ(vm_follower_read(&f, 0, 0), 0);
	CHECK_EQ(f.wrong + f.faults, 0);
	vm_follower_detach(&f);
	vm_follower_end(&f);
}

/* A driver that is unloaded, in time to be seen: all is proven by its beacons. */
static void reads_to_the_end(void)
{
	struct braid_mapping *m;
	struct vm_follower f;

	vm_follower_begin(&f, region_path, &vm_follower_usual, VM_FOLLOWER_NONCE);
	fake_guest_look(f.g);
	vm_follower_attach(&f);
	m = braid_vm_mirror_mapping(f.mirror);
	fake_guest_write(f.g, 0, 100);
	braid_store(&((struct braid_superblock *)f.g->base)->state, BRAID_STATE_DOWN);
	braid_vm_mirror_pull(f.mirror);
	CHECK_EQ(vm_follower_read(&f, 0, 0), 100);
	braid_vm_mirror_pull(f.mirror);
	CHECK_EQ(braid_mapping_state(m), BRAID_STATE_DOWN);
	CHECK_EQ(braid_vm_mirror_unproven(f.mirror), 0);
	own_memory_clear(&f.memory);
	braid_vm_mirror_pull(f.mirror);
	CHECK(m->gone);
	vm_follower_detach(&f);
	vm_follower_end(&f);
}

/* What was DOWN before anyone looked may be what a reset left. */
static void doubts_remains(void)
{
	struct vm_follower f;
	int k;

	vm_follower_begin(&f, region_path, &vm_follower_usual, VM_FOLLOWER_NONCE);
	fake_guest_write(f.g, 0, 100);
	braid_store(&((struct braid_superblock *)f.g->base)->state, BRAID_STATE_DOWN);
	vm_follower_attach(&f);
	for (k = 0; k < 3; k++)
		braid_vm_mirror_pull(f.mirror);
	CHECK_EQ(vm_follower_read(&f, 0, 0), 0);
	CHECK_EQ(braid_vm_mirror_unproven(f.mirror), 100);
	vm_follower_detach(&f);
	vm_follower_end(&f);
}

/* A reader in the guest takes sub-buffers, and exchanges their ids. */
static void stands_readers_in_the_guest(void)
{
	struct vm_follower f;
	u64 read = 0;
	int k;

	vm_follower_begin(&f, region_path, &vm_follower_usual, VM_FOLLOWER_NONCE);
	vm_follower_attach(&f);
	for (k = 0; k < 60; k++) {
		fake_guest_write(f.g, 0, 1 + k * 7 % 400);
		if (k % 5 == 2)
			fake_guest_read(f.g, 0);
		fake_guest_look(f.g);
		braid_vm_mirror_pull(f.mirror);
		read += vm_follower_read(&f, 0, 0);
	}
	for (k = 0; k < 8; k++) {
		fake_guest_write(f.g, 0, 200);
		fake_guest_look(f.g);
		braid_vm_mirror_pull(f.mirror);
		read += vm_follower_read(&f, 0, 0);
	}
	fake_guest_look(f.g);
	braid_vm_mirror_pull(f.mirror);
	read += vm_follower_read(&f, 0, 0);
	CHECK_EQ(read + f.readers[0][0].lost, f.g->ctl->offered[0]);
	CHECK(read > 6000);
	CHECK_EQ(f.wrong + f.faults, 0);
	vm_follower_detach(&f);
	vm_follower_end(&f);
}

/* Of two regions that are both LIVE, one is of a kernel before a reset: its heart stands still. */
static void finds_the_living(void)
{
	struct vm_follower f;

	vm_follower_begin(&f, region_path, &vm_follower_usual, VM_FOLLOWER_NONCE);
	fake_guest_look(f.g);
	own_memory_leave_copy(&f.memory, VM_FOLLOWER_NONCE + 1);
	fake_guest_start_thread(f.g);
	vm_follower_attach(&f);
	fake_guest_stop(f.g);
	fake_guest_write(f.g, 0, 10);
	fake_guest_look(f.g);
	braid_vm_mirror_pull(f.mirror);
	fake_guest_look(f.g);
	braid_vm_mirror_pull(f.mirror);
	CHECK_EQ(vm_follower_read(&f, 0, 0), 10);
	vm_follower_detach(&f);
	vm_follower_end(&f);
}

/* A reset leaves the region whole; that of the next kernel is found beside it. */
static void finds_the_next_kernel(void)
{
	struct braid_mailbox *box;
	struct vm_follower f;
	int k;

	vm_follower_begin(&f, region_path, &vm_follower_usual, VM_FOLLOWER_NONCE);
	fake_guest_look(f.g);
	vm_follower_attach(&f);
	own_memory_leave_copy(&f.memory, VM_FOLLOWER_NONCE + 1);
	box = own_memory_in_copy(&f.memory, f.sb.sections[BRAID_SECTION_MAILBOX].offset);
	for (k = 0; k < 1000 && !braid_vm_mirror_mapping(f.mirror)->gone; k++) {
		box->guest_heartbeat++;
		braid_vm_mirror_pull(f.mirror);
		usleep(10000);
	}
	CHECK(k < 1000);
	vm_follower_detach(&f);
	vm_follower_end(&f);
}

/* Pages that are not in memory are not read, and stay so; when they are back, copying goes on. */
static void stands_absent_pages(void)
{
	struct braid_mapping *m;
	struct vm_follower f;
	int k;

	vm_follower_begin(&f, region_path, &vm_follower_usual, VM_FOLLOWER_NONCE);
	vm_follower_attach(&f);
	m = braid_vm_mirror_mapping(f.mirror);
	fake_guest_write(f.g, 0, 100);
	own_memory_set_present(&f.memory, false);
	for (k = 0; k < 5; k++) {
		fake_guest_look(f.g);
		CHECK(!braid_vm_mirror_pull(f.mirror));
	}
	CHECK(!m->gone);
	own_memory_set_present(&f.memory, true);
	for (k = 0; k < 3; k++) {
		braid_vm_mirror_pull(f.mirror);
		fake_guest_look(f.g);
	}
	CHECK_EQ(vm_follower_read(&f, 0, 0), 100);
	own_memory_set_present(&f.memory, false);
	while (!m->gone) {
		braid_vm_mirror_pull(f.mirror);
		usleep(10000);
	}
	CHECK(!strcmp(m->gone, "its pages are not in memory any more"));
	own_memory_set_present(&f.memory, true);
	fake_guest_write(f.g, 0, 30);
	vm_follower_go_on(&f);
	CHECK_EQ(vm_follower_read_proven(&f), 30);
	CHECK(vm_follower_adds_up(&f));
	CHECK_EQ(f.wrong + f.faults, 0);
	vm_follower_detach(&f);
	vm_follower_end(&f);
}

/* A poll sample is not older than a time of ours, though the guest never learns of that. */
static void limits_poll_samples(void)
{
	struct fake_params p = vm_follower_usual;
	struct braid_clock_cells *cells;
	u64 limited = 0, wrong = 0, widest = 0, true_ns;
	struct vm_follower f;
	u32 seq = 0;
	int k;

	p.poll_ns = 5000000;
	vm_follower_begin(&f, region_path, &p, VM_FOLLOWER_NONCE);
	vm_follower_attach(&f);
	cells = braid_mapping_section(braid_vm_mirror_mapping(f.mirror), &f.sb,
				      BRAID_SECTION_CLOCK);
	fake_guest_start_process(f.g);
	for (k = 0; k < 400; k++, seq = cells->poll_seq) {
		if (k & 1) {	/* the first look is older than the turn */
			braid_vm_mirror_gather(f.mirror);
			braid_vm_memory_fetch();
			usleep(4000);
		}
		braid_vm_mirror_pull(f.mirror);
		true_ns = cells->poll_counter - FAKE_COUNTER_OFFSET;
		usleep(k % 7 * 1000);
		if (cells->poll_seq == seq || !cells->poll_host_ns)
			continue;
		limited++;
		wrong += cells->poll_host_ns > true_ns;
		if (true_ns - cells->poll_host_ns > widest)
			widest = true_ns - cells->poll_host_ns;
	}
	fake_guest_stop(f.g);
	CHECK(limited > 10);
	CHECK_EQ(wrong, 0);
	printf("%llu poll samples, up to %llu ns after their limits\n", (unsigned long long)limited,
	       (unsigned long long)widest);
	vm_follower_detach(&f);
	vm_follower_end(&f);
}

static void sees_its_process_end(void)
{
	struct braid_mapping *m;
	struct vm_follower f;

	vm_follower_begin(&f, region_path, &vm_follower_usual, VM_FOLLOWER_NONCE);
	vm_follower_attach(&f);
	m = braid_vm_mirror_mapping(f.mirror);
	fake_guest_write(f.g, 0, 100);
	fake_guest_look(f.g);
	braid_vm_mirror_pull(f.mirror);
	fake_guest_look(f.g);
	braid_vm_mirror_pull(f.mirror);
	fake_guest_write(f.g, 0, 7);
	braid_vm_mirror_pull(f.mirror);
	kill(f.memory.pid, SIGKILL);
	NEED(!waitid(P_PID, f.memory.pid, &(siginfo_t){ 0 }, WEXITED | WNOWAIT));
	braid_vm_mirror_pull(f.mirror);
	CHECK(m->gone && !strcmp(m->gone, "its VMM has ended") && !m->taken_back);
	CHECK_EQ(vm_follower_read(&f, 0, 0), 100);
	CHECK_EQ(braid_vm_mirror_unproven(f.mirror), 7);
	CHECK_EQ(f.wrong + f.faults, 0);
	vm_follower_detach(&f);
	vm_follower_end(&f);
}

int main(void)
{
	int fd = mkstemp(region_path);

	NEED(fd >= 0);
	close(fd);
	RUN(waits_for_proof);
	RUN(takes_a_word_for_it);
	RUN(looks_beforehand);
	RUN(counts_laps);
	RUN(follows_storms);
	RUN(believes_no_reset);
	RUN(reads_to_the_end);
	RUN(doubts_remains);
	RUN(stands_readers_in_the_guest);
	RUN(finds_the_living);
	RUN(finds_the_next_kernel);
	RUN(stands_absent_pages);
	RUN(limits_poll_samples);
	RUN(sees_its_process_end);
	unlink(region_path);
	return VERDICT();
}
