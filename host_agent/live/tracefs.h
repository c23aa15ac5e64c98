/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The host being recorded: a tracefs instance of our own is drained into a capture. */
#ifndef BRAID_LIVE_TRACEFS_H
#define BRAID_LIVE_TRACEFS_H

#include "host_agent/capture/capture.h"
#include "host_agent/control/control.h"
#include "host_agent/live/live.h"

/* Default events of the host. */
#define BRAID_HOST_EVENTS	\
	"sched:sched_switch,sched:sched_wakeup*,sched:sched_migrate_task,sched:sched_process_*,irq,kvm"

struct braid_tracefs_source;

/* What braid_tracefs_source_open() is to do. Pointers must outlive the source. */
struct braid_tracefs_options {
	struct braid_live_sink *sink;
	const struct braid_pattern *patterns;
	size_t nr_patterns;
	const char *clock;		/* the instance's trace clock; NULL: the file's */
	u32 buffer_kb;			/* for each CPU; 0: a default */
	bool without_mmap;		/* read() even where the kernel can map */
	bool held;			/* tracing is off until braid_tracefs_source_on() */
	bool rotates;			/* for braid_tracefs_source_leave_file() */
	bool brief;			/* files are small: without the kernel's symbols */
	u32 probes;			/* those that braid_tracefs_quota_start() has made */
	bool stacks;			/* the kernel's stack at each tick, too, where it can */
	bool flight;			/* a flight recorder: buffers are not read until
					   braid_tracefs_source_take() */
};

/* Current totals. */
struct braid_tracefs_status {
	u32 stream;
	u32 nr_cpus;
	bool mapped;		/* by mmap of trace_pipe_raw, else by read() */
	u64 bytes;		/* of sub-buffers */
	u64 events;		/* known after braid_tracefs_source_finish() */
	u64 lost;		/* likewise */
};

/**
 * braid_tracefs_check - whether the host can be recorded
 * @patterns: the selected events
 * @nr_patterns: their number
 * @optional: a pattern without a match is not an error
 * @clock: the trace clock to use; NULL: the file's
 *
 * Creates and changes nothing.
 *
 * Return: 0, or -errno with braid_fail(): -EACCES, -ENOENT (no tracefs; no event matches), -EINVAL
 * (unknown clock).
 */
int braid_tracefs_check(const struct braid_pattern *patterns, size_t nr_patterns, bool optional,
			const char *clock);

/**
 * braid_tracefs_source_open - create an instance
 * @out: set on success
 * @o: copied
 *
 * The instance is called "tracebraid-<pid>" and has a clock, buffers and events of its own: other
 * tracing is not affected. Instances of that name whose process is dead are removed. Writes STREAM
 * and the texts needed to print.
 *
 * Return: 0, or -errno with braid_fail(): as braid_tracefs_check(), or the capture's.
 */
int braid_tracefs_source_open(struct braid_tracefs_source **out,
			      const struct braid_tracefs_options *o);

/** braid_tracefs_source_stats - path of a file with the instance's time */
const char *braid_tracefs_source_stats(const struct braid_tracefs_source *s);

/**
 * braid_tracefs_source_start - enable the events
 * @s: the source
 *
 * Return: 0, or -errno with braid_fail(): as braid_tracefs_check(), or the capture's.
 */
int braid_tracefs_source_start(struct braid_tracefs_source *s);

/**
 * braid_tracefs_source_on - begin to trace
 * @s: a source with o.held, started
 *
 * Waits for the lock that the kernel has for all tracing instances; that of another one may be held
 * for hundreds of milliseconds.
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_tracefs_source_on(struct braid_tracefs_source *s);

/**
 * braid_tracefs_source_name_tasks - write the names of the host's tasks
 * @s: a source with o.held, after braid_tracefs_source_on(): names that change later are in events
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_tracefs_source_name_tasks(struct braid_tracefs_source *s);

/** braid_tracefs_source_off - trace no more; what the buffers hold is still to be taken */
void braid_tracefs_source_off(struct braid_tracefs_source *s);

/**
 * braid_tracefs_source_poll - take the full sub-buffers, a bounded number
 * @s: the source
 *
 * Return: enum braid_poll_result, or -errno with braid_fail().
 */
int braid_tracefs_source_poll(struct braid_tracefs_source *s);

/**
 * braid_tracefs_source_rest_ns - for how long the next poll would take nothing
 *
 * 0 where the kernel's buffers are mapped, and may be polled at any time.
 */
u64 braid_tracefs_source_rest_ns(const struct braid_tracefs_source *s);

/** braid_tracefs_source_complete - as braid_region_source_complete(), where the sink is prompt */
u64 braid_tracefs_source_complete(const struct braid_tracefs_source *s);

/**
 * braid_tracefs_source_finish - stop, take the rest, put accounting and STREAM_END
 * @s: the source; braid_tracefs_source_close() removes its instance
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_tracefs_source_finish(struct braid_tracefs_source *s);

/**
 * braid_tracefs_source_take - read all that the buffers hold now, and write the kept chunks of the
 * stream
 * @s: a source with o.flight; its capture has none of the stream yet
 *
 * Tracing continues. The events are consumed from the buffers.
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_tracefs_source_take(struct braid_tracefs_source *s);

/**
 * braid_tracefs_source_leave_file - end the stream in the present file; the recording goes on
 * @s: a source that records
 * @to: the file
 *
 * Return: 0 or -errno with braid_fail(), of the capture.
 */
int braid_tracefs_source_leave_file(struct braid_tracefs_source *s,
				    struct braid_capture_writer *to);

/** braid_tracefs_source_enter_file - begin the stream again in the next file. Likewise; -ENOMEM */
int braid_tracefs_source_enter_file(struct braid_tracefs_source *s);

/** braid_tracefs_source_took - write the stream's end to @to; the stream itself continues */
int braid_tracefs_source_took(struct braid_tracefs_source *s, struct braid_capture_writer *to);

/** braid_tracefs_source_status - how it goes */
struct braid_tracefs_status braid_tracefs_source_status(const struct braid_tracefs_source *s);

/** braid_tracefs_source_close - remove the instance and free; NULL is fine */
void braid_tracefs_source_close(struct braid_tracefs_source *s);

struct braid_tracefs_watch;

/**
 * braid_tracefs_watch_open - watch for events of the host
 * @out: set on success; NULL when no event of the host matches
 * @patterns: the events; must outlive the watch
 * @nr_patterns: their number
 *
 * By a small instance of its own, "tracebraid-<pid>-on".
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_tracefs_watch_open(struct braid_tracefs_watch **out, const struct braid_pattern *patterns,
			     size_t nr_patterns);

/**
 * braid_tracefs_watch_poll - whether one of them occurred
 * @event: filled with its name, without the system, if so
 * @size: of @event
 *
 * Never waits. Afterwards the watch is off, at no cost, until braid_tracefs_watch_again().
 */
bool braid_tracefs_watch_poll(struct braid_tracefs_watch *w, char *event, size_t size);

/** braid_tracefs_watch_again - discard seen events, and watch again; NULL: no effect */
void braid_tracefs_watch_again(struct braid_tracefs_watch *w);

/** braid_tracefs_watch_close - remove the instance and free; NULL is fine */
void braid_tracefs_watch_close(struct braid_tracefs_watch *w);

#endif /* BRAID_LIVE_TRACEFS_H */
