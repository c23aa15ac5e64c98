// SPDX-License-Identifier: GPL-2.0-or-later
/* Packets of CTF: headers, times, losses, and how they get into files. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_agent/export/ctf/ctf.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "host_agent/util/io.h"

#define MAGIC		0xc1fc1fc1u
#define ALIGN_BYTES	8u		/* of a packet's size */
#define LEAST_BYTES	4096u		/* of a ring's buffer */
#define STAMP_BITS	27		/* of a compact event header, after ... */
#define ID_BITS		5		/* ... the id ... */
#define EXTENDED	BRAID_CTF_COMMON /* ... which is this if id and time follow in full */
#define EXTENDED_BYTES	13u

/* As the metadata says. A class without CPUs ends before that. */
struct packet_head {
	u32 magic;
	u8 uuid[BRAID_CTF_UUID_BYTES];
	u32 stream_id;
	u64 stream_instance_id;
	u64 timestamp_begin;
	u64 timestamp_end;
	u64 content_bits;
	u64 packet_bits;
	u64 packet_seq_num;
	u64 events_discarded;
	u32 cpu_id;
} __attribute__((__packed__));

static u32 class_of(const struct braid_ctf_ring *r)
{
	return r->class - r->trace->classes;
}

static u32 head_bytes(const struct braid_ctf_ring *r)
{
	return class_of(r) == BRAID_CTF_NOTES ? offsetof(struct packet_head, cpu_id) :
						sizeof(struct packet_head);
}

/*
 * CTF's times are not negative, do not go back within a stream, as wall time may, and readers
 * add the clock's offset to them.
 */
static u64 clamp_time(const struct braid_ctf *ctf, struct braid_ctf_ring *r, s64 ns)
{
	ns = ns < ctf->most_ns ? ns : ctf->most_ns;
	if (ns > 0 && (u64)ns > r->now)
		r->now = ns;
	return r->now;
}

/* Files ----------------------------------------------------------------------------------- */

static int write_data(const struct braid_ctf *ctf, const struct braid_ctf_ring *r)
{
	braid_auto_fd int fd = r->fd >= 0 ? -1 :
			       openat(ctf->output->dir, r->path, O_WRONLY | O_APPEND | O_CLOEXEC);

	if (r->fd >= 0)
		return braid_write_all(r->fd, r->data, r->used);
	return fd < 0 ? -errno : braid_write_all(fd, r->data, r->used);
}

static int ctf_packets_write_out(const struct braid_ctf *ctf, struct braid_ctf_ring *r)
{
	int err;

	if (ctf->group && braid_group_is_over(ctf->group))
		return braid_fail(-ECANCELED, "another thread has failed");
	err = write_data(ctf, r);
	if (err)
		return braid_ctf_cannot_write(ctf->output, err);
	r->used = 0;
	return 0;
}

static int ctf_packets_grow(struct braid_ctf_ring *r, u32 bytes)
{
	u32 more = r->capacity ? r->capacity : LEAST_BYTES;
	u8 *grown;

	while (more < bytes)
		more *= 2;
	grown = realloc(r->data, more);
	if (!grown)
		return braid_out_of_memory();
	r->data = grown;
	r->capacity = more;
	return 0;
}

/* Space after the buffer's contents. */
static inline int ensure(struct braid_ctf_ring *r, u32 bytes)
{
	return r->capacity - r->used >= bytes ? 0 : ctf_packets_grow(r, r->used + bytes);
}

/* Packets --------------------------------------------------------------------------------- */

static int open_packet(struct braid_ctf_ring *r, u64 now)
{
	u32 bytes = head_bytes(r);
	struct packet_head head = {
		.magic = MAGIC, .stream_id = class_of(r), .stream_instance_id = r->id,
		.timestamp_begin = now, .packet_seq_num = r->nr_packets,
		.events_discarded = r->discarded, .cpu_id = r->cpu,
	};
	int err = ensure(r, sizeof(head));

	if (err)
		return err;
	memcpy(head.uuid, r->trace->uuid, sizeof(head.uuid));
	memcpy(r->data + r->used, &head, bytes);
	r->packet = r->used;
	r->used += bytes;
	r->nr_packets++;
	r->open = true;
	return 0;
}

static void patch(struct braid_ctf_ring *r, size_t offset, u64 value)
{
	memcpy(r->data + r->packet + offset, &value, sizeof(value));
}

/* A buffer that a large event made larger than others is not kept. */
static int close_packet(const struct braid_ctf *ctf, struct braid_ctf_ring *r, u64 end)
{
	u32 content = r->used - r->packet, unused = -content % ALIGN_BYTES;
	int err = ensure(r, unused);

	if (err)
		return err;
	memset(r->data + r->used, 0, unused);
	r->used += unused;
	patch(r, offsetof(struct packet_head, timestamp_end), end);
	patch(r, offsetof(struct packet_head, content_bits), 8ULL * content);
	patch(r, offsetof(struct packet_head, packet_bits), 8ULL * (content + unused));
	r->open = false;
	r->alone = false;
	if (r->used < ctf->packet_bytes)
		return 0;
	err = ctf_packets_write_out(ctf, r);
	if (r->capacity > 2 * ctf->packet_bytes) {
		free(r->data);
		r->data = NULL;
		r->capacity = 0;
	}
	return err;
}

static int put_empty(const struct braid_ctf *ctf, struct braid_ctf_ring *r, u64 now)
{
	int err = open_packet(r, now);

	return err ? err : close_packet(ctf, r, now);
}

/*
 * In CTF a packet has the number of events lost up to its end. Readers count them as lost since
 * the end of the packet before. So the event that a loss is reported with gets a packet of its
 * own, and the loss has the time of that event. An empty packet would do without an event, but
 * after one Trace Compass ends the stream, unless it is the first.
 */
int braid_ctf_lose(struct braid_ctf *ctf, struct braid_ctf_ring *r, s64 ns, u64 lost)
{
	u64 now = clamp_time(ctf, r, ns);
	int err = r->nr_packets ? 0 : put_empty(ctf, r, now);

	r->discarded += lost == BRAID_LOST_SOME ? 1 : lost;
	r->lost = true;
	return err;
}

/*
 * The packet for an event at @now. The stream's first packet is empty: of that one babeltrace2 does
 * not know since when the losses count.
 */
static int begin_packet(const struct braid_ctf *ctf, struct braid_ctf_ring *r, u64 now)
{
	int err = r->open ? close_packet(ctf, r, r->last) :
		  r->nr_packets ? 0 : put_empty(ctf, r, now);

	if (!err)
		err = open_packet(r, now);
	r->alone = r->lost;
	r->lost = false;
	r->last = now;
	return err;
}

int braid_ctf_begin_event(struct braid_ctf *ctf, struct braid_ctf_ring *r, u32 id, s64 ns,
			  u32 bytes, u8 **at)
{
	u64 now = clamp_time(ctf, r, ns);
	u32 word;
	u8 *to;
	int err = 0;

	if (!r->open || r->lost || r->used - r->packet >= ctf->packet_bytes)
		err = begin_packet(ctf, r, now);
	if (!err)
		err = ensure(r, EXTENDED_BYTES + bytes);
	if (err)
		return err;
	to = r->data + r->used;
	if (id < EXTENDED && now - r->last < 1u << STAMP_BITS) {
		word = id | (u32)now << ID_BITS;
		memcpy(to, &word, sizeof(word));
		*at = to + sizeof(word);
	} else {
		*to = EXTENDED;
		memcpy(to + 1, &id, sizeof(id));
		memcpy(to + 5, &now, sizeof(now));
		*at = to + EXTENDED_BYTES;
	}
	r->last = now;
	return 0;
}

int braid_ctf_end_packet(struct braid_ctf *ctf, struct braid_ctf_ring *r)
{
	return close_packet(ctf, r, r->last);
}

/* A loss after the last event is that packet's. */
int braid_ctf_end_ring(struct braid_ctf *ctf, struct braid_ctf_ring *r)
{
	int err = 0;

	if (!r->class)
		return 0;
	if (r->open && r->lost)
		patch(r, offsetof(struct packet_head, events_discarded), r->discarded);
	if (r->open)
		err = close_packet(ctf, r, r->lost ? r->now : r->last);
	else if (r->lost)
		err = put_empty(ctf, r, r->now);
	return err || !r->used ? err : ctf_packets_write_out(ctf, r);
}
