// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Two processes: a reader, and its parent, which ends a reader that hangs and starts another one.
 * Bytes are handed over in memory that reader and agent share.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "host_agent/transport/vm_reader.h"
#include "host_agent/util/confine.h"
#include "host_agent/util/error.h"
#include "host_agent/util/helper.h"
#include "shared/platform.h"

#define DEADLINE_NS	1000000000ULL	/* a page that is swapped in takes less */
#define WATCH_MS	200

struct vm_request {
	u32 number;
	s32 pid;
	u32 nr;
	struct vm_range {
		u64 address;
		u64 bytes;
	} ranges[BRAID_VM_READ_PARTS];
};

struct vm_answer {
	u32 number;
	s64 got;		/* bytes, or -errno */
};

struct vm_shared {
	u64 began_ns;		/* when the read that lasts began; 0: none does */
	u8 bytes[BRAID_VM_READ_BYTES];
};

static int reader_fd = -1;	/* or -1: we read ourselves */
static struct vm_shared *shared;
static u32 last_number;

static u64 vm_reader_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (u64)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The reader ----------------------------------------------------------------------------------- */

static s64 vm_reader_serve(const struct vm_request *request)
{
	struct iovec local = { shared->bytes, 0 }, remote[BRAID_VM_READ_PARTS];
	ssize_t got;
	u32 k;

	for (k = 0; k < request->nr && k < BRAID_VM_READ_PARTS; k++) {
		const struct vm_range *range = &request->ranges[k];

		if (range->bytes > sizeof(shared->bytes) - local.iov_len)
			return -EINVAL;
		remote[k] = (struct iovec){ (void *)range->address, range->bytes };
		local.iov_len += range->bytes;
	}
	braid_store_release(&shared->began_ns, vm_reader_now_ns());
	got = process_vm_readv(request->pid, &local, 1, remote, k, 0);
	got = got < 0 ? -errno : got;
	braid_store_release(&shared->began_ns, 0);
	return got;
}

static void vm_reader_run(int socket)
{
	struct vm_request request;
	struct vm_answer answer;

	if (braid_confine(BRAID_CONFINE_READ_MEMORY, NULL))
		return;
	while (read(socket, &request, sizeof(request)) == sizeof(request)) {
		answer = (struct vm_answer){ request.number, vm_reader_serve(&request) };
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
		if (!began_ns || vm_reader_now_ns() - began_ns < DEADLINE_NS)
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
	pid_t pid;

	if (reader_fd >= 0)
		return 0;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		return braid_fail(-errno, "cannot map memory: %s", strerror(errno));
	return braid_helper_start(&reader_fd, &pid, vm_reader_supervise, NULL);
}

/* The agent ------------------------------------------------------------------------------------ */

/* The answer to this request; those to former ones, which came too late, are dropped. */
static s64 vm_reader_await(u32 number)
{
	const u64 end_ns = vm_reader_now_ns() + DEADLINE_NS + 2 * WATCH_MS * 1000000ULL;
	struct pollfd p = { .fd = reader_fd, .events = POLLIN };
	struct vm_answer answer;
	s64 left_ns;
	int ready;

	for (;;) {
		left_ns = end_ns - vm_reader_now_ns();
		ready = left_ns > 0 ? poll(&p, 1, left_ns / 1000000 + 1) : 0;
		if (!ready)
			return -ETIMEDOUT;
		if (ready < 0 && errno == EINTR)
			continue;
		if (read(reader_fd, &answer, sizeof(answer)) != sizeof(answer))
			return -EIO;
		if (answer.number == number)
			return answer.got;
	}
}

static void vm_reader_scatter(const struct iovec *local, size_t nr, size_t bytes)
{
	const u8 *from = shared->bytes;
	size_t k, n;

	for (k = 0; k < nr && bytes; k++, from += n, bytes -= n) {
		n = local[k].iov_len < bytes ? local[k].iov_len : bytes;
		memcpy(local[k].iov_base, from, n);
	}
}

ssize_t braid_vm_reader_read(pid_t pid, const struct iovec *local, size_t nr_local,
			     const struct iovec *remote, size_t nr_remote)
{
	struct vm_request request;
	ssize_t got;
	size_t k;

	if (reader_fd < 0) {
		got = process_vm_readv(pid, local, nr_local, remote, nr_remote, 0);
		return got < 0 ? -errno : got;
	}
	request.number = ++last_number;
	request.pid = pid;
	request.nr = nr_remote;
	memset(request.ranges, 0, sizeof(request.ranges));
	for (k = 0; k < nr_remote; k++)
		request.ranges[k] = (struct vm_range){ (u64)remote[k].iov_base, remote[k].iov_len };
	if (write(reader_fd, &request, sizeof(request)) != sizeof(request))
		return -EIO;
	got = vm_reader_await(request.number);
	if (got > (ssize_t)sizeof(shared->bytes))
		return -EIO;
	if (got > 0)
		vm_reader_scatter(local, nr_local, got);
	return got;
}
