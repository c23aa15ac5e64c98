// SPDX-License-Identifier: GPL-2.0-or-later
/* Starts and ends helper processes for work that the confined agent is not allowed to do. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host_agent/util/error.h"
#include "host_agent/util/helper.h"

#define HELPER_FD	3	/* its end of the socket: the descriptor after standard error */

static pid_t children[BRAID_CHILDREN];	/* 0: free */

static void helper_replace(pid_t from, pid_t to)
{
	size_t k;

	for (k = 0; k < BRAID_CHILDREN && children[k] != from; k++)
		;
	if (k < BRAID_CHILDREN)
		children[k] = to;
}

void braid_children_add(pid_t pid)
{
	helper_replace(0, pid);
}

void braid_children_remove(pid_t pid)
{
	helper_replace(pid, 0);
}

size_t braid_children_get(pid_t pids[BRAID_CHILDREN])
{
	size_t k, nr = 0;

	for (k = 0; k < BRAID_CHILDREN; k++)
		if (children[k])
			pids[nr++] = children[k];
	return nr;
}

/* Closes all inherited descriptors except standard error and its end of the socket. */
static int leave_files(int fd)
{
	int above = fcntl(fd, F_DUPFD_CLOEXEC, HELPER_FD);
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (above < 0 || null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0)
		return -1;
	if (above != HELPER_FD && dup3(above, HELPER_FD, O_CLOEXEC) < 0)
		return -1;
	return close_range(HELPER_FD + 1, ~0U, 0);
}

static void leave_signals(void)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN };

	sigaction(SIGINT, &ignore, NULL);
	sigaction(SIGTERM, &ignore, NULL);
	sigaction(SIGHUP, &ignore, NULL);
	sigaction(SIGPIPE, &ignore, NULL);
}

int braid_helper_start(int *fd, pid_t *pid, braid_helper_fn run, void *arg)
{
	pid_t parent = getpid(), child;
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds))
		return braid_fail(-errno, "cannot create a socket pair: %s", strerror(errno));
	child = fork();
	if (!child) {
		/* It may hang with libvirt, and then would outlive a parent that was killed. */
		if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent || leave_files(fds[1]))
			_exit(1);
		leave_signals();
		run(arg, HELPER_FD);
		_exit(0);
	}
	close(fds[1]);
	if (child < 0) {
		close(fds[0]);
		return braid_fail(-errno, "cannot create a process: %s", strerror(errno));
	}
	braid_children_add(child);
	*fd = fds[0];
	*pid = child;
	return 0;
}

void braid_helper_stop(int *fd, pid_t *pid)
{
	if (*fd >= 0)
		close(*fd);
	if (*pid > 0) {	/* it has no state to save */
		kill(*pid, SIGKILL);
		waitpid(*pid, NULL, 0);
		braid_children_remove(*pid);
	}
	*fd = -1;
	*pid = 0;
}
