// SPDX-License-Identifier: GPL-2.0-or-later
/* The library's child process: what it says is read without waiting, and to the end. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/library/program.h"
#include "host_agent/util/error.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"

int main(void);

#define LIMIT_S	20	/* for all: one that waits for what never comes is ended */

/* A shell that runs @script, in which descriptor @held is ours: it goes on once that is closed. */
static void start(struct braid_program *p, const char *script, int held)
{
	const char *const words[] = { "sh", "-c", script, NULL };

	NEED(!braid_program_start(p, "/bin/sh", words, -1, held));
}

static void listen_until(struct braid_program *p, const char *line)
{
	struct pollfd fd = { .fd = p->errors_fd, .events = POLLIN };

	while (p->error_bytes != strlen(line) || memcmp(p->error, line, p->error_bytes)) {
		NEED(poll(&fd, 1, -1) == 1);
		errno = EINTR;		/* of an earlier call, as below */
		braid_program_listen(p);
		NEED(p->errors_fd >= 0);
	}
}

/* One that has nothing more to say for now is not waited for. */
static void goes_on(void)
{
	struct braid_program p;
	int hold[2];

	NEED(!pipe2(hold, 0));
	start(&p, "echo one >&2; read -r _ <&3; echo two >&2; exit 3", hold[0]);
	close(hold[0]);
	listen_until(&p, "one");
	braid_program_listen(&p);
	CHECK(p.errors_fd >= 0);
	CHECK(p.pid > 0);
	close(hold[1]);
	CHECK_EQ(braid_program_wait(&p, 0), -EIO);
	CHECK(!strcmp(braid_failure(), "two"));
	CHECK_EQ(p.status, 3);
	CHECK_EQ(p.errors_fd, -1);
}

/* The end of what it says: nothing is left to poll, while it still runs. */
static void says_no_more(void)
{
	struct braid_program p;
	struct pollfd fd;
	int hold[2], other;

	NEED(!pipe2(hold, 0));
	start(&p, "exec 2>&-; read -r _ <&3; exit 0", hold[0]);
	close(hold[0]);
	fd = (struct pollfd){ .fd = p.errors_fd, .events = POLLIN };
	NEED(poll(&fd, 1, -1) == 1);
	errno = EAGAIN;
	braid_program_listen(&p);
	CHECK_EQ(p.errors_fd, -1);
	other = fcntl(STDIN_FILENO, F_DUPFD, fd.fd);
	CHECK_EQ(other, fd.fd);		/* it was closed */
	close(hold[1]);
	CHECK_EQ(braid_program_wait(&p, 0), 0);
	CHECK_EQ(p.status, 0);
	CHECK(!close(other));		/* once */
}

int main(void)
{
	alarm(LIMIT_S);
	RUN(goes_on);
	RUN(says_no_more);
	return VERDICT();
}
