// SPDX-License-Identifier: GPL-2.0-or-later
/* The processes that the service starts. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host_agent/serve/child.h"
#include "host_agent/util/error.h"

void braid_serve_child_begin(void)
{
	sigset_t none;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setpgid(0, 0);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

void braid_serve_child_keep(int fd)
{
	if (fd > STDERR_FILENO + 1)
		close_range(STDERR_FILENO + 1, fd - 1, 0);
	close_range(fd + 1, ~0u, 0);
}

int braid_serve_child_start(pid_t *pid, int *fd)
{
	int fds[2], err;

	*pid = 0;
	*fd = -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds))
		return braid_fail(-errno, "no socket can be made: %s", strerror(errno));
	fflush(NULL);
	*pid = fork();
	err = errno;
	if (!*pid) {
		close(fds[0]);
		*fd = fds[1];
		braid_serve_child_begin();
		return 1;
	}
	close(fds[1]);
	if (*pid > 0) {
		*fd = fds[0];
		return 0;
	}
	close(fds[0]);
	*pid = 0;
	return braid_fail(-err, "no process can be made: %s", strerror(err));
}
