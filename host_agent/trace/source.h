/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The interface of a trace for merge and export, whatever its source.
 *
 * Invariants:
 * - Files are only read. A damaged part of a capture is no error: it is left out, counted, and
 *   reported by ->fault.
 * - A source owns its streams, rings, formats and clocks until braid_source_free(). Once it is
 *   open, this room changes only cursors and counts, except in braid_source_grow(),
 *   braid_source_grow_alone(), braid_stream_refine() and braid_stream_unrefine().
 * - A cursor decodes a private copy of the bytes, and checks every length in it. Names of
 *   streams, buffers, events, tasks and symbols, and notes, are safe for a terminal; formats and
 *   payloads of events are the guest's bytes.
 * - Host times of one ring never go back. Cursors widen the bound that the clock gives, and
 *   never narrow it.
 * - Of a guest's ring without faults and skips, a walk counts events + lost + elsewhere =
 *   next_seq - first_seq. ->report is the recorder's own account, which this room does not
 *   verify.
 * - Cursors share their files' readers, without a lock: one thread at a time moves any cursor of
 *   a source.
 */
#ifndef BRAID_TRACE_SOURCE_H
#define BRAID_TRACE_SOURCE_H

#include <string.h>

#include "host_agent/capture/chunk.h"
#include "host_agent/clock_model/timeline.h"
#include "host_agent/trace/accounts.h"

#define BRAID_LOST_SOME		(~0ULL)		/* a loss of unknown size */
#define BRAID_LEFT_OUT_IDS	4096u		/* greater ids are never left out */
#define BRAID_RING_NOTES	0xffffffffu	/* braid_ring.cpu of a stream's notes */

struct braid_stream;
struct braid_ring;

enum braid_item_kind {
	BRAID_ITEM_EVENT = 0,
	BRAID_ITEM_LOST = 1,	/* a loss after the ring's last event */
	BRAID_ITEM_NOTE = 2,	/* what happened to the stream; the payload is text */
};

/* One thing on the timeline. */
struct braid_item {
	enum braid_item_kind kind;
	const struct braid_stream *stream;
	const struct braid_ring *ring;
	s64 host_ns;
	u64 bound_ns;		/* the truth is within; or BRAID_BOUND_UNKNOWN */
	s64 own_ns;		/* if ring->tie: the same by its host's clock ... */
	u64 own_bound_ns;	/* ... without the bound of the tie ... */
	bool own_sure;		/* ... and whether its epoch is certain */
	bool sure;		/* of its clock's epoch */
	u64 counter;		/* the guest's; a host's: ns */
	u64 seq;		/* in its ring */
	u64 lost_before;	/* events lost just before; or BRAID_LOST_SOME */
	u64 damaged_before;	/* of those: recorded once, but not readable */
	bool raw;		/* of a RAW buffer: the payload is not a record */
	const u8 *payload;	/* private memory, 4-byte aligned; good until the ring moves on */
	u32 payload_bytes;
};

/*
 * A ring's account from RING_END; the last one is valid, the first gives the start. A part is a
 * period in which a recording was the ring's reader; between parts others were.
 */
struct braid_ring_report {
	u32 nr_parts;			/* 0: unknown */
	u64 read;			/* in all parts; of the recording, as all that follows ... */
	u64 lost;
	u64 left;			/* written = read + lost + left */
	u64 before;			/* ... but what had been written before it ... */
	u64 after;			/* ... and events written after it */
	u64 end_seq;			/* the end of all that, in the ring's sequence */
	struct braid_chunk_ring_end first;
	struct braid_chunk_ring_end last;
};

/* The result of a walk; complete at the ring's end. */
struct braid_ring_walk {
	u64 events;		/* delivered */
	u64 lost;		/* known from the sequence or from the host's tracefs */
	u64 damaged;		/* of those: recorded, but not readable */
	u64 skipped;		/* whole events in extents that could not be dated */
	u64 elsewhere;		/* not lost: between two parts, so read by others */
	u64 outside;		/* of events: in no part; the recorder reported no read there, but
				   ... */
	u64 late;		/* ... these follow the last part */
	u64 faults;		/* rules broken, by guest or by damage */
	u64 back;		/* of those: events whose time was before the last one's */
	u64 pages;
	u64 duplicates;		/* extents that another capture had already; a host's: events */
	bool some_lost;		/* a loss of unknown size is not in lost */
	bool started;
	u64 first_seq;		/* of the first event or loss */
	u64 next_seq;		/* after the last event or loss */
};

/* A buffer of a guest; or of a host, if trace-cmd recorded it. */
struct braid_buffer_info {
	char name[BRAID_NAME_BYTES];	/* sanitized */
	u32 flags;		/* BRAID_BUFFER_* */
	u32 events_of;		/* the existing buffer whose formats define its ids */
};

/* A cursor over one ring's events, in time order. */
struct braid_ring {
	const struct braid_stream *stream;
	u32 buffer;
	u32 cpu;		/* or BRAID_RING_NOTES */
	u32 order;		/* breaks ties in the merge: unique in the source */
	struct braid_ring_report report;
	const struct braid_ring_ops *ops;
	u64 taken_ns;		/* of a guest: when the agent read the cursor's current bytes */
	bool merging;		/* a merge has its cursor */
	const struct braid_clock *tie;	/* of another host's: its clock on the timeline; NULL: it is
					   the timeline's, or of notes. Of a guest that moved
					   between hosts: that of the host where its item is of */
	s64 tied_ns;		/* of the last item, by that */
	const struct braid_stream *at;	/* of such a guest: its part where the item is of ... */
	bool either;		/* ... or of the next one, where its time is: */
	s64 either_from_ns, either_to_ns;
	/*
	 * A bit for each id whose events are passed over quickly, but for the first one of each
	 * page, and those that follow a loss; the stream's. NULL: none. See
	 * braid_stream_leave_out().
	 */
	const u64 *left_out;
	struct braid_item item;	/* where the cursor is */
	struct braid_ring_walk walk;
};

struct braid_ring_ops {
	int (*next)(struct braid_ring *ring);
	bool (*skip)(struct braid_ring *ring, s64 ns);	/* NULL: nothing is skipped */
	void (*rewind)(struct braid_ring *ring);
};

/* An event's format, as defined in the stream. */
struct braid_event_format {
	u16 id;
	u16 buffer;
	bool sub;		/* of the event's records with this number: */
	u32 number;
	u16 number_offset;	/* from the payload's start */
	u16 number_bytes;	/* 1, 2, 4, 8; or 0: unknown */
	u32 format_bytes;
	const char *system;
	const char *name;
	const char *format;	/* text as tracefs has it; the guest's own, so beware */
};

/* A host of a trace. The first one's clock is the timeline. */
struct braid_host {
	u32 number;		/* in the source, from 0 */
	char name[40];		/* unique in the source */
	struct braid_clock tie;	/* its clock on the timeline; of the first one: HOST, the same. Its
				   reason says what the bound depends on */
	u64 bound_ns;		/* of that, the worst while it was recorded */
	bool declared;		/* by sources that declare their error; else by messages */
	bool unordered;		/* placed by wall time, without a bound */
	char lies[256];		/* which declared sources are not used, because they contradict */
};

/* A time that a guest which moved between hosts was on one of them. */
struct braid_stay {
	const struct braid_stream *of;	/* the stream, or one of its parts */
	u64 from_counter;	/* first and last value of its counter that were seen there ... */
	u64 to_counter;
	u64 bound_ns;		/* worst, on the timeline */
	s64 from_ns, begun_ns;	/* ... which began in between, on the timeline; the first stay:
				   INT64_MIN */
};

/* One incarnation of a guest's driver, or the host, or a VM while it has no driver. */
struct braid_stream {
	u32 number;		/* in the source, from 0 */
	const struct braid_host *host;	/* where it was recorded; NULL: of no capture */
	enum braid_stream_kind kind;
	char name[64];		/* sanitized: no control characters */
	char kernel_release[64];
	char machine[32];
	u32 nr_cpus;
	u64 incarnation;
	u8 boot_id[16];
	u32 counter_type;
	u64 counter_hz;
	bool tsc_unstable;	/* the guest's kernel had marked it so by the end */
	bool has_vmclock;
	struct braid_clock_vm vmclock;	/* as it was last */
	s32 pid;		/* of a VM: its process's; else 0 */
	u64 found_ns;
	u32 end_reason;		/* enum braid_end_reason; 0: the capture doesn't say */
	bool unconfirmed;	/* the guest did not confirm which events it traced */
	u64 end_ns;
	bool unfinished;	/* a file of it has no end mark: its recorder was killed */
	const struct braid_stream *before;	/* same guest or VM, earlier incarnation; or NULL */
	u32 life;		/* 2: its second incarnation, or as a VM; ...; else 0 or 1 */
	bool had_driver;	/* of a VM: a guest's stream has the name, too */
	struct braid_clock clock;
	struct braid_clock_inputs clock_inputs;	/* what it was chosen by */
	char trace_clock[24];	/* of a trace.dat: the clock of its stamps, of a guest's
				   that of its host; else "" */
	struct braid_vcpu_thread *threads;	/* of the host, by vCPU; or NULL */
	size_t nr_threads;
	struct braid_vcpu_thread *others;	/* the VMM's, or of a host, the recorder's */
	size_t nr_others;
	struct braid_cgroup *cgroups;	/* by tid, then from_ns; of a guest */
	size_t nr_cgroups;		/* 0: it is not known which quotas its vCPUs have */
	struct braid_throttled *throttled;	/* by id, then from_ns */
	size_t nr_throttled;
	struct braid_host_steal steal_first, steal_last;	/* of a host; host_ns 0: not known */
	u64 bound_ns;		/* worst within what the samples cover; on the timeline ... */
	u64 own_bound_ns;	/* ... and, of another host's, against that host's clock */
	struct braid_buffer_info buffers[BRAID_MAX_BUFFERS];
	u32 nr_buffers;		/* 0: a host's that tracebraid recorded */
	struct braid_event_format *formats;	/* in order of definition; a later one replaces */
	size_t nr_formats;
	u64 *ids_with_pid;	/* of a host: bits of event ids with common_pid; NULL: all */
	struct braid_comm *comms;		/* by pid, then since_counter */
	size_t nr_comms;
	struct braid_symbol *symbols;		/* by address */
	size_t nr_symbols;
	struct braid_stacks *stacks;		/* that its records refer to; NULL: none */
	struct braid_stream_accounts accounts[BRAID_ACCOUNT_KINDS];	/* by kind */
	u16 stack_id;				/* of the event tracebraid:stack; 0: none */
	u16 stack_buffer;			/* which defines that id */
	const char *printk_formats;		/* as tracefs has them, or NULL */
	char *kallsyms;				/* a host's, or NULL; see braid_stream_kallsyms() */
	size_t kallsyms_bytes;			/* of the text */
	size_t kallsyms_packed_bytes;		/* size of the zstd data; 0: stored as text */
	struct braid_ring **rings;	/* the notes' is the last one */
	size_t nr_rings;
	u64 *left_out;			/* NULL, or what its rings' left_out points to */

	/*
	 * Of a guest that moved between hosts: what each further host knows of it. A part has no
	 * events and is in no list: all of ->host, ->clock, ->threads to ->throttled and the bounds
	 * are of that host alone, as the stream's own are of the first one named.
	 */
	struct braid_stream **parts;
	size_t nr_parts;
	struct braid_stay *stays;	/* in order; the first one gives ->found_ns */
	size_t nr_stays;		/* 0: it was on one host */
};

/* From when to when a capture was recorded; by the file's clock. */
struct braid_window {
	s64 start_ns;		/* if ->went_on: where the former file's stopped */
	s64 stop_ns;		/* INT64_MAX: the recording was killed or still runs */
	s64 last_ns;		/* stop_ns INT64_MAX: what of it is known to be recorded is up to here */
	u32 of;			/* number of the host that recorded it */
	const struct braid_stream *host;	/* its stream, traced from the start; NULL: not */
	const struct braid_stream **guests;	/* recorded as well, each once ... */
	size_t nr_guests;	/* ... 0: none, or not known */
	bool again;		/* a copy's: an earlier one has the same times */
	u32 after_ns;		/* since its recording's former file stopped; 0: none, or: */
	bool went_on, goes_on;	/* the former file is here, the next one: nothing lacks in between */
};

/* A trace: all that is to be merged. */
struct braid_source {
	struct braid_stream **streams;
	size_t nr_streams;
	struct braid_chunk_file head;	/* of the first capture */
	struct braid_host **hosts;	/* the first one is that of the timeline */
	size_t nr_hosts;		/* of captures */
	struct braid_window *windows;	/* of captures that have one */
	size_t nr_windows;
	struct braid_host_clocks {
		struct braid_clock counter;	/* HOST without tracks: none known */
		struct braid_clock realtime;	/* likewise */
		struct braid_clock trace;	/* likewise: the host's trace is of the file's clock */
		char counter_name[24];
		char trace_name[24];
	} clocks;				/* of the first host, each against its file's */
	u64 bytes;			/* to read in all */
	u64 bytes_read;			/* approximate position; for progress. Those of rings that are
					   rewound alone count again */
	void (*fault)(void *arg, const struct braid_stream *stream, const char *line);
	void *fault_arg;
	void (*progress)(void *arg, const char *what, u64 done, u64 total);
	void *progress_arg;
	u64 faults;
	bool grows;			/* its end is only the present end: */
	s64 until_ns;			/* no earlier items are expected */
	u32 generation;			/* incremented when streams or formats are added, or names
					   removed */
	void (*free)(struct braid_source *source);
};

/* How to open. */
struct braid_source_options {
	bool force_clock;		/* guests' clocks must be of this kind: */
	enum braid_clock_kind clock;
	bool by_index;			/* open captures by their index, if they have one: damaged
					   pages are found only when they are read */
	bool check_types;		/* that pages have the types that the index says */
	bool unordered;			/* hosts without contact are placed by wall time, without a
					   bound; else they are refused */
	double wander;			/* of hosts' clocks, ns in a second; 0:
					   BRAID_WANDER_DEFAULT */
	u32 keep_samples;		/* of each clock of a followed capture, at least: the latest
					   ones place the events that come. A fit costs some
					   hundred ns for each. 0: 2048 */
	void (*fault)(void *arg, const struct braid_stream *stream, const char *line);
	void *fault_arg;
	void (*progress)(void *arg, const char *what, u64 done, u64 total);
	void *progress_arg;
	void (*say)(void *arg, const char *line);	/* skipped: present in another file */
	void *say_arg;
};

/**
 * braid_source_open_captures - open capture files as one trace
 * @out: set on success
 * @paths: the files; recordings by trace-cmd may be among them: a trace.dat of the host is one more
 *	stream, on the captures' timeline, and one of its guest's another
 * @nr: of them, at least 1
 * @options: callbacks for faults and progress; may be NULL
 *
 * Reads each file once to index it, unless @options->by_index is set and its own index is usable.
 * For a capture without an index, memory grows by some bytes for each page. A guest incarnation
 * that is in several captures becomes one stream, and data that they share counts once. A file
 * given twice is read once. If several captures recorded the host at the same time, the first one's
 * events are used. Captures of several hosts are merged by what crossed between them.
 *
 * Return: 0, or -errno with braid_fail(); -EBADMSG: a file is not a capture, -EXDEV: files are of
 * hosts, or boots, whose clocks are not tied to each other.
 */
int braid_source_open_captures(struct braid_source **out, char *const *paths, size_t nr,
			       const struct braid_source_options *options);

/**
 * braid_source_follow - open a capture that is still being written
 * @out: set on success; without streams as yet, and ->grows
 * @path: the file, which has its head
 * @options: as for braid_source_open_captures()
 *
 * Memory is that of the formats, names and notes, and of events not merged yet. Clocks are fitted
 * to the data up to now: times may differ from those of the whole capture, within their bounds. A
 * guest without clock data is placed by the time of reading.
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_source_follow(struct braid_source **out, const char *path,
			const struct braid_source_options *options);

/**
 * braid_source_grow - read the new data of a followed capture
 * @source: of braid_source_follow()
 * @bytes: the limit for reading, as for braid_capture_grow()
 * @until_ns: events before this are expected to be complete; for the merge
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_source_grow(struct braid_source *source, u64 bytes, s64 until_ns);

/**
 * braid_source_grow_alone - the same, by what the capture itself says of its completeness
 * @source: of braid_source_follow()
 * @last: it gets no more: its end as it is now is the end, and damage up to there is reported
 *
 * Takes a part of it, so that memory and clocks are those of a part. ->until_ns is INT64_MAX once all
 * was taken.
 *
 * Return: 1: there was some; 0; or -errno with braid_fail().
 */
int braid_source_grow_alone(struct braid_source *source, bool last);

/**
 * braid_stream_kallsyms - the text of a host's kernel symbols
 * @stream: of a source
 * @text: set: ends with NUL, to be freed by the caller; NULL: none, or damaged
 *
 * Decompresses them each time.
 *
 * Return: NULL, or why they can't be read although the capture has some.
 */
const char *braid_stream_kallsyms(const struct braid_stream *stream, char **text);

/** braid_stream_is_guest - whether it has vCPUs: with the driver, or a VM without */
static inline bool braid_stream_is_guest(const struct braid_stream *stream)
{
	return stream->kind != BRAID_STREAM_HOST;
}

/** braid_stream_host_number - of the host where it was recorded, in the source */
static inline u32 braid_stream_host_number(const struct braid_stream *stream)
{
	return stream->host ? stream->host->number : 0;
}

/** braid_stream_has_event - whether events of this name were recorded: it has the format */
static inline bool braid_stream_has_event(const struct braid_stream *stream, const char *name)
{
	size_t k;

	for (k = 0; k < stream->nr_formats; k++)
		if (!strcmp(stream->formats[k].name, name))
			return true;
	return false;
}

/**
 * braid_stream_refine - give a guest's clock more round-trip samples
 * @stream: of a source; its clock is the exchange's, with samples, or was refined before
 * @samples: as true as the exchange's
 * @nr: of them
 *
 * The clock becomes BRAID_CLOCK_WINDOWS. Rewind the source afterwards.
 *
 * Return: 0 or -ENOMEM with braid_fail().
 */
int braid_stream_refine(struct braid_stream *stream, const struct braid_round_trip *samples,
			size_t nr);

/** braid_stream_unrefine - back to the exchange's samples and clock. Return: as braid_stream_refine() */
int braid_stream_unrefine(struct braid_stream *stream);

/** braid_source_free - free a source; NULL is fine */
void braid_source_free(struct braid_source *source);

/** braid_source_rewind - every ring back to its start */
void braid_source_rewind(struct braid_source *source);

/**
 * braid_item_bound_of_host - the error bound of an event's time against its own host's events
 *
 * All of them are placed by one tie, whose bound is no part of it.
 */
static inline u64 braid_item_bound_of_host(const struct braid_item *item)
{
	return item->ring->tie ? item->own_bound_ns : item->bound_ns;
}

/** braid_stream_runs_on - whether a stream is of a host, and another one was recorded there, too */
static inline bool braid_stream_runs_on(const struct braid_stream *stream,
					const struct braid_stream *host)
{
	return host->kind == BRAID_STREAM_HOST &&
	       braid_stream_host_number(host) == braid_stream_host_number(stream);
}

/**
 * braid_stream_on_timeline - a time by a stream's host's clock, on the timeline
 *
 * Those of a clock's samples and epochs are by the host's clock; INT64_MIN and INT64_MAX stay.
 */
s64 braid_stream_on_timeline(const struct braid_stream *stream, s64 own_ns);

/** braid_stream_bound_of_host - the same of a stream: its worst bound */
static inline u64 braid_stream_bound_of_host(const struct braid_stream *stream)
{
	return braid_stream_host_number(stream) || stream->nr_stays ? stream->own_bound_ns :
								      stream->bound_ns;
}

/** braid_item_part - the stream of an item, or its part by the host where the guest was then */
static inline const struct braid_stream *braid_item_part(const struct braid_item *item)
{
	return item->ring->at ? item->ring->at : item->stream;
}

/** braid_stream_part - the @number-th part of a stream, from 0: itself; NULL: no more */
static inline const struct braid_stream *braid_stream_part(const struct braid_stream *stream,
							   size_t number)
{
	if (!number)
		return stream;
	return number <= stream->nr_parts ? stream->parts[number - 1] : NULL;
}

/** braid_stream_first_part - that by the host where it was first */
static inline const struct braid_stream *
braid_stream_first_part(const struct braid_stream *stream)
{
	return stream->nr_stays ? stream->stays[0].of : stream;
}

/** braid_stream_part_at - that by the host where it was at a time of the timeline */
static inline const struct braid_stream *braid_stream_part_at(const struct braid_stream *stream,
							      s64 ns)
{
	size_t k = stream->nr_stays;

	while (k > 1 && stream->stays[k - 1].begun_ns > ns)
		k--;
	return k ? stream->stays[k - 1].of : stream;
}

/** braid_item_is_sure - whether an event's epoch, by its own host's clock, is certain and bounded */
static inline bool braid_item_is_sure(const struct braid_item *item)
{
	return (item->ring->tie ? item->own_sure : item->sure) &&
	       braid_item_bound_of_host(item) != BRAID_BOUND_UNKNOWN;
}

/** braid_ring_tie - put a ring's item, of another host, on the timeline */
void braid_ring_tie(struct braid_ring *ring);

/**
 * braid_ring_next - move a ring's cursor on
 * @ring: the ring; ring->item is filled when 1 is returned
 *
 * Return: 1, 0 at the end, -errno with braid_fail() (I/O).
 */
static inline int braid_ring_next(struct braid_ring *ring)
{
	int ret = ring->ops->next(ring);

	if (ret > 0 && ring->tie)
		braid_ring_tie(ring);
	return ret;
}

/**
 * braid_stream_leave_out - pass over events of some ids, each ring up to its next rewind
 * @stream: of a source that does not grow
 * @ids: a bit for each of BRAID_LEFT_OUT_IDS
 *
 * Some are delivered nevertheless. Times, numbers and losses of all other events stay the same.
 *
 * Return: 0, or -ENOMEM with braid_fail().
 */
int braid_stream_leave_out(struct braid_stream *stream, const u64 *ids);

/** braid_ring_leaves_out - whether an event, by its record, is passed over */
static inline bool braid_ring_leaves_out(const struct braid_ring *ring, const u8 *payload,
					 u32 bytes)
{
	u16 id;

	if (bytes < sizeof(id))
		return false;
	memcpy(&id, payload, sizeof(id));
	return id < BRAID_LEFT_OUT_IDS && ring->left_out[id / 64] >> id % 64 & 1;
}

/**
 * braid_ring_skip - leave out events of a ring
 * @ring: its item is before @ns
 * @ns: all events from then on follow, with the losses before them; most earlier ones do not
 *
 * The counts in ->walk are no longer right afterwards.
 *
 * Return: whether any are left out.
 */
static inline bool braid_ring_skip(struct braid_ring *ring, s64 ns)
{
	return ring->ops->skip && ring->ops->skip(ring, ns);
}

/**
 * braid_source_cut - cut a capture into parts of time, each with about as many pages
 * @source: of braid_source_open_captures()
 * @pages: in a part
 * @from_ns: the first part is from then on ...
 * @to_ns: ... and the last one to then
 * @cuts: set: host times, ascending; to be freed in any case
 * @nr: set: of them. 0: it is small; or parts cannot be found: it has no index, is of several
 *	files, or the time at which a page begins does not say which events precede it
 *
 * Return: 0, or -ENOMEM with braid_fail().
 */
int braid_source_cut(const struct braid_source *source, u32 pages, s64 from_ns, s64 to_ns,
		     s64 **cuts, size_t *nr);

/**
 * braid_source_group - divide a capture's rings into groups of about as many bytes each
 * @source: of braid_source_open_captures()
 * @most: groups
 * @group_of: set: the group that a ring is in, by its ->order; to be freed in any case
 * @nr: set: groups. 1: it is small; or the rings' bytes are not known: it has no index
 *
 * Return: 0, or -ENOMEM with braid_fail().
 */
int braid_source_group(const struct braid_source *source, u32 most, u32 **group_of, u32 *nr);

/** braid_source_is_same - whether two sources are of the same files */
bool braid_source_is_same(const struct braid_source *a, const struct braid_source *b);

/** braid_ring_buffer_name - the name of the buffer that a ring is of; "" for a host's */
static inline const char *braid_ring_buffer_name(const struct braid_ring *ring)
{
	return ring->buffer < ring->stream->nr_buffers ?
	       ring->stream->buffers[ring->buffer].name : "";
}

/**
 * braid_source_faulty - report a violation of the format
 * @source: counts it, calls the fault callback
 * @stream: its stream; NULL: the capture
 * @format: one line
 */
void braid_source_faulty(struct braid_source *source, const struct braid_stream *stream,
			 const char *format, ...) __attribute__((__format__(printf, 3, 4)));

#endif /* BRAID_TRACE_SOURCE_H */
