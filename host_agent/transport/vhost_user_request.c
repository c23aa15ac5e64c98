// SPDX-License-Identifier: GPL-2.0-or-later
/* What each vhost-user message does. */
#include <errno.h>
#include <linux/virtio_config.h>
#include <string.h>

#include "host_agent/transport/untrusted_fd.h"
#include "host_agent/transport/vhost_user.h"
#include "host_agent/util/error.h"

#define BIT(n)		(1ULL << (n))
#define FEATURES	(BIT(VIRTIO_F_VERSION_1) | BIT(BRAID_VIRTIO_F_NOTIFY) | \
			 BIT(BRAID_VHOST_F_PROTOCOL_FEATURES))
#define INBAND_NEEDS	(BIT(BRAID_VHOST_PROTOCOL_REPLY_ACK) | \
			 BIT(BRAID_VHOST_PROTOCOL_BACKEND_REQ))
/* Only simulations use in-band kicks: their guest waits for our answer to each kick. */
#define PROTOCOL	(BIT(BRAID_VHOST_PROTOCOL_MQ) | BIT(BRAID_VHOST_PROTOCOL_CONFIG) | \
			 BIT(BRAID_VHOST_PROTOCOL_INBAND) | INBAND_NEEDS)

/* Handles the descriptors of a message. */
enum fds {
	FDS_NONE,
	FDS_ONE,
	FDS_RING,	/* one descriptor, or a flag for none */
	FDS_MANY,	/* checked by the handler */
};

/* The virtqueue that a message names: by the value of FDS_RING, else by the first word. */
enum queue {
	QUEUE_NONE,
	QUEUE_ANY,
	QUEUE_STOPPED,	/* one whose addresses may be set */
};

#define VARIABLE	0xffffffffu	/* bytes are checked by the handler */

static void answer(struct braid_vhost_endpoint *p, const struct braid_vhost_message *m, u32 bytes)
{
	p->answer_due = true;
	p->answer_header = (struct braid_vhost_header){
		.request = m->header.request,
		.flags = BRAID_VHOST_VERSION | BRAID_VHOST_REPLY,
		.bytes = bytes,
	};
}

static void answer_value(struct braid_vhost_endpoint *p, const struct braid_vhost_message *m,
			 u64 value)
{
	p->answer.value = value;
	answer(p, m, sizeof(value));
}

/* The queue does not run any more, or not at the same place. */
static void left(struct braid_vhost_endpoint *p, struct braid_vhost_queue *q)
{
	if (q->index == BRAID_VIRTIO_CONTROLQ)
		braid_vhost_let_go(p, "the guest's device was stopped");
	braid_vhost_queue_unmap(q);
}

/*
 * Handlers: 0, or 1 for a message that is not obeyed, or -errno with braid_fail(). Bytes,
 * descriptors and the virtqueue's index are checked before, as the table below says.
 */

/* Also of a virtqueue's error: errors close the connection instead. */
static int nothing(struct braid_vhost_endpoint *p, struct braid_vhost_message *m)
{
	(void)p;
	(void)m;
	return 0;
}

static int set_features(struct braid_vhost_endpoint *p, struct braid_vhost_message *m)
{
	u64 value = m->payload.value;
	u32 k;

	if (value & ~FEATURES)
		return braid_fail(-EPROTO, "unsupported features 0x%llx",
				  (unsigned long long)(value & ~FEATURES));
	if (!(value & BIT(VIRTIO_F_VERSION_1)))
		return braid_fail(-EPROTO, "its driver is a legacy one; the device takes VIRTIO_F_VERSION_1 only");
	p->features = value;
	for (k = 0; k < BRAID_VIRTIO_NR_QUEUES; k++)
		if (!braid_vhost_queue_runs(p, k))
			left(p, &p->queues[k]);
	return 0;
}

/* Deprecated; says that all rings are to stop. */
static int reset_owner(struct braid_vhost_endpoint *p, struct braid_vhost_message *m)
{
	u32 k;

	(void)m;
	for (k = 0; k < BRAID_VIRTIO_NR_QUEUES; k++) {
		p->queues[k].enabled = false;
		p->queues[k].kicked = false;
		left(p, &p->queues[k]);
	}
	return 0;
}

static int set_mem_table(struct braid_vhost_endpoint *p, struct braid_vhost_message *m)
{
	struct braid_vhost_memory made;
	int err = braid_vhost_memory_set(&made, m);
	u32 k;

	if (err)
		return err;
	if (p->chunks && !braid_vhost_memory_same(&p->memory, &made, p->chunks, p->nr_chunks))
		braid_vhost_let_go(p, "the guest's memory was moved");
	for (k = 0; k < BRAID_VIRTIO_NR_QUEUES; k++)
		braid_vhost_queue_unmap(&p->queues[k]);
	braid_vhost_memory_clear(&p->memory);
	p->memory = made;
	return 0;
}

static int set_vring_num(struct braid_vhost_endpoint *p, struct braid_vhost_message *m)
{
	u32 size = m->payload.state.value;

	if (!size || size > BRAID_VHOST_MAX_RING || size & (size - 1))
		return braid_fail(-EPROTO, "a virtqueue of %u descriptors", size);
	p->queues[m->payload.state.index].size = size;
	return 0;
}

static int set_vring_addr(struct braid_vhost_endpoint *p, struct braid_vhost_message *m)
{
	struct braid_vhost_queue *q = &p->queues[m->payload.address.index];

	if (m->payload.address.flags)
		return braid_fail(-EPROTO, "unsupported log of dirty pages");
	q->address = m->payload.address;
	q->has_address = true;
	return 0;
}

static int set_vring_base(struct braid_vhost_endpoint *p, struct braid_vhost_message *m)
{
	struct braid_vhost_queue *q = &p->queues[m->payload.state.index];

	if (m->payload.state.value > 0xffff)
		return braid_fail(-EPROTO, "invalid virtqueue base %u", m->payload.state.value);
	q->seen = q->returned = m->payload.state.value;
	return 0;
}

static int get_vring_base(struct braid_vhost_endpoint *p, struct braid_vhost_message *m)
{
	struct braid_vhost_queue *q = &p->queues[m->payload.state.index];

	q->kicked = false;
	braid_untrusted_fd_close(q->kick_fd);
	q->kick_fd = -1;
	left(p, q);
	p->answer.state = (struct braid_vhost_ring_state){ q->index, q->returned };
	answer(p, m, sizeof(p->answer.state));
	return 0;
}

/* Whether it has a type that front ends use: no other is read, written or slept on. */
static bool wakes(int fd, bool kick)
{
	enum braid_untrusted_fd_kind kind = braid_untrusted_fd_kind(fd);

	return kind == BRAID_FD_EVENTFD ||
	       (!kick && (kind == BRAID_FD_PIPE || kind == BRAID_FD_SOCKET));
}

/* The file descriptor of a ring in place of the one before. */
static int set_ring_fd(struct braid_vhost_endpoint *p, struct braid_vhost_message *m)
{
	struct braid_vhost_queue *q = &p->queues[m->payload.value & BRAID_VHOST_RING_MASK];
	bool kick = m->header.request == BRAID_VHOST_SET_VRING_KICK;
	int *at = kick ? &q->kick_fd : &q->call_fd;

	if (m->nr_fds && !wakes(m->fds[0], kick))
		return braid_fail(-EPROTO, "a doorbell that is not an eventfd%s",
				  kick ? "" : ", pipe or socket");
	braid_untrusted_fd_close(*at);
	*at = braid_vhost_take_fd(m);
	if (!kick)
		q->polled = *at < 0;
	/* A kick may have been heard by an agent before us. */
	if (kick)
		q->kicked = true;
	return 0;
}

static int set_vring_enable(struct braid_vhost_endpoint *p, struct braid_vhost_message *m)
{
	struct braid_vhost_queue *q = &p->queues[m->payload.state.index];

	if (m->payload.state.value > 1)
		return braid_fail(-EPROTO, "a virtqueue with enable value %u",
				  m->payload.state.value);
	q->enabled = m->payload.state.value;
	if (!braid_vhost_queue_runs(p, q->index))
		left(p, q);
	return 0;
}

static int vring_kick(struct braid_vhost_endpoint *p, struct braid_vhost_message *m)
{
	struct braid_vhost_queue *q = &p->queues[m->payload.state.index];

	if (!(p->protocol & BIT(BRAID_VHOST_PROTOCOL_INBAND)))
		return braid_fail(-EPROTO, "an in-band kick without that feature");
	q->kicked = true;
	p->rung |= q->index == BRAID_VIRTIO_NOTIFYQ;
	return 0;
}

static int set_protocol_features(struct braid_vhost_endpoint *p, struct braid_vhost_message *m)
{
	u64 value = m->payload.value;

	if (value & ~PROTOCOL)
		return braid_fail(-EPROTO, "unsupported protocol features 0x%llx",
				  (unsigned long long)(value & ~PROTOCOL));
	if (value & BIT(BRAID_VHOST_PROTOCOL_INBAND) && (value & INBAND_NEEDS) != INBAND_NEEDS)
		return braid_fail(-EPROTO, "in-band notifications without the features they need");
	p->protocol = value;
	return 0;
}

static int set_backend_req_fd(struct braid_vhost_endpoint *p, struct braid_vhost_message *m)
{
	if (!wakes(m->fds[0], false))
		return braid_fail(-EPROTO, "a backend channel that is not a socket or pipe");
	braid_untrusted_fd_close(p->backend);
	p->backend = braid_vhost_take_fd(m);
	return 0;
}

#define CONFIG_HEAD_BYTES	offsetof(union braid_vhost_payload, config.data)

static int check_config(const struct braid_vhost_message *m)
{
	u32 bytes = m->header.bytes;

	if (bytes < CONFIG_HEAD_BYTES || m->payload.config.bytes != bytes - CONFIG_HEAD_BYTES ||
	    m->payload.config.bytes > BRAID_VHOST_MAX_CONFIG_BYTES ||
	    m->payload.config.offset > BRAID_VHOST_MAX_CONFIG_BYTES - m->payload.config.bytes)
		return braid_fail(-EPROTO, "invalid configuration access: %u bytes at offset %u, in a message of %u bytes",
				  m->payload.config.bytes, m->payload.config.offset, bytes);
	return 0;
}

static int get_config(struct braid_vhost_endpoint *p, struct braid_vhost_message *m)
{
	u8 whole[BRAID_VHOST_MAX_CONFIG_BYTES] = { 0 };
	int err = check_config(m);

	if (err)
		return err;
	memcpy(whole, &p->config, sizeof(p->config));
	p->answer = m->payload;
	memcpy(p->answer.config.data, whole + m->payload.config.offset, m->payload.config.bytes);
	answer(p, m, m->header.bytes);
	return 0;
}

/* All of it is read-only. */
static int set_config(struct braid_vhost_endpoint *p, struct braid_vhost_message *m)
{
	int err = check_config(m);

	(void)p;
	return err ? err : 1;
}

/* What is checked of a message, and done ---------------------------------------------------- */

#define STATE_BYTES	sizeof(struct braid_vhost_ring_state)
#define ADDRESS_BYTES	sizeof(struct braid_vhost_ring_address)

static const struct request {
	int (*handle)(struct braid_vhost_endpoint *p, struct braid_vhost_message *m);
	u32 bytes;		/* of the payload */
	enum fds fds;
	enum queue queue;
	u64 answer;		/* a value; 0: none, or the handler's */
} requests[] = {
	[BRAID_VHOST_GET_FEATURES] = { nothing, .answer = FEATURES },
	[BRAID_VHOST_SET_FEATURES] = { set_features, 8 },
	[BRAID_VHOST_SET_OWNER] = { nothing },
	[BRAID_VHOST_RESET_OWNER] = { reset_owner },
	[BRAID_VHOST_SET_MEM_TABLE] = { set_mem_table, VARIABLE, FDS_MANY },
	[BRAID_VHOST_SET_VRING_NUM] = { set_vring_num, STATE_BYTES, .queue = QUEUE_STOPPED },
	[BRAID_VHOST_SET_VRING_ADDR] = { set_vring_addr, ADDRESS_BYTES, .queue = QUEUE_STOPPED },
	[BRAID_VHOST_SET_VRING_BASE] = { set_vring_base, STATE_BYTES, .queue = QUEUE_STOPPED },
	[BRAID_VHOST_GET_VRING_BASE] = { get_vring_base, STATE_BYTES, .queue = QUEUE_ANY },
	[BRAID_VHOST_SET_VRING_KICK] = { set_ring_fd, 8, FDS_RING, QUEUE_ANY },
	[BRAID_VHOST_SET_VRING_CALL] = { set_ring_fd, 8, FDS_RING, QUEUE_ANY },
	[BRAID_VHOST_SET_VRING_ERR] = { nothing, 8, FDS_RING, QUEUE_ANY },
	[BRAID_VHOST_GET_PROTOCOL_FEATURES] = { nothing, .answer = PROTOCOL },
	[BRAID_VHOST_SET_PROTOCOL_FEATURES] = { set_protocol_features, 8 },
	[BRAID_VHOST_GET_QUEUE_NUM] = { nothing, .answer = BRAID_VIRTIO_NR_QUEUES },
	[BRAID_VHOST_SET_VRING_ENABLE] = { set_vring_enable, STATE_BYTES, .queue = QUEUE_ANY },
	[BRAID_VHOST_SET_BACKEND_REQ_FD] = { set_backend_req_fd, 0, FDS_ONE },
	[BRAID_VHOST_GET_CONFIG] = { get_config, VARIABLE },
	[BRAID_VHOST_SET_CONFIG] = { set_config, VARIABLE },
	[BRAID_VHOST_VRING_KICK] = { vring_kick, STATE_BYTES, .queue = QUEUE_ANY },
};

static bool fds_fit(enum fds fds, const struct braid_vhost_message *m)
{
	bool none = m->payload.value & BRAID_VHOST_NO_FD;

	switch (fds) {
	case FDS_NONE:
		return !m->nr_fds;
	case FDS_ONE:
		return m->nr_fds == 1;
	case FDS_RING:
		return m->nr_fds == !none &&
		       !(m->payload.value & ~(u64)(BRAID_VHOST_RING_MASK | BRAID_VHOST_NO_FD));
	case FDS_MANY:
		break;
	}
	return true;
}

/* Whether the virtqueue exists, and stands where it must. 0 or -EPROTO with braid_fail(). */
static int check_queue(struct braid_vhost_endpoint *p, const struct request *r,
		       const struct braid_vhost_message *m)
{
	u32 index = r->fds == FDS_RING ? m->payload.value & BRAID_VHOST_RING_MASK :
					 m->payload.state.index;

	if (r->queue == QUEUE_NONE)
		return 0;
	if (index >= BRAID_VIRTIO_NR_QUEUES)
		return braid_fail(-EPROTO, "virtqueue %u; the device has %u", index,
				  BRAID_VIRTIO_NR_QUEUES);
	if (r->queue == QUEUE_ANY)
		return 0;
	if (braid_vhost_queue_runs(p, index))
		return braid_fail(-EPROTO, "a virtqueue that is changed while it runs");
	braid_vhost_queue_unmap(&p->queues[index]);
	return 0;
}

int braid_vhost_handle(struct braid_vhost_endpoint *p, struct braid_vhost_message *m)
{
	const struct request *r = &requests[0];
	int ret;

	if (m->header.request < sizeof(requests) / sizeof(requests[0]))
		r = &requests[m->header.request];
	if (!r->handle)
		return braid_fail(-EPROTO, "unsupported message %u",
				  m->header.request);
	if ((r->bytes != VARIABLE && r->bytes != m->header.bytes) || !fds_fit(r->fds, m))
		return braid_fail(-EPROTO, "malformed message, type %u, of %u bytes with %u file descriptors",
				  m->header.request, m->header.bytes, m->nr_fds);
	ret = check_queue(p, r, m);
	if (!ret)
		ret = r->handle(p, m);
	if (ret < 0)
		return ret;
	if (r->answer)
		answer_value(p, m, r->answer);
	if (!p->answer_due && m->header.flags & BRAID_VHOST_NEED_REPLY &&
	    p->protocol & BIT(BRAID_VHOST_PROTOCOL_REPLY_ACK))
		answer_value(p, m, ret);
	return 0;
}
