// SPDX-License-Identifier: GPL-2.0-or-later
/* Lines on stderr that never block: a pipe without a reader must not stop a recording. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host_agent/cli/messages.h"

#define PIECE_BYTES	4096u	/* PIPE_BUF: a pipe that is ready accepts this much at once */

static struct {
	FILE *stream;		/* stderr meanwhile; NULL: not begun */
	FILE *before;
	int fd;
	unsigned long dropped;	/* dropped lines */
} messages;

/* Writes all or nothing, without waiting. */
static ssize_t messages_give(const char *data, size_t bytes)
{
	struct pollfd p = { .fd = messages.fd, .events = POLLOUT };
	ssize_t n;

	if (poll(&p, 1, 0) <= 0)
		return -1;
	n = send(messages.fd, data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
	return n < 0 && errno == ENOTSOCK ? write(messages.fd, data, bytes) : n;
}

static void count_dropped(const char *data, size_t bytes)
{
	for (; bytes--; data++)
		messages.dropped += *data == '\n';
}

/* What stdio calls with the lines that are complete. */
static ssize_t messages_put(void *arg, const char *data, size_t bytes)
{
	char line[96];
	size_t done, n;

	(void)arg;
	if (messages.dropped) {
		n = snprintf(line, sizeof(line), "tracebraid: lines dropped: %lu (standard error was not read in time)\n",
			     messages.dropped);
		if (messages_give(line, n) == (ssize_t)n)
			messages.dropped = 0;
	}
	for (done = 0; done < bytes; done += n) {
		n = bytes - done < PIECE_BYTES ? bytes - done : PIECE_BYTES;
		if (messages.dropped || messages_give(data + done, n) < 0) {
			count_dropped(data + done, bytes - done);
			break;
		}
	}
	return bytes;
}

/* One of our own that does not block: the flags of the other are shared with other processes. */
static int open_own(void)
{
	struct stat st;
	int fd = -1;

	if (!fstat(STDERR_FILENO, &st) && (S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode)))
		fd = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return fd < 0 ? STDERR_FILENO : fd;
}

void braid_messages_begin(void)
{
	static const cookie_io_functions_t io = { .write = messages_put };

	if (messages.stream)
		return;
	messages.stream = fopencookie(NULL, "w", io);
	if (!messages.stream)
		return;
	setvbuf(messages.stream, NULL, _IOLBF, PIECE_BYTES);
	messages.fd = open_own();
	messages.before = stderr;
	stderr = messages.stream;
}

void braid_messages_end(void)
{
	if (!messages.stream)
		return;
	stderr = messages.before;
	fclose(messages.stream);
	messages.stream = NULL;
	if (messages.fd != STDERR_FILENO)
		close(messages.fd);
}
