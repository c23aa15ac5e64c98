// SPDX-License-Identifier: GPL-2.0-or-later
/* Opens /proc files of other users' processes, through a helper process once we are confined. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/util/cleanup.h"
#include "host_agent/util/confine.h"
#include "host_agent/util/helper.h"
#include "host_agent/util/io.h"
#include "host_agent/util/peek.h"
#include "tracebraid/types.h"

enum peek {
	PEEK_MAPS,	/* answered by a descriptor */
	PEEK_PAGEMAP,	/* likewise */
	PEEK_SYSCALL,	/* answered with its text: the kernel checks permission at each read */
};

struct question {
	u32 what;
	s32 pid;
	s32 tid;
};

struct answer {
	s32 err;
	char text[124];
};

static int helper_fd = -1;	/* or -1: we open them ourselves */

static int open_file(pid_t pid, const char *name)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int read_syscall(pid_t pid, pid_t tid, char *text, size_t size)
{
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", (int)pid, (int)tid);
	braid_auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	n = read(fd, text, size - 1);
	if (n < 0)
		return -errno;
	text[n] = 0;
	return 0;
}

static void answer_all(void *unused, int socket)
{
	struct question question;

	(void)unused;
	if (braid_confine(BRAID_CONFINE_PEEK, NULL))
		return;
	while (read(socket, &question, sizeof(question)) == sizeof(question)) {
		struct answer answer = { 0 };
		braid_auto_fd int fd = -1;

		if (question.what == PEEK_MAPS)
			fd = answer.err = open_file(question.pid, "maps");
		else if (question.what == PEEK_PAGEMAP)
			fd = answer.err = open_file(question.pid, "pagemap");
		else
			answer.err = read_syscall(question.pid, question.tid, answer.text,
						  sizeof(answer.text));
		if (braid_send_with(socket, &answer, sizeof(answer), fd, 0) < 0)
			return;
	}
}

int braid_peek_start(void)
{
	pid_t pid;

	return braid_helper_start(&helper_fd, &pid, answer_all, NULL);
}

static int ask(const struct question *question, struct answer *answer, int *fd)
{
	if (braid_send_with(helper_fd, question, sizeof(*question), -1, 0) < 0 ||
	    braid_receive_with(helper_fd, answer, sizeof(*answer), fd, 0) != sizeof(*answer))
		return -EIO;
	return answer->err < 0 ? answer->err : 0;
}

static int ask_for_file(u32 what, pid_t pid)
{
	const struct question question = { .what = what, .pid = pid };
	struct answer answer;
	int fd = -1, err = ask(&question, &answer, &fd);

	return err ? err : fd;
}

int braid_peek_maps(pid_t pid)
{
	return helper_fd < 0 ? open_file(pid, "maps") : ask_for_file(PEEK_MAPS, pid);
}

int braid_peek_pagemap(pid_t pid)
{
	return helper_fd < 0 ? open_file(pid, "pagemap") : ask_for_file(PEEK_PAGEMAP, pid);
}

int braid_peek_syscall(pid_t pid, pid_t tid, char *text, size_t size)
{
	const struct question question = { .what = PEEK_SYSCALL, .pid = pid, .tid = tid };
	struct answer answer;
	int fd = -1, err;

	if (helper_fd < 0)
		return read_syscall(pid, tid, text, size);
	err = ask(&question, &answer, &fd);
	if (fd >= 0)
		close(fd);
	if (err)
		return err;
	answer.text[sizeof(answer.text) - 1] = 0;
	snprintf(text, size, "%s", answer.text);
	return 0;
}
