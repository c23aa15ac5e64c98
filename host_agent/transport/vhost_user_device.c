// SPDX-License-Identifier: GPL-2.0-or-later
/* The device "trace": what its controlq and its notifyq carry. */
#include <endian.h>
#include <errno.h>
#include <linux/virtio_config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host_agent/transport/untrusted_fd.h"
#include "host_agent/transport/vhost_user.h"
#include "host_agent/util/error.h"

#define BUFFERS_AT_ONCE	64	/* of the controlq, per turn */

bool braid_vhost_queue_runs(const struct braid_vhost_endpoint *p, u32 index)
{
	const struct braid_vhost_queue *q = &p->queues[index];

	return q->kicked && q->size && q->has_address && p->features & 1ULL << VIRTIO_F_VERSION_1 &&
	       (q->enabled || !(p->features & 1ULL << BRAID_VHOST_F_PROTOCOL_FEATURES));
}

/* Interrupts the driver after buffers were returned. */
static int call_driver(struct braid_vhost_endpoint *p, struct braid_vhost_queue *q)
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
		braid_untrusted_fd_nonblocking(q->call_fd);
		/* A full eventfd has a pending interrupt: the driver will check. */
		ret = write(q->call_fd, &one, sizeof(one));
	} else if (!q->polled && p->backend >= 0 &&
		   p->protocol & 1ULL << BRAID_VHOST_PROTOCOL_INBAND) {
		/* Without NEED_REPLY: the channel may be a pipe. */
		return braid_vhost_send(p->backend, &header, &state) ? -EPROTO : 0;
	}
	return 0;
}

/* Controlq ------------------------------------------------------------------------------- */

static int vhost_user_device_by_address(const void *a, const void *b)
{
	const struct braid_vhost_chunk *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

/* Validates the chunks by the specification. @chunks are sorted. enum braid_virtio_result. */
static u32 check_chunks(const struct braid_vhost_endpoint *p,
			const struct braid_vhost_chunk *chunks, u32 nr, u64 *bytes)
{
	u64 total = 0;
	u32 k;

	for (k = 0; k < nr; k++) {
		const struct braid_vhost_chunk *c = &chunks[k];

		if (!c->bytes || (c->address | c->bytes) % BRAID_PAGE_BYTES ||
		    c->address + c->bytes < c->address) {
			braid_fail(-EINVAL, "chunk %u is not page-aligned: %llu bytes at 0x%llx", k,
				   (unsigned long long)c->bytes, (unsigned long long)c->address);
			return BRAID_VIRTIO_BAD;
		}
		if (k && chunks[k - 1].address + chunks[k - 1].bytes > c->address) {
			braid_fail(-EINVAL, "chunk %u overlaps the one before it, at 0x%llx", k,
				   (unsigned long long)c->address);
			return BRAID_VIRTIO_BAD;
		}
		if (c->bytes > p->region_bytes_max - total) {
			braid_fail(-EFBIG, "more than %llu bytes%s",
				   (unsigned long long)p->region_bytes_max,
				   p->address.bytes ? ", the limit of size=" : "");
			return BRAID_VIRTIO_REFUSED;
		}
		total += c->bytes;
	}
	*bytes = total;
	return BRAID_VIRTIO_OK;
}

/* Whether the chunks are all right, and can be mapped. enum braid_virtio_result. */
static u32 try_chunks(struct braid_vhost_endpoint *p, const struct braid_vhost_chunk *chunks,
		      u32 nr)
{
	struct braid_vhost_chunk *sorted = malloc(nr * sizeof(*sorted));
	u64 bytes = 0;
	u32 result;
	u8 *base;
	int err;

	if (!sorted) {
		braid_out_of_memory();
		return BRAID_VIRTIO_REFUSED;
	}
	memcpy(sorted, chunks, nr * sizeof(*sorted));
	qsort(sorted, nr, sizeof(*sorted), vhost_user_device_by_address);
	result = check_chunks(p, sorted, nr, &bytes);
	free(sorted);
	if (result != BRAID_VIRTIO_OK)
		return result;
	/*
	 * A test mapping, so that the driver learns at once whether it works; vhost_user.c maps
	 * them for use.
	 */
	err = braid_vhost_map_chunks(&p->memory, chunks, nr, bytes, &base);
	if (err)
		return err == -ERANGE ? BRAID_VIRTIO_BAD : BRAID_VIRTIO_REFUSED;
	munmap(base, bytes);
	p->region_bytes = bytes;
	return BRAID_VIRTIO_OK;
}

/*
 * Copies the chunks of an ANNOUNCE; to be freed by the caller. enum braid_virtio_result, or -errno
 * when the buffer's memory can't be read.
 */
static int read_chunks(const struct braid_vhost_endpoint *p, const struct braid_vhost_chain *chain,
		       u32 nr, struct braid_vhost_chunk **out)
{
	struct {
		struct braid_virtio_control control;
		struct braid_virtio_chunk chunks[];
	} *wire;
	u32 bytes = sizeof(*wire) + nr * sizeof(wire->chunks[0]), k;
	struct braid_vhost_chunk *chunks = malloc(nr * sizeof(*chunks));
	int err;

	wire = malloc(bytes);
	if (!chunks || !wire) {
		free(chunks);
		free(wire);
		braid_out_of_memory();
		return BRAID_VIRTIO_REFUSED;
	}
	err = braid_vhost_chain_copy(chain, &p->memory, wire, bytes, false);
	for (k = 0; k < nr && !err; k++)
		chunks[k] = (struct braid_vhost_chunk){
			.address = le64toh(wire->chunks[k].address),
			.bytes = le64toh(wire->chunks[k].bytes),
		};
	free(wire);
	if (err)
		free(chunks);
	else
		*out = chunks;
	return err;
}

/* enum braid_virtio_result, or -errno as read_chunks(). */
static int announce(struct braid_vhost_endpoint *p, const struct braid_vhost_chain *chain, u32 nr)
{
	struct braid_vhost_chunk *chunks;
	int ret;

	if (p->chunks) {
		braid_fail(-EBUSY, "a region is already announced");
		return BRAID_VIRTIO_BUSY;
	}
	ret = read_chunks(p, chain, nr, &chunks);
	if (ret != BRAID_VIRTIO_OK)
		return ret;
	ret = try_chunks(p, chunks, nr);
	if (ret != BRAID_VIRTIO_OK) {
		free(chunks);
		return ret;
	}
	p->chunks = chunks;
	p->nr_chunks = nr;
	p->taken = false;
	p->rung = true;		/* it can be mapped at once */
	return BRAID_VIRTIO_OK;
}

/* Handles one request of the driver. enum braid_virtio_result, or -errno as announce(). */
static int obey(struct braid_vhost_endpoint *p, const struct braid_vhost_chain *chain)
{
	u64 bytes = braid_vhost_chain_bytes(chain, false);
	struct braid_virtio_control control;
	bool announces;
	int err;
	u32 nr;

	braid_fail(-EPROTO, "a malformed buffer in the controlq");
	if (bytes < sizeof(control) ||
	    braid_vhost_chain_bytes(chain, true) < sizeof(struct braid_virtio_status))
		return BRAID_VIRTIO_BAD;
	err = braid_vhost_chain_copy(chain, &p->memory, &control, sizeof(control), false);
	if (err)
		return err;
	announces = control.command == htole32(BRAID_VIRTIO_ANNOUNCE);
	nr = le32toh(control.nr_chunks);
	if ((!announces && control.command != htole32(BRAID_VIRTIO_REVOKE)) ||
	    announces != !!nr || nr > BRAID_VHOST_CHUNKS_MAX ||
	    bytes != sizeof(control) + nr * sizeof(struct braid_virtio_chunk))
		return BRAID_VIRTIO_BAD;
	if (announces)
		return announce(p, chain, nr);
	if (p->chunks) {
		braid_vhost_let_go(p, "the guest took its region back");
		p->revoked = true;
	}
	return BRAID_VIRTIO_OK;
}

/* Returns the held buffers, in order. */
static int flush_held(struct braid_vhost_endpoint *p)
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
static int control_one(struct braid_vhost_endpoint *p, const struct braid_vhost_chain *chain)
{
	u64 room = braid_vhost_chain_bytes(chain, true);
	struct braid_vhost_held *held;
	struct braid_virtio_status status;
	int err = obey(p, chain);

	if (err < 0)
		return err;
	if (p->nr_held == BRAID_VHOST_MAX_RING)
		return braid_fail(-EPROTO, "more buffers than the virtqueue's size");
	status.result = htole32(err);
	held = &p->held[p->nr_held++];
	*held = (struct braid_vhost_held){ .head = chain->head };
	if (room >= sizeof(status)) {
		held->written = sizeof(status);
		err = braid_vhost_chain_copy(chain, &p->memory, &status, sizeof(status), true);
		if (err)
			return err;
	}
	if (!p->chunks) {	/* no reader to wait for */
		char why[256];

		snprintf(why, sizeof(why), "%s", braid_failure());
		err = flush_held(p);
		if (err)
			return err;
		braid_fail(-EINVAL, "%s", why);
	}
	return status.result != htole32(BRAID_VIRTIO_OK);
}

int braid_vhost_control(struct braid_vhost_endpoint *p)
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

void braid_vhost_let_go(struct braid_vhost_endpoint *p, const char *why)
{
	if (!p->chunks)
		return;
	p->letting_go = true;
	p->let_go_ns = braid_monotonic_ns();
	p->let_go_why = why;
	p->revoked = false;
	if (p->mapping)
		braid_vhost_notify_gone(p);
}

void braid_vhost_notify_gone(struct braid_vhost_endpoint *p)
{
	p->mapping->gone = p->let_go_why;
	p->mapping->taken_back = true;
}

/* A guest may be gone before a restarted agent has read its region. */
bool braid_vhost_awaits_reader(const struct braid_vhost_endpoint *p)
{
	return !p->taken && braid_monotonic_ns() - p->let_go_ns < p->hold_ns;
}

int braid_vhost_settle(struct braid_vhost_endpoint *p)
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
	/* The announcement is kept: when the queue is restarted it is found at its place. */
	p->nr_held = 0;
	q->seen = q->returned;
	return 0;
}

/* Notifyq --------------------------------------------------------------------------------- */

int braid_vhost_notify(struct braid_vhost_endpoint *p)
{
	struct braid_vhost_queue *q = &p->queues[BRAID_VIRTIO_NOTIFYQ];
	struct braid_virtio_notice notice = { .event = htole32(BRAID_VIRTIO_WAKE) };
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
