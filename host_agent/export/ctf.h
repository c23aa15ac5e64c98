/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Between the files that write CTF. */
#ifndef BRAID_EXPORT_CTF_H
#define BRAID_EXPORT_CTF_H

#include <babeltrace2/babeltrace.h>

#include "host_agent/export/walk.h"

#define BRAID_CTF_QUEUE		64u		/* messages made before the sink takes them */
#define BRAID_CTF_MAX_ELEMENTS	1024u		/* of an array; each is an object to the library */
#define BRAID_CTF_NO_BOUND	INT64_MAX	/* of a time whose bound nobody knows */

/* The members of an event's common context, by index. */
enum {
	BRAID_CTF_TID, BRAID_CTF_FLAGS, BRAID_CTF_PREEMPT_COUNT, BRAID_CTF_BOUND,
	BRAID_CTF_PROCNAME,
};

/* How a field is written. */
struct braid_ctf_field {
	const struct tep_format_field *field;
	enum braid_ctf_shape {
		BRAID_CTF_NUMBER,
		BRAID_CTF_STRING,
		BRAID_CTF_ARRAY,	/* of as many elements as its class says */
		BRAID_CTF_SEQUENCE,	/* of as many as the event says */
	} shape;
	u32 element_bytes;		/* of a string: 1 */
};

/* One kind of event in one buffer. */
struct braid_ctf_event {
	struct braid_ctf_event *next;	/* of the same kind: in another buffer, or as bytes */
	const struct braid_ctf_buffer *buffer;
	const struct tep_event *parsed;	/* NULL: the payload is but bytes */
	bool unfit;			/* it can't be written field by field */
	bt_event_class *class;
	struct braid_ctf_field *fields;
	u32 nr_fields;
};

/* A buffer of a guest, or its notes: in CTF a stream class. */
struct braid_ctf_buffer {
	bt_stream_class *class;		/* NULL: not met yet */
	bool notes;
	bt_event_class *note;
};

/* A stream of the source: in CTF a trace. */
struct braid_ctf_trace {
	bt_trace_class *class;		/* NULL: not met yet */
	bt_trace *trace;
	bt_clock_class *clock;
	struct braid_ctf_buffer buffers[BRAID_MAX_BUFFERS + 1];	/* the first is of the notes */
};

/* A ring: in CTF a stream. */
struct braid_ctf_ring {
	bt_stream *stream;		/* NULL: not met yet */
	struct braid_ctf_buffer *buffer;
	bt_packet *packet;		/* NULL: none is open */
	u64 packet_bytes;		/* roughly */
	bool had_packets;
	u64 now;			/* of the last thing written; times may not go back */
};

struct braid_ctf {
	struct braid_walk walk;
	bt_graph *graph;
	bt_self_component *component;
	bt_self_message_iterator *iterator;
	bt_message *queue[BRAID_CTF_QUEUE];
	u32 nr_queued, nr_taken;
	u64 queued_bytes;		/* of payloads, roughly */
	bool ended;			/* nothing will be queued any more */
	struct braid_ctf_trace *traces;	/* by the stream's number */
	struct braid_ctf_ring *rings;	/* by the ring's order */
	u32 nr_rings;
	struct braid_ctf_event **kinds;	/* by the kind's number */
	u32 nr_kinds;
	bool absolute;			/* wall time is known: the clocks' origin is 1970 */
	s64 offset_ns;			/* from what is shown to that origin */
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
 * braid_ctf_event - what an event's kind is in CTF; made when first met
 * @ctf: the export
 * @buffer: that the event is in
 * @item: the event
 * @info: its kind
 *
 * Return: NULL: out of memory.
 */
const struct braid_ctf_event *braid_ctf_event(struct braid_ctf *ctf,
					      const struct braid_ctf_buffer *buffer,
					      const struct braid_item *item,
					      const struct braid_event_type_info *info);

/** braid_ctf_free_classes - let go of all that the two above have made */
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

/**
 * braid_ctf_fits - whether a payload can be written field by field
 * @event: with its fields
 * @item: its parsed event is @event's
 *
 * An array that is too long for that, or fields that lie over one another, are no kernel's.
 */
bool braid_ctf_fits(const struct braid_ctf_event *event, const struct braid_item *item);

#endif /* BRAID_EXPORT_CTF_H */
