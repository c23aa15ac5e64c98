// SPDX-License-Identifier: GPL-2.0-or-later
/* The vhost-user endpoint: a socket on which a VM's front end finds the device "trace". */
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/transport/untrusted_fd.h"
#include "host_agent/transport/vhost_user.h"
#include "host_agent/util/error.h"
#include "host_agent/util/landlock.h"

#define HOLD_NS			800000000ULL	/* a guest may wait for a second */
#define MESSAGES_AT_ONCE	32	/* per turn */
#define LET_GO			"its connection was closed because of an invalid message"

/* Connections -------------------------------------------------------------------------- */

/*
 * Without us a reset of the device is complete at once, and its guest may use the pages for
 * something else: so they are no longer written. When a VM disconnects, for example because it
 * dies, the rest is read. When we disconnect it, it reconnects and would deliver the same events
 * again, because the read position was not published: they are read after that.
 */
static void part(struct braid_vhost_endpoint *p, const char *why, bool keep)
{
	braid_vhost_part_chunks(&p->memory, p->chunks, p->nr_chunks, p->region_bytes,
				p->mapping->base, keep && !p->letting_go);
	p->mapping->gone = why;
	p->mapping->taken_back = false;
}

/* @keep: what the mapping has is still to be read. */
static void vhost_user_disconnect(struct braid_vhost_endpoint *p, const char *why, bool keep)
{
	u32 k;

	if (p->mapping)
		part(p, why, keep);
	braid_untrusted_fd_hang_up(p->socket);
	p->socket = -1;
	braid_vhost_message_clear(&p->in);
	braid_untrusted_fd_close(p->backend);
	p->backend = -1;
	for (k = 0; k < BRAID_VIRTIO_NR_QUEUES; k++)
		braid_vhost_queue_reset(&p->queues[k]);
	braid_vhost_memory_clear(&p->memory);
	free(p->chunks);
	p->chunks = NULL;
	p->nr_held = 0;
	p->letting_go = false;
	p->answer_due = false;
	p->features = p->protocol = 0;
	*p->trouble = 0;
}

/* 1: there is a connection; 0: none; or -errno with braid_fail(). */
static int connect_next(struct braid_vhost_endpoint *p)
{
	int fd;

	if (p->socket >= 0)
		return 1;
	fd = p->mapping ? -EAGAIN : braid_listener_accept(&p->listener, &p->address, &p->pid);
	if (fd < 0)
		return fd == -EAGAIN ? 0 : fd;
	p->socket = fd;
	return 1;
}

/* Something to complain about. Returns -errno with braid_fail(). */
static int vhost_user_complain(struct braid_vhost_endpoint *p, int err, const char *what)
{
	char why[256];

	snprintf(why, sizeof(why), "%s", braid_failure());
	braid_listener_fault(&p->listener);
	return braid_fail(err, "%s: %s: %s", p->address.path, what, why);
}

static int send_answer(struct braid_vhost_endpoint *p)
{
	if (!p->answer_due || p->letting_go)
		return 0;
	p->answer_due = false;
	return braid_vhost_send(p->socket, &p->answer_header, &p->answer);
}

/* Handles all pending messages. 0 or -errno. */
static int take_messages(struct braid_vhost_endpoint *p)
{
	int ret = 0, n;

	for (n = 0; n < MESSAGES_AT_ONCE; n++) {
		ret = braid_vhost_settle(p);
		if (!ret)
			ret = send_answer(p);
		if (ret || p->letting_go)
			return ret;
		ret = braid_vhost_receive(p->socket, &p->in);
		if (ret <= 0)
			return ret;
		ret = braid_vhost_handle(p, &p->in);
		braid_vhost_message_clear(&p->in);
		if (ret)
			return ret;
	}
	ret = braid_vhost_settle(p);
	return ret ? ret : send_answer(p);
}

/* Kicks are consumed at once, so that the next one wakes us again. */
static void quench(struct braid_vhost_endpoint *p)
{
	u32 k;

	for (k = 0; k < BRAID_VIRTIO_NR_QUEUES; k++) {
		struct braid_vhost_queue *q = &p->queues[k];
		u64 kicks[8];
		ssize_t n;

		if (q->kick_fd < 0)
			continue;
		n = braid_untrusted_fd_read(q->kick_fd, kicks, sizeof(kicks));
		if (n > 0) {
			p->rung |= k == BRAID_VIRTIO_NOTIFYQ;
		} else if (!n || (errno != EAGAIN && errno != EINTR)) {
			/* It would keep waking us; the queue is polled anyway. */
			braid_untrusted_fd_close(q->kick_fd);
			q->kick_fd = -1;
		}
	}
}

static int serve_peer(struct braid_vhost_endpoint *p)
{
	bool rung;
	int err = connect_next(p);

	if (err <= 0)
		return err;
	quench(p);
	err = *p->trouble ? braid_fail(-EPROTO, "%s", p->trouble) : take_messages(p);
	if (!err && !p->letting_go && !braid_listener_quiet(&p->listener))
		err = braid_vhost_control(p);
	if (!err)
		err = braid_vhost_settle(p);
	if (err > 0)
		return vhost_user_complain(p, -EINVAL, "a request of its driver was refused");
	if (err == -ECONNRESET) {
		vhost_user_disconnect(p, "its QEMU closed the connection", true);
	} else if (err) {
		vhost_user_complain(p, err, "its VM's connection was closed");
		vhost_user_disconnect(p, LET_GO, false);
		return err;
	}
	if (p->unseen) {
		p->unseen = false;
		return braid_fail(-ENODATA, "%s: region unmapped before it was read; its events are lost",
				  p->address.path);
	}
	rung = p->rung;
	p->rung = false;
	return rung;
}

static int vhost_serve(struct braid_endpoint *endpoint)
{
	struct braid_vhost_endpoint *p = (struct braid_vhost_endpoint *)endpoint;
	u32 leaked = braid_untrusted_fd_leaked();
	int ret = serve_peer(p);

	if (braid_untrusted_fd_leaked() == leaked)
		return ret;
	/* A peer that continues would exhaust our descriptors. */
	if (p->socket >= 0)
		vhost_user_disconnect(p, LET_GO, false);
	braid_listener_give_up(&p->listener);
	return braid_fail(-EMFILE, "%s: listener disabled: closing its VM's descriptors blocks",
			  p->address.path);
}

static size_t vhost_fds(const struct braid_endpoint *endpoint, struct pollfd *fds)
{
	const struct braid_vhost_endpoint *p = (const struct braid_vhost_endpoint *)endpoint;
	size_t nr = 0;
	u32 k;

	if (p->socket < 0 && !p->mapping && !braid_listener_quiet(&p->listener))
		fds[nr++] = (struct pollfd){ .fd = p->listener.fd, .events = POLLIN };
	/* The mapping was closed: an answer is due, and fits. */
	if (p->socket >= 0 &&
	    !(p->letting_go && (p->mapping || braid_vhost_awaits_reader(p))))
		fds[nr++] = (struct pollfd){ .fd = p->socket,
					     .events = p->letting_go ? POLLOUT : POLLIN };
	for (k = 0; k < BRAID_VIRTIO_NR_QUEUES; k++)
		if (p->queues[k].kick_fd >= 0)
			fds[nr++] = (struct pollfd){ .fd = p->queues[k].kick_fd, .events = POLLIN };
	return nr;
}

/* Doorbells ------------------------------------------------------------------------------ */

static u32 vhost_doorbell(const struct braid_endpoint *endpoint)
{
	const struct braid_vhost_endpoint *p = (const struct braid_vhost_endpoint *)endpoint;

	return p->socket >= 0 && p->features & 1ULL << BRAID_VIRTIO_F_NOTIFY &&
	       braid_vhost_queue_runs(p, BRAID_VIRTIO_NOTIFYQ);
}

static void vhost_ring(struct braid_endpoint *endpoint)
{
	struct braid_vhost_endpoint *p = (struct braid_vhost_endpoint *)endpoint;

	if (vhost_doorbell(endpoint) && !*p->trouble && braid_vhost_notify(p))
		snprintf(p->trouble, sizeof(p->trouble), "%s", braid_failure());
}

/* The region ------------------------------------------------------------------------------ */

static int vhost_map(struct braid_endpoint *endpoint, struct braid_mapping **out)
{
	struct braid_vhost_endpoint *p = (struct braid_vhost_endpoint *)endpoint;
	struct braid_mapping *m;
	char why[256];
	int err;

	if (p->socket < 0)
		return braid_fail(-ENOTCONN, "%s: no VM is connected", p->address.path);
	if (!p->chunks || (p->letting_go && p->taken))
		return braid_fail(-ENODATA, "%s: its guest has announced no region yet; is the driver loaded?",
				  p->address.path);
	m = calloc(1, sizeof(*m));
	if (!m)
		return braid_fail(-ENOMEM, "%s: out of memory", p->address.path);
	p->taken = true;
	err = braid_vhost_map_chunks(&p->memory, p->chunks, p->nr_chunks, p->region_bytes,
				     &m->base);
	if (err) {
		free(m);
		snprintf(why, sizeof(why), "%s", braid_failure());
		return braid_fail(err, "%s: cannot map its region: %s", p->address.path, why);
	}
	strcpy(m->path, p->address.path);
	m->bytes = p->region_bytes;
	m->fd = -1;
	m->writable = true;
	m->qemu_pid = p->pid;
	m->owner = &p->mapping;
	p->mapping = *out = m;
	if (p->letting_go)	/* what it holds is to be taken first */
		braid_vhost_notify_gone(p);
	return 0;
}

/* Door -------------------------------------------------------------------------------------- */

static void vhost_close(struct braid_endpoint *endpoint)
{
	struct braid_vhost_endpoint *p = (struct braid_vhost_endpoint *)endpoint;

	if (p->socket >= 0)
		vhost_user_disconnect(p, "the agent ends", false);
	braid_listener_close(&p->listener, &p->address);
	free(p);
}

/* The configuration space that the driver reads before it announces a region. */
static int configure(struct braid_vhost_endpoint *p)
{
	u64 bytes = p->address.bytes ?: BRAID_VHOST_REGION_BYTES;

	if (bytes % BRAID_PAGE_BYTES || bytes > BRAID_VHOST_REGION_BYTES_MAX)
		return braid_fail(-EINVAL, "%s: size=%llu: must be a multiple of %u and at most 1G",
				  p->address.path, (unsigned long long)bytes, BRAID_PAGE_BYTES);
	if (*p->address.shm)
		return braid_fail(-EINVAL, "%s: shm=%s: not applicable: the memory is the guest's own; omit it",
				  p->address.path, p->address.shm);
	p->region_bytes_max = p->address.bytes ? bytes : BRAID_VHOST_REGION_BYTES_MAX;
	p->config.region_bytes = htole64(bytes);
	p->config.region_bytes_max = htole64(p->region_bytes_max);
	p->config.chunks_max = htole32(BRAID_VHOST_CHUNKS_MAX);
	return 0;
}

static int vhost_allow(const struct braid_endpoint *endpoint)
{
	const struct braid_vhost_endpoint *p = (const struct braid_vhost_endpoint *)endpoint;

	return braid_landlock_allow(p->address.path, BRAID_PLACE_REMOVED);
}

static int vhost_open(struct braid_endpoint **out, const char *text)
{
	struct braid_vhost_endpoint *p = calloc(1, sizeof(*p));
	u32 k;
	int err;

	if (!p)
		return braid_out_of_memory();
	p->endpoint.ops = &braid_vhost_user_endpoint_ops;
	p->hold_ns = HOLD_NS;
	p->listener.fd = p->socket = p->backend = -1;
	for (k = 0; k < BRAID_VIRTIO_NR_QUEUES; k++)
		braid_vhost_queue_init(&p->queues[k], k);
	err = braid_socket_address_parse(&p->address, text);
	if (!err)
		err = configure(p);
	if (!err)
		err = braid_listener_open(&p->listener, &p->address);
	if (err) {
		vhost_close(&p->endpoint);
		return err;
	}
	*out = &p->endpoint;
	return 0;
}

const struct braid_endpoint_ops braid_vhost_user_endpoint_ops = {
	.scheme = "vhost-user:",
	.open = vhost_open,
	.close = vhost_close,
	.allow = vhost_allow,
	.map = vhost_map,
	.serve = vhost_serve,
	.fds = vhost_fds,
	.ring = vhost_ring,
	.doorbell = vhost_doorbell,
};
