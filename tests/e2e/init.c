// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * PID 1 of the test guests: mounts what tests need, then runs commands from the second serial port.
 *
 * The protocol is made of lines, so that a person with socat can speak it too.
 *
 *   host to guest             guest to host
 *                             READY <release> <ncpu> <boot id>
 *                                 at start, and each second until a command comes
 *   RUN <id> <command>        OUT <id> <nbytes>\n<bytes>\nRC <id> <status>
 *                                 when the command has ended
 *   BG <id> <command>         PID <id> <pid>
 *                                 at once; output goes to /tmp/bg.<id>
 *                             END <id> <status>
 *                                 when the command has ended
 *   KILL <id>                 no answer of its own: the job dies, which sends its RC or END
 *   anything else             ERR <id> <what was wrong>
 *
 * The byte RS (0x1e) in a command stands for a newline. Status is the exit status, or 128 + the
 * number of the signal. Several jobs may run at a time, and one that hangs does not block others.
 *
 * An id of the form <8 digits>-<anything> is refused unless the digits begin this boot's id: a
 * command that was sent to a guest before its reset, and was still in QEMU's queue, must not run
 * after it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define LINE_MAX_BYTES (64 * 1024)
#define ID_MAX_BYTES 32
#define NEWLINE_STAND_IN '\x1e'

struct job {
	struct job *next;
	pid_t pid;
	bool background;
	char id[ID_MAX_BYTES];
	char out_path[ID_MAX_BYTES + 16];
};

static struct job *jobs;
static int control_fd = -1;
static const char *control_port = "/dev/ttyS1";	/* or control_port= of the kernel's command line */
static bool host_has_spoken;
static char boot_id[64] = "-";

static const struct {
	const char *type, *dir, *options;
} mounts[] = {
	{ "proc", "/proc", NULL },
	{ "sysfs", "/sys", NULL },
	{ "devtmpfs", "/dev", NULL },
	{ "debugfs", "/sys/kernel/debug", NULL },
	{ "tracefs", "/sys/kernel/tracing", NULL },
	{ "tmpfs", "/tmp", "mode=1777" },
};

static void mount_all(void)
{
	size_t i;

	for (i = 0; i < sizeof(mounts) / sizeof(mounts[0]); i++) {
		const char *type = mounts[i].type, *dir = mounts[i].dir;

		mkdir(dir, 0755);
		/* A kernel without debugfs or tracefs is enough for tests that need neither. */
		if (mount(type, dir, type, 0, mounts[i].options) && errno != EBUSY)
			fprintf(stderr, "init: %s on %s: %s\n", type, dir, strerror(errno));
	}
}

/* The initramfs has no device nodes (creating one needs root): no console is open before this. */
static void open_console(void)
{
	int fd = open("/dev/console", O_RDWR | O_NOCTTY);

	if (fd < 0)
		return;
	dup2(fd, 0);
	dup2(fd, 1);
	dup2(fd, 2);
	if (fd > 2)
		close(fd);
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		fprintf(stderr, "init: %s: %s\n", path, strerror(errno));
	if (fd >= 0)
		close(fd);
}

/* The environment and signal state that every child starts with. */
static void child_setup(void)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setsid();
	setenv("PATH", "/bin", 1);
	setenv("HOME", "/tmp", 1);
}

static void install_busybox(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		child_setup();
		execl("/bin/busybox", "busybox", "--install", "-s", "/bin", (char *)NULL);
		_exit(127);
	}
	if (pid > 0)
		waitpid(pid, NULL, 0);
}

static int open_control(void)
{
	struct termios tio;
	int fd = open(control_port, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return -1;
	if (tcgetattr(fd, &tio) == 0) {
		cfmakeraw(&tio);
		tio.c_cflag |= CLOCAL | CREAD;
		cfsetspeed(&tio, B115200);
		tcsetattr(fd, TCSANOW, &tio);
	}
	return fd;
}

static void send_bytes(const char *data, size_t len)
{
	while (len) {
		ssize_t n = write(control_fd, data, len);

		if (n > 0) {
			data += n;
			len -= n;
		} else if (n < 0 && errno == EAGAIN) {
			struct pollfd p = { .fd = control_fd, .events = POLLOUT };

			poll(&p, 1, -1);
		} else if (n < 0 && errno != EINTR) {
			return; /* No one is left to report this to. */
		}
	}
}

__attribute__((format(printf, 1, 2))) static void send_line(const char *fmt, ...)
{
	char line[512];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line, sizeof(line) - 1, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	if ((size_t)n > sizeof(line) - 2)
		n = sizeof(line) - 2;
	line[n++] = '\n';
	send_bytes(line, n);
}

static void read_boot_id(void)
{
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return;
	n = read(fd, boot_id, sizeof(boot_id) - 1);
	if (n > 0) {
		boot_id[n] = 0;
		boot_id[strcspn(boot_id, "\n")] = 0;
	}
	close(fd);
}

static void send_ready(void)
{
	struct utsname uts;

	uname(&uts);
	send_line("READY %s %ld %s", uts.release, sysconf(_SC_NPROCESSORS_ONLN), boot_id);
}

/* The length goes first: exactly that many bytes follow, even if a stray child still writes. */
static void send_output(const struct job *job)
{
	char buf[16 * 1024];
	struct stat st = { 0 };
	off_t left;
	int fd = open(job->out_path, O_RDONLY | O_CLOEXEC);

	if (fd >= 0)
		fstat(fd, &st);
	send_line("OUT %s %lld", job->id, (long long)st.st_size);
	for (left = st.st_size; left > 0;) {
		size_t want = left < (off_t)sizeof(buf) ? (size_t)left : sizeof(buf);
		ssize_t n = read(fd, buf, want);

		if (n <= 0) { /* The file was truncated meanwhile: send the announced length. */
			memset(buf, 0, want);
			n = want;
		}
		send_bytes(buf, n);
		left -= n;
	}
	send_bytes("\n", 1);
	if (fd >= 0)
		close(fd);
	unlink(job->out_path);
}

static void finish_job(struct job *job, int wstatus)
{
	int status = WIFSIGNALED(wstatus) ? 128 + WTERMSIG(wstatus) : WEXITSTATUS(wstatus);

	if (job->background) {
		send_line("END %s %d", job->id, status);
	} else {
		send_output(job);
		send_line("RC %s %d", job->id, status);
	}
}

/* Orphans are reaped here too; they belong to no job. */
static void reap(void)
{
	struct job **link, *job;
	int wstatus;
	pid_t pid;

	while ((pid = waitpid(-1, &wstatus, WNOHANG)) > 0) {
		for (link = &jobs; (job = *link) != NULL; link = &job->next) {
			if (job->pid != pid)
				continue;
			*link = job->next;
			finish_job(job, wstatus);
			free(job);
			break;
		}
	}
}

static void exec_shell(const char *command, int out_fd)
{
	int null_fd = open("/dev/null", O_RDONLY);

	child_setup();
	dup2(null_fd, 0);
	dup2(out_fd, 1);
	dup2(out_fd, 2);
	if (null_fd > 2)
		close(null_fd);
	execl("/bin/sh", "sh", "-c", command, (char *)NULL);
	_exit(127);
}

static void start_job(const char *id, const char *command, bool background)
{
	struct job *job = calloc(1, sizeof(*job));
	int out_fd;

	if (!job) {
		send_line("ERR %s out of memory", id);
		return;
	}
	job->background = background;
	snprintf(job->id, sizeof(job->id), "%s", id);
	snprintf(job->out_path, sizeof(job->out_path), "/tmp/%s.%s", background ? "bg" : "run", id);
	out_fd = open(job->out_path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
	job->pid = out_fd < 0 ? -1 : fork();
	if (job->pid == 0)
		exec_shell(command, out_fd);
	if (job->pid < 0) {
		send_line("ERR %s %s", id, strerror(errno));
		free(job);
	} else {
		job->next = jobs;
		jobs = job;
		if (background)
			send_line("PID %s %d", id, (int)job->pid);
	}
	if (out_fd >= 0)
		close(out_fd);
}

static void kill_job(const char *id)
{
	struct job *job;

	for (job = jobs; job; job = job->next)
		if (!strcmp(job->id, id)) {
			/* Without a process group yet, the child is the only process. */
			if (kill(-job->pid, SIGKILL))
				kill(job->pid, SIGKILL);
		}
}

static bool id_is_sane(const char *id)
{
	size_t n = strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");

	return n && n < ID_MAX_BYTES && !id[n]; /* It becomes part of a file's name. */
}

static bool id_is_stale(const char *id)
{
	const char *dash = strchr(id, '-');

	return dash && dash - id == 8 && strncmp(id, boot_id, 8);
}

static void handle_line(char *line)
{
	char *verb, *id, *p;

	for (p = line; *p; p++)
		if (*p == NEWLINE_STAND_IN)
			*p = '\n';
	verb = strsep(&line, " ");
	id = strsep(&line, " ");
	if (!id || !id_is_sane(id)) {
		send_line("ERR ? bad or missing id after \"%.20s\"", verb);
		return;
	}
	if (id_is_stale(id)) {
		send_line("ERR %s is of another boot", id);
		return;
	}
	host_has_spoken = true;
	if (!strcmp(verb, "KILL"))
		kill_job(id);
	else if (line && !strcmp(verb, "RUN"))
		start_job(id, line, false);
	else if (line && !strcmp(verb, "BG"))
		start_job(id, line, true);
	else
		send_line("ERR %s unknown verb or no command", id);
}

/* Reads the port and handles complete lines; a line that is too long is skipped to its end. */
static void read_control(void)
{
	static char buf[LINE_MAX_BYTES];
	static size_t used;
	static bool skipping;
	char *start, *end;
	ssize_t n;

	while ((n = read(control_fd, buf + used, sizeof(buf) - used)) > 0) {
		used += n;
		for (start = buf; (end = memchr(start, '\n', buf + used - start));
		     start = end + 1) {
			*end = 0;
			if (!skipping && end != start)
				handle_line(start);
			skipping = false;
		}
		used -= start - buf;
		memmove(buf, start, used);
		if (used == sizeof(buf)) {
			if (!skipping)
				send_line("ERR ? line longer than %d bytes", LINE_MAX_BYTES);
			skipping = true;
			used = 0;
		}
	}
}

static void serve(int sig_fd)
{
	struct pollfd p[2] = {
		{ .fd = control_fd, .events = POLLIN },
		{ .fd = sig_fd, .events = POLLIN },
	};
	struct signalfd_siginfo info;

	for (;;) {
		int n = poll(p, 2, host_has_spoken ? -1 : 1000);

		if (n == 0)
			send_ready();
		if (n > 0 && p[0].revents)
			read_control();
		if (n > 0 && p[1].revents) {
			while (read(sig_fd, &info, sizeof(info)) > 0)
				;
			reap();
		}
	}
}

int main(void)
{
	sigset_t mask;
	int sig_fd;

	if (getenv("control_port"))
		control_port = getenv("control_port");
	umask(022);
	mount_all();
	open_console();
	install_busybox();
	/* The kernel booted quietly, as a console is slow; its messages matter from here on. */
	write_file("/proc/sys/kernel/printk", "7\n");

	sigemptyset(&mask);
	sigaddset(&mask, SIGCHLD);
	sigprocmask(SIG_BLOCK, &mask, NULL);
	sig_fd = signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC);
	control_fd = open_control();
	if (sig_fd < 0 || control_fd < 0) {
		fprintf(stderr, "init: cannot open %s or a signalfd: %m\n", control_port);
		for (;;)
			pause(); /* The end of PID 1 would be a panic and hide this message. */
	}
	read_boot_id();
	send_ready();
	serve(sig_fd);
}
