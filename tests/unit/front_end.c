// SPDX-License-Identifier: GPL-2.0-or-later
/* Acts as QEMU, and as the driver in its guest, over a vhost-user socket. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "shared/platform.h"
#include "tests/unit/front_end.h"
#include "tests/unit/need.h"

#define PUMPS	100000		/* limit of turns, after which a wait fails */

void front_end_init(struct front_end *f, int (*pump)(void *arg), void *arg)
{
	u32 k;

	memset(f, 0, sizeof(*f));
	f->pump = pump;
	f->pump_arg = arg;
	f->socket = f->backend = -1;
	f->protocol = FRONT_PROTOCOL;
	f->memory_fd = memfd_create("guest", MFD_CLOEXEC);
	NEED(f->memory_fd >= 0 && !ftruncate(f->memory_fd, FRONT_BYTES));
	f->memory = mmap(NULL, FRONT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, f->memory_fd, 0);
	NEED(f->memory != MAP_FAILED);
	for (k = 0; k < BRAID_VIRTIO_NR_QUEUES; k++) {
		struct front_queue *q = &f->queues[k];

		vring_init(&q->ring, FRONT_RING, f->memory + k * 2 * BRAID_PAGE_BYTES,
			   BRAID_PAGE_BYTES);
		q->buffers_at = FRONT_BUFFERS * (1 + k);
		q->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		q->call_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		NEED(q->kick_fd >= 0 && q->call_fd >= 0);
	}
}

void front_end_add_memory(struct front_end *f, u64 guest_address, int fd, u64 offset, u64 bytes)
{
	f->more[f->nr_more] = (struct braid_vhost_region){
		guest_address, bytes, FRONT_USER_ADDRESS + guest_address, offset,
	};
	f->more_fds[f->nr_more++] = fd;
}

void front_end_free(struct front_end *f)
{
	u32 k;

	if (f->socket >= 0)
		front_end_hang_up(f);
	for (k = 0; k < BRAID_VIRTIO_NR_QUEUES; k++) {
		close(f->queues[k].kick_fd);
		close(f->queues[k].call_fd);
	}
	munmap(f->memory, FRONT_BYTES);
	close(f->memory_fd);
}

bool front_end_try_connect(struct front_end *f, const char *path)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };

	snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
	f->socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	NEED(f->socket >= 0);
	if (!connect(f->socket, (struct sockaddr *)&at, sizeof(at)))
		return true;
	NEED(errno == ENOENT || errno == ECONNREFUSED);
	close(f->socket);
	f->socket = -1;
	return false;
}

void front_end_connect(struct front_end *f, const char *path)
{
	NEED(front_end_try_connect(f, path));
}

void front_end_hang_up(struct front_end *f)
{
	close(f->socket);
	f->socket = -1;
	if (f->backend >= 0)
		close(f->backend);
	f->backend = -1;
}

/* Messages ------------------------------------------------------------------------------- */

bool front_end_send(struct front_end *f, const struct braid_vhost_header *header,
		    const void *payload, u32 payload_bytes, const int *fds, u32 nr_fds)
{
	union {
		struct cmsghdr align;
		u8 room[CMSG_SPACE(32 * sizeof(int))];
	} control;
	struct iovec extents[2] = { { (void *)header, sizeof(*header) },
				   { (void *)payload, payload_bytes } };
	struct msghdr m = { .msg_iov = extents, .msg_iovlen = payload_bytes ? 2 : 1 };
	struct cmsghdr *c;

	memset(&control, 0, sizeof(control));
	if (nr_fds) {
		m.msg_control = &control;
		m.msg_controllen = CMSG_SPACE(nr_fds * sizeof(int));
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(nr_fds * sizeof(int));
		memcpy(CMSG_DATA(c), fds, nr_fds * sizeof(int));
	}
	/* Does not wait for a device that reads late. */
	return sendmsg(f->socket, &m, MSG_NOSIGNAL | MSG_DONTWAIT) ==
	       (ssize_t)(sizeof(*header) + payload_bytes);
}

int front_end_receive(struct front_end *f, u32 request)
{
	struct braid_vhost_header header;
	ssize_t n = recv(f->socket, &header, sizeof(header), MSG_DONTWAIT);

	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n <= 0)
		return -1;
	NEED(n == sizeof(header) && header.request == request);
	NEED(header.flags == (BRAID_VHOST_VERSION | BRAID_VHOST_REPLY));
	NEED(header.bytes <= sizeof(f->reply));
	f->reply_bytes = header.bytes;
	NEED(recv(f->socket, &f->reply, header.bytes, MSG_WAITALL) == (ssize_t)header.bytes);
	return 1;
}

static bool answered_by_itself(u32 request)
{
	return request == BRAID_VHOST_GET_FEATURES ||
	       request == BRAID_VHOST_GET_PROTOCOL_FEATURES ||
	       request == BRAID_VHOST_GET_QUEUE_NUM || request == BRAID_VHOST_GET_VRING_BASE ||
	       request == BRAID_VHOST_GET_CONFIG;
}

bool front_end_ask(struct front_end *f, u32 request, const void *payload, u32 payload_bytes,
		   int fd)
{
	bool ack = !answered_by_itself(request) &&
		   f->protocol & 1ULL << BRAID_VHOST_PROTOCOL_REPLY_ACK;
	struct braid_vhost_header header = {
		request, BRAID_VHOST_VERSION | (ack ? BRAID_VHOST_NEED_REPLY : 0), payload_bytes,
	};
	int ret = 0, n;

	/* Those before the features are negotiated are never acknowledged. */
	if (request == BRAID_VHOST_SET_OWNER) {
		ack = false;
		header.flags = BRAID_VHOST_VERSION;
	}
	if (!front_end_send(f, &header, payload, payload_bytes, &fd, fd >= 0))
		return false;
	if (!ack && !answered_by_itself(request)) {
		f->pumped = f->pump(f->pump_arg);
		return true;
	}
	for (n = 0; !ret; n++) {
		NEED(n < PUMPS);
		f->pumped = f->pump(f->pump_arg);
		ret = front_end_receive(f, request);
	}
	return ret > 0 && (!ack || (f->reply_bytes == 8 && !f->reply.value));
}

bool front_end_ask_value(struct front_end *f, u32 request, u64 value, int fd)
{
	return front_end_ask(f, request, &value, sizeof(value), fd);
}

bool front_end_ask_state(struct front_end *f, u32 request, u32 index, u32 value)
{
	struct braid_vhost_ring_state state = { index, value };

	return front_end_ask(f, request, &state, sizeof(state), -1);
}

bool front_end_set_memory(struct front_end *f)
{
	const u32 nr = 1 + f->nr_more;
	struct braid_vhost_header header = {
		BRAID_VHOST_SET_MEM_TABLE, BRAID_VHOST_VERSION | BRAID_VHOST_NEED_REPLY,
		offsetof(union braid_vhost_payload, memory.regions[nr]),
	};
	union braid_vhost_payload payload = { .memory.nr_regions = nr };
	int fds[BRAID_VHOST_MAX_FDS] = { f->memory_fd }, ret = 0, n;

	payload.memory.regions[0] = (struct braid_vhost_region){
		FRONT_GUEST_ADDRESS, FRONT_BYTES, FRONT_USER_ADDRESS, 0,
	};
	memcpy(&payload.memory.regions[1], f->more, f->nr_more * sizeof(f->more[0]));
	memcpy(&fds[1], f->more_fds, f->nr_more * sizeof(int));
	if (!front_end_send(f, &header, &payload, header.bytes, fds, nr))
		return false;
	for (n = 0; !ret; n++) {
		NEED(n < PUMPS);
		f->pumped = f->pump(f->pump_arg);
		ret = front_end_receive(f, header.request);
	}
	return ret > 0 && !f->reply.value;
}

static u64 user_address(const struct front_end *f, const void *at)
{
	return FRONT_USER_ADDRESS + ((const u8 *)at - f->memory);
}

static bool start_queue(struct front_end *f, u32 index)
{
	struct front_queue *q = &f->queues[index];
	struct braid_vhost_ring_address address = {
		.index = index,
		.descriptors = user_address(f, q->ring.desc),
		.used = user_address(f, q->ring.used),
		.available = user_address(f, q->ring.avail),
		.log = ~0ULL,
	};
	bool inband = f->protocol & FRONT_INBAND;

	return front_end_ask_state(f, BRAID_VHOST_SET_VRING_NUM, index, FRONT_RING) &&
	       front_end_ask_state(f, BRAID_VHOST_SET_VRING_BASE, index, q->ring.used->idx) &&
	       front_end_ask(f, BRAID_VHOST_SET_VRING_ADDR, &address, sizeof(address), -1) &&
	       (inband || front_end_ask_value(f, BRAID_VHOST_SET_VRING_KICK, index, q->kick_fd)) &&
	       (inband || front_end_ask_value(f, BRAID_VHOST_SET_VRING_CALL, index, q->call_fd));
}

static bool negotiate(struct front_end *f)
{
	int ends[2];
	bool ok = front_end_ask(f, BRAID_VHOST_SET_OWNER, NULL, 0, -1) &&
		  front_end_ask(f, BRAID_VHOST_GET_FEATURES, NULL, 0, -1) &&
		  f->reply.value == FRONT_FEATURES &&
		  front_end_ask(f, BRAID_VHOST_GET_PROTOCOL_FEATURES, NULL, 0, -1) &&
		  f->reply.value == (FRONT_PROTOCOL | FRONT_INBAND) &&
		  front_end_ask_value(f, BRAID_VHOST_SET_PROTOCOL_FEATURES, f->protocol, -1) &&
		  front_end_ask(f, BRAID_VHOST_GET_QUEUE_NUM, NULL, 0, -1) &&
		  f->reply.value == BRAID_VIRTIO_NR_QUEUES;

	if (!ok)
		return false;
	/* A pipe, as user-mode Linux uses it. */
	NEED(!pipe2(ends, O_CLOEXEC | O_NONBLOCK));
	f->backend = ends[0];
	ok = front_end_ask(f, BRAID_VHOST_SET_BACKEND_REQ_FD, NULL, 0, ends[1]);
	close(ends[1]);
	return ok && front_end_ask_value(f, BRAID_VHOST_SET_FEATURES, FRONT_FEATURES, -1) &&
	       front_end_set_memory(f);
}

bool front_end_start(struct front_end *f)
{
	u32 k;

	if (f->backend < 0 && !negotiate(f))
		return false;
	for (k = 0; k < BRAID_VIRTIO_NR_QUEUES; k++)
		if (!start_queue(f, k) ||
		    !front_end_ask_state(f, BRAID_VHOST_SET_VRING_ENABLE, k, 1))
			return false;
	for (k = 0; k < BRAID_VIRTIO_NR_QUEUES; k++)
		front_end_kick(f, k);
	return true;
}

bool front_end_stop(struct front_end *f)
{
	u32 k;

	for (k = 0; k < BRAID_VIRTIO_NR_QUEUES; k++)
		if (!front_end_ask_state(f, BRAID_VHOST_SET_VRING_ENABLE, k, 0))
			return false;
	for (k = 0; k < BRAID_VIRTIO_NR_QUEUES; k++)
		if (!front_end_ask_state(f, BRAID_VHOST_GET_VRING_BASE, k, 0) ||
		    f->reply.state.index != k ||
		    f->reply.state.value != f->queues[k].ring.used->idx)
			return false;
	return true;
}

/* The driver ------------------------------------------------------------------------------ */

u64 front_end_address(const struct front_end *f, const void *at)
{
	return FRONT_GUEST_ADDRESS + ((const u8 *)at - f->memory);
}

static void put_descriptor(struct front_end *f, struct front_queue *q, u32 at, u32 bytes, u16 flags)
{
	struct vring_desc *d = &q->ring.desc[q->next % FRONT_RING];

	d->addr = front_end_address(f, f->memory + at);
	d->len = bytes;
	d->flags = flags;
	d->next = (q->next + 1) % FRONT_RING;
	q->next++;
}

u8 *front_end_put(struct front_end *f, u32 queue, const void *data, u32 bytes, u32 room)
{
	struct front_queue *q = &f->queues[queue];
	u32 at = q->buffers_at, head = q->next % FRONT_RING;
	u32 limit = FRONT_BUFFERS * (2 + queue);

	if (at + bytes + room > limit)
		at = FRONT_BUFFERS * (1 + queue);
	NEED(at + bytes + room <= limit);
	if (bytes) {
		memcpy(f->memory + at, data, bytes);
		put_descriptor(f, q, at, bytes, room ? VRING_DESC_F_NEXT : 0);
	}
	if (room)
		put_descriptor(f, q, at + bytes, room, VRING_DESC_F_WRITE);
	q->ring.avail->ring[q->ring.avail->idx % FRONT_RING] = head;
	braid_store_release(&q->ring.avail->idx, q->ring.avail->idx + 1);
	q->buffers_at = at + ((bytes + room + 15) & ~15u);
	front_end_kick(f, queue);
	return f->memory + at + bytes;
}

void front_end_kick(struct front_end *f, u32 queue)
{
	u64 one = 1;

	if (f->protocol & FRONT_INBAND) {
		if (f->socket >= 0)
			front_end_ask_state(f, BRAID_VHOST_VRING_KICK, queue, 0);
	} else {
		NEED(write(f->queues[queue].kick_fd, &one, sizeof(one)) == sizeof(one));
	}
}

u32 *front_end_announce(struct front_end *f, const struct braid_virtio_chunk *chunks, u32 nr)
{
	struct {
		struct braid_virtio_control head;
		struct braid_virtio_chunk chunks[256];
	} control = { .head = { BRAID_VIRTIO_ANNOUNCE, nr } };

	NEED(nr <= 256);
	memcpy(control.chunks, chunks, nr * sizeof(*chunks));
	return (u32 *)front_end_put(f, BRAID_VIRTIO_CONTROLQ, &control,
				    sizeof(control.head) + nr * sizeof(*chunks), 4);
}

u32 *front_end_revoke(struct front_end *f)
{
	struct braid_virtio_control control = { .command = BRAID_VIRTIO_REVOKE };

	return (u32 *)front_end_put(f, BRAID_VIRTIO_CONTROLQ, &control, sizeof(control), 4);
}

int front_end_used(struct front_end *f, u32 queue)
{
	struct front_queue *q = &f->queues[queue];

	if (braid_load_acquire(&q->ring.used->idx) == q->seen)
		return -1;
	return q->ring.used->ring[q->seen++ % FRONT_RING].len;
}

int front_end_await(struct front_end *f, u32 queue)
{
	struct pollfd p = { .fd = f->socket };
	int n, bytes;

	for (n = 0; n < PUMPS; n++) {
		bytes = front_end_used(f, queue);
		if (bytes >= 0)
			return bytes;
		if (poll(&p, 1, 0) > 0 && p.revents & POLLHUP)
			return -1;
		f->pumped = f->pump(f->pump_arg);
	}
	NEED(!"a buffer is returned");
	return -1;
}

bool front_end_called(struct front_end *f, u32 queue)
{
	struct {
		struct braid_vhost_header header;
		struct braid_vhost_ring_state state;
	} call;
	u64 calls;

	if (!(f->protocol & FRONT_INBAND))
		return read(f->queues[queue].call_fd, &calls, sizeof(calls)) == sizeof(calls);
	if (read(f->backend, &call, sizeof(call)) != sizeof(call))
		return false;
	NEED(call.header.request == BRAID_VHOST_BACKEND_VRING_CALL);
	NEED(call.header.flags == BRAID_VHOST_VERSION && call.header.bytes == sizeof(call.state));
	return call.state.index == queue && !call.state.value;
}
