// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Regions in guests' own memory: how long it takes to find one, what it costs to follow four guests
 * that write, beside the same guests in shared files, and five hundred at rest.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host_agent/transport/vm_reader.h"
#include "host_agent/transport/vm_search.h"
#include "tests/bench/recorder.h"
#include "tests/bench/timing.h"
#include "tests/unit/need.h"
#include "tests/unit/own_memory.h"

#define NONCE		0x7071727374757677ULL
#define GUEST_BYTES	(4ULL << 30)	/* that the region is searched in */
#define NR_SEARCHES	21
#define NR_STORMS	4
#define NR_ROUNDS	3
#define NR_RESTING	500
#define RATE		100000		/* events a second, of each of two vCPUs */
#define STORM_POLL_NS	1000000
#define POLL_NS		20000000	/* a driver's, while an agent is present */
#define SETTLE_S	20		/* turns are oftener before, for the clock */
#define MEASURE_S	4

int main(int argc, char **argv);

static char dir[] = "/dev/shm/braid-bench-memory.XXXXXX";
static char said[64], capture[64];
static struct fake_guest *guests[NR_RESTING];
static struct own_memory memories[NR_RESTING];
static char *regions[NR_RESTING];

static void make_guest(int k, const struct fake_params *p)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/%d", dir, k);
	guests[k] = fake_guest_new(path, p);
	NEED(asprintf(&regions[k], "%s,name=g%d", path, k) > 0);
}

static void move_guest(int k, u64 more)
{
	own_memory_begin_small(&memories[k], guests[k], NONCE + k, more);
	free(regions[k]);
	NEED(asprintf(&regions[k], "pid:%d,name=g%d", (int)memories[k].pid, k) > 0);
}

static void free_guest(int k, bool own)
{
	if (own)
		own_memory_end(&memories[k]);
	fake_guest_free(guests[k]);
	free(regions[k]);
}

/* By the process that reads for the agent. */
static void measure_search(void)
{
	static const struct fake_params p = {
		.name = "g", .bytes = 8 * OWN_CHUNK_ROOM, .nr_vcpus = 2, .subbuf_bytes = 65536,
		.nr_slots = 64,
	};
	struct braid_vm_region found[BRAID_VM_REGIONS];
	struct braid_vm_search search;
	struct braid_vm_memory vm;
	double ms[NR_SEARCHES];
	u64 start_ns;
	int k;

	make_guest(0, &p);
	move_guest(0, GUEST_BYTES);
	NEED(!braid_vm_reader_start());
	for (k = 0; k < NR_SEARCHES; k++) {
		start_ns = monotonic_ns();
		NEED(!braid_vm_memory_open(&vm, memories[0].pid));
		NEED(!braid_vm_search(&vm, found, &search) && search.nr_regions == 1);
		ms[k] = (monotonic_ns() - start_ns) / 1e6;
		braid_vm_memory_close(&vm);
	}
	printf("region_found_in_4_GiB\t%.2f\tms\n", median(ms, NR_SEARCHES));
	free_guest(0, true);
}

/* The CPU time of the whole agent, in ns a second, while four guests write. */
static double follow(bool own)
{
	static const struct fake_params p = {
		.name = "storm", .bytes = 8 * OWN_CHUNK_ROOM, .nr_vcpus = 2, .subbuf_bytes = 65536,
		.nr_slots = 64, .always = true, .rate = RATE, .poll_ns = STORM_POLL_NS,
		.flags = BRAID_BUFFER_OVERWRITE,
	};
	u64 cpu_ns, start_ns;
	pid_t agent;
	double share;
	int k;

	for (k = 0; k < NR_STORMS; k++) {
		make_guest(k, &p);
		if (own)
			move_guest(k, 0);
	}
	for (k = 0; k < NR_STORMS; k++)
		fake_guest_start_thread(guests[k]);
	agent = recorder_start(regions, NR_STORMS, capture, said);
	recorder_await(said);
	if (!is_short())
		sleep_ns(SETTLE_S * 1000000000ULL);
	cpu_ns = recorder_cpu_ns(agent);
	start_ns = monotonic_ns();
	sleep_ns((is_short() ? 1 : MEASURE_S) * 1000000000ULL);
	share = (double)(recorder_cpu_ns(agent) - cpu_ns) / (monotonic_ns() - start_ns);
	recorder_stop(agent);
	for (k = 0; k < NR_STORMS; k++) {
		fake_guest_stop(guests[k]);
		free_guest(k, own);
	}
	return share;
}

static void measure_storms(void)
{
	double mapped[NR_ROUNDS], own[NR_ROUNDS], ratio[NR_ROUNDS];
	int k, nr = is_short() ? 1 : NR_ROUNDS;

	for (k = 0; k < nr; k++) {
		mapped[k] = follow(false);
		own[k] = follow(true);
		ratio[k] = own[k] / mapped[k];
	}
	printf("agent_following_4_shared_guests\t%.2f\tpercent of a core\n",
	       100 * median(mapped, nr));
	printf("agent_following_4_own_memories\t%.2f\tpercent of a core\n", 100 * median(own, nr));
	printf("agent_following_own_memory_over_shared\t%.2f\ttimes\n", median(ratio, nr));
}

/* Whether processes that are started have a guest's region: if not, they are as small as a VMM. */
static void hand_on(int k, bool on)
{
	NEED(!madvise(guests[k]->base, guests[k]->p.bytes, on ? MADV_DOFORK : MADV_DONTFORK));
}

/* All guests, in one process that is not measured. */
static pid_t start_resting(int nr)
{
	pid_t pid;
	int k;

	for (k = 0; k < nr; k++)
		hand_on(k, true);
	pid = fork();
	NEED(pid >= 0);
	while (!pid) {
		for (k = 0; k < nr; k++)
			fake_guest_look(guests[k]);
		sleep_ns(POLL_NS);
	}
	return pid;
}

static void measure_rest(void)
{
	static const struct fake_params p = {
		.name = "rest", .bytes = OWN_CHUNK_ROOM, .nr_vcpus = 4, .subbuf_bytes = 4096,
		.nr_slots = 32, .nr_comms = 4096, .flags = BRAID_BUFFER_OVERWRITE,
	};
	int k, nr = is_short() ? 50 : NR_RESTING;
	u64 cpu_ns, start_ns;
	pid_t living, agent;

	for (k = 0; k < nr; k++) {
		make_guest(k, &p);
		move_guest(k, 0);
		hand_on(k, false);
	}
	living = start_resting(nr);
	start_ns = monotonic_ns();
	agent = recorder_start(regions, nr, capture, said);
	recorder_await(said);
	printf("agent_begins_500_own_memories\t%.2f\ts\n", (monotonic_ns() - start_ns) / 1e9);
	if (!is_short())
		sleep_ns(SETTLE_S * 1000000000ULL);
	cpu_ns = recorder_cpu_ns(agent);
	start_ns = monotonic_ns();
	sleep_ns((is_short() ? 1 : MEASURE_S) * 1000000000ULL);
	cpu_ns = recorder_cpu_ns(agent) - cpu_ns;
	printf("agent_at_rest_500_own_memories\t%.2f\tpercent of a core\n",
	       100.0 * cpu_ns / (monotonic_ns() - start_ns));
	recorder_stop(agent);
	kill(living, SIGKILL);
	waitpid(living, NULL, 0);
	for (k = 0; k < nr; k++)
		free_guest(k, true);
}

/* @argv: which of the figures, in a word: storms, rest, search; none: all */
int main(int argc, char **argv)
{
	const char *which = argc > 1 ? argv[1] : "storms rest search";

	NEED(mkdtemp(dir));
	snprintf(said, sizeof(said), "%s/said", dir);
	snprintf(capture, sizeof(capture), "%s/capture", dir);
	if (strstr(which, "storms"))
		measure_storms();
	if (strstr(which, "rest"))
		measure_rest();
	if (strstr(which, "search"))
		measure_search();
	unlink(said);
	unlink(capture);
	rmdir(dir);
	return 0;
}
