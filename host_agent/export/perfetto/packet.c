// SPDX-License-Identifier: GPL-2.0-or-later
/* Packets of Perfetto's format: each belongs to a machine, and to the sequence of its packets. */
#include <errno.h>
#include <string.h>

#include "host_agent/export/perfetto/perfetto.h"
#include "host_agent/export/perfetto/wire.h"
#include "host_agent/util/error.h"

#define FLUSH_BYTES	(64u << 10)	/* of what is written at once */

/* Fields of the .proto file that are encoded here. */
#define PACKET_KEY	braid_wire_key(1, BRAID_WIRE_BYTES)	/* Trace.packet */
#define BUNDLE_KEY	braid_wire_key(1, BRAID_WIRE_BYTES)	/* its ftrace_events ... */
#define CPU_KEY		braid_wire_key(1, BRAID_WIRE_VARINT)	/* ... their cpu */
#define TIMESTAMP_KEY	braid_wire_key(8, BRAID_WIRE_VARINT)	/* .timestamp */
#define MACHINE_KEY	braid_wire_key(98, BRAID_WIRE_VARINT)	/* .machine_id */
#define SEQUENCE_KEY	braid_wire_key(10, BRAID_WIRE_VARINT)	/* its trusted_packet_sequence_id */
#define FLAGS_KEY	braid_wire_key(13, BRAID_WIRE_VARINT)	/* .sequence_flags */
#define DEFAULTS_KEY	braid_wire_key(59, BRAID_WIRE_BYTES)	/* .trace_packet_defaults ... */
#define CLOCK_KEY	braid_wire_key(58, BRAID_WIRE_VARINT)	/* ... their timestamp_clock_id; of both */

#define MARKS_BYTES	(8 * BRAID_VARINT_BYTES)	/* what says whose a packet is, at most */

int braid_perfetto_flush(struct braid_perfetto *x)
{
	if (x->out.failed)
		return braid_out_of_memory();
	errno = 0;
	if (x->out.bytes && fwrite(x->out.data, 1, x->out.bytes, x->to) != x->out.bytes)
		return errno == EPIPE ? -EPIPE :
		       braid_fail(errno ? -errno : -EIO, "cannot write the export: %s",
				  strerror(errno ? errno : EIO));
	x->out.bytes = 0;
	return 0;
}

int braid_perfetto_written(struct braid_perfetto *x)
{
	return x->out.failed || x->out.bytes >= FLUSH_BYTES ? braid_perfetto_flush(x) : 0;
}

/* A packet belongs to a machine, and to the sequence of its packets. */
static void mark(Braid__TracePacket *packet, struct braid_perfetto_machine *m)
{
	if (m->id)
		BRAID_PERFETTO_SET(packet, machine_id, m->id);
	BRAID_PERFETTO_SET(packet, trusted_packet_sequence_id, m->stream->number + 1);
	if (!m->begun)
		BRAID_PERFETTO_SET(packet, sequence_flags,
				   BRAID__SEQUENCE_FLAGS__SEQ_INCREMENTAL_STATE_CLEARED);
	m->begun = true;
}

int braid_perfetto_packet(struct braid_perfetto *x, struct braid_perfetto_machine *m,
			  Braid__TracePacket *packet)
{
	Braid__TracePacket *packets[] = { packet };
	Braid__Trace trace = BRAID__TRACE__INIT;
	char *at;

	trace.n_packet = 1;
	trace.packet = packets;
	if (m)
		mark(packet, m);
	at = braid_text_reserve(&x->out, braid__trace__get_packed_size(&trace));
	if (at)
		x->out.bytes += braid__trace__pack(&trace, (u8 *)at);
	return braid_perfetto_written(x);
}

int braid_perfetto_timed_packet(struct braid_perfetto *x, struct braid_perfetto_machine *m,
				s64 ns, Braid__TracePacket *packet)
{
	BRAID_PERFETTO_SET(packet, timestamp, (u64)ns);
	BRAID_PERFETTO_SET(packet, timestamp_clock_id, BRAID__BUILTIN_CLOCK__MONOTONIC_RAW);
	return braid_perfetto_packet(x, m, packet);
}

/* What follows a packet's content. */
static char *put_marks(char *at, struct braid_perfetto_machine *m, bool timed)
{
	if (!m->begun) {
		at = braid_varint_put(at, FLAGS_KEY);
		at = braid_varint_put(at, BRAID__SEQUENCE_FLAGS__SEQ_INCREMENTAL_STATE_CLEARED);
	}
	m->begun = true;
	if (timed) {
		at = braid_varint_put(at, CLOCK_KEY);
		at = braid_varint_put(at, BRAID__BUILTIN_CLOCK__MONOTONIC_RAW);
	}
	if (m->id)
		at = braid_varint_put(braid_varint_put(at, MACHINE_KEY), m->id);
	return at;
}

size_t braid_perfetto_begin_timed(struct braid_perfetto *x, struct braid_perfetto_machine *m,
				  s64 ns)
{
	size_t packet = braid_wire_begin(&x->out, PACKET_KEY);

	braid_wire_number(&x->out, TIMESTAMP_KEY, (u64)ns);
	braid_wire_number(&x->out, SEQUENCE_KEY, m->stream->number + 1);
	return packet;
}

static int end_packet(struct braid_perfetto *x, size_t packet)
{
	braid_wire_end(&x->out, packet);
	return braid_perfetto_written(x);
}

int braid_perfetto_end_timed(struct braid_perfetto *x, struct braid_perfetto_machine *m,
			     size_t packet)
{
	char *at = braid_text_reserve(&x->out, MARKS_BYTES);

	if (at)
		x->out.bytes = put_marks(at, m, true) - x->out.data;
	return end_packet(x, packet);
}

int braid_perfetto_bundle_packet(struct braid_perfetto *x, struct braid_perfetto_machine *m,
				 u32 cpu, const struct braid_text *events,
				 const struct braid_text *rest)
{
	size_t bundle = 1 + braid_wire_varint_bytes(cpu) + events->bytes + rest->bytes;
	char marks[MARKS_BYTES], *end, *at;
	size_t packet;

	end = braid_varint_put(braid_varint_put(marks, SEQUENCE_KEY), m->stream->number + 1);
	end = put_marks(end, m, false);
	packet = 1 + braid_wire_varint_bytes(bundle) + bundle + (end - marks);
	at = braid_text_reserve(&x->out, packet + 2 * BRAID_VARINT_BYTES);
	if (at) {
		at = braid_varint_put(braid_varint_put(at, PACKET_KEY), packet);
		at = braid_varint_put(braid_varint_put(at, BUNDLE_KEY), bundle);
		x->out.bytes = braid_varint_put(braid_varint_put(at, CPU_KEY), cpu) - x->out.data;
		braid_text_put(&x->out, events->data, events->bytes);
		braid_text_put(&x->out, rest->data, rest->bytes);
		braid_text_put(&x->out, marks, end - marks);
	}
	return braid_perfetto_written(x);
}

size_t braid_perfetto_begin_packet(struct braid_perfetto *x)
{
	struct braid_text *t = &x->aside;
	char *at = braid_text_reserve(t, MARKS_BYTES);
	size_t packet, defaults;

	if (!at)
		return 0;	/* braid_perfetto_end_packet() reports it */
	at = braid_wire_head(at, PACKET_KEY);
	packet = at - t->data;
	at = braid_wire_field(at, SEQUENCE_KEY, x->walk.source->nr_streams + 1);
	at = braid_wire_field(at, FLAGS_KEY, x->states_begun ?
			      BRAID__SEQUENCE_FLAGS__SEQ_NEEDS_INCREMENTAL_STATE :
			      BRAID__SEQUENCE_FLAGS__SEQ_INCREMENTAL_STATE_CLEARED);
	t->bytes = at - t->data;
	if (x->states_begun)
		return packet;
	/* The first packet has what all others would repeat. */
	x->states_begun = true;
	defaults = braid_wire_begin(t, DEFAULTS_KEY);
	braid_wire_number(t, CLOCK_KEY, BRAID__BUILTIN_CLOCK__MONOTONIC_RAW);
	braid_wire_end(t, defaults);
	return packet;
}

int braid_perfetto_end_packet(struct braid_perfetto *x, size_t packet)
{
	braid_wire_end(&x->aside, packet);
	return x->aside.failed ? braid_out_of_memory() : 0;
}
