// SPDX-License-Identifier: GPL-2.0-or-later
/* Messages on a stderr without a reader are dropped and counted, without waiting. */
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

/* All text written to the other end. */
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

/* Writes more than fits, then reads, then writes one more line. */
static void say_too_much(int to, int from)
{
	unsigned long got, dropped = 0;
	int saved = dup(STDERR_FILENO);
	const char *report;
	unsigned int k;

	NEED(saved >= 0 && dup2(to, STDERR_FILENO) == STDERR_FILENO);
	braid_messages_begin();
	for (k = 0; k < LINES; k++)
		fprintf(stderr, "line %u of many without a reader\n", k);
	take(from);
	got = lines_of(taken);
	fprintf(stderr, "the last\n");
	take(from);
	braid_messages_end();
	NEED(dup2(saved, STDERR_FILENO) == STDERR_FILENO && !close(saved));
	report = strstr(taken, "tracebraid: ");
	CHECK(got && got < LINES);
	CHECK(report && sscanf(report, "tracebraid: lines dropped: %lu", &dropped) == 1);
	CHECK_EQ(got + dropped, LINES);
	CHECK(strstr(taken, "the last\n"));
}

static void a_pipe_without_a_reader(void)
{
	int ends[2];

	NEED(!pipe(ends));
	say_too_much(ends[1], ends[0]);
	CHECK(!(fcntl(ends[1], F_GETFL) & O_NONBLOCK));	/* others have it too */
	close(ends[0]);
	close(ends[1]);
}

static void a_socket_without_a_reader(void)
{
	int ends[2];

	NEED(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	say_too_much(ends[1], ends[0]);
	close(ends[0]);
	close(ends[1]);
}

int main(void)
{
	RUN(a_pipe_without_a_reader);
	RUN(a_socket_without_a_reader);
	return VERDICT();
}
