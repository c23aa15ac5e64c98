/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * libtracebraid: traces of guests and their host, merged into one timeline.
 *
 * A trace is one or more captures of `tracebraid record`, and recordings of the host by trace-cmd.
 * A walk moves along its timeline; while it is at an item, functions return the item's time, place,
 * task, type and fields. Analyses and exports make their own pass.
 *
 * Functions that can fail return a negative errno, and tracebraid_error() returns one line:
 * what failed, and what to do. A trace, with all that belongs to it, is used by one thread at a
 * time; several traces can be used at once.
 *
 * Captures hold what guests wrote: their names and strings are sanitized for a terminal, except
 * where this file says "bytes". Nothing that a capture contains makes these functions access memory
 * outside it. They do not confine the process, as the program tracebraid does before it reads one.
 */
#ifndef TRACEBRAID_TRACEBRAID_H
#define TRACEBRAID_TRACEBRAID_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define TRACEBRAID_UNKNOWN	UINT64_MAX	/* a bound or a number of lost events that is not known */

struct tracebraid_trace;
struct tracebraid_stream;
struct tracebraid_walk;
struct tracebraid_type;
struct tracebraid_field;

/**
 * tracebraid_error - the message of this thread's last failure
 *
 * Return: one line without a newline, valid until the thread's next failure; "" if there was none.
 */
const char *tracebraid_error(void);

/** tracebraid_version - the library's version, as "MAJOR.MINOR.PATCH" */
const char *tracebraid_version(void);

/** tracebraid_free - free text that a function of this library returned; NULL is fine */
void tracebraid_free(char *text);

/* Traces ---------------------------------------------------------------------------------- */

/**
 * tracebraid_open - open captures as one trace
 * @trace: set on success
 * @paths: files: captures, and trace.dat files of trace-cmd: of the host, and of its guests
 * @nr: number of paths, at least 1
 * @clock_source: how guests' times are converted: "kvm", "exchange", "pairs", "nominal",
 *	"windows" or "reads"; NULL or "auto": the best that the captures have, never "windows"
 * @warn: called with a line for each fault in a file, and for a file that was skipped; or NULL
 * @arg: passed to @warn
 *
 * Opens a capture by its index, and reads a file without one once. Memory hardly grows with the size of a
 * capture: 80 bytes for 512 pages, or 8 bytes for each page if it has no index.
 *
 * Return: 0, or a negative errno: -EBADMSG: a file is not a capture; -EXDEV: the files are not of
 * one host and boot.
 */
int tracebraid_open(struct tracebraid_trace **trace, const char *const *paths, size_t nr,
		    const char *clock_source, void (*warn)(void *arg, const char *line), void *arg);

/**
 * tracebraid_open_with - likewise, with options
 * @trace: as for tracebraid_open()
 * @paths: likewise
 * @nr: likewise
 * @options: "OPTION=VALUE", then NULL; or NULL. "clock-source=NAME" as for tracebraid_open().
 *	"read=all": read each capture completely, to find all faults, "read=index" (default): open those
 *	with an index by it. "faults=count": faults are only counted, @warn is called for other warnings
 *	alone, "faults=warn" (default)
 * @warn: as for tracebraid_open()
 * @arg: passed to @warn
 *
 * Return: 0, or a negative errno, as tracebraid_open(); -EINVAL: not a valid option or value.
 */
int tracebraid_open_with(struct tracebraid_trace **trace, const char *const *paths, size_t nr,
			 const char *const *options, void (*warn)(void *arg, const char *line),
			 void *arg);

/**
 * tracebraid_follow - open a capture that is being recorded
 * @trace: set on success
 * @path: the capture, which `tracebraid record` has begun
 * @clock_source: as for tracebraid_open(), but not "windows"
 * @warn: likewise
 * @arg: passed to @warn
 *
 * The trace has the file's present content; tracebraid_grow() adds more. It allows one walk, forward
 * only, and no seek, analysis, facts or export. Items that the walk has returned are freed. Clocks
 * are fitted to the data so far: times may differ from those of the complete capture, within their
 * bounds.
 *
 * Events come in the order of time, about a second after they happened; with `tracebraid record
 * --prompt`, within 300 ms. The recorder writes up to which time the capture is complete; events
 * that come later still are marked by tracebraid_late(). With --compress and without --prompt, events
 * come by segments of 1 MiB. A capture of an earlier version returns its events when it ends.
 *
 * Return: 0, or a negative errno.
 */
int tracebraid_follow(struct tracebraid_trace **trace, const char *path, const char *clock_source,
		      void (*warn)(void *arg, const char *line), void *arg);

/**
 * tracebraid_grow - read what a recorder has added to a followed capture
 * @trace: of tracebraid_follow(). The walk's current item, types and their numbers become invalid;
 *	streams and words stay valid
 * @timeout_ms: how long to wait for more; 0: not at all; -1: until there is more, or the recording ends
 *
 * Checks the file's size 50 times a second while it waits. Reads at most 64 MiB at a time, to limit
 * the memory.
 *
 * Return: 1: there is more; 0: nothing new, or the capture is complete; the walk can continue in either
 * case; or a negative errno: -EINTR: stopped, see tracebraid_stop_when().
 */
int tracebraid_grow(struct tracebraid_trace *trace, int timeout_ms);

/**
 * tracebraid_finish - end a followed capture whose recorder was killed
 * @trace: of tracebraid_follow(); tracebraid_grow() reads the rest of it, then its walk ends. Not
 *	needed after a regular end, which the capture records
 *
 * Return: 0, or a negative errno.
 */
int tracebraid_finish(struct tracebraid_trace *trace);

/** tracebraid_stop_when - walks, analyses and exports fail with -EINTR soon after *@stop becomes nonzero, as by a signal's handler; NULL: never */
void tracebraid_stop_when(struct tracebraid_trace *trace, const volatile int *stop);

/**
 * tracebraid_progress - report the progress of this thread's long work
 * @progress: called by functions that open captures, analyze and export, in this thread unless an export has
 *	"cpus=N". @what is a word such as "merging"; about @done of @total bytes were read. Captures that are opened by their index
 *	report no progress of opening. NULL: report no longer
 * @arg: passed to it
 */
void tracebraid_progress(void (*progress)(void *arg, const char *what, uint64_t done, uint64_t total),
			 void *arg);

/** tracebraid_close - free a trace, its streams, types and walks; NULL is fine */
void tracebraid_close(struct tracebraid_trace *trace);

/**
 * tracebraid_window - when a recording began and ended
 * @trace: the trace
 * @number: of the recording, from 0; a snapshot, or what was recovered, has none
 * @start_ns: set on success, by the host's clock
 * @stop_ns: likewise; INT64_MAX: the recording was killed, or runs
 *
 * Return: 0; -ENOENT after the last.
 */
int tracebraid_window(const struct tracebraid_trace *trace, size_t number, int64_t *start_ns,
		      int64_t *stop_ns);

/* Streams: the host, and each run of a guest's driver ------------------------------------------ */

/** tracebraid_nr_streams - the number of a trace's streams */
size_t tracebraid_nr_streams(const struct tracebraid_trace *trace);

/** tracebraid_stream - a stream by its number, from 0; NULL after the last; lives with the trace */
const struct tracebraid_stream *tracebraid_stream(const struct tracebraid_trace *trace,
						  size_t number);

/** tracebraid_stream_name - the guest's name, or "host"; valid until the trace is closed, as all texts of a stream */
const char *tracebraid_stream_name(const struct tracebraid_stream *stream);
/** tracebraid_stream_host - the name of the host where it was recorded first; "": not known */
const char *tracebraid_stream_host(const struct tracebraid_stream *stream);
/** tracebraid_stream_host_at - the same, where it was at a time by the first host's clock */
const char *tracebraid_stream_host_at(const struct tracebraid_stream *stream, int64_t ns);
/** tracebraid_stream_kernel - the release of its kernel; "": not known */
const char *tracebraid_stream_kernel(const struct tracebraid_stream *stream);
/** tracebraid_stream_machine - its machine, as uname -m prints it; "": not known */
const char *tracebraid_stream_machine(const struct tracebraid_stream *stream);
/**
 * tracebraid_stream_clock - how its times are converted: "host", "kvm", "trace-cmd", ...
 *
 * Return: "": it is a VM without the driver, and has no events.
 */
const char *tracebraid_stream_clock(const struct tracebraid_stream *stream);
/** tracebraid_stream_end - why it ended: "recording stopped", "driver unloaded", ...; "": not known */
const char *tracebraid_stream_end(const struct tracebraid_stream *stream);
/** tracebraid_stream_is_host - 1: the host; 0: a guest */
int tracebraid_stream_is_host(const struct tracebraid_stream *stream);
/** tracebraid_stream_number - a stream's number in its trace, from 0 */
uint32_t tracebraid_stream_number(const struct tracebraid_stream *stream);
/** tracebraid_stream_nr_cpus - the number of its CPUs, or vCPUs */
uint32_t tracebraid_stream_nr_cpus(const struct tracebraid_stream *stream);
/** tracebraid_stream_bound_ns - the largest error of its times in ns; TRACEBRAID_UNKNOWN: some have no bound */
uint64_t tracebraid_stream_bound_ns(const struct tracebraid_stream *stream);

/* The account of a recording: written = read + lost + left. */
struct tracebraid_counts {
	uint64_t written;
	uint64_t read;
	uint64_t lost;		/* overwritten or dropped before the recorder read them */
	uint64_t left;		/* in the ring when the recording stopped */
};

/* A buffer's ring of one CPU. */
struct tracebraid_ring {
	const char *buffer;	/* its name; a host's is "" */
	uint32_t cpu;
	int counted;		/* the account is known */
	struct tracebraid_counts counts;
};

/** tracebraid_stream_counts - a stream's account. Return: 0, or -ENODATA: not known */
int tracebraid_stream_counts(const struct tracebraid_stream *stream,
			     struct tracebraid_counts *counts);

/** tracebraid_stream_ring - a ring by its number, from 0. Return: 0; -ENOENT after the last */
int tracebraid_stream_ring(const struct tracebraid_stream *stream, size_t number,
			   struct tracebraid_ring *ring);

/* A period in which one model converts a guest's times: its counter was not reset or paused, and kept its rate. */
struct tracebraid_epoch {
	uint32_t number;	/* of that vCPU, from 0 */
	uint32_t vcpu;		/* UINT32_MAX: of all vCPUs */
	int64_t from_ns;	/* of the host's clock: it began between from_ns ... */
	int64_t begun_ns;	/* ... and begun_ns; both INT64_MIN: with the stream */
	int64_t step_ns;	/* host time that this model gained on the one before; 0: not known */
	const char *cause;	/* why it began: "the guest was paused", ...; "": with the stream */
	int disrupted;		/* 1: the hypervisor says that the counter was disrupted (vmclock) */
	double drift_ppm;	/* of the guest's counter against its stated frequency */
};

/* A guest's filter: offered = filtered + written + lost. TRACEBRAID_UNKNOWN: it did not say. */
struct tracebraid_filter {
	const char *system;	/* of the event; "": all that have no filter of their own */
	const char *event;	/* likewise */
	uint32_t nr_events;	/* how many events these are */
	uint64_t offered;	/* records while the filter was in effect */
	uint64_t filtered;	/* those that did not pass */
	uint64_t written;	/* those that passed */
	uint64_t lost;		/* those that passed and found no room in the ring */
	uint64_t unjudged;	/* of those that passed: they could not be judged */
};

/**
 * tracebraid_stream_filter - a filter of a guest by its number, from 0
 *
 * An event has one for each capture of the trace whose recording set it.
 *
 * Return: 0; -ENOENT after the last.
 */
int tracebraid_stream_filter(const struct tracebraid_stream *stream, size_t number,
			     struct tracebraid_filter *filter);

/* A guest's probe. */
struct tracebraid_probe {
	const char *system;	/* of its event */
	const char *event;
	int placed;		/* 0: never: its module was not loaded, or has no such function */
	uint64_t missed;	/* hits that the guest's kernel did not deliver */
};

/** tracebraid_stream_probe - a guest's probe by its number. Return: 0; -ENOENT after the last */
int tracebraid_stream_probe(const struct tracebraid_stream *stream, size_t number,
			    struct tracebraid_probe *probe);

/** tracebraid_stream_epoch - an epoch of a guest's clock by its number among all, from 0. Return: 0; -ENOENT after the last */
int tracebraid_stream_epoch(const struct tracebraid_stream *stream, size_t number,
			    struct tracebraid_epoch *epoch);

/* Walks ------------------------------------------------------------------------------------ */

enum tracebraid_kind {
	TRACEBRAID_END = 0,
	TRACEBRAID_EVENT = 1,
	TRACEBRAID_LOST = 2,	/* events were lost here */
	TRACEBRAID_NOTE = 3,	/* a note about the stream: its text */
	TRACEBRAID_PAUSE = 4,	/* of a followed capture: no more items yet; see tracebraid_grow() */
};

/**
 * tracebraid_walk_new - begin a walk along a trace
 * @walk: set on success
 * @trace: without another walk: there is one at a time
 * @select: what of it, "OPTION=VALUE" with the options of `tracebraid report`, the last one followed
 *	by NULL; or NULL: all. "stream=guest1", "cpu=0", "buffer=trace", "event=sched:*",
 *	"filter=sched_switch: next_prio < 100", "filter-not=...", "pid=17", "comm=qemu*",
 *	"since=+0.5", "until=-1", "clock=realtime", "lines=1000". event, filter, filter-not, pid
 *	and comm may be given more than once. An option may begin with "--"
 *
 * Return: 0, or a negative errno: -EINVAL: not a valid option or value; -ENOENT: no such stream,
 * event or field; -EBUSY: there is a walk already. In a followed capture, a stream or buffer that
 * does not exist yet is no error.
 */
int tracebraid_walk_new(struct tracebraid_walk **walk, struct tracebraid_trace *trace,
			const char *const *select);

/** tracebraid_walk_free - free a walk; NULL is fine */
void tracebraid_walk_free(struct tracebraid_walk *walk);

/** tracebraid_walk_next - the next item in time; a loss precedes the event that shows it. Return: enum tracebraid_kind, or a negative errno */
int tracebraid_walk_next(struct tracebraid_walk *walk);

/** tracebraid_walk_seek - continue at @ns by the clock that is shown, before or after the present time. Return: 0, or a negative errno */
int tracebraid_walk_seek(struct tracebraid_walk *walk, int64_t ns);

/* The item where the walk is. All pointers are valid until it moves on. */

/** tracebraid_ns - the item's time in ns: of the host's clock, or with "clock=realtime" since 1970 */
int64_t tracebraid_ns(const struct tracebraid_walk *walk);
/** tracebraid_bound_ns - the true time is at most this many ns away; TRACEBRAID_UNKNOWN: no bound is known */
uint64_t tracebraid_bound_ns(const struct tracebraid_walk *walk);
/** tracebraid_uncertain - 1: it may have happened before an event of an earlier item: their bounds overlap */
int tracebraid_uncertain(const struct tracebraid_walk *walk);
/** tracebraid_late - 1: in a followed capture, an item of a later time was returned before */
int tracebraid_late(const struct tracebraid_walk *walk);
/** tracebraid_item_stream - the item's stream */
const struct tracebraid_stream *tracebraid_item_stream(const struct tracebraid_walk *walk);
/** tracebraid_host - the name of the host where it was recorded; "": not known */
const char *tracebraid_host(const struct tracebraid_walk *walk);
/** tracebraid_buffer - the name of its buffer; "": a host's, or a note */
const char *tracebraid_buffer(const struct tracebraid_walk *walk);
/** tracebraid_cpu - the CPU's number in its stream; UINT32_MAX: a note */
uint32_t tracebraid_cpu(const struct tracebraid_walk *walk);
/** tracebraid_seq - an event's sequence number in its ring; losses leave gaps */
uint64_t tracebraid_seq(const struct tracebraid_walk *walk);
/** tracebraid_lost - of a loss: the number of events; TRACEBRAID_UNKNOWN: not counted */
uint64_t tracebraid_lost(const struct tracebraid_walk *walk);

/** tracebraid_pid - of an event: the task that was current; 0: the idle task; -1: unknown */
int32_t tracebraid_pid(const struct tracebraid_walk *walk);
/** tracebraid_comm - of an event: the current task's name at that time; "<idle>"; "<...>": unknown */
const char *tracebraid_comm(const struct tracebraid_walk *walk);
/** tracebraid_vcpu - of a host's event: the guest whose vCPU the task runs, or NULL; sets @vcpu (UINT32_MAX: all vCPUs) */
const struct tracebraid_stream *tracebraid_vcpu(const struct tracebraid_walk *walk, uint32_t *vcpu);
/** tracebraid_event_type - an event's type */
const struct tracebraid_type *tracebraid_event_type(const struct tracebraid_walk *walk);
/** tracebraid_text - an event's fields by its print format, or a loss' or note's text; NULL: out of memory */
const char *tracebraid_text(struct tracebraid_walk *walk);
/** tracebraid_json - an event's fields as a JSON object. NULL: out of memory */
const char *tracebraid_json(struct tracebraid_walk *walk);
/** tracebraid_payload - an event's record as it is in the ring, or a note's text; sets @bytes */
const void *tracebraid_payload(const struct tracebraid_walk *walk, size_t *bytes);

/* Event types ----------------------------------------------------------------------------- */

enum tracebraid_field_kind {
	TRACEBRAID_NUMBER,	/* of 1, 2, 4 or 8 bytes */
	TRACEBRAID_STRING,
	TRACEBRAID_BYTES,	/* an array, or anything else */
};

/** tracebraid_type_number - dense from 0 in a walk; the same event has another one in each stream */
uint32_t tracebraid_type_number(const struct tracebraid_type *type);
/** tracebraid_type_system - the type's system, such as "sched" */
const char *tracebraid_type_system(const struct tracebraid_type *type);
/** tracebraid_type_name - its name; of a sub-event, such as a system call, its own */
const char *tracebraid_type_name(const struct tracebraid_type *type);
/** tracebraid_type_event - the event that a sub-event is of; otherwise as the name */
const char *tracebraid_type_event(const struct tracebraid_type *type);

/**
 * tracebraid_types - the types that a trace's streams define, whether or not such events were recorded
 * @walk: any of the trace; types are valid as long as it is
 * @each: called for each. Returns 0, or a negative errno that ends it
 * @arg: passed to it
 *
 * Types of several streams and buffers can have the same system and name.
 *
 * Return: 0, or a negative errno.
 */
int tracebraid_types(struct tracebraid_walk *walk,
		     int (*each)(void *arg, const struct tracebraid_stream *stream,
				 const struct tracebraid_type *type), void *arg);

/** tracebraid_type_field - a field by its number, from 0; NULL after the last, or if none is known */
const struct tracebraid_field *tracebraid_type_field(const struct tracebraid_type *type,
						     size_t number);

/** tracebraid_type_find - a field by its name, those that all events have included; or NULL */
const struct tracebraid_field *tracebraid_type_find(const struct tracebraid_type *type,
						    const char *name);

/** tracebraid_field_name - the field's name */
const char *tracebraid_field_name(const struct tracebraid_field *field);
/** tracebraid_field_type - as C declares it: "pid_t", "char[16]". Bytes of the guest's format file */
const char *tracebraid_field_type(const struct tracebraid_field *field);
/** tracebraid_field_kind - a number, a string or bytes */
enum tracebraid_field_kind tracebraid_field_kind(const struct tracebraid_field *field);
/** tracebraid_field_is_signed - 1: a signed number */
int tracebraid_field_is_signed(const struct tracebraid_field *field);

/**
 * tracebraid_number - a number of the event where the walk is
 * @walk: at an event
 * @field: of its type
 * @value: set on success: sign-extended if the field is signed; cast an unsigned one of 64 bits to uint64_t
 *
 * Return: 0; -EINVAL: not a number; -ENODATA: the record is shorter than its type says.
 */
int tracebraid_number(struct tracebraid_walk *walk, const struct tracebraid_field *field,
		      int64_t *value);

/**
 * tracebraid_bytes - a field's bytes of the event where the walk is
 * @walk: at an event
 * @field: of its type; a string's bytes end before its NUL
 * @bytes: set on success
 *
 * Return: bytes of the ring, valid until the walk moves on; NULL: the record is shorter than its
 * type says.
 */
const void *tracebraid_bytes(struct tracebraid_walk *walk, const struct tracebraid_field *field,
			     size_t *bytes);

/* Columns ------------------------------------------------------------------------------------ */

/**
 * tracebraid_columns - take many events at once, a number of each in an array
 * @walk: the walk
 * @names: of the columns: "ns", "bound_ns", "stream", "cpu", "pid", "seq", "type", "comm", or the
 *	name of a field. "stream" and "type" are numbers; "comm" and fields that are strings are
 *	numbers for tracebraid_word()
 * @columns: arrays of @rows elements each; a row is INT64_MIN where an event lacks the field
 * @nr: of names and columns
 * @rows: at most that many events; losses and notes are left out
 *
 * Return: the number of rows set, less than @rows only at the end or at a pause; or a negative errno.
 */
long tracebraid_columns(struct tracebraid_walk *walk, const char *const *names,
			int64_t *const *columns, size_t nr, size_t rows);

/** tracebraid_word - the text of a number in a column; lives with the walk; NULL: no such number */
const char *tracebraid_word(const struct tracebraid_walk *walk, int64_t number);

/* States and facts --------------------------------------------------------------------------- */

/* A vCPU was in one state. */
struct tracebraid_span {
	const struct tracebraid_stream *guest;
	uint32_t vcpu;
	const char *state;	/* as `tracebraid analyze states` names it: "guest", "stolen", ... */
	int64_t from_ns, to_ns;	/* of the host's clock */
	int32_t task;		/* of the guest, current on the vCPU; -1: not known */
	const char *comm;	/* its name */
	const char *culprit;	/* stolen: what ran instead; throttled: the cgroup; else "" */
	const char *reason;	/* in the hypervisor: the exit's; else "" */
	uint64_t bound_ns;	/* error bound of the task's switches */
};

/**
 * tracebraid_states - the states of all vCPUs
 * @trace: without a walk
 * @span: called for each state, of each vCPU in the order of time, without gaps; texts are valid
 *	during the call. Returns 0, or a negative errno that ends it
 * @arg: passed to it
 *
 * Return: 0, or a negative errno.
 */
int tracebraid_states(struct tracebraid_trace *trace,
		      int (*span)(void *arg, const struct tracebraid_span *span), void *arg);

/* Facts about vCPUs and tasks; also as bits. */
enum tracebraid_fact_kind {
	TRACEBRAID_FACT_STATE = 1,	/* a vCPU was in one state */
	TRACEBRAID_FACT_WAIT = 2,	/* a guest's task waited in its guest's run queue, and got a vCPU */
	TRACEBRAID_FACT_EXIT = 4,	/* a vCPU left guest code, and came back */
};

struct tracebraid_facts;

/* Texts are "" where a fact has none. */
struct tracebraid_fact {
	enum tracebraid_fact_kind kind;
	const struct tracebraid_stream *guest;
	uint32_t vcpu;
	int32_t pid;		/* of the guest's task; STATE and EXIT: that was current; -1: not known */
	const char *comm;	/* its name */
	int64_t from_ns, to_ns;	/* of the host's clock */
	uint64_t bound_ns;	/* error bound, if an end is a guest's event */
	const char *state;	/* STATE: "guest", "stolen", ... */
	const char *culprit;	/* stolen: what ran instead; throttled: the cgroup */
	const char *reason;	/* of the exit: EXIT, and STATE in the hypervisor */
	const char *call;	/* EXIT: the task's system call; "-": none; "?": not known */
	uint32_t level;		/* EXIT: 2: it left a guest of the guest; else 1 */
	uint64_t ip;		/* EXIT: where in the guest; 0: not recorded */
	int woken;		/* WAIT: since it was woken; else since it was preempted */
	uint32_t waker;		/* WAIT: the vCPU that recorded the wakeup; UINT32_MAX: not known */
	int known;		/* EXIT, WAIT: 1: ns is valid */
	const uint64_t *ns;	/* what the vCPU did meanwhile: ns in each state, by its number: tracebraid_state_name() */
};

/** tracebraid_state_name - a vCPU's state by its number, from 0; NULL after the last */
const char *tracebraid_state_name(unsigned int number);

/**
 * tracebraid_facts_new - prepare to find facts, along the whole trace
 * @facts: set on success; free it before the trace
 * @trace: without a walk; it has none until the facts are freed
 * @kinds: enum tracebraid_fact_kind, joined by |
 *
 * Return: 0, or a negative errno: -EBUSY: there is a walk already.
 */
int tracebraid_facts_new(struct tracebraid_facts **facts, struct tracebraid_trace *trace,
			 unsigned int kinds);

/** tracebraid_facts_free - free them; NULL is fine */
void tracebraid_facts_free(struct tracebraid_facts *facts);

/**
 * tracebraid_facts_next - find the next fact
 * @facts: the facts
 * @fact: set, unless it is the end or an error; its texts are valid until the next call
 *
 * A fact is returned when its end is known; those of one kind and vCPU in the order of time.
 *
 * Return: enum tracebraid_fact_kind; 0: the end; or a negative errno.
 */
int tracebraid_facts_next(struct tracebraid_facts *facts, struct tracebraid_fact *fact);

/* SQL ---------------------------------------------------------------------------------------- */

struct sqlite3;
struct tracebraid_sql;

/**
 * tracebraid_sql_open - open captures as tables of an SQLite database
 * @sql: set on success
 * @paths: as for tracebraid_open()
 * @nr: likewise
 * @clock_source: likewise
 * @stop: running statements fail soon after *stop becomes nonzero; NULL: never
 * @warn: as for tracebraid_open()
 * @arg: passed to @warn
 *
 * The tables are those of `tracebraid sql`. Nothing is imported: each statement reads the captures.
 * Statements can only read, and make temporary tables in memory; the database reads no other file.
 *
 * Return: 0, or a negative errno, as tracebraid_open().
 */
int tracebraid_sql_open(struct tracebraid_sql **sql, const char *const *paths, size_t nr,
			const char *clock_source, const volatile int *stop,
			void (*warn)(void *arg, const char *line), void *arg);

/**
 * tracebraid_sql_database - the database, for sqlite3_prepare_v2() and other functions of libsqlite3
 *
 * For one thread at a time. Replacing its authorizer removes the restrictions on statements.
 */
struct sqlite3 *tracebraid_sql_database(const struct tracebraid_sql *sql);

/** tracebraid_sql_table - a table's name by its number, from 0; NULL after the last */
const char *tracebraid_sql_table(const struct tracebraid_sql *sql, size_t number);

/** tracebraid_sql_close - free it; its statements must be finalized. NULL is fine */
void tracebraid_sql_close(struct tracebraid_sql *sql);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#include "tracebraid/output.h"
#include "tracebraid/recording.h"

#endif /* TRACEBRAID_TRACEBRAID_H */
