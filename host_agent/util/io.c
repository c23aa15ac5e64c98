// SPDX-License-Identifier: GPL-2.0-or-later
/* Loops over short reads and writes; passes descriptors. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host_agent/util/io.h"

int braid_write_all(int fd, const void *data, size_t bytes)
{
	const char *at = data;

	while (bytes) {
		ssize_t n = write(fd, at, bytes);

		if (n < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		if (!n)
			return -EIO;
		at += n;
		bytes -= n;
	}
	return 0;
}

ssize_t braid_pread_all(int fd, void *to, size_t bytes, u64 offset)
{
	size_t done = 0;

	while (done < bytes) {
		ssize_t n = pread(fd, (char *)to + done, bytes - done, offset + done);

		if (n < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		if (!n)
			break;
		done += n;
	}
	return done;
}

/* Room for one descriptor and no more: CMSG_SPACE() may be enough for two. */
union control {
	struct cmsghdr head;
	char bytes[CMSG_LEN(sizeof(int))];
};

ssize_t braid_send_with(int socket, const void *data, size_t bytes, int fd, int flags)
{
	union control control = { .head = {
		.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET,
		.cmsg_type = SCM_RIGHTS,
	} };
	struct iovec part = { (void *)data, bytes };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	ssize_t n;

	if (fd >= 0) {
		memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
		message.msg_control = &control;
		message.msg_controllen = CMSG_LEN(sizeof(int));
	}
	n = sendmsg(socket, &message, MSG_NOSIGNAL | flags);
	return n < 0 ? -errno : n;
}

ssize_t braid_receive_with(int socket, void *data, size_t bytes, int *fd, int flags)
{
	union control control;
	struct iovec part = { data, bytes };
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1,
		.msg_control = &control, .msg_controllen = CMSG_LEN(sizeof(int)),
	};
	ssize_t n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | flags);
	const struct cmsghdr *head = n < 0 ? NULL : CMSG_FIRSTHDR(&message);

	*fd = -1;
	if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS &&
	    head->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(fd, CMSG_DATA(head), sizeof(*fd));
	return n < 0 ? -errno : n;
}
