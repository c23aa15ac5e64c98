// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Output on a terminal: UTF-8 if its locale is, else ASCII, also between signals; files and pipes
 * always get UTF-8.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host_agent/cli/cli.h"
#include "host_agent/clock_sync/host.h"
#include "host_agent/walk/options.h"
#include "tests/unit/check.h"
#include "tests/unit/make_capture.h"
#include "tests/unit/need.h"
#include "tests/unit/scratch.h"

#define AGENT			"build/address/tracebraid"
#define INTERRUPTED_LINES	20000	/* far more than a terminal holds */

static char *path;

/* The output of `report` on a terminal, or to a pipe, in a locale. free() it. */
static char *report(const char *locale, bool terminal)
{
	int fds[2], status;
	size_t bytes = 0, room = 1 << 20;
	char *text = calloc(1, room);
	ssize_t n;
	pid_t pid;

	NEED(text);
	if (terminal) {
		fds[0] = posix_openpt(O_RDWR | O_NOCTTY);
		NEED(fds[0] >= 0 && !grantpt(fds[0]) && !unlockpt(fds[0]));
		fds[1] = open(ptsname(fds[0]), O_RDWR | O_NOCTTY);
	} else {
		NEED(!pipe(fds));
	}
	pid = fork();
	NEED(pid >= 0 && fds[1] >= 0);
	if (!pid) {
		setenv("LC_ALL", locale, 1);
		dup2(fds[1], STDOUT_FILENO);
		close(fds[0]);
		execl(AGENT, AGENT, "report", "-n", "3", path, NULL);
		_exit(127);
	}
	close(fds[1]);
	while (bytes < room - 1 && (n = read(fds[0], text + bytes, room - 1 - bytes)) > 0)
		bytes += n;
	close(fds[0]);
	NEED(waitpid(pid, &status, 0) == pid);
	CHECK_EQ(status, 0);
	return text;
}

static bool is_ascii(const char *text)
{
	for (; *text; text++)
		if (*text & 0x80)
			return false;
	return true;
}

static void terminals(void)
{
	char *text = report("C.UTF-8", true);

	CHECK(strstr(text, "bound ≤ "));
	free(text);
	text = report("C", true);
	CHECK(strstr(text, "bound <= ") && is_ascii(text));
	CHECK(strstr(text, "# guest1: ") && strstr(text, " tock: "));
	free(text);
	text = report("de_DE.ISO-8859-1", true);
	CHECK(strstr(text, "bound <= ") && is_ascii(text));
	free(text);
}

static void pipes(void)
{
	char *text = report("C", false);

	CHECK(strstr(text, "bound ≤ "));
	free(text);
}

static u32 *alarms;	/* shared: how often the writer was interrupted */

static void count_alarm(int signal)
{
	(void)signal;
	braid_store(alarms, *alarms + 1);
}

/* Writes more than a terminal holds; each millisecond a signal ends the write that waits. */
static void write_interrupted(int fd)
{
	const struct itimerval each_ms = { { 0, 1000 }, { 0, 1000 } };
	const struct sigaction action = { .sa_handler = count_alarm };	/* no SA_RESTART */
	u32 k;

	setenv("LC_ALL", "C", 1);
	NEED(dup2(fd, STDOUT_FILENO) >= 0);
	braid_cli_ascii();
	NEED(!sigaction(SIGALRM, &action, NULL) && !setitimer(ITIMER_REAL, &each_ms, NULL));
	for (k = 0; k < INTERRUPTED_LINES; k++)
		fputs("µµµµµµµ\n", stdout);
	_exit(fflush(stdout) || ferror(stdout));
}

/* A signal in the middle of a write does not end the output. */
static void interrupted_writes(void)
{
	int terminal = posix_openpt(O_RDWR | O_NOCTTY), fd, status;
	char bytes[4096];
	u64 nr = 0;
	ssize_t n;
	pid_t pid;

	alarms = mmap(NULL, sizeof(*alarms), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	NEED(alarms != MAP_FAILED && terminal >= 0 && !grantpt(terminal) && !unlockpt(terminal));
	fd = open(ptsname(terminal), O_RDWR | O_NOCTTY);
	pid = fork();
	NEED(fd >= 0 && pid >= 0);
	if (!pid)
		write_interrupted(fd);
	close(fd);
	/* Nobody reads yet, so it waits. */
	while (braid_load(alarms) < 50 && !waitpid(pid, &status, WNOHANG))
		braid_sleep_ns(1000000);
	while ((n = read(terminal, bytes, sizeof(bytes))) > 0)
		nr += n;
	CHECK_EQ(nr, INTERRUPTED_LINES * strlen("uuuuuuu\r\n"));
	NEED(waitpid(pid, &status, 0) == pid);
	CHECK_EQ(status, 0);
	close(terminal);
	munmap(alarms, sizeof(*alarms));
}

int main(void)
{

	path = scratch("file");
	synth_standard(path);
	RUN(terminals);
	RUN(pipes);
	RUN(interrupted_writes);
	return VERDICT();
}
