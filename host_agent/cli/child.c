// SPDX-License-Identifier: GPL-2.0-or-later
/* Runs work that may crash a library in a child process, whose death becomes an error message. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host_agent/cli/child.h"
#include "host_agent/cli/cli.h"
#include "host_agent/util/error.h"

/* Messages of the child; the parent reads them after its exit. */
struct report {
	bool done;		/* it ended by itself */
	char doing[256];
};

static struct report *report;

void braid_child_does(const char *what)
{
	if (report)
		snprintf(report->doing, sizeof(report->doing), "%s", what);
}

static void limit(int resource, u64 most)
{
	struct rlimit rl = { .rlim_cur = most, .rlim_max = most };

	setrlimit(resource, &rl);	/* a lower one may hold already */
}

static void be_child(pid_t parent, const struct braid_child_limits *limits, int (*run)(void *arg),
		     void *arg)
{
	int code;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(EXIT_FAILURE);
	limit(RLIMIT_CORE, 0);
	limit(RLIMIT_CPU, limits->cpu_s);
	if (braid_cli_confines())	/* a sanitizer's shadow is larger than any limit */
		limit(RLIMIT_AS, limits->memory_bytes);
	code = run(arg);
	fflush(NULL);
	report->done = true;
	_exit(code);
}

static int fail_ended(int status)
{
	int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;

	if (number == SIGXCPU || number == SIGKILL)
		return braid_fail(-EBADMSG, "%s: reading it took too long and was ended: the file is damaged",
				  report->doing);
	return braid_fail(-EBADMSG, "%s: reading it crashed%s%s: the file is damaged; 'virsh dump --memory-only' makes one that can be read",
			  report->doing, number ? " with " : "", number ? strsignal(number) : "");
}

int braid_child_run(const struct braid_child_limits *limits, int (*run)(void *arg), void *arg)
{
	pid_t parent = getpid(), pid;
	int status, ret;

	report = mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	if (report == MAP_FAILED) {
		report = NULL;
		return braid_out_of_memory();
	}
	fflush(NULL);
	pid = fork();
	if (!pid)
		be_child(parent, limits, run, arg);
	ret = pid < 0 ? -errno : 0;
	while (!ret && waitpid(pid, &status, 0) < 0)
		ret = errno == EINTR ? 0 : -errno;
	if (ret)
		braid_fail(ret, "cannot create a process: %s", strerror(-ret));
	else
		ret = report->done ? WEXITSTATUS(status) : fail_ended(status);
	munmap(report, sizeof(*report));
	report = NULL;
	return ret;
}
