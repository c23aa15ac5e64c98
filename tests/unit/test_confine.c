// SPDX-License-Identifier: GPL-2.0-or-later
/* Permitted and refused operations: each is tried in a process that is confined. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host_agent/util/cleanup.h"
#include "host_agent/util/confine.h"
#include "host_agent/util/error.h"
#include "host_agent/util/input.h"
#include "host_agent/util/landlock.h"
#include "host_agent/util/peek.h"
#include "tests/unit/check.h"
#include "tests/unit/need.h"

#define NR_KINDS	(BRAID_CONFINE_FETCH + 1)

static char dir[] = "/tmp/test_confine.XXXXXX";
static char file[64];
static pid_t other;	/* a process that a confined one must not access */
static pid_t own;	/* the one that it may kill */
static uid_t user;	/* ours */
static cpu_set_t cpus;	/* likewise */
static int listener;	/* a socket that listens, and does not block */
static int status_fd;	/* of a confined process: the reader of memory can open no file */

/* An operation to try: 0, or -errno. */
typedef int trial(void);

static int result(long ret)
{
	return ret < 0 ? -errno : 0;
}

static int try_exec(void)
{
	char *argv[] = { "true", NULL };

	return result(execv("/bin/true", argv));
}

static int try_fork(void)
{
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	return result(pid);
}

static int try_socket(void)
{
	return result(socket(AF_UNIX, SOCK_STREAM, 0));
}

static int try_inet(void)
{
	return result(socket(AF_INET, SOCK_STREAM, 0));
}

static int try_ptrace(void)
{
	return result(ptrace(PTRACE_ATTACH, other, NULL, NULL));
}

static int try_read_memory(void)
{
	return result(syscall(SYS_process_vm_readv, other, NULL, 0, NULL, 0, 0));
}

static int try_write_memory(void)
{
	return result(syscall(SYS_process_vm_writev, other, NULL, 0, NULL, 0, 0));
}

static int try_handle(void)
{
	struct { struct file_handle h; char room[128]; } handle = { .h.handle_bytes = 128 };

	return result(syscall(SYS_open_by_handle_at, AT_FDCWD, &handle, O_RDONLY));
}

static int try_mount(void)
{
	return result(mount("none", dir, "tmpfs", 0, NULL));
}

static int try_bpf(void)
{
	return result(syscall(SYS_bpf, 0, NULL, 0));
}

static int try_perf(void)
{
	return result(syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0));
}

static int try_setuid(void)
{
	return result(syscall(SYS_setuid, 0));
}

static int try_memfd(void)
{
	return result(syscall(SYS_memfd_create, "x", 0));
}

static int try_chmod(void)
{
	return result(chmod(file, 04755));
}

static int try_limit(void)
{
	struct rlimit limit = { 10, 10 };

	return result(setrlimit(RLIMIT_NOFILE, &limit));
}

static int try_kill_other(void)
{
	return result(kill(other, SIGCONT));
}

static int try_kill_own(void)
{
	return result(kill(own, SIGCONT));
}

static int try_ask_other(void)
{
	return result(kill(other, 0));
}

static int try_type(void)
{
	return result(ioctl(0, TIOCSTI, "x"));
}

static int try_code(void)
{
	return result((long)mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

/* Another process of the same user: only Landlock separates them. */
static int try_open_memory(void)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)other);
	return result(open(path, O_RDONLY | O_CLOEXEC));
}

static int try_open_maps(void)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)other);
	return result(open(path, O_RDONLY | O_CLOEXEC));
}

/* The kernel writes there regardless of a page's protection. */
static int try_own_text(void)
{
	return result(open("/proc/self/mem", O_RDWR | O_CLOEXEC));
}

/* A call of another ABI: nothing but the call fails. */
static int try_x32(void)
{
#ifdef __x86_64__
	return result(syscall(0x40000000 | SYS_getpid));
#else
	return -EPERM;
#endif
}

static int try_bind_other(void)
{
	return result(sched_setaffinity(other, sizeof(cpus), &cpus));
}

static int try_pidfd(void)
{
	return result(syscall(SYS_pidfd_open, other, 0)) ? -errno : 0;
}

static int try_bind_own(void)
{
	return result(sched_setaffinity(0, sizeof(cpus), &cpus));
}

static int try_policy_other(void)
{
	return result(sched_setscheduler(other, SCHED_OTHER, &(struct sched_param){ 0 }));
}

static int try_policy_own(void)
{
	return result(sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){ 0 }));
}

static int try_set_owner(void)
{
	return result(fcntl(0, F_SETOWN, other));
}

static int try_set_signal(void)
{
	return result(fcntl(0, F_SETSIG, SIGTERM));
}

static int try_fifo(void)
{
	char path[80];

	snprintf(path, sizeof(path), "%s.fifo", file);
	return result(mkfifo(path, 0600));
}

static int try_read(void)
{
	return result(open(file, O_RDONLY | O_CLOEXEC));
}

static int try_write(void)
{
	return result(open(file, O_WRONLY | O_CLOEXEC));
}

static int try_make(void)
{
	char path[80];

	snprintf(path, sizeof(path), "%s.new", file);
	return result(open(path, O_RDONLY | O_CREAT | O_CLOEXEC, 0600)) ? -errno :
									  result(unlink(path));
}

/* As the export to CTF does. */
static int try_folder(void)
{
	char path[80];

	snprintf(path, sizeof(path), "%s.dir", file);
	if (result(mkdir(path, 0700)))
		return -errno;
	return result(unlinkat(AT_FDCWD, path, AT_REMOVEDIR));
}

static int try_sync(void)
{
	int fd = open(file, O_RDWR | O_CLOEXEC);

	return fd < 0 || fsync(fd) ? -errno : 0;
}

static int try_room(void)
{
	int fd = open(file, O_RDWR | O_CLOEXEC);

	return fd < 0 ? -errno : -posix_fallocate(fd, 0, 100);
}

/* On a socket that listens already. */
static int try_accept(void)
{
	return accept4(listener, NULL, NULL, SOCK_CLOEXEC) < 0 && errno != EAGAIN ? -errno : 0;
}

static void *nothing(void *arg)
{
	return arg;
}

static int try_thread(void)
{
	pthread_t thread;
	int err = pthread_create(&thread, NULL, nothing, NULL);

	return err ? -err : -pthread_join(thread, NULL);
}

static int try_map(void)
{
	return result((long)mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

/* The result in a confined process. A positive number: it cannot be confined. */
static int confined(enum braid_confine what, trial *one)
{
	int status = 0;
	pid_t pid = fork();

	NEED(pid >= 0);
	if (!pid) {
		status_fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
		_exit(braid_confine(what, (const pid_t[BRAID_CONFINE_CHILDREN]){ 0, own }) ? 255 : -one());
	}
	NEED(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status));
	return WEXITSTATUS(status) == 255 ? 255 : -WEXITSTATUS(status);
}

static void refused_to_all(void)
{
	static trial *const all[] = {
		try_exec, try_fork, try_socket, try_ptrace, try_write_memory, try_handle,
		try_mount, try_bpf, try_perf, try_setuid, try_memfd, try_chmod, try_limit,
		try_kill_other, try_type, try_code, try_set_owner, try_set_signal, try_fifo,
		try_x32,
		try_bind_other, try_policy_other,
	};
	enum braid_confine what;
	size_t k;

	for (what = BRAID_CONFINE_FILES; what < NR_KINDS; what++)
		for (k = 0; k < sizeof(all) / sizeof(*all); k++)
			CHECK_EQ(confined(what, all[k]), -EPERM);
}

#define NO	-EPERM
#define NOT_TRIED	1	/* there is no memory for a thread's stack: a sanitizer would abort */

static void each_may_do_its_work(void)
{
	static const struct {
		trial *one;
		int results[NR_KINDS];	/* by enum braid_confine */
	} all[] = {
		{ try_read, { 0, 0, 0, 0, 0, NO, 0, 0, 0 } },
		{ try_map, { 0, 0, 0, 0, 0, NO, 0, 0, 0 } },
		{ try_read_memory, { NO, NO, NO, NO, NO, 0, NO, NO, NO } },
		{ try_write, { NO, 0, NO, 0, NO, NO, NO, NO, 0 } },
		{ try_make, { NO, 0, NO, 0, NO, NO, NO, NO, 0 } },
		{ try_folder, { NO, 0, NO, 0, NO, NO, NO, NO, 0 } },
		{ try_sync, { NO, 0, NO, 0, NO, NO, NO, NO, 0 } },
		{ try_room, { NO, NO, NO, 0, NO, NO, NO, NO, NO } },
		{ try_thread, { 0, 0, NO, 0, NO, NOT_TRIED, 0, 0, 0 } },
		{ try_ask_other, { NO, NO, NO, 0, NO, NO, NO, NO, NO } },
		{ try_pidfd, { NO, 0, 0, 0, NO, NO, NO, NO, NO } },
		{ try_bind_own, { NO, NO, NO, 0, NO, NO, NO, NO, NO } },
		{ try_policy_own, { NO, NO, NO, 0, NO, NO, NO, NO, NO } },
		{ try_kill_own, { NO, NO, NO, 0, NO, NO, NO, NO, NO } },
		{ try_inet, { NO, NO, NO, NO, NO, NO, NO, 0, 0 } },
		{ try_accept, { NO, NO, NO, 0, NO, NO, 0, NO, NO } },
	};
	size_t k;
	int what;

	for (k = 0; k < sizeof(all) / sizeof(*all); k++)
		for (what = 0; what < NR_KINDS; what++)
			if (all[k].results[what] != NOT_TRIED)
				CHECK_EQ(confined(what, all[k].one), all[k].results[what]);
}

/* Landlock refuses these to all except the processes for other processes; one opens no file. */
static void processes_and_own_text_are_out_of_reach(void)
{
	static const int own_text[NR_KINDS] = {
		NO, -EACCES, NO, -EACCES, NO, NO, NO, NO, -EACCES,
	};
	int what;

	if (syscall(SYS_landlock_create_ruleset, NULL, 0, 1) < 1) {
		printf("skip %s: this kernel has no Landlock\n", __func__);
		return;
	}
	for (what = 0; what < NR_KINDS; what++) {
		int open_it = what == BRAID_CONFINE_PEEK ? 0 :
			      what == BRAID_CONFINE_READ_MEMORY ? -EPERM : -EACCES;

		CHECK_EQ(confined(what, try_open_memory), open_it);
		CHECK_EQ(confined(what, try_open_maps), open_it);
		CHECK_EQ(confined(what, try_own_text), own_text[what]);
	}
}

/* A file that only root may open is still readable without root's rights if it is kept open. */
static int try_kept(void)
{
	braid_auto_fd int kept = braid_input_open(file);
	braid_auto_fd int other_path = braid_input_open(dir);
	char byte;

	return kept < 0 ? kept : other_path != -EACCES && !geteuid() ? -EBADF :
	       read(kept, &byte, 1) < 0 ? -errno : 0;
}

static void a_kept_file_is_read(void)
{
	NEED(!chmod(file, 0) && !chmod(dir, 0));
	if (!geteuid())
		NEED(!chown(file, 65534, 65534) && !chown(dir, 65534, 65534));
	NEED(!geteuid() || !chmod(dir, 0700));
	NEED(!geteuid() || !chmod(file, 0600));
	NEED(!braid_input_keep(file));
	CHECK_EQ(confined(BRAID_CONFINE_FILES, try_kept), 0);
	NEED(!chmod(dir, 0700));
	if (!geteuid())
		NEED(!chown(dir, 0, 0));
}

/* About a process of the same user, which a confined one cannot inspect. */
static int try_peek(void)
{
	char text[64];
	braid_auto_fd int maps = braid_peek_maps(other);
	int err = braid_peek_syscall(other, other, text, sizeof(text));

	if (maps < 0 || err)
		return maps < 0 ? maps : err;
	if (read(maps, text, 1) != 1 || *text < '0')
		return -EIO;
	return braid_peek_maps(0x7fffffff) == -ENOENT ? 0 : -EBADF;
}

static int peek_confined(void)
{
	int status;
	pid_t pid = fork();

	NEED(pid >= 0);
	if (!pid)
		_exit(braid_peek_start() || braid_confine(BRAID_CONFINE_INSPECT, NULL) ? 255 :
		      -try_peek());
	NEED(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void a_helper_inspects_processes(void)
{
	CHECK_EQ(peek_confined(), 0);
}

/* A line of /proc/self/status. */
static int status_is(const char *name, const char *value)
{
	static char status[4096];
	char want[64];

	if (!*status && read(status_fd, status, sizeof(status) - 1) <= 0)
		return -EIO;
	snprintf(want, sizeof(want), "\n%s:\t%s", name, value);
	return strstr(status, want) ? 0 : -EINVAL;
}

/* The kept capabilities of docs/threat-model.md: root's; other users have none. */
static int state(const char *kept)
{
	return status_is("Seccomp", "2\n") || status_is("NoNewPrivs", "1\n") ||
	       status_is("CapEff", kept) || status_is("CapPrm", kept) ? -EINVAL :
	       !user && status_is("CapBnd", kept) ? -ERANGE : 0;
}

static int read_state(void)
{
	return state("0000000000000000\n");
}

static int inspect_state(void)
{
	return state(user ? "0000000000000000\n" : "0000000000000004\n");
}

static int peek_state(void)
{
	return state(user ? "0000000000000000\n" : "0000000000080004\n");
}

static int reader_state(void)
{
	return state(user ? "0000000000000000\n" : "0000000000080000\n");
}

static int record_state(void)
{
	return state(user ? "0000000000000000\n" : "0000000400800002\n");
}

static void state_is_as_documented(void)
{
	CHECK_EQ(confined(BRAID_CONFINE_FILES, read_state), 0);
	CHECK_EQ(confined(BRAID_CONFINE_CONVERT, read_state), 0);
	CHECK_EQ(confined(BRAID_CONFINE_INSPECT, inspect_state), 0);
	CHECK_EQ(confined(BRAID_CONFINE_PEEK, peek_state), 0);
	CHECK_EQ(confined(BRAID_CONFINE_READ_MEMORY, reader_state), 0);
	CHECK_EQ(confined(BRAID_CONFINE_RECORD, record_state), 0);
}

static pid_t start_sleeper(void)
{
	pid_t pid = fork();

	NEED(pid >= 0);
	while (!pid)
		pause();
	return pid;
}

int main(void)
{
	int fd;

	NEED(mkdtemp(dir));
	snprintf(file, sizeof(file), "%s/file", dir);
	fd = open(file, O_WRONLY | O_CREAT, 0600);
	NEED(fd >= 0);
	close(fd);
	/* Of a name that the kernel chooses. */
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	NEED(!bind(listener, &(struct sockaddr){ .sa_family = AF_UNIX }, sizeof(sa_family_t)));
	NEED(!listen(listener, 1));
	NEED(!braid_landlock_allow(file, BRAID_PLACE_OUTPUT));
	user = geteuid();
	NEED(!sched_getaffinity(0, sizeof(cpus), &cpus));
	other = start_sleeper();
	own = start_sleeper();
	RUN(refused_to_all);
	RUN(each_may_do_its_work);
	RUN(state_is_as_documented);
	RUN(processes_and_own_text_are_out_of_reach);
	RUN(a_helper_inspects_processes);
	RUN(a_kept_file_is_read);
	kill(other, SIGKILL);
	kill(own, SIGKILL);
	waitpid(other, NULL, 0);
	waitpid(own, NULL, 0);
	unlink(file);
	rmdir(dir);
	return VERDICT();
}
