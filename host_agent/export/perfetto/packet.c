// SPDX-License-Identifier: GPL-2.0-or-later
/* Packets of Perfetto's format: each belongs to a machine, and to the sequence of its packets. */
#include <errno.h>
#include <string.h>

#include "host_agent/export/perfetto/perfetto.h"
#include "host_agent/util/wire.h"
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
#define CLOCK_KEY	braid_wire_key(58, BRAID_WIRE_VARINT)	/* .timestamp_clock_id */

#define MARKS_BYTES	(8 * BRAID_VARINT_BYTES)	/* what says whose a packet is, at most */

int braid_perfetto_write(FILE *to, const struct braid_text *packets)
{
	errno = 0;
	if (!packets->bytes || fwrite(packets->data, 1, packets->bytes, to) == packets->bytes)
		return 0;
	return errno == EPIPE ? -EPIPE :
	       braid_fail(errno ? -errno : -EIO, "cannot write the export: %s",
			  strerror(errno ? errno : EIO));
}

int braid_perfetto_flush(struct braid_perfetto_out *o)
{
	int err = o->bytes.failed ? braid_out_of_memory() : braid_perfetto_write(o->to, &o->bytes);

	o->bytes.bytes = 0;
	return err;
}

int braid_perfetto_written(struct braid_perfetto_out *o)
{
	if (o->bytes.failed)
		return braid_out_of_memory();
	return o->to && o->bytes.bytes >= FLUSH_BYTES ? braid_perfetto_flush(o) : 0;
}

/* A packet belongs to a machine, and to the sequence of its packets. */
static void mark(Braid__TracePacket *packet, struct braid_perfetto_machine *m)
{
	if (m->id)
		BRAID_PERFETTO_SET(packet, machine_id, m->id);
	BRAID_PERFETTO_SET(packet, trusted_packet_sequence_id, m->stream->number + 1);
	if (m->begun)
		return;
	BRAID_PERFETTO_SET(packet, sequence_flags,
			   BRAID__SEQUENCE_FLAGS__SEQ_INCREMENTAL_STATE_CLEARED);
	m->begun = true;
}

int braid_perfetto_packet(struct braid_perfetto_out *o, struct braid_perfetto_machine *m,
			  Braid__TracePacket *packet)
{
	Braid__TracePacket *packets[] = { packet };
	Braid__Trace trace = BRAID__TRACE__INIT;
	char *at;

	trace.n_packet = 1;
	trace.packet = packets;
	if (m)
		mark(packet, m);
	at = braid_text_reserve(&o->bytes, braid__trace__get_packed_size(&trace));
	if (at)
		o->bytes.bytes += braid__trace__pack(&trace, (u8 *)at);
	return braid_perfetto_written(o);
}

int braid_perfetto_timed_packet(struct braid_perfetto_out *o, struct braid_perfetto_machine *m,
				s64 ns, Braid__TracePacket *packet)
{
	BRAID_PERFETTO_SET(packet, timestamp, (u64)ns);
	BRAID_PERFETTO_SET(packet, timestamp_clock_id, BRAID__BUILTIN_CLOCK__MONOTONIC_RAW);
	return braid_perfetto_packet(o, m, packet);
}

/* What follows a packet's content. */
static char *put_marks(char *at, struct braid_perfetto_machine *m, bool timed)
{
	if (!m->begun) {
		at = braid_varint_put(at, FLAGS_KEY);
		at = braid_varint_put(at, BRAID__SEQUENCE_FLAGS__SEQ_INCREMENTAL_STATE_CLEARED);
		m->begun = true;	/* not again: other threads read it */
	}
	if (timed) {
		at = braid_varint_put(at, CLOCK_KEY);
		at = braid_varint_put(at, BRAID__BUILTIN_CLOCK__MONOTONIC_RAW);
	}
	if (m->id)
		at = braid_varint_put(braid_varint_put(at, MACHINE_KEY), m->id);
	return at;
}

size_t braid_perfetto_begin_timed(struct braid_perfetto_out *o, struct braid_perfetto_machine *m,
				  s64 ns)
{
	size_t packet = braid_wire_begin(&o->bytes, PACKET_KEY);

	braid_wire_number(&o->bytes, TIMESTAMP_KEY, (u64)ns);
	braid_wire_number(&o->bytes, SEQUENCE_KEY, m->stream->number + 1);
	return packet;
}

static int end_packet(struct braid_perfetto_out *o, size_t packet)
{
	braid_wire_end(&o->bytes, packet);
	return braid_perfetto_written(o);
}

int braid_perfetto_end_timed(struct braid_perfetto_out *o, struct braid_perfetto_machine *m,
			     size_t packet)
{
	char *at = braid_text_reserve(&o->bytes, MARKS_BYTES);

	if (at)
		o->bytes.bytes = put_marks(at, m, true) - o->bytes.data;
	return end_packet(o, packet);
}

int braid_perfetto_bundle_packet(struct braid_perfetto_out *o, struct braid_perfetto_machine *m,
				 u32 cpu, const struct braid_text *events,
				 const struct braid_text *rest)
{
	size_t bundle = 1 + braid_wire_varint_bytes(cpu) + events->bytes + rest->bytes;
	char marks[MARKS_BYTES], *end, *at;
	size_t packet;

	end = braid_varint_put(braid_varint_put(marks, SEQUENCE_KEY), m->stream->number + 1);
	end = put_marks(end, m, false);
	packet = 1 + braid_wire_varint_bytes(bundle) + bundle + (end - marks);
	at = braid_text_reserve(&o->bytes, packet + 2 * BRAID_VARINT_BYTES);
	if (at) {
		at = braid_varint_put(braid_varint_put(at, PACKET_KEY), packet);
		at = braid_varint_put(braid_varint_put(at, BUNDLE_KEY), bundle);
		o->bytes.bytes = braid_varint_put(braid_varint_put(at, CPU_KEY), cpu) - o->bytes.data;
		braid_text_put(&o->bytes, events->data, events->bytes);
		braid_text_put(&o->bytes, rest->data, rest->bytes);
		braid_text_put(&o->bytes, marks, end - marks);
	}
	return braid_perfetto_written(o);
}
