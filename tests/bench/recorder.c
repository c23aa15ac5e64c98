// SPDX-License-Identifier: GPL-2.0-or-later
/* Starts and ends a recorder, and adds up its processes' CPU time. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/bench/recorder.h"
#include "tests/unit/need.h"

#define MOST_REGIONS	500
#define STEP_NS		10000000
#define NR_STEPS	12000		/* two minutes, after which a wait fails */
#define AGENT		"build/tracebraid"

void sleep_ns(u64 ns)
{
	struct timespec t = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };

	nanosleep(&t, NULL);
}

static pid_t start(const char *command, char *const *regions, int nr, const char *option,
		   const char *argument, const char *said)
{
	static char *argv[2 * MOST_REGIONS + 8];
	int k, n = 0, fd;
	pid_t pid;

	NEED(nr <= MOST_REGIONS);
	argv[n++] = AGENT;
	argv[n++] = (char *)command;
	for (k = 0; k < nr; k++) {
		argv[n++] = "-r";
		argv[n++] = regions[k];
	}
	argv[n++] = (char *)option;
	argv[n++] = (char *)argument;
	argv[n] = NULL;
	pid = fork();
	NEED(pid >= 0);
	if (pid)
		return pid;
	fd = open(said, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	dup2(fd, STDERR_FILENO);
	execv(AGENT, argv);
	_exit(127);
}

pid_t recorder_start(char *const *regions, int nr, const char *capture, const char *said)
{
	return start("record", regions, nr, "-o", capture, said);
}

pid_t recorder_watch(char *const *regions, int nr, const char *said)
{
	return start("watch", regions, nr, "--", "stolen > 99%", said);
}

pid_t recorder_live(const char *region, const char *other, FILE **lines, const char *said)
{
	int fds[2], fd;
	pid_t pid;

	NEED(!pipe(fds));
	pid = fork();
	NEED(pid >= 0);
	if (!pid) {
		fd = open(said, O_WRONLY | O_CREAT | O_TRUNC, 0600);
		dup2(fd, STDERR_FILENO);
		dup2(fds[1], STDOUT_FILENO);
		close(fds[0]);
		close(fds[1]);
		execl(AGENT, AGENT, "record", "--live", "--json", "-r", region, "-r", other, "-o", "/dev/null", NULL);
		_exit(127);
	}
	close(fds[1]);
	*lines = fdopen(fds[0], "r");
	NEED(*lines);
	return pid;
}

static char text[256 * 1024];	/* what a recorder has said */

static bool has_said(const char *said, const char *word)
{
	int fd = open(said, O_RDONLY);
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = 0;
	return strstr(text, word);
}

void recorder_await(const char *said)
{
	int k;

	for (k = 0; !has_said(said, "Recording") && k < NR_STEPS; k++)
		sleep_ns(STEP_NS);
	if (!has_said(said, "Recording"))
		fprintf(stderr, "the recorder did not begin; it has said: %s\n", text);
	NEED(has_said(said, "Recording"));
}

/* Of one thread, and of the processes that it has started. */
static u64 task_cpu_ns(const char *task)
{
	unsigned long long ns = 0;
	char path[320];
	u64 sum = 0;
	int child;
	FILE *f;

	snprintf(path, sizeof(path), "%s/schedstat", task);
	f = fopen(path, "r");
	if (!f)		/* it has ended */
		return 0;
	NEED(fscanf(f, "%llu", &ns) == 1);
	fclose(f);
	snprintf(path, sizeof(path), "%s/children", task);
	f = fopen(path, "r");
	while (f && fscanf(f, "%d", &child) == 1)
		sum += recorder_cpu_ns(child);
	if (f)
		fclose(f);
	return sum + ns;
}

u64 recorder_cpu_ns(pid_t pid)
{
	char path[300];
	struct dirent *entry;
	u64 sum = 0;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	tasks = opendir(path);
	while (tasks && (entry = readdir(tasks))) {
		if (*entry->d_name == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%.20s", (int)pid, entry->d_name);
		sum += task_cpu_ns(path);
	}
	if (tasks)
		closedir(tasks);
	return sum;
}

u64 recorder_memory_kb(pid_t pid)
{
	char path[300], line[256];
	unsigned long long kb;
	u64 sum = 0;
	int child;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "Pss_Anon: %llu", &kb) == 1)
			sum += kb;
	if (f)
		fclose(f);
	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
	f = fopen(path, "r");
	while (f && fscanf(f, "%d", &child) == 1)
		sum += recorder_memory_kb(child);
	if (f)
		fclose(f);
	return sum;
}

void recorder_stop(pid_t pid)
{
	int status;

	kill(pid, SIGINT);
	NEED(waitpid(pid, &status, 0) == pid);
	/* 3: on a busy machine, a guest has confirmed its events too late. */
	NEED(WIFEXITED(status) && (!WEXITSTATUS(status) || WEXITSTATUS(status) == 3));
}
