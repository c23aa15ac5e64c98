// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Two processes: a reader, and its parent, which ends a reader that hangs and starts another one.
 * Bytes are handed over in memory that reader and agent share.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host_agent/transport/vm_reader.h"
#include "host_agent/util/confine.h"
#include "host_agent/util/error.h"
#include "host_agent/util/helper.h"
#include "host_agent/util/monotonic.h"
#include "shared/platform.h"
#include "tracebraid/abi.h"

#define DEADLINE_NS	1000000000ULL	/* a page that is swapped in takes less */
#define WATCH_MS	200
#define ANSWER_NS	(DEADLINE_NS + 2 * WATCH_MS * 1000000ULL)
#define MOST_PAGES	(BRAID_VM_READ_BYTES / BRAID_PAGE_BYTES + 2 * BRAID_VM_READ_PARTS)

struct vm_request {
	u32 number;
	u32 nr;
	struct vm_job {
		s32 pid;
		u16 check;
		u16 nr;		/* of the ranges that follow those of the job before */
	} jobs[BRAID_VM_READS];
	struct vm_range {
		u64 address;
		u64 bytes;
	} ranges[BRAID_VM_READS_PARTS];	/* a message ends with the last one */
};

struct vm_answer {
	u32 number;
	s64 got[BRAID_VM_READS];	/* bytes, or -errno */
};

struct vm_shared {
	u64 began_ns;		/* when the read that lasts began; 0: none does */
	u64 job;		/* which one it is */
	u8 bytes[BRAID_VM_READ_BYTES];	/* of the jobs, one after the other */
};

static int reader_fd = -1;	/* or -1: we read ourselves */
static struct vm_shared *shared;
static u32 last_number;

/* In the reader, or in the agent without one --------------------------------------------------- */

/*
 * Whether all pages of some ranges are in the process' tables. With NULL for the nodes move_pages()
 * only looks: it moves nothing, and brings no page into memory.
 */
static bool vm_reader_has(pid_t pid, const struct iovec *ranges, size_t nr)
{
	static void *pages[MOST_PAGES];
	static int status[MOST_PAGES];
	const u64 page_bytes = sysconf(_SC_PAGESIZE);
	size_t k, n = 0;
	u64 at, end;

	for (k = 0; k < nr; k++) {
		at = (u64)ranges[k].iov_base & -page_bytes;
		end = (u64)ranges[k].iov_base + ranges[k].iov_len;
		if (at >= end)
			return false;
		if (n && at == (u64)pages[n - 1])
			at += page_bytes;
		for (; at < end && n < MOST_PAGES; at += page_bytes)
			pages[n++] = (void *)at;
		if (at < end)
			return false;
	}
	if (syscall(SYS_move_pages, (long)pid, n, pages, NULL, status, 0L))
		return false;
	for (k = 0; k < n && status[k] >= 0; k++)
		;
	return k == n;
}

static s64 vm_reader_call(pid_t pid, bool check, const struct iovec *local, size_t nr_local,
			  const struct iovec *remote, size_t nr_remote)
{
	ssize_t got;

	if (check && !vm_reader_has(pid, remote, nr_remote))
		return -ENODATA;
	got = process_vm_readv(pid, local, nr_local, remote, nr_remote, 0);
	braid_fence();		/* what the next one reads is later */
	return got < 0 ? -errno : got;
}

static s64 vm_reader_serve_one(const struct vm_job *job, const struct vm_range *ranges, u8 *to,
			       u64 room)
{
	struct iovec local = { to, 0 }, remote[BRAID_VM_READ_PARTS];
	s64 got;
	u32 k;

	for (k = 0; k < job->nr; k++) {
		if (ranges[k].bytes > room - local.iov_len)
			return -EINVAL;
		remote[k] = (struct iovec){ (void *)ranges[k].address, ranges[k].bytes };
		local.iov_len += ranges[k].bytes;
	}
	braid_store_release(&shared->began_ns, braid_monotonic_ns());
	got = vm_reader_call(job->pid, job->check, &local, 1, remote, k);
	braid_store_release(&shared->began_ns, 0);
	return got;
}

static void vm_reader_serve(const struct vm_request *request, u32 nr_ranges,
			    struct vm_answer *answer)
{
	u64 used = 0;
	u32 k, at = 0;

	for (k = 0; k < request->nr && k < BRAID_VM_READS; k++) {
		const struct vm_job *job = &request->jobs[k];

		if (job->nr > BRAID_VM_READ_PARTS || job->nr > nr_ranges - at)
			return;
		braid_store_release(&shared->job, k);
		answer->got[k] = vm_reader_serve_one(job, request->ranges + at,
						     shared->bytes + used,
						     sizeof(shared->bytes) - used);
		used += answer->got[k] > 0 ? answer->got[k] : 0;
		at += job->nr;
	}
}

static void vm_reader_run(int socket)
{
	const size_t head = offsetof(struct vm_request, ranges);
	static struct vm_request request;
	ssize_t n;

	if (braid_confine(BRAID_CONFINE_READ_MEMORY, NULL))
		return;
	while ((n = read(socket, &request, sizeof(request))) >= (ssize_t)head) {
		struct vm_answer answer = { .number = request.number };

		vm_reader_serve(&request, (n - head) / sizeof(*request.ranges), &answer);
		if (write(socket, &answer, sizeof(answer)) != sizeof(answer))
			return;
	}
}

/* Its parent ----------------------------------------------------------------------------------- */

static pid_t vm_reader_fork(int socket)
{
	pid_t parent = getpid(), child = fork();

	if (!child) {
		if (!prctl(PR_SET_PDEATHSIG, SIGKILL) && getppid() == parent)
			vm_reader_run(socket);
		_exit(0);
	}
	return child;
}

/* Waits for a reader's end, and ends one that hangs. Return: whether a signal ended it. */
static bool vm_reader_watch(pid_t child)
{
	struct pollfd p = { .fd = syscall(SYS_pidfd_open, child, 0), .events = POLLIN };
	int status = 0;
	u64 began_ns;

	while (p.fd >= 0 && !poll(&p, 1, WATCH_MS)) {
		began_ns = braid_load_acquire(&shared->began_ns);
		if (!began_ns || braid_monotonic_ns() - began_ns < DEADLINE_NS)
			continue;
		kill(child, SIGKILL);
	}
	if (p.fd >= 0)
		close(p.fd);
	waitpid(child, &status, 0);
	braid_store_release(&shared->began_ns, 0);
	return WIFSIGNALED(status);
}

static void vm_reader_supervise(void *unused, int socket)
{
	pid_t child;

	(void)unused;
	do
		child = vm_reader_fork(socket);
	while (child > 0 && vm_reader_watch(child));
}

int braid_vm_reader_start(void)
{
	const struct timeval limit = { ANSWER_NS / 1000000000, ANSWER_NS % 1000000000 / 1000 };
	pid_t pid;
	int err;

	if (reader_fd >= 0)
		return 0;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		return braid_fail(-errno, "cannot map memory: %s", strerror(errno));
	err = braid_helper_start(&reader_fd, &pid, vm_reader_supervise, NULL);
	if (!err && setsockopt(reader_fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)))
		err = braid_fail(-errno, "cannot set the timeout of a socket: %s", strerror(errno));
	return err;
}

/* The agent ------------------------------------------------------------------------------------ */

/* The answer to this request; those to former ones, which came too late, are dropped. */
static int vm_reader_await(u32 number, struct vm_answer *answer)
{
	const u64 end_ns = braid_monotonic_ns() + ANSWER_NS;
	ssize_t n;

	do {
		n = read(reader_fd, answer, sizeof(*answer));	/* ANSWER_NS at most */
		if (n == sizeof(*answer) && answer->number == number)
			return 0;
		if (n >= 0 && n != sizeof(*answer))
			return -EIO;
		if (n < 0 && errno != EINTR)
			return errno == EAGAIN ? -ETIMEDOUT : -EIO;
	} while (braid_monotonic_ns() < end_ns);
	return -ETIMEDOUT;
}

static void vm_reader_scatter(const struct braid_vm_read *r, const u8 *from)
{
	size_t k, n, bytes = r->got;

	for (k = 0; k < r->nr_local && bytes; k++, from += n, bytes -= n) {
		n = r->local[k].iov_len < bytes ? r->local[k].iov_len : bytes;
		memcpy(r->local[k].iov_base, from, n);
	}
}

/* Return: bytes of the message. */
static size_t vm_reader_request(struct vm_request *request, const struct braid_vm_read *reads,
				size_t nr)
{
	u32 at = 0;
	size_t k, i;

	request->number = ++last_number;
	request->nr = nr;
	for (k = 0; k < nr; k++) {
		request->jobs[k] = (struct vm_job){
			reads[k].pid, reads[k].check, reads[k].nr_remote,
		};
		for (i = 0; i < reads[k].nr_remote; i++)
			request->ranges[at++] = (struct vm_range){
				(u64)reads[k].remote[i].iov_base, reads[k].remote[i].iov_len,
			};
	}
	return offsetof(struct vm_request, ranges) + at * sizeof(*request->ranges);
}

static void vm_reader_failed(struct braid_vm_read *reads, size_t nr, int err)
{
	const u64 hangs = braid_load_acquire(&shared->job);
	size_t k;

	for (k = 0; k < nr; k++)
		reads[k].got = err == -ETIMEDOUT && k != hangs ? -EAGAIN : err;
}

void braid_vm_reader_read_many(struct braid_vm_read *reads, size_t nr)
{
	static struct vm_request request;
	const u8 *from = shared ? shared->bytes : NULL;
	struct vm_answer answer;
	ssize_t bytes;
	size_t k;
	int err;

	for (k = 0; reader_fd < 0 && k < nr; k++)
		reads[k].got = vm_reader_call(reads[k].pid, reads[k].check,
					      reads[k].local, reads[k].nr_local,
					      reads[k].remote, reads[k].nr_remote);
	if (reader_fd < 0)
		return;
	bytes = vm_reader_request(&request, reads, nr);
	err = write(reader_fd, &request, bytes) == bytes ?
		      vm_reader_await(request.number, &answer) : -EIO;
	if (err)
		vm_reader_failed(reads, nr, err);
	for (k = 0; k < nr && !err; k++) {
		reads[k].got = answer.got[k];
		if (reads[k].got > shared->bytes + sizeof(shared->bytes) - from)
			reads[k].got = -EIO;
		if (reads[k].got <= 0)
			continue;
		vm_reader_scatter(&reads[k], from);
		from += reads[k].got;
	}
}

ssize_t braid_vm_reader_read(pid_t pid, const struct iovec *local, size_t nr_local,
			     const struct iovec *remote, size_t nr_remote)
{
	struct braid_vm_read r = { pid, local, remote, nr_local, nr_remote, false, 0 };

	braid_vm_reader_read_many(&r, 1);
	return r.got;
}
