// SPDX-License-Identifier: GPL-2.0-or-later
/* Writes a capture in a process of its own. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host_agent/capture/flusher.h"
#include "host_agent/capture/packer.h"
#include "host_agent/capture/queue.h"
#include "host_agent/util/helper.h"
#include "host_agent/util/error.h"
#include "host_agent/util/io.h"
#include "shared/platform.h"

#define RESERVE_SLOTS	4u	/* for what can't wait elsewhere: clocks, names, notes */

struct braid_flusher {
	struct braid_queue *queue;
	int fd;			/* our end of the socket */
	pid_t pid;		/* 0: none */
	int level;		/* of zstd; 0: the file is not packed */
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
	ssize_t n;
	char byte;
	int fd;

	do
		n = braid_receive_with(socket, &byte, 1, &fd, 0);
	while (n == -EINTR);
	return fd;
}

/* What the process writes to, and how. */
struct process {
	struct braid_queue *q;
	int socket, fd;
	bool ended;		/* the agent has */
	braid_flusher_write_fn write;
	struct braid_packer *packer;	/* NULL: the file is not packed */
	u64 segment_end;	/* the queue's, as far as it is done */
};

/* Return: bytes written, or -errno. */
static ssize_t write_some(const struct process *p, const void *data, size_t bytes)
{
	ssize_t n;

	do
		n = p->write(p->fd, data, bytes);
	while (n < 0 && errno == EINTR);
	return n > 0 ? n : n ? -errno : -EIO;
}

/* A chunk of a packed file. */
static int write_chunk(void *arg, const void *data, size_t bytes)
{
	struct process *p = arg;
	size_t done = 0;
	ssize_t n;

	while (done < bytes) {
		n = write_some(p, (const u8 *)data + done, bytes - done);
		if (n < 0)
			return n;
		done += n;
	}
	__atomic_store_n(&p->q->file_bytes, p->q->file_bytes + bytes, __ATOMIC_SEQ_CST);
	return 0;
}

static void report_error(const struct process *p, int err)
{
	__atomic_store_n(&p->q->error, err, __ATOMIC_SEQ_CST);
	wake(&p->q->producer_waits, p->socket);
}

/* Whether a segment is to end now: all of its bytes are taken. */
static bool ends_segment(const struct process *p)
{
	u64 end = __atomic_load_n(&p->q->segment_end, __ATOMIC_SEQ_CST);

	return p->packer && end > p->segment_end && p->q->bytes_out >= end;
}

static int end_segment(struct process *p)
{
	p->segment_end = p->q->bytes_out;
	return braid_packer_end_segment(p->packer);
}

/* Return: false: all bytes are taken, and no more come. */
static bool await_bytes(struct process *p)
{
	struct braid_queue *q = p->q;
	bool finish = __atomic_load_n(&q->finish, __ATOMIC_SEQ_CST);
	const u8 *data;

	if (braid_queue_peek(q, &data))		/* it came before that flag */
		return true;
	if (finish || p->ended)
		return false;
	__atomic_store_n(&q->consumer_waits, 1, __ATOMIC_SEQ_CST);
	if (!braid_queue_peek(q, &data) && !ends_segment(p) &&
	    !__atomic_load_n(&q->finish, __ATOMIC_SEQ_CST))
		p->ended = !sleep_on(p->socket);
	__atomic_store_n(&q->consumer_waits, 0, __ATOMIC_SEQ_CST);
	return true;
}

/* Return: 0: all is written; or -errno. */
static int flusher_take_all(struct process *p)
{
	const u8 *data;
	ssize_t n;
	u64 bytes;

	for (;;) {
		n = ends_segment(p) ? end_segment(p) : 0;
		if (n < 0)
			return n;
		bytes = braid_queue_peek(p->q, &data);
		if (!bytes) {
			if (!await_bytes(p))
				return 0;
			continue;
		}
		n = p->packer ? braid_packer_add(p->packer, data, bytes) :
				write_some(p, data, bytes);
		if (n < 0)
			return n;
		braid_queue_took(p->q, p->packer ? bytes : (u64)n);
		wake(&p->q->producer_waits, p->socket);
	}
}

/* The end of a packed file, unless the file was not begun. */
static int finish_file(struct process *p)
{
	int err = p->q->file_bytes ? braid_packer_finish(p->packer) : 0;

	if (err)
		return err;
	__atomic_store_n(&p->q->finished, 1, __ATOMIC_SEQ_CST);
	wake(&p->q->producer_waits, p->socket);
	return 0;
}

void braid_flusher_run(struct braid_flusher *b, int socket, braid_flusher_write_fn write)
{
	struct process p = {
		.q = b->queue, .socket = socket, .fd = receive_file(socket), .write = write,
	};
	const struct braid_packer_options options = {
		.level = b->level, .write = write_chunk, .arg = &p,
	};
	int err = 0;

	p.ended = p.fd < 0;
	if (b->level) {
		p.packer = braid_packer_new(&options);
		err = p.packer ? 0 : -ENOMEM;
	}
	if (!err)
		err = flusher_take_all(&p);
	if (!err && p.packer)
		err = finish_file(&p);
	if (err)
		report_error(&p, err);
	braid_packer_free(p.packer);
	if (p.fd >= 0)
		close(p.fd);
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

struct braid_flusher *braid_flusher_new(int fds[2], int level)
{
	struct braid_flusher *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->level = level;
	b->queue = braid_queue_new();
	if (b->queue && !socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds)) {
		b->fd = fds[0];
		return b;
	}
	braid_queue_free(b->queue);
	free(b);
	return NULL;
}

int braid_flusher_start(struct braid_flusher **out, int level, int (*confine)(void))
{
	struct braid_flusher *b;
	int fds[2], err;
	pid_t pid;

	b = braid_flusher_new(fds, level);
	if (!b)
		return braid_fail(-errno, "cannot create the queue of the capture: %s", strerror(errno));
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
		return braid_fail(err, "cannot create the process that writes the capture: %s", strerror(-err));
	}
	braid_children_add(pid);
	b->pid = pid;
	*out = b;
	return 0;
}

/* The agent ------------------------------------------------------------------------------------ */

int braid_flusher_take(struct braid_flusher *b, int fd)
{
	ssize_t n = braid_send_with(b->fd, "", 1, fd, 0);

	return n < 0 ? n : 0;
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

static bool is_finished(const struct braid_flusher *b)
{
	return __atomic_load_n(&b->queue->finished, __ATOMIC_SEQ_CST);
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

void braid_flusher_end_segment(struct braid_flusher *b)
{
	__atomic_store_n(&b->queue->segment_end, b->queue->bytes_in, __ATOMIC_SEQ_CST);
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

int braid_flusher_finish(struct braid_flusher *b)
{
	if (!b->level)
		return braid_flusher_settle(b);
	__atomic_store_n(&b->queue->finish, 1, __ATOMIC_SEQ_CST);
	await_progress(b, is_finished);
	return is_finished(b) ? 0 : braid_flusher_error(b);
}

bool braid_flusher_packs(const struct braid_flusher *b)
{
	return b->level;
}

u64 braid_flusher_packed(const struct braid_flusher *b)
{
	return __atomic_load_n(&b->queue->file_bytes, __ATOMIC_SEQ_CST);
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
