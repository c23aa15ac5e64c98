// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Reads of another process' memory that do not end, by a process that is ended, of a process that
 * has ended, and that are not permitted.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <linux/sched.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host_agent/transport/vm_memory.h"
#include "host_agent/transport/vm_reader.h"
#include "host_agent/util/error.h"
#include "tests/bench/timing.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"

#define BYTES		65536u
#define NOBODY		65534
#define HANG_NS		8000000000ULL	/* longer than one deadline, also on a busy machine */
#define PLACES		16		/* a deadline for each takes longer */

static u8 *memory;	/* at the same address in all processes */

/* What a process does with its memory before it is read. Return: whether it can. */
typedef bool vmm(void);

static bool vmm_has_all(void)
{
	memset(memory, 0x5a, BYTES);
	return true;
}

static bool vmm_has_other(void)
{
	memset(memory, 0xa5, BYTES);
	return true;
}

static bool vmm_has_first(void)
{
	if (madvise(memory, BYTES, MADV_DONTNEED) || madvise(memory, BYTES, MADV_NOHUGEPAGE))
		return false;
	memory[5] = 0x5a;
	return true;
}

/* As the destination of a post-copy migration: a page comes when somebody brings it, so never. */
static bool vmm_hangs(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = {
		.range = { (uintptr_t)memory, BYTES }, .mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC);

	return fd >= 0 && !madvise(memory, BYTES, MADV_DONTNEED) &&
	       !ioctl(fd, UFFDIO_API, &api) && !ioctl(fd, UFFDIO_REGISTER, &reg);
}

static bool vmm_is_undumpable(void)
{
	return vmm_has_all() && !prctl(PR_SET_DUMPABLE, 0);
}

/* Of a user; of this number, or 0: of any. Return: the process, or 0. */
static pid_t start_as(vmm *begin, uid_t uid, pid_t number)
{
	struct clone_args args = {
		.exit_signal = SIGCHLD, .set_tid = (uintptr_t)&number, .set_tid_size = !!number,
	};
	char ready = 0;
	int fds[2];
	pid_t pid;

	NEED(!pipe2(fds, O_CLOEXEC));
	pid = number ? syscall(SYS_clone3, &args, sizeof(args)) : fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		ready = (uid == geteuid() || (!setgid(uid) && !setuid(uid) &&
					      !prctl(PR_SET_DUMPABLE, 1))) && begin();
		if (write(fds[1], &ready, 1) == 1)
			pause();
		_exit(0);
	}
	close(fds[1]);
	if (pid > 0 && read(fds[0], &ready, 1) == 1 && !ready) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	close(fds[0]);
	return pid > 0 && ready ? pid : 0;
}

static pid_t start(vmm *begin)
{
	return start_as(begin, geteuid(), 0);
}

static void stop(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static ssize_t read_byte(pid_t pid, u8 *byte)
{
	const struct iovec local = { byte, 1 }, remote = { memory + 5, 1 };

	return braid_vm_reader_read(pid, &local, 1, &remote, 1);
}

/* The child of a process; 0: none. */
static pid_t child_of(pid_t pid)
{
	char path[64];
	int child = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
	f = fopen(path, "r");
	if (!f || fscanf(f, "%d", &child) != 1)
		child = 0;
	if (f)
		fclose(f);
	return child;
}

/* It is ended at its deadline, and another one reads the same and other processes. */
static void a_read_that_hangs(void)
{
	pid_t hanging = start(vmm_hangs), good = start(vmm_has_all);
	u64 start_ns;
	u8 byte = 0;
	int k;

	if (!hanging) {
		printf("skip %s: no userfaultfd\n", __func__);
		stop(good);
		return;
	}
	CHECK_EQ(read_byte(good, &byte), 1);
	for (k = 0; k < 2; k++) {
		byte = 0;
		start_ns = monotonic_ns();
		CHECK_EQ(read_byte(hanging, &byte), -ETIMEDOUT);
		CHECK(monotonic_ns() - start_ns < HANG_NS);
		CHECK_EQ(read_byte(good, &byte), 1);
		CHECK_EQ(byte, 0x5a);
	}
	stop(hanging);
	stop(good);
}

/* Of many reads at once, the one that hangs is named; the others can be tried again. */
static void one_of_many_hangs(void)
{
	pid_t hanging = start(vmm_hangs), good = start(vmm_has_all);
	const struct iovec remote[2] = { { memory, 8 }, { memory + 100, 8 } };
	u8 bytes[3][16] = { { 0 } };
	struct braid_vm_read reads[3];
	struct iovec local[3];
	int k, turn;

	if (!hanging) {
		printf("skip %s: no userfaultfd\n", __func__);
		stop(good);
		return;
	}
	for (turn = 0; turn < 2; turn++) {
		for (k = 0; k < 3; k++) {
			local[k] = (struct iovec){ bytes[k], 16 };
			reads[k] = (struct braid_vm_read){
				turn || k != 1 ? good : hanging, &local[k], remote, 1, 2, false, 0,
			};
		}
		braid_vm_reader_read_many(reads, 3);
		for (k = 0; k < 3; k++)
			CHECK_EQ(reads[k].got, turn ? 16 : k == 1 ? -ETIMEDOUT : -EAGAIN);
	}
	for (k = 0; k < 48; k++)
		CHECK_EQ(bytes[k / 16][k % 16], 0x5a);
	reads[1].pid = 0x7fffffff;
	reads[2].nr_remote = 1;
	braid_vm_reader_read_many(reads, 3);
	CHECK_EQ(reads[0].got, 16);
	CHECK_EQ(reads[1].got, -ESRCH);
	CHECK_EQ(reads[2].got, 8);
	stop(hanging);
	stop(good);
}

/* Many places that would hang cost one deadline, and their search says why it ended. */
static void a_search_that_hangs(void)
{
	pid_t pid = start(vmm_hangs);
	u64 addresses[PLACES], words[PLACES], start_ns;
	struct braid_vm_memory vm;
	int k, none;

	if (!pid) {
		printf("skip %s: no userfaultfd\n", __func__);
		return;
	}
	CHECK_EQ(braid_vm_memory_open(&vm, pid), 0);
	for (k = 0; k < PLACES; k++)
		addresses[k] = (uintptr_t)memory + k * 4096;
	/* A page that is not present is not read, so nothing hangs. */
	CHECK_EQ(braid_vm_memory_words(&vm, addresses, words, PLACES), 0);
	/* It was present, and is not any more: the pagemap is another process'. */
	none = vm.pagemap;
	vmm_has_all();
	vm.pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	start_ns = monotonic_ns();
	CHECK_EQ(braid_vm_memory_words(&vm, addresses, words, PLACES), -ETIMEDOUT);
	CHECK(monotonic_ns() - start_ns < HANG_NS);
	close(none);
	braid_vm_memory_close(&vm);
	stop(pid);
}

/* Whoever ends the reader: there is another one. */
static void the_reader_is_killed(void)
{
	pid_t good = start(vmm_has_all), helper = child_of(getpid()), reader;
	u8 byte = 0;

	while (helper && !child_of(helper))
		sched_yield();
	reader = child_of(helper);
	CHECK(reader > 0 && reader != good);
	CHECK_EQ(read_byte(good, &byte), 1);
	kill(reader, SIGKILL);
	while (child_of(helper) == reader)
		sched_yield();
	byte = 0;
	CHECK_EQ(read_byte(good, &byte), 1);
	CHECK_EQ(byte, 0x5a);
	stop(good);
}

/* Its number goes to another process between the look at its pages and the read. */
static void a_number_is_reused(void)
{
	pid_t pid = start(vmm_has_all), other;
	struct braid_vm_memory vm;
	u64 address = (uintptr_t)memory, word = 1;
	char path[40];
	u8 byte = 0;

	CHECK_EQ(braid_vm_memory_open(&vm, pid), 0);
	CHECK_EQ(braid_vm_memory_read(&vm, address, &byte, 1), 0);
	CHECK_EQ(byte, 0x5a);
	stop(pid);
	other = start_as(vmm_has_other, geteuid(), pid);
	if (!other) {
		printf("skip %s: the number of a process cannot be chosen\n", __func__);
		braid_vm_memory_close(&vm);
		return;
	}
	CHECK_EQ(other, pid);
	CHECK_EQ(braid_vm_memory_read(&vm, address, &byte, 1), -ESRCH);
	snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)other);
	close(vm.pagemap);
	vm.pagemap = open(path, O_RDONLY | O_CLOEXEC);
	CHECK_EQ(braid_vm_memory_read(&vm, address, &byte, 1), -ESRCH);
	CHECK_EQ(braid_vm_memory_words(&vm, &address, &word, 1), -ESRCH);
	braid_vm_memory_close(&vm);
	stop(other);
}

/* Opens it as an ordinary user, in a process that is not confined. Return: 0, or as said below. */
static int open_as_nobody(pid_t pid, const char *line)
{
	struct braid_vm_memory vm;
	int status;
	pid_t child;

	fflush(NULL);
	child = fork();
	if (!child) {
		int err = setgid(NOBODY) || setuid(NOBODY) ? 99 :
			  -braid_vm_memory_open(&vm, pid);

		if (err && line && !strstr(braid_failure(), line)) {
			fprintf(stderr, "\"%s\" is not in: %s\n", line, braid_failure());
			err = 98;
		}
		_exit(err);
	}
	NEED(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void who_may_not_read(void)
{
	static const struct {
		vmm *begin;
		uid_t uid;
		int err;
		const char *line;
	} all[] = {
		{ vmm_has_all, NOBODY, 0, NULL },
		{ vmm_is_undumpable, NOBODY, EACCES, "it is not dumpable (QEMU with -runas, for one); run as root" },
		{ vmm_has_all, 0, EACCES, "run as root, or as its user" },
	};
	struct braid_vm_memory vm;
	size_t k;
	pid_t pid;
	u8 byte;

	if (geteuid()) {
		printf("skip %s: not root\n", __func__);
		return;
	}
	for (k = 0; k < sizeof(all) / sizeof(*all); k++) {
		pid = start_as(all[k].begin, all[k].uid, 0);
		CHECK(pid);
		CHECK_EQ(open_as_nobody(pid, all[k].line), all[k].err);
		/* CAP_SYS_PTRACE reads them all. */
		CHECK_EQ(braid_vm_memory_open(&vm, pid), 0);
		CHECK_EQ(braid_vm_memory_read(&vm, (uintptr_t)memory, &byte, 1), 0);
		CHECK_EQ(byte, 0x5a);
		braid_vm_memory_close(&vm);
		stop(pid);
	}
	CHECK_EQ(open_as_nobody(pid, "no such process"), ESRCH);
}

/* In a process of ours, as on a kernel without it. */
static void refuse_move_pages(void)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);

	NEED(ctx && !seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(move_pages), 0) &&
	     !seccomp_load(ctx));
}

/*
 * Only a page that is present is read, and no other one becomes present, by each way of asking:
 * move_pages(), or where that fails, pagemap.
 */
static void reads_what_is_present(bool refused)
{
	pid_t pid = start(vmm_has_first);
	struct braid_vm_memory vm;
	u8 bytes[2];

	if (refused)
		refuse_move_pages();
	NEED(pid && !braid_vm_memory_open(&vm, pid));
	CHECK_EQ(braid_vm_memory_read(&vm, (uintptr_t)memory + 4095, bytes, 2), -ENODATA);
	CHECK_EQ(braid_vm_memory_read(&vm, (uintptr_t)memory + 4096, bytes, 1), -ENODATA);
	CHECK_EQ(vm.by_pagemap, false);
	CHECK_EQ(braid_vm_memory_read(&vm, (uintptr_t)memory + 5, bytes, 1), 0);
	CHECK_EQ(bytes[0], 0x5a);
	CHECK_EQ(vm.by_pagemap, refused);
	CHECK_EQ(braid_vm_memory_read(&vm, (uintptr_t)memory + 4095, bytes, 2), -ENODATA);
	CHECK(!braid_vm_memory_present(&vm, (uintptr_t)memory + 4096, 1));
	stop(pid);
	CHECK_EQ(braid_vm_memory_read(&vm, (uintptr_t)memory + 5, bytes, 1), -ESRCH);
	braid_vm_memory_close(&vm);
}

static void by_move_pages(void)
{
	if (syscall(SYS_move_pages, 0L, 0L, NULL, NULL, NULL, 0L)) {
		printf("skip %s: no move_pages()\n", __func__);
		return;
	}
	reads_what_is_present(false);
}

static void by_pagemap(void)
{
	int status, before = check_failures;
	pid_t child;

	fflush(NULL);
	child = fork();
	if (!child) {
		reads_what_is_present(true);
		_exit(check_failures != before);
	}
	NEED(child > 0 && waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
}

int main(void)
{
	memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	NEED(memory != MAP_FAILED);
	RUN(who_may_not_read);	/* without the process that reads */
	RUN(by_pagemap);
	RUN(by_move_pages);
	NEED(!braid_vm_reader_start());
	RUN(by_move_pages);	/* of that process */
	RUN(the_reader_is_killed);
	RUN(a_read_that_hangs);
	RUN(one_of_many_hangs);
	RUN(a_search_that_hangs);
	RUN(a_number_is_reused);
	return VERDICT();
}
