// SPDX-License-Identifier: GPL-2.0-or-later
/* Frames vhost-user messages: a stream of bytes that has file descriptors along. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "host_agent/transport/untrusted_fd.h"
#include "host_agent/transport/vhost_user_message.h"
#include "host_agent/util/error.h"

#define MAX_FDS_SENT	253	/* with one message, the kernel lets pass */

/* Keeps the received descriptors, or closes them. */
static int take_fds(struct braid_vhost_message *m, struct msghdr *head)
{
	struct cmsghdr *c;
	int err = 0, fd;
	size_t k, nr;

	for (c = CMSG_FIRSTHDR(head); c; c = CMSG_NXTHDR(head, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		nr = (c->cmsg_len - CMSG_LEN(0)) / sizeof(fd);
		for (k = 0; k < nr; k++) {
			memcpy(&fd, CMSG_DATA(c) + k * sizeof(fd), sizeof(fd));
			if (m->nr_fds < BRAID_VHOST_MAX_FDS) {
				m->fds[m->nr_fds++] = fd;
			} else {
				braid_untrusted_fd_close(fd);
				err = -EPROTO;
			}
		}
	}
	if (head->msg_flags & MSG_CTRUNC)
		err = -EPROTO;
	return err ? braid_fail(err, "more than %u file descriptors with a message",
				BRAID_VHOST_MAX_FDS) : 0;
}

/* Bytes into m up to @goal. Returns 1 when they are there, else as braid_vhost_receive(). */
static int receive_until(int socket, struct braid_vhost_message *m, u32 goal)
{
	const u32 head_bytes = sizeof(m->header);

	while (m->got_bytes < goal) {
		union {
			struct cmsghdr align;
			u8 room[CMSG_SPACE(MAX_FDS_SENT * sizeof(int))];
		} control;	/* the kernel would close excess descriptors, and we might block */
		u8 *at = m->got_bytes < head_bytes ?
			 (u8 *)&m->header + m->got_bytes :
			 (u8 *)&m->payload + (m->got_bytes - head_bytes);
		struct iovec extent = { at, goal - m->got_bytes };
		struct msghdr head = { .msg_iov = &extent, .msg_iovlen = 1,
				       .msg_control = &control, .msg_controllen = sizeof(control) };
		ssize_t n = recvmsg(socket, &head, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
		int err;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n < 0)
			return -ECONNRESET;
		err = take_fds(m, &head);
		if (err)
			return err;
		if (!n)
			return -ECONNRESET;
		m->got_bytes += n;
	}
	return 1;
}

int braid_vhost_receive(int socket, struct braid_vhost_message *m)
{
	int ret = receive_until(socket, m, sizeof(m->header));

	if (ret <= 0)
		return ret;
	if ((m->header.flags & BRAID_VHOST_VERSION_MASK) != BRAID_VHOST_VERSION ||
	    (m->header.flags & BRAID_VHOST_REPLY))
		return braid_fail(-EPROTO, "a message that is not a request of vhost-user version 1");
	if (m->header.bytes > sizeof(m->payload))
		return braid_fail(-EPROTO, "oversized message, type %u, of %u bytes", m->header.request,
				  m->header.bytes);
	return receive_until(socket, m, sizeof(m->header) + m->header.bytes);
}

int braid_vhost_take_fd(struct braid_vhost_message *m)
{
	if (m->nr_fds != 1)
		return -1;
	m->nr_fds = 0;
	return m->fds[0];
}

void braid_vhost_message_clear(struct braid_vhost_message *m)
{
	while (m->nr_fds)
		braid_untrusted_fd_close(m->fds[--m->nr_fds]);
	memset(m, 0, sizeof(*m));
}

int braid_vhost_send(int socket, const struct braid_vhost_header *header, const void *payload)
{
	struct iovec extents[2] = { { (void *)header, sizeof(*header) },
				   { (void *)payload, header->bytes } };
	struct msghdr m = { .msg_iov = extents, .msg_iovlen = 2 };
	size_t bytes = sizeof(*header) + header->bytes;
	ssize_t n;

	do {
		n = sendmsg(socket, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno == ENOTSOCK) {
			braid_untrusted_fd_nonblocking(socket);
			n = writev(socket, extents, 2);
		}
	} while (n < 0 && errno == EINTR);
	if (n == (ssize_t)bytes)
		return 0;
	if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
		return braid_fail(-ECONNRESET, "it has closed its socket, or the channel to it");
	return braid_fail(-EPROTO, "it does not read its socket: of %zu bytes %zd were sent", bytes,
			  n > 0 ? n : 0);
}
