// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The cost of five hundred idle guests for the one recorder that follows them: its share of a core
 * and its own memory, compared with a loop that only reads a word of each guest.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/timing.h"
#include "tests/unit/fake_guest.h"
#include "tests/unit/need.h"

#define NR_GUESTS	500
#define NR_VCPUS	4
#define POLL_NS		20000000	/* a driver's, while an agent is present */
#define SETTLE_S	30		/* the first bursts are over: an idle interval is 8 s */
#define MEASURE_S	24		/* three of these */
#define STEP_NS		10000000
#define NR_STEPS	12000		/* two minutes, after which a wait fails */
#define AGENT		"build/tracebraid"

int main(void);

static char dir[] = "/dev/shm/braid-bench-many.XXXXXX";
static char paths[NR_GUESTS][64];

static void sleep_ns(u64 ns)
{
	struct timespec t = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };

	nanosleep(&t, NULL);
}

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

/* The recorder itself, as a user would start it. */
static pid_t start_agent(const char *said)
{
	static char *argv[2 * NR_GUESTS + 8];
	char capture[64];
	int k, n = 0, fd;
	pid_t pid;

	snprintf(capture, sizeof(capture), "%s/capture", dir);
	argv[n++] = AGENT;
	argv[n++] = "record";
	for (k = 0; k < NR_GUESTS; k++) {
		argv[n++] = "-r";
		NEED(asprintf(&argv[n++], "%s,name=rest%d", paths[k], k) > 0);
	}
	argv[n++] = "-o";
	argv[n++] = capture;
	pid = fork();
	NEED(pid >= 0);
	while (pid && n > 1 && k--)
		free(argv[3 + 2 * k]);
	if (pid)
		return pid;
	fd = open(said, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	dup2(fd, STDERR_FILENO);
	execv(AGENT, argv);
	_exit(127);
}

static bool has_said(const char *said, const char *word)
{
	static char text[256 * 1024];
	int fd = open(said, O_RDONLY);
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = 0;
	return strstr(text, word);
}

/* The CPU time of all threads of a process, in ns. */
static u64 cpu_ns(pid_t pid)
{
	char path[320];
	struct dirent *entry;
	unsigned long long ns;
	u64 sum = 0;
	DIR *tasks;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	tasks = opendir(path);
	NEED(tasks);
	while ((entry = readdir(tasks))) {
		if (*entry->d_name == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%s/schedstat", (int)pid, entry->d_name);
		f = fopen(path, "r");
		NEED(f && fscanf(f, "%llu", &ns) == 1);
		fclose(f);
		sum += ns;
	}
	closedir(tasks);
	return sum;
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
	}
}

static void measure(pid_t agent, pid_t idle)
{
	u64 agent_ns = cpu_ns(agent), idle_ns = cpu_ns(idle), start_ns = monotonic_ns(), ns;

	sleep_ns((is_short() ? 1 : MEASURE_S) * 1000000000ULL);
	ns = monotonic_ns() - start_ns;
	agent_ns = cpu_ns(agent) - agent_ns;
	idle_ns = cpu_ns(idle) - idle_ns;
	printf("agent_at_rest_500_guests\t%.2f\tpercent of a core\n", 100.0 * agent_ns / ns);
	printf("agent_at_rest_500_guests_to_bare_loop\t%.1f\ttimes\n",
	       idle_ns ? (double)agent_ns / idle_ns : 0);
	printf("agent_memory_per_guest\t%.1f\tKiB\n",
	       (double)(kilobytes(agent, "smaps_rollup", "Anonymous") +
			kilobytes(agent, "status", "VmPTE")) / NR_GUESTS);
}

int main(void)
{
	static struct fake_guest *guests[NR_GUESTS];
	pid_t living, idle, agent;
	char said[64], capture[64];
	u64 start_ns;
	int k, status;

	make_guests(guests);
	snprintf(said, sizeof(said), "%s/said", dir);
	snprintf(capture, sizeof(capture), "%s/capture", dir);
	living = start(live, guests);
	idle = start(loop, guests);
	start_ns = monotonic_ns();
	agent = start_agent(said);
	for (k = 0; !has_said(said, "Recording") && k < NR_STEPS; k++)
		sleep_ns(STEP_NS);
	NEED(has_said(said, "Recording"));
	printf("agent_begins_500_guests\t%.2f\ts\n", (monotonic_ns() - start_ns) / 1e9);
	if (!is_short())
		sleep_ns(SETTLE_S * 1000000000ULL);
	measure(agent, idle);
	start_ns = monotonic_ns();
	kill(agent, SIGINT);
	NEED(waitpid(agent, &status, 0) == agent);
	printf("agent_ends_500_guests\t%.2f\ts\n", (monotonic_ns() - start_ns) / 1e9);
	/* 3: on a busy machine, a guest has confirmed its events too late. */
	NEED(WIFEXITED(status) && (!WEXITSTATUS(status) || WEXITSTATUS(status) == 3));
	kill(living, SIGKILL);
	kill(idle, SIGKILL);
	waitpid(living, NULL, 0);
	waitpid(idle, NULL, 0);
	for (k = 0; k < NR_GUESTS; k++)
		fake_guest_free(guests[k]);
	unlink(said);
	unlink(capture);
	rmdir(dir);
	return 0;
}
