/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Between the files that write Perfetto's format. */
#ifndef BRAID_EXPORT_PERFETTO_PERFETTO_H
#define BRAID_EXPORT_PERFETTO_PERFETTO_H

#include <stdio.h>

#include "host_agent/analyze/roles.h"
#include "host_agent/export/perfetto/perfetto.pb-c.h"
#include "host_agent/trace/vcpu.h"
#include "host_agent/walk/walk.h"

#define BRAID_PERFETTO_CPUS	1024u	/* trace_processor refuses a trace with a higher one */
#define BRAID_PERFETTO_EVENTS	512u	/* of a bundle */
#define BRAID_PERFETTO_NAME	160u	/* bytes for a generated name ... */
#define BRAID_PERFETTO_MACHINE	96u	/* ... and for that of a machine or task in it */

struct braid_perfetto_type;

/* Events of one CPU of one stream, not written yet. */
struct braid_perfetto_bundle {
	struct braid_text events;		/* encoded as fields of the bundle */
	u32 nr;
	bool lost;				/* a loss precedes the first */
	struct braid_perfetto_type **described;	/* types that are to be described with it */
	size_t nr_described, described_capacity;
};

/* What a guest's CPU was seen to run last. */
struct braid_perfetto_task {
	const char *comm;	/* NULL: unknown */
	s32 pid;
	bool seen;		/* and noted */
	u64 from, until;	/* the counter's values for which that is its name */
};

/* Each stream is a separate machine. */
struct braid_perfetto_machine {
	const struct braid_stream *stream;
	char name[BRAID_PERFETTO_MACHINE];	/* no other one's */
	u32 id;					/* 0: the host */
	u32 nr_cpus;				/* that have rings */
	u32 first_format;			/* its number among those of all streams */
	struct braid_perfetto_bundle *bundles;	/* by CPU */
	struct braid_perfetto_task *tasks;	/* likewise */
	u64 *functions;				/* addresses already written, sorted */
	size_t nr_functions, functions_capacity;
	bool has_vcpus;				/* the track above them is written */
	bool wanted;				/* it has rings that are */
	bool begun;				/* its sequence of packets */
};

/* The file under way, which all write to. */
struct braid_perfetto_out {
	FILE *to;			/* NULL: all stays in @bytes */
	const struct braid_walk *walk;
	struct braid_text bytes;	/* not written to @to yet */
	struct braid_text text;		/* scratch space of the caller that makes a packet */
};

#define BRAID_PERFETTO_SET(message, field, value) \
	((message)->has_##field = 1, (message)->field = (value))

/* Packets: packet.c --------------------------------------------------------------- */

/** braid_perfetto_write - write whole packets. Return: 0, -EPIPE, or -errno with braid_fail() */
int braid_perfetto_write(FILE *to, const struct braid_text *packets);

/** braid_perfetto_flush - hand all packets to the file. Return: likewise */
int braid_perfetto_flush(struct braid_perfetto_out *o);

/** braid_perfetto_written - flush if it is much. Return: likewise */
int braid_perfetto_written(struct braid_perfetto_out *o);

/** braid_perfetto_packet - write a packet of a machine; NULL: of the trace as a whole */
int braid_perfetto_packet(struct braid_perfetto_out *o, struct braid_perfetto_machine *m,
			  Braid__TracePacket *packet);

/** braid_perfetto_timed_packet - likewise, one with a time of the host's clock */
int braid_perfetto_timed_packet(struct braid_perfetto_out *o, struct braid_perfetto_machine *m,
				s64 ns, Braid__TracePacket *packet);

/** braid_perfetto_begin_timed - begin a machine's packet, with a time */
size_t braid_perfetto_begin_timed(struct braid_perfetto_out *o, struct braid_perfetto_machine *m,
				  s64 ns);

/** braid_perfetto_end_timed - end it. Return: 0, -EPIPE, or -errno with braid_fail() */
int braid_perfetto_end_timed(struct braid_perfetto_out *o, struct braid_perfetto_machine *m,
			     size_t packet);

/**
 * braid_perfetto_bundle_packet - write a packet of a CPU's events
 * @o: the file
 * @m: its machine
 * @cpu: the CPU
 * @events: encoded fields of the FtraceEventBundle, which follow its CPU ...
 * @rest: ... and those which follow the events
 *
 * Return: 0, -EPIPE, or -errno with braid_fail().
 */
int braid_perfetto_bundle_packet(struct braid_perfetto_out *o, struct braid_perfetto_machine *m,
				 u32 cpu, const struct braid_text *events,
				 const struct braid_text *rest);

/* Event types: type.c ------------------------------------------------------------ */

struct braid_perfetto_types;

/** braid_perfetto_types_new - none is met yet; NULL: out of memory */
struct braid_perfetto_types *braid_perfetto_types_new(struct braid_perfetto_out *out);

/** braid_perfetto_type_of - how events of a type are written; NULL: out of memory */
struct braid_perfetto_type *braid_perfetto_type_of(struct braid_perfetto_types *t,
						   const struct braid_event_type_info *info);

/**
 * braid_perfetto_put_event - append an event to its CPU's bundle
 * @t: the types
 * @m: the event's machine
 * @item: the event
 * @type: its type
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_perfetto_put_event(struct braid_perfetto_types *t, struct braid_perfetto_machine *m,
			     const struct braid_item *item, struct braid_perfetto_type *type);

/** braid_perfetto_describe - append the descriptor of a type that describes itself */
void braid_perfetto_describe(const struct braid_perfetto_type *type, struct braid_text *out);

/** braid_perfetto_types_free - free all; NULL is fine */
void braid_perfetto_types_free(struct braid_perfetto_types *t);

/* Before and after the events: head.c ------------------------------------------- */

/** braid_perfetto_head - machines, clocks, names */
int braid_perfetto_head(struct braid_perfetto_out *o, struct braid_perfetto_machine *machines,
			const struct braid_vcpu_map *map);

/** braid_perfetto_tail - the accounting */
int braid_perfetto_tail(struct braid_perfetto_out *o, struct braid_perfetto_machine *machines);

/** braid_perfetto_function - write a function's name, if it is known and new */
int braid_perfetto_function(struct braid_perfetto_out *o, struct braid_perfetto_machine *m,
			    u64 address);

/* Tracks: track.c ---------------------------------------------------------------- */

#define BRAID_PERFETTO_ARGS	6u

/* Its number says what a track is of, whoever writes it. */
enum braid_perfetto_tracks {
	BRAID_PERFETTO_LOSSES = 1,	/* and notes: of a stream */
	BRAID_PERFETTO_GUEST,		/* of the host's machine, above the vCPUs of a stream */
	BRAID_PERFETTO_STATE,		/* of one of the states' vCPUs */
	BRAID_PERFETTO_THREAD,		/* of the host: of a span of the vCPU map */
	BRAID_PERFETTO_GUEST_MODE,	/* likewise, of the guest's machine */
	BRAID_PERFETTO_PROFILE,		/* 0: above those of vCPUs; else a frame + 1 */
};

/** braid_perfetto_track_of - the number of a track */
static inline u64 braid_perfetto_track_of(enum braid_perfetto_tracks kind, u32 of)
{
	return (u64)of << 3 | kind;
}

/* An event on a track; all strings must stay valid. */
struct braid_perfetto_event {
	Braid__TrackEvent__Type type;
	u64 track;
	const char *name;	/* NULL: none */
	const char *link;	/* events that belong together have the same; NULL: none */
	u32 nr_args;
	struct braid_perfetto_arg {
		const char *name;
		const char *string;	/* NULL: a number */
		u64 number;
	} args[BRAID_PERFETTO_ARGS];
};

/** braid_perfetto_arg_string - add an argument */
static inline void braid_perfetto_arg_string(struct braid_perfetto_event *event, const char *name,
					     const char *value)
{
	event->args[event->nr_args++] = (struct braid_perfetto_arg){ name, value, 0 };
}

/** braid_perfetto_arg_number - add a number */
static inline void braid_perfetto_arg_number(struct braid_perfetto_event *event, const char *name,
					     u64 value)
{
	event->args[event->nr_args++] = (struct braid_perfetto_arg){ name, NULL, value };
}

/**
 * braid_perfetto_track - describe a track
 * @o: the file
 * @m: its machine
 * @track: its number
 * @parent: the number of the track that it is shown below, or 0
 * @name: of it
 * @description: of it; NULL: none
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_perfetto_track(struct braid_perfetto_out *o, struct braid_perfetto_machine *m, u64 track,
			 u64 parent, const char *name, const char *description);

/**
 * braid_perfetto_on_track - write an event on a track
 * @o: the file
 * @m: its machine
 * @ns: when, by the host's clock
 * @event: the event
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_perfetto_on_track(struct braid_perfetto_out *o, struct braid_perfetto_machine *m, s64 ns,
			    const struct braid_perfetto_event *event);

/** braid_perfetto_lost - a loss, as an instant */
int braid_perfetto_lost(struct braid_perfetto_out *o, struct braid_perfetto_machine *m,
			const struct braid_item *item);

/** braid_perfetto_note - a note, as an instant */
int braid_perfetto_note(struct braid_perfetto_out *o, struct braid_perfetto_machine *m,
			const struct braid_item *item);

/* vCPUs in guest mode: vcpu.c ------------------------------------------------------ */

struct braid_perfetto_vcpus;

/** braid_perfetto_vcpus_new - of the threads in a map; all stays. NULL: out of memory */
struct braid_perfetto_vcpus *braid_perfetto_vcpus_new(struct braid_perfetto_out *out,
						      struct braid_perfetto_machine *machines,
						      const struct braid_vcpu_map *map);

/**
 * braid_perfetto_vcpu_event - begin or end a slice at a host's kvm_entry or kvm_exit
 * @x: the vCPUs
 * @item: any event
 * @info: its type
 *
 * Notes what guests' CPUs run, too: a slice is named so. In a part, all this is kept for
 * braid_perfetto_vcpus_hand_on(): it depends on what precedes the part.
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_perfetto_vcpu_event(struct braid_perfetto_vcpus *x, const struct braid_item *item,
			      const struct braid_event_type_info *info);

/** braid_perfetto_vcpus_hand_on - append what was kept to the part's packets, and forget it */
void braid_perfetto_vcpus_hand_on(struct braid_perfetto_vcpus *x);

/** braid_perfetto_vcpus_take - cut that off a part's packets, and write the slices. Likewise */
int braid_perfetto_vcpus_take(struct braid_perfetto_vcpus *x, struct braid_text *part);

/** braid_perfetto_guest_track - the number of the host's track above a guest's vCPUs */
u64 braid_perfetto_guest_track(const struct braid_perfetto_machine *guest);

/** braid_perfetto_put_guest_track - describe it, the first time; as braid_perfetto_track() */
int braid_perfetto_put_guest_track(struct braid_perfetto_out *o,
				   struct braid_perfetto_machine *host,
				   struct braid_perfetto_machine *guest);

/** braid_perfetto_vcpus_free - free all; NULL is fine */
void braid_perfetto_vcpus_free(struct braid_perfetto_vcpus *x);

/* States of vCPUs: states.c ---------------------------------------------------------- */

struct braid_perfetto_states;

/**
 * braid_perfetto_states_begin - write the tracks of vCPUs' states, before the walk runs
 * @out: set; braid_perfetto_states_free() it in any case
 * @walk: begun
 * @o: the file
 * @machines: by stream; all stays
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_perfetto_states_begin(struct braid_perfetto_states **out, struct braid_walk *walk,
				struct braid_perfetto_out *o,
				struct braid_perfetto_machine *machines);

/** braid_perfetto_states_end - after the walk: the last slices. Return: likewise */
int braid_perfetto_states_end(struct braid_perfetto_states *x);

/** braid_perfetto_states_free - free all; NULL is fine */
void braid_perfetto_states_free(struct braid_perfetto_states *x);

/* Where the time went: profile.c ----------------------------------------------------- */

/** braid_perfetto_profile - if the trace has samples: stacks, and their time. Return: likewise */
int braid_perfetto_profile(struct braid_perfetto_out *o);

/* Their sequence of packets: intern.c ------------------------------------------------ */

struct braid_perfetto_sequence {
	struct braid_perfetto_out *out;
	u32 id;
	u32 machine;		/* its id */
	bool begun;
	struct braid_perfetto_strings *strings;	/* NULL: none yet */
};

/** braid_perfetto_begin - begin a packet, of the timeline; append its contents to ->bytes */
size_t braid_perfetto_begin(struct braid_perfetto_sequence *q);

/** braid_perfetto_end - end it. Return: 0, or -ENOMEM with braid_fail() */
int braid_perfetto_end(struct braid_perfetto_sequence *q, size_t packet);

/**
 * braid_perfetto_intern - write a string once
 * @q: the sequence
 * @field: of InternedData: its kind
 * @text: the string
 * @iid: set to its number; 0: there are too many strings
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_perfetto_intern(struct braid_perfetto_sequence *q, u32 field, const char *text, u32 *iid);

/** braid_perfetto_sequence_free - free what it holds */
void braid_perfetto_sequence_free(struct braid_perfetto_sequence *q);

#endif /* BRAID_EXPORT_PERFETTO_PERFETTO_H */
