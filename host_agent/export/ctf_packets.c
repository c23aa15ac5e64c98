// SPDX-License-Identifier: GPL-2.0-or-later
/* Messages to libbabeltrace2's CTF writer: queued until it takes them; and the packets of rings. */
#include <errno.h>

#include "host_agent/export/ctf.h"
#include "host_agent/util/error.h"

#define EVENT_BYTES	64u		/* of an event in a packet, beside its payload; roughly */
#define QUEUED_BYTES	(32u << 10)	/* of payloads; queued they take some hundred times that */

/* Makes the sink write the queue. The library reports no useful reasons. */
int braid_ctf_drain(struct braid_ctf *ctf)
{
	bt_graph_run_once_status status;

	do {
		status = bt_graph_run_once(ctf->graph);
	} while (status == BT_GRAPH_RUN_ONCE_STATUS_OK);
	ctf->nr_queued = 0;
	ctf->nr_taken = 0;
	ctf->queued_bytes = 0;
	if (status == BT_GRAPH_RUN_ONCE_STATUS_AGAIN || status == BT_GRAPH_RUN_ONCE_STATUS_END)
		return 0;
	return status == BT_GRAPH_RUN_ONCE_STATUS_MEMORY_ERROR ? braid_out_of_memory() : -EIO;
}

int braid_ctf_queue(struct braid_ctf *ctf, bt_message *message, u64 bytes)
{
	if (!message)
		return braid_out_of_memory();
	ctf->queue[ctf->nr_queued++] = message;
	ctf->queued_bytes += bytes;
	if (ctf->nr_queued < BRAID_CTF_QUEUE && ctf->queued_bytes < QUEUED_BYTES)
		return 0;
	return braid_ctf_drain(ctf);
}

/* Packets --------------------------------------------------------------------------------- */

/*
 * CTF's times are not negative, do not go back within a ring, as wall time may, and readers
 * add the clock's offset to them.
 */
u64 braid_ctf_tell_time(const struct braid_ctf *ctf, struct braid_ctf_ring *r, s64 ns)
{
	s64 most = INT64_MAX - (ctf->offset_ns > 0 ? ctf->offset_ns : 0);

	ns = ns < most ? ns : most;
	if (ns > 0 && (u64)ns > r->now)
		r->now = ns;
	return r->now;
}

int braid_ctf_open_packet(struct braid_ctf *ctf, struct braid_ctf_ring *r, u64 now)
{
	bt_field *context;

	r->packet = bt_packet_create(r->stream);
	if (!r->packet)
		return braid_out_of_memory();
	context = bt_packet_borrow_context_field(r->packet);
	if (context)
		bt_field_integer_unsigned_set_value(
			bt_field_structure_borrow_member_field_by_index(context, 0), r->cpu);
	r->had_packets = true;
	r->packet_bytes = 0;
	return braid_ctf_queue(ctf, bt_message_packet_beginning_create_with_default_clock_snapshot(
				  ctf->iterator, r->packet, now), 0);
}

int braid_ctf_close_packet(struct braid_ctf *ctf, struct braid_ctf_ring *r, u64 now)
{
	int err = braid_ctf_queue(ctf, bt_message_packet_end_create_with_default_clock_snapshot(
				     ctf->iterator, r->packet, now), 0);

	BT_PACKET_PUT_REF_AND_RESET(r->packet);
	return err;
}

/* A message of an event in the ring's packet, which is opened if need be. */
int braid_ctf_begin_event(struct braid_ctf *ctf, struct braid_ctf_ring *r,
			  const bt_event_class *class, s64 ns, u32 bytes, bt_message **out)
{
	u64 before = r->now, now = braid_ctf_tell_time(ctf, r, ns);
	int err = 0;

	if (r->packet && r->packet_bytes >= BRAID_CTF_PACKET_BYTES)
		err = braid_ctf_close_packet(ctf, r, before);
	if (!err && !r->packet)
		err = braid_ctf_open_packet(ctf, r, now);
	if (err)
		return err;
	r->packet_bytes += bytes + EVENT_BYTES;
	*out = bt_message_event_create_with_packet_and_default_clock_snapshot(
		ctf->iterator, class, r->packet, now);
	return *out ? 0 : braid_out_of_memory();
}

int braid_ctf_begin_ring(struct braid_ctf *ctf, struct braid_ctf_ring *r)
{
	return braid_ctf_queue(ctf, bt_message_stream_beginning_create(ctf->iterator, r->stream),
			       0);
}

int braid_ctf_end_ring(struct braid_ctf *ctf, struct braid_ctf_ring *r)
{
	int err = r->packet ? braid_ctf_close_packet(ctf, r, r->now) : 0;

	return err || !r->stream ? err :
	       braid_ctf_queue(ctf, bt_message_stream_end_create(ctf->iterator, r->stream), 0);
}
