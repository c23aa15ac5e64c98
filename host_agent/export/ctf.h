/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Between the files that write CTF. */
#ifndef BRAID_EXPORT_CTF_H
#define BRAID_EXPORT_CTF_H

#include <babeltrace2/babeltrace.h>

#include "host_agent/export/slices.h"

#define BRAID_CTF_QUEUE		64u		/* messages made before the sink takes them */
#define BRAID_CTF_MAX_ELEMENTS	1024u		/* of an array; each is an object to the library */
#define BRAID_CTF_NO_BOUND	INT64_MAX	/* of a time with an unknown bound */

/* The members of an event's common context, by index. */
enum {
	BRAID_CTF_TID, BRAID_CTF_FLAGS, BRAID_CTF_PREEMPT_COUNT, BRAID_CTF_BOUND,
	BRAID_CTF_PROCNAME,
};

/* How a field is written. */
struct braid_ctf_field {
	const struct braid_field *field;
	enum braid_ctf_shape {
		BRAID_CTF_NUMBER,
		BRAID_CTF_STRING,
		BRAID_CTF_ARRAY,	/* of as many elements as its class says */
		BRAID_CTF_SEQUENCE,	/* of as many as the event says */
	} shape;
	u32 element_bytes;		/* of a string: 1 */
};

/* An event type in one buffer. */
struct braid_ctf_event {
	struct braid_ctf_event *next;	/* of the same type: in another buffer, or as bytes */
	const struct braid_ctf_buffer *buffer;
	const struct braid_layout *parsed;	/* NULL: the payload is but bytes */
	bool unfit;			/* it can't be written field by field */
	bt_event_class *class;
	struct braid_ctf_field *fields;
	u32 nr_fields;
};

/* A buffer of a guest, its notes, or its vCPUs' states: in CTF a stream class. */
struct braid_ctf_buffer {
	bt_stream_class *class;		/* NULL: not met yet */
	bool notes;
	bt_event_class *note;		/* the only class of notes, and of states */
};

#define BRAID_CTF_BUFFERS	(BRAID_MAX_BUFFERS + 2u)

/*
 * Readers find their way by packets, and each ring has one in memory. Larger ones make it
 * no faster.
 */
#define BRAID_CTF_PACKET_BYTES	(128u << 10)


/* A stream of the source: in CTF a trace. */
struct braid_ctf_trace {
	bt_trace_class *class;		/* NULL: not met yet */
	bt_trace *trace;
	bt_clock_class *clock;
	/* The first is of the notes, the last of vCPUs' states. */
	struct braid_ctf_buffer buffers[BRAID_CTF_BUFFERS];
};

/* A ring: in CTF a stream. */
struct braid_ctf_ring {
	bt_stream *stream;		/* NULL: not met yet */
	struct braid_ctf_buffer *buffer;
	u32 cpu;
	bt_packet *packet;		/* NULL: none is open */
	u64 packet_bytes;		/* roughly */
	bool had_packets;
	u64 now;			/* of the last item written; times must not go back */
};

struct braid_ctf {
	struct braid_walk walk;
	bt_graph *graph;
	bt_self_component *component;
	bt_self_message_iterator *iterator;
	bt_message *queue[BRAID_CTF_QUEUE];
	u32 nr_queued, nr_taken;
	u64 queued_bytes;		/* of payloads, roughly */
	bool ended;			/* no more items will be queued */
	struct braid_ctf_trace *traces;	/* by the stream's number */
	struct braid_ctf_ring *rings;	/* by the ring's order */
	u32 nr_rings;
	struct braid_slices slices;	/* vCPUs' states, if they are wanted */
	struct braid_ctf_ring *states;	/* by the slices' vCPU; or NULL */
	struct braid_ctf_event **types;	/* by the type's number */
	u32 nr_types;
	bool absolute;			/* wall time is known: the clocks' origin is 1970 */
	s64 offset_ns;			/* offset from the shown times to that origin */
	u64 metadata_bytes;		/* what the traces' metadata takes at most, roughly */
	struct braid_text text;
};

/**
 * braid_ctf_ring - what a ring is in CTF, with its trace and its buffer; made when first met
 * @ctf: the export
 * @ring: of the source
 *
 * Return: NULL: out of memory.
 */
struct braid_ctf_ring *braid_ctf_ring(struct braid_ctf *ctf, const struct braid_ring *ring);

/**
 * braid_ctf_state_ring - where a vCPU's states are in CTF; made when first met
 * @ctf: the export
 * @vcpu: of its slices
 *
 * Return: NULL: out of memory.
 */
struct braid_ctf_ring *braid_ctf_state_ring(struct braid_ctf *ctf, u32 vcpu);

/**
 * braid_ctf_event - what an event type is in CTF; made when first met
 * @ctf: the export
 * @buffer: that the event is in
 * @item: the event
 * @info: its type
 *
 * Return: NULL: out of memory.
 */
const struct braid_ctf_event *braid_ctf_event(struct braid_ctf *ctf,
					      const struct braid_ctf_buffer *buffer,
					      const struct braid_item *item,
					      const struct braid_event_type_info *info);

/** braid_ctf_free_classes - release all classes created by the three above */
void braid_ctf_free_classes(struct braid_ctf *ctf);

/**
 * braid_ctf_fill - write an event's values
 * @ctf: the export; its walk is at the event
 * @to: an event of @event's class
 * @event: from braid_ctf_event() of this very item
 * @item: the event
 *
 * Return: 0, or -ENOMEM.
 */
int braid_ctf_fill(struct braid_ctf *ctf, bt_event *to, const struct braid_ctf_event *event,
		   const struct braid_item *item);

/** braid_ctf_string - write a foreign string, fit for a terminal; 0 or -ENOMEM */
int braid_ctf_string(struct braid_ctf *ctf, bt_field *to, const char *data, size_t bytes);

/* Messages: ctf_packets.c. All return 0, or -errno; with braid_fail() unless it is -EIO. ------- */

/** braid_ctf_drain - have the writer take what is queued */
int braid_ctf_drain(struct braid_ctf *ctf);

/** braid_ctf_queue - queue a message, NULL: out of memory, with a payload of about @bytes */
int braid_ctf_queue(struct braid_ctf *ctf, bt_message *message, u64 bytes);

/** braid_ctf_tell_time - a time as a ring has it in CTF; returns that */
u64 braid_ctf_tell_time(const struct braid_ctf *ctf, struct braid_ctf_ring *r, s64 ns);

/** braid_ctf_open_packet - begin a packet of a ring */
int braid_ctf_open_packet(struct braid_ctf *ctf, struct braid_ctf_ring *r, u64 now);

/** braid_ctf_close_packet - end it */
int braid_ctf_close_packet(struct braid_ctf *ctf, struct braid_ctf_ring *r, u64 now);

/**
 * braid_ctf_begin_event - a message of an event in the ring's packet, which is opened if need be
 * @ctf: the export
 * @r: the ring
 * @class: of the event
 * @ns: its time, by the clock that is shown
 * @bytes: of its payload, roughly
 * @out: set: to be filled and queued
 */
int braid_ctf_begin_event(struct braid_ctf *ctf, struct braid_ctf_ring *r,
			  const bt_event_class *class, s64 ns, u32 bytes, bt_message **out);

/** braid_ctf_begin_ring - a new ring's first message */
int braid_ctf_begin_ring(struct braid_ctf *ctf, struct braid_ctf_ring *r);

/** braid_ctf_end_ring - its last ones */
int braid_ctf_end_ring(struct braid_ctf *ctf, struct braid_ctf_ring *r);

/* States of vCPUs: ctf_states.c. As above. -------------------------------------------------- */

/** braid_ctf_states_begin - before the walk runs */
int braid_ctf_states_begin(struct braid_ctf *ctf);

/** braid_ctf_states_end - after it; does nothing if they were not begun */
int braid_ctf_states_end(struct braid_ctf *ctf);

/**
 * braid_ctf_fits - whether a payload can be written field by field
 * @event: with its fields
 * @item: its parsed event is @event's
 *
 * Arrays that are too long, or overlapping fields, do not occur in kernels.
 */
bool braid_ctf_fits(const struct braid_ctf_event *event, const struct braid_item *item);

#endif /* BRAID_EXPORT_CTF_H */
