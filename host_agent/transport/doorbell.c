// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The server of one ivshmem-doorbell device: hands its QEMU the shared memory, and eventfds for
 * interrupts both ways. QEMU's document "Inter-VM Shared Memory device" defines the messages:
 * numbers of 64 bits, some with a descriptor beside them.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host_agent/transport/endpoint.h"
#include "host_agent/transport/listener.h"
#include "host_agent/transport/untrusted_fd.h"
#include "host_agent/util/error.h"
#include "host_agent/util/folder.h"
#include "host_agent/util/io.h"
#include "host_agent/util/landlock.h"

#define SCHEME			"ivshmem-doorbell:"
#define DEFAULT_BYTES		(16ULL << 20)
#define PROTOCOL_VERSION	0
#define GUEST_PEER		0
#define AGENT_PEER		1
#define AGENT_DOORBELL		(AGENT_PEER << 16)	/* vector 0: what the guest writes to ring us */

struct doorbell_endpoint {
	struct braid_endpoint endpoint;
	struct braid_socket_address address;
	struct braid_listener listener;
	int shm_fd;
	int shm_folder;		/* that its file is in */
	struct stat shm_made;
	bool untouched;		/* created by us and not handed out */
	int peer_fd;		/* QEMU's connection, or -1 */
	pid_t peer_pid;
	/* eventfds, -1 until a QEMU connects; they outlive its connection */
	int ours_fd;		/* the guest rings it ... */
	int guests_fd;		/* ... and we ring it */
};

static struct doorbell_endpoint *doorbell_of(const struct braid_endpoint *endpoint)
{
	return (struct doorbell_endpoint *)endpoint;
}

/* Whether only we can have created the file, and only we can write to it: the rules of `attach`. */
static bool is_private(const struct stat *st)
{
	return st->st_nlink == 1 && st->st_uid == geteuid() && !(st->st_mode & 077);
}

/* The file stays when we exit: without a server the guest is still read by polling. */
static int open_shm(struct doorbell_endpoint *p)
{
	const char *slash = strrchr(p->address.path, '/');
	static const u64 mark = BRAID_MARK;
	char *shm = p->address.shm;
	struct stat st;
	u64 bytes = p->address.bytes ?: DEFAULT_BYTES;

	if (!*shm && snprintf(shm, sizeof(p->address.shm), "/dev/shm/tracebraid-%s",
			      slash ? slash + 1 : p->address.path) < 0)
		return -EINVAL;
	if (bytes & (bytes - 1) || bytes < BRAID_PAGE_BYTES)
		return braid_fail(-EINVAL,
				  "%s: size=%llu: a PCI device's memory is a power of two, at least %u",
				  p->address.path, (unsigned long long)bytes, BRAID_PAGE_BYTES);
	p->shm_folder = braid_folder_open(shm);
	if (p->shm_folder < 0)
		return braid_fail(p->shm_folder, "%s: cannot be opened: %s", shm,
				  strerror(-p->shm_folder));
	p->shm_fd = openat(p->shm_folder, braid_folder_name(shm),
			   O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
	if (p->shm_fd < 0)
		return braid_fail(-errno, "%s: cannot be opened: %s", shm,
				  errno == ELOOP ? "it is a symbolic link; remove it" :
				  strerror(errno));
	if (fstat(p->shm_fd, &st) || !S_ISREG(st.st_mode))
		return braid_fail(-EMEDIUMTYPE, "%s: not a regular file", shm);
	if (!is_private(&st))
		return braid_fail(-EPERM, "%s: not a plain file of user %u with mode 0600; find out whose it is, then remove it",
				  shm, (unsigned int)geteuid());
	p->untouched = !st.st_size;
	p->shm_made = st;
	if (!st.st_size && ftruncate(p->shm_fd, bytes))
		return braid_fail(-errno, "%s: cannot be made %llu bytes: %s", shm,
				  (unsigned long long)bytes, strerror(errno));
	/* Our own file, or an empty one named by its user: mark it for the driver. */
	if (!st.st_size && pwrite(p->shm_fd, &mark, sizeof(mark), 0) != sizeof(mark))
		return braid_fail(-EIO, "%s: cannot be marked for the driver: %s", shm,
				  strerror(errno));
	if (st.st_size && (u64)st.st_size != bytes && p->address.bytes)
		return braid_fail(-EINVAL, "%s: has %lld bytes, not %llu; remove it when no guest uses it, or omit size=",
				  shm, (long long)st.st_size, (unsigned long long)bytes);
	if (st.st_size & (st.st_size - 1))
		return braid_fail(-EINVAL, "%s: its size, %lld bytes, is not a power of two", shm,
				  (long long)st.st_size);
	return 0;
}

static void drop_peer(struct doorbell_endpoint *p)
{
	braid_untrusted_fd_hang_up(p->peer_fd);
	p->peer_fd = -1;
}

static void drop_eventfds(struct doorbell_endpoint *p)
{
	if (p->ours_fd >= 0)
		close(p->ours_fd);
	if (p->guests_fd >= 0)
		close(p->guests_fd);
	p->ours_fd = p->guests_fd = -1;
}

static void doorbell_close(struct braid_endpoint *endpoint)
{
	struct doorbell_endpoint *p = doorbell_of(endpoint);

	drop_peer(p);
	drop_eventfds(p);
	braid_listener_close(&p->listener, &p->address);
	if (p->untouched)
		braid_folder_remove(p->shm_folder, braid_folder_name(p->address.shm), &p->shm_made);
	if (p->shm_fd >= 0)
		close(p->shm_fd);
	if (p->shm_folder >= 0)
		close(p->shm_folder);
	free(p);
}

static int doorbell_allow(const struct braid_endpoint *endpoint)
{
	const struct doorbell_endpoint *p = (const struct doorbell_endpoint *)endpoint;
	int err = braid_landlock_allow(p->address.path, BRAID_PLACE_REMOVED);

	if (!err)
		err = braid_landlock_allow(p->address.shm, BRAID_PLACE_WRITTEN);
	return err || !p->untouched ? err : braid_landlock_allow(p->address.shm, BRAID_PLACE_REMOVED);
}

static int doorbell_open(struct braid_endpoint **out, const char *text)
{
	struct doorbell_endpoint *p = calloc(1, sizeof(*p));
	int err;

	if (!p)
		return braid_out_of_memory();
	p->endpoint.ops = &braid_doorbell_endpoint_ops;
	p->listener.fd = p->shm_fd = p->shm_folder = p->peer_fd = p->ours_fd = p->guests_fd = -1;
	err = braid_socket_address_parse(&p->address, text);
	if (!err)
		err = open_shm(p);
	if (!err)
		err = braid_listener_open(&p->listener, &p->address);
	if (err) {
		doorbell_close(&p->endpoint);
		return err;
	}
	*out = &p->endpoint;
	return 0;
}

static bool send_number(int to, s64 number, int fd)
{
	return braid_send_with(to, &number, sizeof(number), fd, MSG_DONTWAIT) == sizeof(number);
}

/* New eventfds for each: a QEMU that went may have left its guest's in any state. */
static bool renew_eventfds(struct doorbell_endpoint *p)
{
	int ours = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	int guests = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);

	drop_eventfds(p);
	p->ours_fd = ours;
	p->guests_fd = guests;
	return ours >= 0 && guests >= 0;
}

/* All fits into the socket's buffer: a peer that does not read can't hold us. */
static bool greet(const struct doorbell_endpoint *p)
{
	return send_number(p->peer_fd, PROTOCOL_VERSION, -1) &&
	       send_number(p->peer_fd, GUEST_PEER, -1) &&
	       send_number(p->peer_fd, -1, p->shm_fd) &&
	       send_number(p->peer_fd, AGENT_PEER, p->ours_fd) &&
	       send_number(p->peer_fd, GUEST_PEER, p->guests_fd);
}

static int take_connection(struct doorbell_endpoint *p)
{
	pid_t pid;
	int err, fd = braid_listener_accept(&p->listener, &p->address, &pid);

	if (fd < 0)
		return fd == -EAGAIN ? 0 : fd;
	if (p->peer_fd >= 0) {
		braid_untrusted_fd_hang_up(fd);
		braid_listener_fault(&p->listener);
		return braid_fail(-EBUSY, "%s: connection of process %d refused: process %d is connected",
				  p->address.path, pid, p->peer_pid);
	}
	/* A client sends no messages or descriptors: the only input is its end. */
	shutdown(fd, SHUT_RD);
	p->peer_fd = fd;
	p->peer_pid = pid;
	p->untouched = false;
	if (!renew_eventfds(p) || !greet(p)) {
		err = errno;
		drop_peer(p);
		drop_eventfds(p);
		if (err == EPIPE)	/* it only probed whether the socket has a listener */
			return 0;
		braid_listener_fault(&p->listener);
		return braid_fail(-EPIPE, "%s: process %d could not be given the shared memory: %s",
				  p->address.path, pid, strerror(err));
	}
	return 0;
}

static void check_peer(struct doorbell_endpoint *p)
{
	struct pollfd end = { .fd = p->peer_fd };

	if (poll(&end, 1, 0) > 0)
		drop_peer(p);
}

static int doorbell_serve(struct braid_endpoint *endpoint)
{
	struct doorbell_endpoint *p = doorbell_of(endpoint);
	u32 leaked = braid_untrusted_fd_leaked();
	int err = take_connection(p);
	u64 rung;

	if (p->peer_fd >= 0)
		check_peer(p);
	if (braid_untrusted_fd_leaked() != leaked) {
		braid_listener_give_up(&p->listener);
		err = braid_fail(-EMFILE, "%s: listener disabled: closing received descriptors blocks",
				 p->address.path);
	}
	if (err)
		return err;
	if (p->ours_fd < 0)
		return 0;
	return braid_untrusted_fd_read(p->ours_fd, &rung, sizeof(rung)) == sizeof(rung);
}

static size_t doorbell_fds(const struct braid_endpoint *endpoint, struct pollfd *fds)
{
	const struct doorbell_endpoint *p = doorbell_of(endpoint);
	size_t nr = 0;

	if (!braid_listener_quiet(&p->listener))
		fds[nr++] = (struct pollfd){ .fd = p->listener.fd, .events = POLLIN };
	if (p->peer_fd >= 0)
		fds[nr++] = (struct pollfd){ .fd = p->peer_fd };
	if (p->ours_fd >= 0)
		fds[nr++] = (struct pollfd){ .fd = p->ours_fd, .events = POLLIN };
	return nr;
}

static int doorbell_map(struct braid_endpoint *endpoint, struct braid_mapping **out)
{
	return braid_mapping_take(out, doorbell_of(endpoint)->address.shm);
}

static void doorbell_ring(struct braid_endpoint *endpoint)
{
	const struct doorbell_endpoint *p = doorbell_of(endpoint);
	u64 one = 1;

	if (p->guests_fd < 0)
		return;
	braid_untrusted_fd_nonblocking(p->guests_fd);
	/* Full when the guest has missed 2^64 rings: one is already pending. */
	if (write(p->guests_fd, &one, sizeof(one)) < 0)
		return;
}

static u32 doorbell_value(const struct braid_endpoint *endpoint)
{
	return doorbell_of(endpoint)->ours_fd >= 0 ? AGENT_DOORBELL : 0;
}

const struct braid_endpoint_ops braid_doorbell_endpoint_ops = {
	.scheme = SCHEME,
	.open = doorbell_open,
	.close = doorbell_close,
	.allow = doorbell_allow,
	.map = doorbell_map,
	.serve = doorbell_serve,
	.fds = doorbell_fds,
	.ring = doorbell_ring,
	.doorbell = doorbell_value,
};
