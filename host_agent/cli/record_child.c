// SPDX-License-Identifier: GPL-2.0-or-later
/* Runs the command that a recording is made of. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host_agent/cli/record.h"
#include "host_agent/util/error.h"

#define STOP_LIMIT_MS	2000	/* then it is killed */

/* In the child. Tells through @fd why it could not become the command. */
static void become(char **argv, int fd)
{
	sigset_t none;
	int err;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	execvp(argv[0], argv);
	err = errno;
	if (write(fd, &err, sizeof(err)) < 0)
		_exit(126);
	_exit(127);
}

int braid_child_start(struct braid_record_child *child)
{
	int pipe_fds[2], err = 0;

	if (pipe2(pipe_fds, O_CLOEXEC))
		return braid_fail(-errno, "no pipe: %s", strerror(errno));
	child->pid = fork();
	if (!child->pid)
		become(child->argv, pipe_fds[1]);
	close(pipe_fds[1]);
	if (child->pid < 0)
		err = errno;
	else if (read(pipe_fds[0], &err, sizeof(err)) != sizeof(err))
		err = 0;	/* closed by a successful exec */
	close(pipe_fds[0]);
	if (!err) {
		child->pidfd = syscall(SYS_pidfd_open, child->pid, 0);
		if (child->pidfd >= 0)
			return 0;
		err = errno;
		kill(child->pid, SIGKILL);
	}
	if (child->pid > 0)
		waitpid(child->pid, NULL, 0);
	child->pid = 0;
	return braid_fail(-err, "%s: %s", child->argv[0], strerror(err));
}

bool braid_child_ended(struct braid_record_child *child)
{
	int status;

	if (child->ended || child->pid <= 0)
		return child->ended;
	if (waitpid(child->pid, &status, WNOHANG) != child->pid)
		return false;
	child->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	child->ended = true;
	return true;
}

void braid_child_stop(struct braid_record_child *child)
{
	struct pollfd p = { .fd = child->pidfd, .events = POLLIN };

	if (child->pid > 0 && !braid_child_ended(child)) {
		kill(child->pid, SIGTERM);
		if (poll(&p, 1, STOP_LIMIT_MS) <= 0)
			kill(child->pid, SIGKILL);
		while (!braid_child_ended(child))
			poll(&p, 1, -1);
	}
	if (child->pidfd >= 0)
		close(child->pidfd);
	child->pidfd = -1;
}
