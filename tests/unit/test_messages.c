// SPDX-License-Identifier: GPL-2.0-or-later
/* What is said on a stderr that nobody reads is dropped and counted; nobody waits. */
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host_agent/cli/messages.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"

#define LINES	20000u

int main(void);

static char taken[2u << 20];

/* All that was written to the other end, as text. */
static void take(int fd)
{
	size_t used = 0;
	int waiting;
	ssize_t n;

	while (!ioctl(fd, FIONREAD, &waiting) && waiting > 0) {
		n = read(fd, taken + used, sizeof(taken) - 1 - used);
		NEED(n > 0);
		used += n;
	}
	taken[used] = 0;
}

static unsigned long lines_of(const char *text)
{
	unsigned long nr = 0;

	for (; *text; text++)
		nr += *text == '\n';
	return nr;
}

/* Says more than fits, then reads, then says one line more. */
static void say_too_much(int to, int from)
{
	unsigned long got, dropped = 0;
	int saved = dup(STDERR_FILENO);
	const char *told;
	unsigned int k;

	NEED(saved >= 0 && dup2(to, STDERR_FILENO) == STDERR_FILENO);
	braid_messages_begin();
	for (k = 0; k < LINES; k++)
		fprintf(stderr, "line %u of many that nobody reads\n", k);
	take(from);
	got = lines_of(taken);
	fprintf(stderr, "the last\n");
	take(from);
	braid_messages_end();
	NEED(dup2(saved, STDERR_FILENO) == STDERR_FILENO && !close(saved));
	told = strstr(taken, "tracebraid: ");
	CHECK(got && got < LINES);
	CHECK(told && sscanf(told, "tracebraid: %lu lines dropped", &dropped) == 1);
	CHECK_EQ(got + dropped, LINES);
	CHECK(strstr(taken, "the last\n"));
}

static void a_pipe_that_nobody_reads(void)
{
	int ends[2];

	NEED(!pipe(ends));
	say_too_much(ends[1], ends[0]);
	CHECK(!(fcntl(ends[1], F_GETFL) & O_NONBLOCK));	/* others have it too */
	close(ends[0]);
	close(ends[1]);
}

static void a_socket_that_nobody_reads(void)
{
	int ends[2];

	NEED(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	say_too_much(ends[1], ends[0]);
	close(ends[0]);
	close(ends[1]);
}

int main(void)
{
	RUN(a_pipe_that_nobody_reads);
	RUN(a_socket_that_nobody_reads);
	return VERDICT();
}
