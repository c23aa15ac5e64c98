/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Between the files that write CTF. */
#ifndef BRAID_EXPORT_CTF_CTF_H
#define BRAID_EXPORT_CTF_CTF_H

#include <pthread.h>

#include "host_agent/export/ctf/names.h"
#include "host_agent/util/text.h"
#include "host_agent/walk/groups.h"
#include "host_agent/walk/slices.h"

#define BRAID_CTF_NO_BOUND	INT64_MAX	/* of a time with an unknown bound */
#define BRAID_CTF_UUID_BYTES	16u

/* Stream classes, by their id: notes, a guest's buffers, vCPUs' states. */
#define BRAID_CTF_NOTES		0u
#define BRAID_CTF_STATES	(BRAID_MAX_BUFFERS + 1u)
#define BRAID_CTF_CLASSES	(BRAID_CTF_STATES + 1u)

#define BRAID_CTF_COMMON	31u		/* event types of a class with a short id */
#define BRAID_CTF_MOST_CHARS	64u		/* of an array that is copied whole */
#define BRAID_CTF_MOST_OPEN	256u		/* files that are kept open; others for each write */
#define BRAID_CTF_NR_TASKS	256u		/* whose names a trace remembers; a power of 2 */

/* A part of an event's payload. */
struct braid_ctf_step {
	enum braid_ctf_step_kind {
		BRAID_CTF_COPY,		/* a part of the record as it is */
		BRAID_CTF_STRING,	/* a string of any length; NUL ends it */
		BRAID_CTF_SEQUENCE,	/* a length, then as many elements */
	} kind;
	u32 offset, bytes;		/* to copy */
	u32 element_bytes;		/* of a sequence */
	const struct braid_field *field;	/* of the others */
};

/* An array of characters that is copied: only its text may need to be sanitized. */
struct braid_ctf_chars {
	u32 offset, bytes;
};

/* An event type in one stream class: an event class, and how a record becomes its payload. */
struct braid_ctf_event {
	struct braid_ctf_event *next;	/* of the same type: in another stream class, or as bytes */
	const struct braid_ctf_class *class;
	const struct braid_layout *parsed;	/* NULL: the payload is but bytes */
	bool unfit;			/* it can't be written field by field */
	u32 id;
	u32 least_bytes;		/* of a record that needs no check but this; or UINT32_MAX */
	u32 fixed_bytes;		/* of all that is copied */
	u32 bytes;			/* for all, without what dynamic steps take of a record */
	u32 nr_dynamic;			/* steps that are not COPY */
	u32 nr_steps, nr_chars;
	struct braid_ctf_step *steps;
	struct braid_ctf_chars *chars;
	struct braid_text metadata;	/* it as an event class; empty if it is unfit */
};

/* A stream class of a trace. */
struct braid_ctf_class {
	u32 common[BRAID_CTF_COMMON];	/* keys of types whose ids are their places here */
	u32 nr_common;
	bool met;
};

/* A stream of the source: in CTF a trace. */
struct braid_ctf_trace {
	const char *folder;
	u8 uuid[BRAID_CTF_UUID_BYTES];
	struct braid_ctf_class classes[BRAID_CTF_CLASSES];
};

/* What a task is called for a stretch of its stream's counter. */
struct braid_ctf_task {
	u64 from, until;		/* inclusive; none if from > until */
	s32 pid;
	u32 bytes;
	char comm[BRAID_COMM_BYTES + 8];	/* with its NUL */
};

struct braid_ctf_tasks {
	struct braid_ctf_task all[BRAID_CTF_NR_TASKS];
};

/* An event class that was met, for the metadata. */
struct braid_ctf_met {
	u32 stream, class, id;
	struct braid_text metadata;
};

/*
 * The folder of an export. Ids and names depend on the capture alone, not on what is met first: so
 * threads may write it together, each for other rings.
 */
struct braid_ctf_output {
	const char *folder;		/* its name */
	int dir;			/* it itself */
	u32 nr_streams;
	struct braid_ctf_trace *traces;	/* by the stream's number; at least one */
	const char **files;		/* by the ring's order */
	u32 nr_rings;
	struct braid_ctf_paths paths;
	u32 packet_bytes;		/* after which a packet ends */
	bool absolute;			/* wall time is known: the clocks' origin is 1970 */
	s64 offset_ns;			/* offset from the shown times to that origin */
	s64 most_ns;			/* that readers can add it to */

	pthread_mutex_t lock;		/* protects all that follows, and each class's ->met */
	struct braid_ctf_met *met;
	size_t nr_met, met_capacity;
};

/* A ring: in CTF a stream. */
struct braid_ctf_ring {
	const struct braid_ctf_trace *trace;
	struct braid_ctf_class *class;	/* NULL: not met yet */
	u64 id;				/* unique in its class */
	u32 cpu;
	const char *path;
	int fd;				/* of the file; -1: not kept open */
	u8 *data;			/* packets that are not in the file yet */
	u32 used, capacity;
	u32 packet;			/* where the last one begins ... */
	bool open;			/* ... if it has no end yet */
	bool alone;			/* it is to have one event */
	bool lost;			/* events were, after the last one */
	u64 discarded;			/* up to now */
	u64 nr_packets;
	u64 last;			/* time of the last event */
	u64 now;			/* of the last event or loss; times must not go back */
};

/* A walk whose rings are written. */
struct braid_ctf {
	struct braid_walk walk;
	struct braid_ctf_output *output;
	const struct braid_group *group;	/* that it walks along; NULL: it takes all rings */
	bool surveys;			/* event types that it meets are common ones */
	u32 packet_bytes;		/* the output's */
	s64 most_ns;			/* likewise */
	struct braid_ctf_ring *rings;	/* by the ring's order */
	u32 nr_open;			/* files that are kept open ... */
	u32 most_open;			/* ... at most */
	struct braid_ctf_tasks **tasks;	/* by the stream's number; NULL: not met yet */
	struct braid_slices *slices;	/* vCPUs' states, if they are wanted */
	struct braid_ctf_ring *states;	/* by the slices' vCPU; or NULL */
	struct braid_ctf_event **types;	/* by the type's number */
	u32 nr_types;
	struct braid_ctf_names names;	/* of the event that is described */
	u8 scratch[BRAID_MAX_SUBBUF_BYTES];	/* a record whose text was sanitized */
};

/* Metadata: metadata.c ------------------------------------------------------------------- */

/** braid_ctf_describe_trace - begin a trace's metadata: trace, environment, clock */
void braid_ctf_describe_trace(const struct braid_ctf *ctf, struct braid_text *to,
			      const struct braid_ctf_trace *t, const struct braid_stream *stream);

/** braid_ctf_describe_class - add a stream class, by its id; and its event, if it is not of a buffer */
void braid_ctf_describe_class(struct braid_text *to, u32 id);

/** braid_ctf_begin_event_class - add an event class of an id and a name, up to its fields */
void braid_ctf_begin_event_class(struct braid_text *to, u32 class, u32 id, const char *name);

/** braid_ctf_end_event_class - add what follows its fields */
void braid_ctf_end_event_class(struct braid_text *to);

/* The folder: output.c. 0, or -errno with braid_fail(). ----------------------------------- */

/**
 * braid_ctf_output_begin - name all traces and streams of a source
 * @o: zeroed, with ->folder and ->dir
 * @source: the source
 * @realtime: whether wall time is shown
 */
int braid_ctf_output_begin(struct braid_ctf_output *o, const struct braid_source *source,
			   bool realtime);

/** braid_ctf_output_take - take the classes that a walk has met; several threads may call it */
int braid_ctf_output_take(struct braid_ctf *ctf);

/** braid_ctf_output_end - write the metadata of all that was met; @ctf has the whole source */
int braid_ctf_output_end(struct braid_ctf *ctf);

/** braid_ctf_output_clear - forget what was met */
void braid_ctf_output_clear(struct braid_ctf_output *o);

/** braid_ctf_output_free - free what it has */
void braid_ctf_output_free(struct braid_ctf_output *o);

/** braid_ctf_make_folder - create a trace's folder; another thread may have */
int braid_ctf_make_folder(const struct braid_ctf_output *o, const struct braid_ctf_trace *t);

/** braid_ctf_cannot_write - braid_fail() for a file of it. Return: @err */
int braid_ctf_cannot_write(const struct braid_ctf_output *o, int err);

/* Rings: rings.c. 0, or -errno with braid_fail(). ----------------------------------------- */

/** braid_ctf_meet_ring - make what a ring is in CTF, with its file */
int braid_ctf_meet_ring(struct braid_ctf *ctf, const struct braid_ring *ring);

/** braid_ctf_meet_states - likewise, for a vCPU's states */
int braid_ctf_meet_states(struct braid_ctf *ctf, u32 vcpu);

/** braid_ctf_free_rings - free rings, and names of tasks */
void braid_ctf_free_rings(struct braid_ctf *ctf);

/* Kinds of events: classes.c -------------------------------------------------------------- */

/**
 * braid_ctf_event - what an event type is in CTF; made when first met
 * @ctf: the walk
 * @class: that the event is in
 * @item: the event
 * @info: its type
 *
 * Return: NULL: out of memory.
 */
const struct braid_ctf_event *braid_ctf_event(struct braid_ctf *ctf,
					      struct braid_ctf_class *class,
					      const struct braid_item *item,
					      const struct braid_event_type_info *info);

/** braid_ctf_known_event - the same, without a check, where the type and the record need none; or NULL */
static inline const struct braid_ctf_event *
braid_ctf_known_event(const struct braid_ctf *ctf, const struct braid_ctf_class *class,
		      const struct braid_item *item, const struct braid_event_type_info *info)
{
	const struct braid_ctf_event *e =
		info->number < ctf->nr_types ? ctf->types[info->number] : NULL;

	return e && e->class == class && item->payload_bytes >= e->least_bytes &&
	       item->payload_bytes <= BRAID_MAX_SUBBUF_BYTES ? e : NULL;
}

/** braid_ctf_free_events - free all event classes */
void braid_ctf_free_events(struct braid_ctf *ctf);

/* Values: values.c ------------------------------------------------------------------------ */

/**
 * braid_ctf_fits - whether a payload can be written field by field
 * @event: with its fields
 * @item: its layout is @event's, and holds
 *
 * Sequences whose length is not a multiple of their elements', or dynamic fields that overlap, do
 * not occur in kernels.
 */
bool braid_ctf_fits(const struct braid_ctf_event *event, const struct braid_item *item);

/** braid_ctf_least_bytes - braid_ctf_event.bytes, of an event with its steps */
u32 braid_ctf_least_bytes(const struct braid_ctf_event *event);

/** braid_ctf_most_bytes - bytes that braid_ctf_put_event() may write, at most */
static inline u32 braid_ctf_most_bytes(const struct braid_ctf_event *event,
				       const struct braid_item *item)
{
	return event->bytes + (!event->parsed ? 3 * item->payload_bytes :
			      event->nr_dynamic ? item->payload_bytes : 0);
}

/**
 * braid_ctf_put_event - write an event's context and payload
 * @ctf: the export; its walk is at the event
 * @to: room for braid_ctf_most_bytes()
 * @event: from braid_ctf_event() of this very item
 * @item: the event
 *
 * Return: the end of it.
 */
u8 *braid_ctf_put_event(struct braid_ctf *ctf, u8 *to, const struct braid_ctf_event *event,
			const struct braid_item *item);

/** braid_ctf_put_string - write an untrusted string and NUL, sanitized for a terminal; room for @bytes + 8 */
u8 *braid_ctf_put_string(u8 *to, const void *data, u32 bytes);

/* Packets: packets.c. 0, or -errno with braid_fail(). ------------------------------------- */

/**
 * braid_ctf_begin_event - write an event's header into the ring's packet
 * @ctf: the export
 * @r: the ring
 * @id: of the event's class
 * @ns: its time, by the clock that is shown
 * @bytes: of what follows
 * @at: set: where that begins
 */
int braid_ctf_begin_event(struct braid_ctf *ctf, struct braid_ctf_ring *r, u32 id, s64 ns,
			  u32 bytes, u8 **at);

/** braid_ctf_end_packet - end the ring's packet after its last event */
int braid_ctf_end_packet(struct braid_ctf *ctf, struct braid_ctf_ring *r);

/** braid_ctf_end_event - the event ends at @end */
static inline int braid_ctf_end_event(struct braid_ctf *ctf, struct braid_ctf_ring *r,
				      const u8 *end)
{
	r->used = end - r->data;
	return r->alone ? braid_ctf_end_packet(ctf, r) : 0;
}

/** braid_ctf_lose - events of a ring were lost; BRAID_LOST_SOME counts as 1 */
int braid_ctf_lose(struct braid_ctf *ctf, struct braid_ctf_ring *r, s64 ns, u64 lost);

/** braid_ctf_end_ring - write the ring's last packet; does nothing if it was not met */
int braid_ctf_end_ring(struct braid_ctf *ctf, struct braid_ctf_ring *r);

/* States of vCPUs: states.c. 0, or -errno with braid_fail(). ------------------------------ */

/** braid_ctf_states_begin - before the walk runs */
int braid_ctf_states_begin(struct braid_ctf *ctf);

/** braid_ctf_states_end - after it; does nothing if they were not begun */
int braid_ctf_states_end(struct braid_ctf *ctf);

#endif /* BRAID_EXPORT_CTF_CTF_H */
