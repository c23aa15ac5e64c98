// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The cost of five hundred idle guests for the one recorder that follows them: its share of a core
 * and its own memory, compared with a loop that only reads a word of each guest. And that of a
 * hundred for `watch`, which also records the host and analyzes all of it.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/recorder.h"
#include "tests/bench/timing.h"
#include "tests/unit/fake_guest.h"
#include "tests/unit/need.h"

#define NR_GUESTS	500
#define NR_WATCHED	100
#define NR_VCPUS	4
#define POLL_NS		20000000	/* a driver's, while an agent is present */
#define SETTLE_S	30		/* the first bursts are over: an idle interval is 8 s */
#define MEASURE_S	24		/* three of these */

int main(void);

static char dir[] = "/dev/shm/braid-bench-many.XXXXXX";
static char paths[NR_GUESTS][64];
static char *regions[NR_GUESTS];

/* All guests, in one process that is not measured. */
static void live(struct fake_guest **guests)
{
	int k;

	for (;;) {
		for (k = 0; k < NR_GUESTS; k++)
			fake_guest_look(guests[k]);
		sleep_ns(POLL_NS);
	}
}

/* A loop that reads a word of every guest as often as a guest polls its host. */
static void loop(struct fake_guest **guests)
{
	static volatile u64 sum;
	int k;

	for (;;) {
		for (k = 0; k < NR_GUESTS; k++) {
			struct fake_guest *g = guests[k];
			const struct braid_mailbox *box = (const void *)
				(g->base + g->sb.sections[BRAID_SECTION_MAILBOX].offset);

			sum += braid_load(&box->guest_heartbeat);
		}
		sleep_ns(POLL_NS);
	}
}

static pid_t start(void (*fn)(struct fake_guest **guests), struct fake_guest **guests)
{
	pid_t pid = fork();

	NEED(pid >= 0);
	if (!pid)
		fn(guests);
	return pid;
}

/* The number in a line of one of a process's files in /proc. */
static u64 kilobytes(pid_t pid, const char *file, const char *name)
{
	char path[64], line[256];
	u64 value = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	f = fopen(path, "r");
	NEED(f);
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, name, strlen(name)) && line[strlen(name)] == ':')
			value = strtoull(line + strlen(name) + 1, NULL, 10);
	fclose(f);
	return value;
}

static void make_guests(struct fake_guest **guests)
{
	char name[16];
	int k;

	NEED(mkdtemp(dir));
	for (k = 0; k < NR_GUESTS; k++) {
		struct fake_params p = {
			.name = name, .bytes = 1 << 20, .nr_vcpus = NR_VCPUS, .subbuf_bytes = 4096,
			.nr_slots = 32, .nr_comms = 4096,
		};

		snprintf(name, sizeof(name), "rest%d", k);
		snprintf(paths[k], sizeof(paths[k]), "%s/%d", dir, k);
		guests[k] = fake_guest_new(paths[k], &p);
		NEED(asprintf(&regions[k], "%s,name=%s", paths[k], name) > 0);
	}
}

static void measure(pid_t agent, pid_t idle)
{
	u64 agent_ns = recorder_cpu_ns(agent), idle_ns = recorder_cpu_ns(idle), start_ns = monotonic_ns(), ns;

	sleep_ns((is_short() ? 1 : MEASURE_S) * 1000000000ULL);
	ns = monotonic_ns() - start_ns;
	agent_ns = recorder_cpu_ns(agent) - agent_ns;
	idle_ns = recorder_cpu_ns(idle) - idle_ns;
	printf("agent_at_rest_500_guests\t%.2f\tpercent of a core\n", 100.0 * agent_ns / ns);
	printf("agent_at_rest_500_guests_to_bare_loop\t%.1f\ttimes\n",
	       idle_ns ? (double)agent_ns / idle_ns : 0);
	printf("agent_memory_per_guest\t%.1f\tKiB\n",
	       (double)(kilobytes(agent, "smaps_rollup", "Anonymous") +
			kilobytes(agent, "status", "VmPTE")) / NR_GUESTS);
}

static void measure_watch(const char *said)
{
	u64 cpu_ns, start_ns, ns;
	pid_t pid = recorder_watch(regions, NR_WATCHED, said);

	sleep_ns((is_short() ? 2 : SETTLE_S) * 1000000000ULL);
	cpu_ns = recorder_cpu_ns(pid);
	start_ns = monotonic_ns();
	sleep_ns((is_short() ? 1 : MEASURE_S) * 1000000000ULL);
	ns = monotonic_ns() - start_ns;
	printf("watch_at_rest_100_guests\t%.2f\tpercent of a core\n",
	       100.0 * (recorder_cpu_ns(pid) - cpu_ns) / ns);
	printf("watch_memory_100_guests\t%.1f\tMiB\n", recorder_memory_kb(pid) / 1024.0);
	recorder_stop(pid);
}

int main(void)
{
	static struct fake_guest *guests[NR_GUESTS];
	pid_t living, idle, agent;
	char said[64], capture[64];
	u64 start_ns;
	int k;

	make_guests(guests);
	snprintf(said, sizeof(said), "%s/said", dir);
	snprintf(capture, sizeof(capture), "%s/capture", dir);
	living = start(live, guests);
	idle = start(loop, guests);
	start_ns = monotonic_ns();
	agent = recorder_start(regions, NR_GUESTS, capture, said);
	recorder_await(said);
	printf("agent_begins_500_guests\t%.2f\ts\n", (monotonic_ns() - start_ns) / 1e9);
	if (!is_short())
		sleep_ns(SETTLE_S * 1000000000ULL);
	measure(agent, idle);
	start_ns = monotonic_ns();
	recorder_stop(agent);
	printf("agent_ends_500_guests\t%.2f\ts\n", (monotonic_ns() - start_ns) / 1e9);
	measure_watch(said);
	kill(living, SIGKILL);
	kill(idle, SIGKILL);
	waitpid(living, NULL, 0);
	waitpid(idle, NULL, 0);
	for (k = 0; k < NR_GUESTS; k++) {
		fake_guest_free(guests[k]);
		free(regions[k]);
	}
	unlink(said);
	unlink(capture);
	rmdir(dir);
	return 0;
}
