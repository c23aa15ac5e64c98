// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * File descriptors received from a peer. close() may block indefinitely: a TCP socket may linger, a
 * file may be in a file system that the peer serves.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "host_agent/transport/untrusted_fd.h"

#define QUEUE	64u

/* Ends with the process, even while blocked. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t more;
	bool runs;
	int fds[QUEUE];
	u32 first;
	u32 nr;
	u32 leaked;
} closer = { .lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER };

/*
 * fstat() could block in a file system; names of descriptors that are not files have no leading
 * '/'.
 */
enum braid_untrusted_fd_kind braid_untrusted_fd_kind(int fd)
{
	static const struct {
		const char *name;
		enum braid_untrusted_fd_kind kind;
	} kinds[] = {
		{ "anon_inode:[eventfd]", BRAID_FD_EVENTFD },
		{ "pipe:[", BRAID_FD_PIPE },
		{ "socket:[", BRAID_FD_SOCKET },
	};
	char path[32], name[32];
	ssize_t n;
	size_t k;

	if (fcntl(fd, F_GET_SEALS) >= 0)
		return BRAID_FD_MEMORY;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = readlink(path, name, sizeof(name));
	for (k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
		if (n >= (ssize_t)strlen(kinds[k].name) &&
		    !memcmp(name, kinds[k].name, strlen(kinds[k].name)))
			return kinds[k].kind;
	return BRAID_FD_OTHER;
}

void braid_untrusted_fd_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	/* The other side shares these flags, and may have changed them. */
	if (flags >= 0 && !(flags & O_NONBLOCK))
		fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

ssize_t braid_untrusted_fd_read(int fd, void *to, size_t bytes)
{
	const struct iovec iov = { .iov_base = to, .iov_len = bytes };
	ssize_t n = preadv2(fd, &iov, 1, -1, RWF_NOWAIT);

	if (n >= 0 || errno != EOPNOTSUPP)
		return n;
	braid_untrusted_fd_nonblocking(fd);
	return read(fd, to, bytes);
}

/* Closing ------------------------------------------------------------------------------- */

static void *close_them(void *arg)
{
	int fd;

	(void)arg;
	pthread_mutex_lock(&closer.lock);
	for (;;) {
		while (!closer.nr)
			pthread_cond_wait(&closer.more, &closer.lock);
		fd = closer.fds[closer.first];
		closer.first = (closer.first + 1) % QUEUE;
		closer.nr--;
		pthread_mutex_unlock(&closer.lock);
		close(fd);
		pthread_mutex_lock(&closer.lock);
	}
	return NULL;
}

/* Must hold the lock. Most agents never need it. */
static bool untrusted_fd_start(void)
{
	pthread_t thread;

	if (closer.runs)
		return true;
	closer.runs = !pthread_create(&thread, NULL, close_them, NULL);
	if (closer.runs)
		pthread_detach(thread);
	return closer.runs;
}

static void close_elsewhere(int fd)
{
	pthread_mutex_lock(&closer.lock);
	if (closer.nr < QUEUE && untrusted_fd_start()) {
		closer.fds[(closer.first + closer.nr++) % QUEUE] = fd;
		pthread_cond_signal(&closer.more);
	} else {
		closer.leaked++;
	}
	pthread_mutex_unlock(&closer.lock);
}

void braid_untrusted_fd_close(int fd)
{
	if (fd < 0)
		return;
	switch (braid_untrusted_fd_kind(fd)) {
	case BRAID_FD_EVENTFD:
	case BRAID_FD_PIPE:
	case BRAID_FD_MEMORY:
		close(fd);	/* no thread is needed, which others could hold up */
		break;
	default:
		close_elsewhere(fd);
	}
}

void braid_untrusted_fd_hang_up(int fd)
{
	int bytes = 0;

	if (fd < 0)
		return;
	/* No more input: an empty socket holds no file descriptors either. */
	if (!shutdown(fd, SHUT_RDWR) && !ioctl(fd, FIONREAD, &bytes) && !bytes)
		close(fd);
	else
		close_elsewhere(fd);
}

u32 braid_untrusted_fd_leaked(void)
{
	u32 leaked;

	pthread_mutex_lock(&closer.lock);
	leaked = closer.leaked;
	pthread_mutex_unlock(&closer.lock);
	return leaked;
}
