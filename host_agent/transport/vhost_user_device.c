// SPDX-License-Identifier: GPL-2.0-or-later
/* The device "trace": what its controlq and its notifyq carry. */
#include <errno.h>
#include <linux/virtio_config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/transport/foreign.h"
#include "host_agent/transport/vhost_user.h"
#include "host_agent/util/error.h"

#define BUFFERS_AT_ONCE	64	/* of the controlq, in one turn */

bool braid_vhost_queue_runs(const struct braid_vhost_port *p, u32 index)
{
	const struct braid_vhost_queue *q = &p->queues[index];

	return q->kicked && q->size && q->has_address && p->features & 1ULL << VIRTIO_F_VERSION_1 &&
	       (q->enabled || !(p->features & 1ULL << BRAID_VHOST_F_PROTOCOL_FEATURES));
}

/* Interrupts the driver after buffers came back. */
static int call_driver(struct braid_vhost_port *p, struct braid_vhost_queue *q)
{
	const struct braid_vhost_header header = {
		.request = BRAID_VHOST_BACKEND_VRING_CALL, .flags = BRAID_VHOST_VERSION,
		.bytes = sizeof(struct braid_vhost_ring_state),
	};
	const struct braid_vhost_ring_state state = { .index = q->index };
	int ret = braid_vhost_queue_wants_call(q);
	const u64 one = 1;

	if (ret <= 0)
		return ret;
	if (q->call_fd >= 0) {
		braid_foreign_nonblocking(q->call_fd);
		/* One that is full was not heard yet: the driver will look. */
		ret = write(q->call_fd, &one, sizeof(one));
	} else if (!q->polled && p->backend >= 0 &&
		   p->protocol & 1ULL << BRAID_VHOST_PROTOCOL_INBAND) {
		/* Without a wish for a reply: the channel may be a pipe. */
		return braid_vhost_send(p->backend, &header, &state) ? -EPROTO : 0;
	}
	return 0;
}

/* Controlq ------------------------------------------------------------------------------- */

static int by_address(const void *a, const void *b)
{
	const struct braid_virtio_chunk *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

/* As the specification wants them. @chunks are sorted. enum braid_virtio_result. */
static u32 check_chunks(const struct braid_vhost_port *p, const struct braid_virtio_chunk *chunks,
			u32 nr, u64 *bytes)
{
	u64 total = 0;
	u32 k;

	for (k = 0; k < nr; k++) {
		const struct braid_virtio_chunk *c = &chunks[k];

		if (!c->bytes || (c->address | c->bytes) % BRAID_PAGE_BYTES ||
		    c->address + c->bytes < c->address) {
			braid_fail(-EINVAL, "a chunk that is not page-aligned");
			return BRAID_VIRTIO_BAD;
		}
		if (k && chunks[k - 1].address + chunks[k - 1].bytes > c->address) {
			braid_fail(-EINVAL, "chunks that overlap");
			return BRAID_VIRTIO_BAD;
		}
		if (c->bytes > p->config.region_bytes_max - total) {
			braid_fail(-EFBIG, "more than %llu bytes%s",
				   (unsigned long long)p->config.region_bytes_max,
				   p->address.bytes ? ", the limit of size=" : "");
			return BRAID_VIRTIO_REFUSED;
		}
		total += c->bytes;
	}
	*bytes = total;
	return BRAID_VIRTIO_OK;
}

/* Whether the chunks are all right, and can be mapped. enum braid_virtio_result. */
static u32 try_chunks(struct braid_vhost_port *p, const struct braid_virtio_chunk *chunks, u32 nr)
{
	struct braid_virtio_chunk *sorted = malloc(nr * sizeof(*sorted));
	u64 bytes = 0;
	u32 result;
	u8 *base;
	int err;

	if (!sorted) {
		braid_fail(-ENOMEM, "out of memory");
		return BRAID_VIRTIO_REFUSED;
	}
	memcpy(sorted, chunks, nr * sizeof(*sorted));
	qsort(sorted, nr, sizeof(*sorted), by_address);
	result = check_chunks(p, sorted, nr, &bytes);
	free(sorted);
	if (result != BRAID_VIRTIO_OK)
		return result;
	/* The driver is to know at once whether it will work; vhost_user.c maps them for use. */
	err = braid_vhost_map_chunks(&p->memory, chunks, nr, bytes, &base);
	if (err)
		return err == -ERANGE ? BRAID_VIRTIO_BAD : BRAID_VIRTIO_REFUSED;
	braid_vhost_unmap_chunks(base, bytes);
	p->region_bytes = bytes;
	return BRAID_VIRTIO_OK;
}

/* enum braid_virtio_result, or -errno when the buffer's memory can't be read. */
static int announce(struct braid_vhost_port *p, const struct braid_vhost_chain *chain, u32 nr)
{
	struct braid_virtio_control *control;
	u32 bytes = sizeof(*control) + nr * sizeof(struct braid_virtio_chunk);
	int ret;

	if (p->chunks) {
		braid_fail(-EBUSY, "a region is already announced");
		return BRAID_VIRTIO_BUSY;
	}
	control = malloc(bytes);
	if (!control) {
		braid_fail(-ENOMEM, "out of memory");
		return BRAID_VIRTIO_REFUSED;
	}
	ret = braid_vhost_chain_copy(chain, &p->memory, control, bytes, false);
	if (!ret) {
		memmove(control, control + 1, nr * sizeof(struct braid_virtio_chunk));
		ret = try_chunks(p, (struct braid_virtio_chunk *)control, nr);
	}
	if (ret != BRAID_VIRTIO_OK) {
		free(control);
		return ret;
	}
	p->chunks = (struct braid_virtio_chunk *)control;
	p->nr_chunks = nr;
	p->taken = false;
	p->rung = true;		/* it can be mapped at once */
	return BRAID_VIRTIO_OK;
}

/* What the driver asks for. enum braid_virtio_result, or -errno as announce(). */
static int obey(struct braid_vhost_port *p, const struct braid_vhost_chain *chain)
{
	u64 bytes = braid_vhost_chain_bytes(chain, false);
	struct braid_virtio_control control;
	bool announces;
	int err;

	braid_fail(-EPROTO, "a malformed buffer in the controlq");
	if (bytes < sizeof(control) ||
	    braid_vhost_chain_bytes(chain, true) < sizeof(struct braid_virtio_status))
		return BRAID_VIRTIO_BAD;
	err = braid_vhost_chain_copy(chain, &p->memory, &control, sizeof(control), false);
	if (err)
		return err;
	announces = control.command == BRAID_VIRTIO_ANNOUNCE;
	if ((!announces && control.command != BRAID_VIRTIO_REVOKE) ||
	    announces != !!control.nr_chunks || control.nr_chunks > BRAID_VHOST_CHUNKS_MAX ||
	    bytes != sizeof(control) + control.nr_chunks * sizeof(struct braid_virtio_chunk))
		return BRAID_VIRTIO_BAD;
	if (announces)
		return announce(p, chain, control.nr_chunks);
	if (p->chunks) {
		braid_vhost_let_go(p, "the guest took its region back");
		p->revoked = true;
	}
	return BRAID_VIRTIO_OK;
}

/* Gives back what was held, in order. */
static int flush_held(struct braid_vhost_port *p)
{
	struct braid_vhost_queue *q = &p->queues[BRAID_VIRTIO_CONTROLQ];
	int err = braid_vhost_queue_map(q, &p->memory);
	u32 k;

	for (k = 0; k < p->nr_held && !err; k++)
		err = braid_vhost_queue_push(q, p->held[k].head, p->held[k].written);
	p->nr_held = 0;
	return err ? err : call_driver(p, q);
}

/* One buffer, which was taken. As braid_vhost_control(). */
static int control_one(struct braid_vhost_port *p, const struct braid_vhost_chain *chain)
{
	u64 room = braid_vhost_chain_bytes(chain, true);
	struct braid_vhost_held *held;
	struct braid_virtio_status status;
	int err = obey(p, chain);

	if (err < 0)
		return err;
	if (p->nr_held == BRAID_VHOST_MAX_RING)
		return braid_fail(-EPROTO, "more buffers than the virtqueue's size");
	status.result = err;
	held = &p->held[p->nr_held++];
	*held = (struct braid_vhost_held){ .head = chain->head };
	if (room >= sizeof(status)) {
		held->written = sizeof(status);
		err = braid_vhost_chain_copy(chain, &p->memory, &status, sizeof(status), true);
		if (err)
			return err;
	}
	if (!p->chunks) {	/* nobody is to be waited for */
		char why[256];

		snprintf(why, sizeof(why), "%s", braid_failure());
		err = flush_held(p);
		if (err)
			return err;
		braid_fail(-EINVAL, "%s", why);
	}
	return status.result != BRAID_VIRTIO_OK;
}

int braid_vhost_control(struct braid_vhost_port *p)
{
	struct braid_vhost_queue *q = &p->queues[BRAID_VIRTIO_CONTROLQ];
	struct braid_vhost_chain chain;
	int ret, n;

	if (!braid_vhost_queue_runs(p, BRAID_VIRTIO_CONTROLQ))
		return 0;
	ret = braid_vhost_queue_map(q, &p->memory);
	for (n = 0; n < BUFFERS_AT_ONCE && !ret && !p->letting_go; n++) {
		ret = braid_vhost_queue_pop(q, &chain);
		if (ret <= 0)
			break;
		ret = control_one(p, &chain);
	}
	return ret;
}

void braid_vhost_let_go(struct braid_vhost_port *p, const char *why)
{
	if (!p->chunks)
		return;
	p->letting_go = true;
	p->let_go_ns = braid_monotonic_ns();
	p->let_go_why = why;
	p->revoked = false;
	if (p->mapping)
		braid_vhost_tell_gone(p);
}

void braid_vhost_tell_gone(struct braid_vhost_port *p)
{
	p->mapping->gone = p->let_go_why;
	p->mapping->taken_back = true;
}

/* A guest may be gone before an agent that was started anew has looked at what it left. */
bool braid_vhost_awaits_reader(const struct braid_vhost_port *p)
{
	return !p->taken && braid_monotonic_ns() - p->let_go_ns < p->hold_ns;
}

int braid_vhost_settle(struct braid_vhost_port *p)
{
	struct braid_vhost_queue *q = &p->queues[BRAID_VIRTIO_CONTROLQ];

	if (!p->letting_go || p->mapping || braid_vhost_awaits_reader(p))
		return 0;
	p->letting_go = false;
	free(p->chunks);
	p->chunks = NULL;
	if (p->revoked) {
		p->unseen = !p->taken;
		return flush_held(p);
	}
	/* The announcement stands: whoever runs the queue again finds it where it is. */
	p->nr_held = 0;
	q->seen = q->returned;
	return 0;
}

/* Notifyq --------------------------------------------------------------------------------- */

int braid_vhost_notify(struct braid_vhost_port *p)
{
	struct braid_vhost_queue *q = &p->queues[BRAID_VIRTIO_NOTIFYQ];
	struct braid_virtio_notice notice = { .event = BRAID_VIRTIO_LOOK };
	struct braid_vhost_chain chain;
	u32 written = 0;
	int ret = braid_vhost_queue_map(q, &p->memory);

	if (!ret)
		ret = braid_vhost_queue_pop(q, &chain);
	if (ret <= 0)
		return ret;
	if (braid_vhost_chain_bytes(&chain, true) >= sizeof(notice)) {
		written = sizeof(notice);
		ret = braid_vhost_chain_copy(&chain, &p->memory, &notice, sizeof(notice), true);
		if (ret)
			return ret;
	}
	ret = braid_vhost_queue_push(q, chain.head, written);
	return ret ? ret : call_driver(p, q);
}
