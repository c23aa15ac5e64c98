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

#include "host_agent/record/private.h"
#include "host_agent/util/error.h"

#define STOP_LIMIT_MS	2000	/* then it is killed */

/* In the child: waits for the start. Reports through @failure_fd why exec failed. */
static void become(char **argv, int go_fd, int failure_fd)
{
	sigset_t none;
	char go;
	int err;

	if (read(go_fd, &go, 1) != 1)	/* it is cancelled */
		_exit(0);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	execvp(argv[0], argv);
	err = errno;
	if (write(failure_fd, &err, sizeof(err)) < 0)
		_exit(126);
	_exit(127);
}

int braid_child_prepare(struct braid_record_child *child)
{
	int go[2], failure[2], err;

	if (!child->argv)
		return 0;
	if (pipe2(go, O_CLOEXEC))
		return braid_fail(-errno, "cannot create a pipe: %s", strerror(errno));
	if (pipe2(failure, O_CLOEXEC)) {
		err = errno;
		close(go[0]);
		close(go[1]);
		return braid_fail(-err, "cannot create a pipe: %s", strerror(err));
	}
	child->pid = fork();
	if (!child->pid) {
		close(go[1]);
		become(child->argv, go[0], failure[1]);
	}
	err = errno;
	close(go[0]);
	close(failure[1]);
	child->go_fd = go[1];
	child->failure_fd = failure[0];
	if (child->pid > 0) {
		child->pidfd = syscall(SYS_pidfd_open, child->pid, 0);
		err = errno;
	}
	return child->pidfd >= 0 ? 0 : braid_fail(-err, "cannot create a process for %s: %s", child->argv[0],
						  strerror(err));
}

static void close_pipes(struct braid_record_child *child)
{
	if (child->go_fd >= 0)
		close(child->go_fd);
	if (child->failure_fd >= 0)
		close(child->failure_fd);
	child->go_fd = child->failure_fd = -1;
}

int braid_child_start(struct braid_record_child *child)
{
	int err = 0;

	if (write(child->go_fd, "", 1) != 1)
		err = errno;
	else if (read(child->failure_fd, &err, sizeof(err)) != sizeof(err))
		err = 0;	/* closed by a successful exec */
	close_pipes(child);
	return err ? braid_fail(-err, "%s: %s", child->argv[0], strerror(err)) : 0;
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

	close_pipes(child);	/* ends a child that still waits for the start */
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
