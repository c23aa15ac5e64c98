// SPDX-License-Identifier: GPL-2.0-or-later
/* Requests of snapshots: one process asks, another one answers. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host_agent/transport/request.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"
#include "tests/unit/scratch.h"

static char *capture_path;

/* In a process of its own: a request as by `tracebraid snapshot`. The exit status is its result. */
static pid_t ask(const char *path, bool pipe_instead)
{
	char line[BRAID_REQUEST_LINE_BYTES];
	pid_t parent = getpid(), pid = fork();
	int fd, file, ends[2], err;

	if (pid)
		return pid;
	fd = braid_request_connect(parent);
	file = pipe_instead && !pipe(ends) ? ends[1] :
		       open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	err = fd < 0 ? fd : braid_request_ask(fd, file, path, line);
	_exit(err ? 1 : strcmp(line, "done") ? 2 : 0);
}

static int status_of(pid_t pid)
{
	int status;

	NEED(waitpid(pid, &status, 0) == pid);
	return WEXITSTATUS(status);
}

static void answers_requests(void)
{
	struct braid_request_endpoint p;
	struct braid_request request;
	pid_t pid;
	int fd;

	NEED(!braid_request_open(&p));
	CHECK_EQ(braid_request_poll(&p, &request), 0);
	pid = ask(capture_path, false);
	while (!braid_request_poll(&p, &request))
		;
	CHECK(!strcmp(request.path, capture_path));
	CHECK_EQ(write(request.fd, "x", 1), 1);
	close(request.fd);
	braid_request_answer(&p, 0, "done");
	CHECK_EQ(status_of(pid), 0);

	pid = ask(capture_path, false);
	while (!braid_request_poll(&p, &request))
		;
	close(request.fd);
	braid_request_answer(&p, -ENOSPC, "the disk is full");
	CHECK_EQ(status_of(pid), 1);

	/* A pipe could block the agent. */
	pid = ask(capture_path, true);
	while (waitpid(pid, NULL, WNOHANG) == 0)
		CHECK_EQ(braid_request_poll(&p, &request), 0);

	/* A silent client delays others only for a moment. */
	fd = braid_request_connect(getpid());
	NEED(fd >= 0);
	CHECK_EQ(braid_request_poll(&p, &request), 0);
	pid = ask(capture_path, false);
	while (!braid_request_poll(&p, &request))
		;
	close(request.fd);
	braid_request_answer(&p, 0, "done");
	CHECK_EQ(status_of(pid), 0);
	close(fd);
	braid_request_close(&p);
	CHECK(braid_request_connect(getpid()) < 0);
}

int main(void)
{
	setenv("XDG_RUNTIME_DIR", scratch("."), 1);
	capture_path = scratch("capture");
	RUN(answers_requests);
	return VERDICT();
}
