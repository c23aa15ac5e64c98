// SPDX-License-Identifier: GPL-2.0-or-later
/* Starts the program `tracebraid`, and keeps the last line of its standard error. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host_agent/library/program.h"
#include "host_agent/util/error.h"
#include "tracebraid/tracebraid.h"

extern char **environ;

#define NAME	"tracebraid"

/* Relative to the library's folder: of a build, /usr/lib, and /usr/lib/x86_64-linux-gnu. */
static const char *const places[] = { "/" NAME, "/../bin/" NAME, "/../../bin/" NAME };

/* Return: a path, to be freed; the name alone if PATH is to be searched; NULL: out of memory. */
static char *program_find(const char *program)
{
	const char *slash;
	char *path = NULL;
	Dl_info info;
	size_t k;

	if (program)
		return strdup(program);
	if (!dladdr((void *)tracebraid_version, &info) || !info.dli_fname)
		return strdup(NAME);
	slash = strrchr(info.dli_fname, '/');
	for (k = 0; slash && k < sizeof(places) / sizeof(*places); k++) {
		if (asprintf(&path, "%.*s%s", (int)(slash - info.dli_fname), info.dli_fname,
			     places[k]) < 0)
			return NULL;
		if (!access(path, X_OK))
			return path;
		free(path);
	}
	return strdup(NAME);
}

/* Descriptors that are given away must not be among those that are set. Return: one above them, or -errno. */
static int lift(int fd)
{
	int lifted = fcntl(fd, F_DUPFD_CLOEXEC, BRAID_PROGRAM_STATUS_FD + 1);

	return lifted < 0 ? -errno : lifted;
}

static int set_files(posix_spawn_file_actions_t *actions, int out_fd, int errors_fd, int status_fd)
{
	int err = posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);

	if (!err && out_fd < 0)
		err = posix_spawn_file_actions_addopen(actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	else if (!err)
		err = posix_spawn_file_actions_adddup2(actions, out_fd, STDOUT_FILENO);
	if (!err)
		err = posix_spawn_file_actions_adddup2(actions, errors_fd, STDERR_FILENO);
	if (!err && status_fd >= 0)
		err = posix_spawn_file_actions_adddup2(actions, status_fd, BRAID_PROGRAM_STATUS_FD);
	if (!err)
		err = posix_spawn_file_actions_addclosefrom_np(actions, BRAID_PROGRAM_STATUS_FD +
							       (status_fd >= 0));
	return -err;
}

/* Ctrl-C at a terminal is for us: we decide what ends. */
static int set_signals(posix_spawnattr_t *attributes)
{
	sigset_t none, all;
	int err;

	sigemptyset(&none);
	sigfillset(&all);
	err = posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
				       POSIX_SPAWN_SETSIGDEF);
	if (!err)
		err = posix_spawnattr_setpgroup(attributes, 0);
	if (!err)
		err = posix_spawnattr_setsigmask(attributes, &none);
	if (!err)
		err = posix_spawnattr_setsigdefault(attributes, &all);
	return -err;
}

/* Return: 0, or -errno. */
static int spawn(pid_t *pid, const char *path, const char *const *words, int out_fd, int errors_fd,
		 int status_fd)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	int err = -posix_spawn_file_actions_init(&actions);

	if (err)
		return err;
	err = -posix_spawnattr_init(&attributes);
	if (!err) {
		err = set_files(&actions, out_fd, errors_fd, status_fd);
		if (!err)
			err = set_signals(&attributes);
		if (!err)
			err = -posix_spawnp(pid, path, &actions, &attributes, (char *const *)words,
					    environ);
		posix_spawnattr_destroy(&attributes);
	}
	posix_spawn_file_actions_destroy(&actions);
	return err;
}

int braid_program_start(struct braid_program *p, const char *program, const char *const *words,
			int out_fd, int status_fd)
{
	char *path = program_find(program);
	int errors[2] = { -1, -1 }, fds[3] = { -1, -1, -1 }, given[3], k, err = 0;

	memset(p, 0, sizeof(*p));
	p->errors_fd = -1;
	if (!path)
		return braid_out_of_memory();
	if (pipe2(errors, O_CLOEXEC))
		err = -errno;
	given[0] = out_fd;
	given[1] = errors[1];
	given[2] = status_fd;
	for (k = 0; k < 3 && !err; k++) {
		fds[k] = given[k] < 0 ? -1 : lift(given[k]);
		err = fds[k] < -1 ? fds[k] : 0;
	}
	if (!err)
		err = spawn(&p->pid, path, words, fds[0], fds[1], fds[2]);
	for (k = 0; k < 3; k++)
		if (fds[k] >= 0)
			close(fds[k]);
	if (errors[1] >= 0)
		close(errors[1]);
	if (err) {
		if (errors[0] >= 0)
			close(errors[0]);
		p->pid = 0;
		err = braid_fail(err, "cannot run '%s': %s", path, strerror(-err));
	} else {
		p->errors_fd = errors[0];
		fcntl(p->errors_fd, F_SETFL, O_NONBLOCK);
	}
	free(path);
	return err;
}

/* Of a line that is longer the beginning is kept. */
static void program_take(struct braid_program *p, const char *text, size_t bytes)
{
	for (; bytes--; text++) {
		if (*text == '\n') {
			memcpy(p->error, p->line, p->line_bytes);
			p->error_bytes = p->line_bytes;
			p->line_bytes = 0;
		} else if (p->line_bytes < sizeof(p->line) - 1) {
			p->line[p->line_bytes++] = *text;
		}
	}
}

void braid_program_listen(struct braid_program *p)
{
	char text[4096];
	ssize_t n;

	while (p->errors_fd >= 0) {
		n = read(p->errors_fd, text, sizeof(text));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) {
			close(p->errors_fd);
			p->errors_fd = -1;
			return;
		}
		program_take(p, text, n);
	}
}

/* Reads its standard error to the end: it may wait for that. A child of its own may hold that open. */
static void reap(struct braid_program *p)
{
	struct pollfd fd = { .fd = p->errors_fd, .events = POLLIN };
	pid_t ret = 0;
	int status = 0;

	while (p->pid && !(ret = waitpid(p->pid, &status, WNOHANG))) {
		fd.fd = p->errors_fd;
		poll(&fd, 1, 50);
		braid_program_listen(p);
	}
	while (ret < 0 && errno == EINTR)
		ret = waitpid(p->pid, &status, 0);
	if (p->pid)
		p->status = ret < 0 ? EXIT_FAILURE : WIFSIGNALED(status) ? 128 + WTERMSIG(status) :
			    WEXITSTATUS(status);
	p->pid = 0;
	braid_program_listen(p);
	if (p->errors_fd >= 0)
		close(p->errors_fd);
	p->errors_fd = -1;
}

int braid_program_wait(struct braid_program *p, int good)
{
	const char *error = p->error;
	int prefix = strlen(NAME ": ");

	reap(p);
	if (!p->status || p->status == good)
		return 0;
	p->error[p->error_bytes] = 0;
	if (!strncmp(error, NAME ": ", prefix))
		error += prefix;
	if (p->status > 128)
		return braid_fail(-EIO, "%s was killed by signal %d (%s)%s%s", NAME, p->status - 128,
				  strsignal(p->status - 128), *error ? "; its last line: " : "", error);
	if (!*error)
		return braid_fail(-EIO, "%s ended with status %d", NAME, p->status);
	return braid_fail(-EIO, "%s", error);
}

void braid_program_kill(struct braid_program *p)
{
	if (p->pid)
		kill(p->pid, SIGKILL);
	reap(p);
}
