// SPDX-License-Identifier: GPL-2.0-or-later
/* Writes a capture in a process of its own. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host_agent/capture/flusher.h"
#include "host_agent/capture/queue.h"
#include "host_agent/util/children.h"
#include "host_agent/util/error.h"
#include "shared/platform.h"

#define RESERVE_SLOTS	4u	/* for what can't wait elsewhere: clocks, names, notes */

struct braid_flusher {
	struct braid_queue *queue;
	int fd;			/* our end of the socket */
	pid_t pid;		/* 0: none */
	bool died;
};

/* Waking --------------------------------------------------------------------------------------- */

static void wake(u32 *waits, int socket)
{
	if (!__atomic_load_n(waits, __ATOMIC_SEQ_CST) ||
	    !__atomic_exchange_n(waits, 0, __ATOMIC_SEQ_CST))
		return;
	/* On failure the other end is gone. */
	(void)!write(socket, "", 1);
}

/* Return: false: the other end is gone. */
static bool sleep_on(int socket)
{
	char byte;
	ssize_t n;

	do
		n = read(socket, &byte, 1);
	while (n < 0 && errno == EINTR);
	return n > 0;
}

/* The process ---------------------------------------------------------------------------------- */

/* Return: the file; -1: the agent has ended without one. */
static int receive_file(int socket)
{
	char byte, control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr message = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *c;
	ssize_t n;
	int fd;

	do {
		message.msg_controllen = sizeof(control);
		n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	c = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;
	if (!c)
		return -1;
	memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

/* Return: false: all bytes are taken, and the agent has ended. */
static bool await_bytes(struct braid_queue *q, int socket, bool *ended)
{
	const u8 *data;

	if (*ended)
		return false;
	__atomic_store_n(&q->consumer_waits, 1, __ATOMIC_SEQ_CST);
	if (!braid_queue_peek(q, &data))
		*ended = !sleep_on(socket);
	__atomic_store_n(&q->consumer_waits, 0, __ATOMIC_SEQ_CST);
	return true;
}

void braid_flusher_run(struct braid_flusher *b, int socket, braid_flusher_write_fn write)
{
	struct braid_queue *q = b->queue;
	int fd = receive_file(socket);
	bool ended = fd < 0;
	const u8 *data;
	ssize_t n;
	u64 bytes;

	for (;;) {
		bytes = braid_queue_peek(q, &data);
		if (!bytes) {
			if (!await_bytes(q, socket, &ended))
				break;
			continue;
		}
		n = write(fd, data, bytes);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			__atomic_store_n(&q->error, n ? -errno : -EIO, __ATOMIC_SEQ_CST);
			wake(&q->producer_waits, socket);
			break;
		}
		braid_queue_took(q, n);
		wake(&q->producer_waits, socket);
	}
	if (fd >= 0)
		close(fd);
}

/* Keeps only its end of the socket and standard error: a pipe of others would never end. */
static void leave_files(int socket)
{
	close_range(socket + 1, ~0U, 0);
	if (socket > STDERR_FILENO + 1)
		close_range(STDERR_FILENO + 1, socket - 1, 0);
	close(STDIN_FILENO);
	close(STDOUT_FILENO);
}

struct braid_flusher *braid_flusher_new(int fds[2])
{
	struct braid_flusher *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->queue = braid_queue_new();
	if (b->queue && !socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds)) {
		b->fd = fds[0];
		return b;
	}
	braid_queue_free(b->queue);
	free(b);
	return NULL;
}

int braid_flusher_start(struct braid_flusher **out, int (*confine)(void))
{
	struct braid_flusher *b;
	int fds[2], err;
	pid_t pid;

	b = braid_flusher_new(fds);
	if (!b)
		return braid_fail(-errno, "no queue for the capture: %s", strerror(errno));
	pid = fork();
	if (!pid) {
		leave_files(fds[1]);
		if (!confine || !confine())
			braid_flusher_run(b, fds[1], write);
		_exit(0);
	}
	err = -errno;
	close(fds[1]);
	if (pid < 0) {
		braid_flusher_stop(b);
		return braid_fail(err, "no process to write the capture: %s", strerror(-err));
	}
	braid_children_add(pid);
	b->pid = pid;
	*out = b;
	return 0;
}

/* The agent ------------------------------------------------------------------------------------ */

int braid_flusher_take(struct braid_flusher *b, int fd)
{
	char byte = 0, control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr message = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&message);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	return sendmsg(b->fd, &message, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int braid_flusher_error(const struct braid_flusher *b)
{
	int err = __atomic_load_n(&b->queue->error, __ATOMIC_SEQ_CST);

	return err ? err : b->died ? -EIO : 0;
}

/* Waits for some progress, unless @done, which changes only by it. */
static void await_progress(struct braid_flusher *b, bool (*done)(const struct braid_flusher *b))
{
	wake(&b->queue->consumer_waits, b->fd);
	while (!done(b) && !braid_flusher_error(b)) {
		__atomic_store_n(&b->queue->producer_waits, 1, __ATOMIC_SEQ_CST);
		if (!done(b) && !braid_flusher_error(b))
			b->died = !sleep_on(b->fd);
		__atomic_store_n(&b->queue->producer_waits, 0, __ATOMIC_SEQ_CST);
	}
}

static bool has_free_slot(const struct braid_flusher *b)
{
	return braid_queue_free_slots(b->queue);
}

static bool is_settled(const struct braid_flusher *b)
{
	return braid_flusher_written(b) == b->queue->bytes_in;
}

u8 *braid_flusher_place(struct braid_flusher *b, u32 bytes)
{
	u8 *place;

	for (;;) {
		if (braid_flusher_error(b))
			return NULL;
		place = braid_queue_place(b->queue, bytes);
		if (place)
			return place;
		await_progress(b, has_free_slot);
	}
}

void braid_flusher_commit(struct braid_flusher *b, u32 bytes)
{
	braid_queue_commit(b->queue, bytes);
}

/* The process may have died without reporting an error. Checked only while bytes are unwritten. */
static void check_alive(struct braid_flusher *b)
{
	char byte;

	if (!is_settled(b) && !recv(b->fd, &byte, 1, MSG_DONTWAIT))
		b->died = true;
}

int braid_flusher_wake(struct braid_flusher *b)
{
	wake(&b->queue->consumer_waits, b->fd);
	check_alive(b);
	return braid_flusher_error(b);
}

int braid_flusher_settle(struct braid_flusher *b)
{
	await_progress(b, is_settled);
	return braid_flusher_error(b);
}

bool braid_flusher_full(const struct braid_flusher *b)
{
	return braid_queue_free_slots(b->queue) < RESERVE_SLOTS;
}

u64 braid_flusher_bytes(const struct braid_flusher *b)
{
	return b->queue->bytes_in;
}

u64 braid_flusher_written(const struct braid_flusher *b)
{
	return __atomic_load_n(&b->queue->bytes_out, __ATOMIC_SEQ_CST);
}

u64 braid_flusher_failed(const struct braid_flusher *b, const u8 **data)
{
	u64 taken;

	*data = braid_queue_oldest(b->queue, &taken);
	return taken;
}

void braid_flusher_stop(struct braid_flusher *b)
{
	if (!b)
		return;
	close(b->fd);
	if (b->pid) {
		waitpid(b->pid, NULL, 0);
		braid_children_remove(b->pid);
	}
	braid_queue_free(b->queue);
	free(b);
}
