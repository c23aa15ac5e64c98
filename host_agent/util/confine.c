// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Drops all privileges that reading guest data does not need: docs/threat-model.md lists the rest.
 */
#include <cap-ng.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host_agent/util/confine.h"
#include "host_agent/util/error.h"
#include "host_agent/util/landlock.h"
#include "tracebraid/types.h"

#define NR(list)	(sizeof(list) / sizeof(*(list)))
#define GET_READER	_IO('R', 0x20)	/* TRACE_MMAP_IOCTL_GET_READER of tracefs */

/* Capabilities --------------------------------------------------------------------------- */

static const unsigned int inspect_keeps[] = {
	CAP_DAC_READ_SEARCH,	/* regions of other users */
};

static const unsigned int recorder_keeps[] = {
	CAP_DAC_OVERRIDE,	/* regions of other users, to be written too */
	CAP_SYS_NICE,		/* real-time priority of the exchange */
	CAP_SYSLOG,		/* the host kernel's symbols */
};

static const unsigned int peeker_keeps[] = {
	CAP_SYS_PTRACE,		/* which QEMU maps which region, and where its vCPUs' threads are */
	CAP_DAC_READ_SEARCH,	/* which pages of a VMM are in memory */
};

static const unsigned int reader_keeps[] = {
	CAP_SYS_PTRACE,		/* the memory of other users' VMMs */
};

#define MOST_KEPT	NR(recorder_keeps)

/* Everything about one enum braid_confine. */
static const struct confinement {
	const unsigned int *keeps;
	size_t nr_keeps;
	bool writes;		/* makes and writes files */
	bool threads;		/* makes threads */
	bool connects;		/* to a server on the network */
	bool peeks;		/* reads what is other processes', which Landlock would deny */
} confinements[] = {
	[BRAID_CONFINE_FILES] = { .threads = true },
	[BRAID_CONFINE_CONVERT] = { .writes = true, .threads = true },
	[BRAID_CONFINE_INSPECT] = { .keeps = inspect_keeps, .nr_keeps = NR(inspect_keeps) },
	[BRAID_CONFINE_RECORD] = {
		.keeps = recorder_keeps, .nr_keeps = NR(recorder_keeps), .writes = true,
		.threads = true,
	},
	[BRAID_CONFINE_READ_MEMORY] = {
		.keeps = reader_keeps, .nr_keeps = NR(reader_keeps), .peeks = true,
	},
	[BRAID_CONFINE_SERVE] = { .threads = true },
	[BRAID_CONFINE_FLEET] = { .threads = true, .connects = true },
	[BRAID_CONFINE_FETCH] = { .writes = true, .threads = true, .connects = true },
	[BRAID_CONFINE_PEEK] = {
		.keeps = peeker_keeps, .nr_keeps = NR(peeker_keeps), .peeks = true,
	},
};

static int keep_capabilities(const unsigned int *keep, size_t nr)
{
	const capng_type_t all = CAPNG_EFFECTIVE | CAPNG_PERMITTED;
	bool had[MOST_KEPT], bounding;
	size_t k;

	if (capng_get_caps_process())
		return braid_fail(-EPERM, "cannot read the capabilities of this process");
	/*
	 * Without it the bounding set can't be dropped, but nothing is executed from here on
	 * anyway.
	 */
	bounding = capng_have_capability(CAPNG_EFFECTIVE, CAP_SETPCAP);
	for (k = 0; k < nr; k++)
		had[k] = capng_have_capability(CAPNG_PERMITTED, keep[k]);
	capng_clear(CAPNG_SELECT_BOTH);
	for (k = 0; k < nr; k++)
		if (had[k])
			capng_update(CAPNG_ADD, all | CAPNG_BOUNDING_SET, keep[k]);
	if (capng_apply(bounding ? CAPNG_SELECT_BOTH : CAPNG_SELECT_CAPS))
		return braid_fail(-EPERM, "cannot drop capabilities");
	return 0;
}

/* System calls --------------------------------------------------------------------------- */

static const int everybody_may[] = {
	SCMP_SYS(access), SCMP_SYS(brk), SCMP_SYS(clock_getres), SCMP_SYS(clock_gettime),
	SCMP_SYS(clock_nanosleep), SCMP_SYS(close), SCMP_SYS(exit), SCMP_SYS(exit_group),
	SCMP_SYS(faccessat), SCMP_SYS(faccessat2), SCMP_SYS(fadvise64),
	SCMP_SYS(fstat), SCMP_SYS(futex), SCMP_SYS(getcpu), SCMP_SYS(getdents64),
	SCMP_SYS(getegid), SCMP_SYS(geteuid), SCMP_SYS(getgid), SCMP_SYS(getpid),
	SCMP_SYS(getrandom), SCMP_SYS(gettid), SCMP_SYS(gettimeofday), SCMP_SYS(getuid),
	SCMP_SYS(lseek), SCMP_SYS(lstat), SCMP_SYS(madvise), SCMP_SYS(mremap), SCMP_SYS(munmap),
	SCMP_SYS(nanosleep), SCMP_SYS(newfstatat), SCMP_SYS(poll), SCMP_SYS(ppoll),
	SCMP_SYS(pread64), SCMP_SYS(read), SCMP_SYS(readlink), SCMP_SYS(readlinkat),
	SCMP_SYS(readv), SCMP_SYS(recvmsg), SCMP_SYS(restart_syscall), SCMP_SYS(rseq), SCMP_SYS(rt_sigaction),
	SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn), SCMP_SYS(sched_getaffinity),
	SCMP_SYS(sched_yield), SCMP_SYS(sendmsg), SCMP_SYS(set_robust_list), SCMP_SYS(sigaltstack), SCMP_SYS(stat),
	SCMP_SYS(statx), SCMP_SYS(sysinfo), SCMP_SYS(time), SCMP_SYS(uname), SCMP_SYS(write),
	SCMP_SYS(writev),
};

/* Folders are those of CTF (arm64 has mkdirat() alone). */
static const int makers_may[] = {
	SCMP_SYS(fsync), SCMP_SYS(ftruncate), SCMP_SYS(mkdir), SCMP_SYS(mkdirat),
	SCMP_SYS(open), SCMP_SYS(openat), SCMP_SYS(rename), SCMP_SYS(renameat), SCMP_SYS(renameat2),
	SCMP_SYS(unlink), SCMP_SYS(unlinkat),
};

/* Only existing sockets: no new connect() or listen(). fallocate() frees what the live view showed. */
static const int recorder_may[] = {
	SCMP_SYS(accept4), SCMP_SYS(epoll_create1), SCMP_SYS(epoll_ctl), SCMP_SYS(epoll_pwait),
	SCMP_SYS(epoll_wait), SCMP_SYS(eventfd2), SCMP_SYS(fallocate), SCMP_SYS(flock), SCMP_SYS(fstatfs),
	SCMP_SYS(getsockopt), SCMP_SYS(pidfd_open), SCMP_SYS(preadv2), SCMP_SYS(recvfrom),
	SCMP_SYS(rmdir), SCMP_SYS(sched_get_priority_max),
	SCMP_SYS(sched_get_priority_min), SCMP_SYS(sched_getparam), SCMP_SYS(sched_getscheduler),
	SCMP_SYS(sendto), SCMP_SYS(shutdown), SCMP_SYS(timerfd_settime), SCMP_SYS(wait4),
};

/* Likewise. libmicrohttpd sets options of the connections that it has accepted. */
static const int server_may[] = {
	SCMP_SYS(accept4), SCMP_SYS(epoll_create1), SCMP_SYS(epoll_ctl), SCMP_SYS(epoll_pwait),
	SCMP_SYS(epoll_wait), SCMP_SYS(eventfd2), SCMP_SYS(getpeername), SCMP_SYS(getsockname),
	SCMP_SYS(getsockopt), SCMP_SYS(recvfrom), SCMP_SYS(sendto), SCMP_SYS(setsockopt),
	SCMP_SYS(shutdown),
};

/* A client of a server on the network, and what resolves names. */
static const int connector_may[] = {
	SCMP_SYS(bind), SCMP_SYS(connect), SCMP_SYS(eventfd2), SCMP_SYS(getpeername),
	SCMP_SYS(getsockname), SCMP_SYS(getsockopt), SCMP_SYS(pipe2), SCMP_SYS(recvfrom),
	SCMP_SYS(sendmmsg), SCMP_SYS(sendto), SCMP_SYS(setsockopt), SCMP_SYS(shutdown),
};

/* No local sockets: a service of this host could be listening. */
static const int families[] = { AF_INET, AF_INET6, AF_NETLINK };

/* On a terminal others would type; on a file of tracefs the last one waits for its reader. */
static const unsigned long ioctls[] = { TCGETS, TIOCGWINSZ, FIONREAD, GET_READER };

/* Not those by which a descriptor's events send a signal, to any process. */
static const int fcntls[] = {
	F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GET_SEALS,
};

/* Conditions on a call's argument, counted from 0. */
static struct scmp_arg_cmp equals(unsigned int argument, u64 value)
{
	return (struct scmp_arg_cmp){ .arg = argument, .op = SCMP_CMP_EQ, .datum_a = value };
}

static struct scmp_arg_cmp masked(unsigned int argument, u64 mask, u64 value)
{
	return (struct scmp_arg_cmp){
		.arg = argument, .op = SCMP_CMP_MASKED_EQ, .datum_a = mask, .datum_b = value,
	};
}

static int allow_list(scmp_filter_ctx ctx, const int *list, size_t nr)
{
	int err = 0;
	size_t k;

	for (k = 0; k < nr && !err; k++)
		err = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, list[k], 0);
	return err;
}

/* Requests and answers by read() and write(); sigaltstack() is the end of a process with ASan. */
static const int reader_may[] = {
	SCMP_SYS(clock_gettime), SCMP_SYS(exit), SCMP_SYS(exit_group), SCMP_SYS(process_vm_readv),
	SCMP_SYS(read), SCMP_SYS(restart_syscall), SCMP_SYS(rt_sigreturn), SCMP_SYS(sigaltstack),
	SCMP_SYS(write),
};

/* move_pages() that shows which pages are in memory, and moves none: without nodes and flags. */
static int allow_looking(scmp_filter_ctx ctx)
{
	return seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(move_pages), 2, equals(3, 0),
				equals(5, 0));
}

/* Files are opened only for reading. */
static int allow_reading(scmp_filter_ctx ctx)
{
	const u64 writes = O_ACCMODE | O_CREAT | O_TRUNC | (O_TMPFILE & ~O_DIRECTORY);
	int err = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(openat), 1,
				   masked(2, writes, O_RDONLY));

	return err ? err : seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(open), 1,
					    masked(1, writes, O_RDONLY));
}

/* Memory is never made executable; limits are read; a signal goes to ourselves. */
static int allow_some(scmp_filter_ctx ctx)
{
	size_t k;
	int err = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1,
				   masked(2, PROT_EXEC, 0));

	if (!err)
		err = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
				       masked(2, PROT_EXEC, 0));
	if (!err)
		err = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), 2,
				       equals(0, 0), equals(2, 0));
	if (!err)
		err = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1,
				       equals(0, getpid()));
	for (k = 0; k < NR(ioctls) && !err; k++)
		err = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1,
				       equals(1, ioctls[k]));
	for (k = 0; k < NR(fcntls) && !err; k++)
		err = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(fcntl), 1,
				       equals(1, fcntls[k]));
	return err;
}

/* Threads, no processes: clone3()'s flags can't be seen, and libc does without it. */
static int allow_threads(scmp_filter_ctx ctx)
{
	int err = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
				   masked(0, CLONE_THREAD, CLONE_THREAD));

	return err ? err : seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
}

static int allow_connecting(scmp_filter_ctx ctx)
{
	int err = allow_list(ctx, connector_may, NR(connector_may));
	size_t k;

	for (k = 0; k < NR(families) && !err; k++)
		err = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1,
				       equals(0, families[k]));
	return err;
}

static int allow_recording(scmp_filter_ctx ctx, const pid_t *children)
{
	static const int of_itself[] = { SCMP_SYS(sched_setaffinity), SCMP_SYS(sched_setscheduler) };
	int err = allow_list(ctx, recorder_may, NR(recorder_may));
	size_t k;

	for (k = 0; k < NR(of_itself) && !err; k++)
		err = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, of_itself[k], 1, equals(0, 0));
	if (!err)
		err = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(prctl), 1,
				       equals(0, PR_SET_NAME));
	if (!err)	/* whether a former agent, whose trace instance exists, is alive */
		err = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(kill), 1,
				       equals(1, 0));
	for (k = 0; children && k < BRAID_CONFINE_CHILDREN && !err; k++)
		if (children[k] > 0)
			err = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(kill), 1,
					       equals(0, children[k]));
	return err;
}

static int allow_calls(scmp_filter_ctx ctx, enum braid_confine what, const pid_t *children)
{
	int err;

	if (what == BRAID_CONFINE_READ_MEMORY) {
		err = allow_list(ctx, reader_may, NR(reader_may));
		return err ? err : allow_looking(ctx);
	}
	err = allow_list(ctx, everybody_may, NR(everybody_may));
	if (!err)
		err = allow_some(ctx);
	if (!err)
		err = confinements[what].writes ? allow_list(ctx, makers_may, NR(makers_may)) :
						  allow_reading(ctx);
	if (!err && confinements[what].threads)
		err = allow_threads(ctx);
	/* To see whether a VMM lives, of which memory is copied. */
	if (!err && (what == BRAID_CONFINE_INSPECT || what == BRAID_CONFINE_CONVERT))
		err = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(pidfd_open), 0);
	if (!err && what == BRAID_CONFINE_SERVE)
		err = allow_list(ctx, server_may, NR(server_may));
	if (!err && confinements[what].connects)
		err = allow_connecting(ctx);
	if (!err && what == BRAID_CONFINE_RECORD)
		err = allow_recording(ctx, children);
	return err;
}

static int refuse_calls(enum braid_confine what, const pid_t *children)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int err;

	if (!ctx)
		return -ENOMEM;
	err = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_TSYNC, 1);
	if (!err)	/* calls of other ABIs, such as x32: libseccomp would kill one thread of the process */
		err = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(EPERM));
	if (!err)	/* a search tree: there are a few hundred calls */
		err = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	if (!err)
		err = allow_calls(ctx, what, children);
	if (!err)
		err = seccomp_load(ctx);	/* sets no_new_privs as well */
	seccomp_release(ctx);
	return err;
}

/* Landlock is one wall more, where the kernel has it. */
static int restrict_files(const struct confinement *c)
{
	int err;

	if (c->peeks)
		return 0;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return braid_fail(-errno, "cannot set no_new_privs: %s", strerror(errno));
	err = braid_landlock(c->writes);
	return err && err != -EOPNOTSUPP ?
	       braid_fail(err, "cannot confine by Landlock: %s", strerror(-err)) : 0;
}

int braid_confine(enum braid_confine what, const pid_t children[BRAID_CONFINE_CHILDREN])
{
	const struct confinement *c = &confinements[what];
	int err = restrict_files(c);

	if (!err)
		err = keep_capabilities(c->keeps, c->nr_keeps);
	if (err)
		return err;
	err = refuse_calls(what, children);
	return err ? braid_fail(err, "cannot install the seccomp filter: %s; the kernel needs CONFIG_SECCOMP_FILTER",
				strerror(-err)) : 0;
}
