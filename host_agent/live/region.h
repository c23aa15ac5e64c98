/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A guest being recorded: its region is drained into a capture. */
#ifndef BRAID_LIVE_REGION_H
#define BRAID_LIVE_REGION_H

#include "host_agent/capture/capture.h"
#include "host_agent/clock_sync/exchange.h"
#include "host_agent/clock_sync/kvm.h"
#include "host_agent/control/compile.h"
#include "host_agent/control/control.h"
#include "host_agent/control/trigger.h"
#include "host_agent/live/live.h"
#include "host_agent/transport/endpoint.h"

struct braid_endpoint;
struct braid_region_source;

/* What braid_region_source_open() is to do. Pointers must outlive the source. */
struct braid_region_options {
	const char *path;		/* its endpoint's address */
	struct braid_endpoint *endpoint;	/* open, and taken over; NULL: path is opened */
	const char *name;		/* of the streams; NULL: what the guest calls itself */
	struct braid_live_sink *sink;
	struct braid_exchange *exchange;	/* may be NULL: no clock samples */
	struct braid_kvm_watch *kvm_watch;	/* may be NULL: offsets are read now and then */
	const struct braid_pattern *patterns;	/* events to enable */
	size_t nr_patterns;
	struct braid_who who;		/* whose records of them */
	const struct braid_trigger_wish *triggers;
	size_t nr_triggers;		/* BRAID_TRIGGERS at most */
	struct braid_reshape reshape;	/* of the recorded buffers; all 0: they stay as they are */
	u64 sampling;			/* arg0 of BRAID_CMD_SAMPLE; 0: as the guest does */
	bool user_stacks;		/* where patterns want stacks */
	bool unattended;		/* whoever sets it leaves: what fires later is not noted */
	bool asked_elsewhere;		/* if it is only read, its guest agent is asked to enable
					   them: braid_region_source_enabled() */
	const char *buffer;		/* the only one to record; NULL: all */
	bool clock_only;		/* no buffer at all: rings are not read */
	bool window;			/* events before braid_region_source_start() and after
					   braid_region_source_stop() are not recorded */
	bool backlog;			/* but what they held before is */
	u64 dead_ns;			/* not 0: the memory is a private copy, taken at that
					   time of the capture's clock */
	bool flight;			/* a flight recorder: rings are not read until
					   braid_region_source_take() */
	const struct braid_pattern *on;	/* flight: events to watch for */
	size_t nr_on;
	/*
	 * reports what happens to the guest: one line, sanitized; also written to the capture as
	 * NOTE
	 */
	void (*say)(void *arg, const char *name, const char *line);
	void *say_arg;
};

enum braid_region_phase {
	BRAID_PHASE_WAITING,	/* for its file, or for its driver */
	BRAID_PHASE_RECORDING,
	BRAID_PHASE_DOWN,	/* unloaded and drained; may return */
	BRAID_PHASE_GONE,	/* the file or its QEMU is gone; may return */
};

/* Current totals over all streams of the source. */
struct braid_region_status {
	enum braid_region_phase phase;
	bool over;		/* GONE: polls do nothing until braid_region_source_move() */
	bool armed;		/* the guest has answered to all enables, or will not */
	bool disarmed;		/* likewise to the disable */
	u64 progress_ns;	/* when it last answered, or lived while it owed an answer */
	bool only_read;		/* no event can be enabled in it by its mailbox */
	bool silent;		/* its heartbeat has stopped */
	bool refused;		/* it refused some of what was asked */
	bool unconfirmed;	/* it did not confirm all of its events when it was to, or till the stop */
	char name[64];
	u32 stream;		/* the last one's number; 0: none yet */
	u32 nr_streams;
	pid_t qemu_pid;		/* 0: not known now */
	u64 incarnation;	/* of the last stream's region; 0: none yet */
	u64 begun_ns;		/* when the first stream began; 0: none yet */
	u64 events;		/* written to the capture */
	u64 lost;		/* between them, by the guests' counts */
	u64 bytes;		/* of event data */
	u64 skipped;		/* events that rings held before the start */
	struct braid_region_sums {
		u64 written;	/* = read_before + read + lost_before + lost + left */
		u64 read_before;
		u64 read;
		u64 lost_before;
		u64 lost;
		u64 left;
	} sums;			/* of all rings with an account: known after the end */
	u64 unreadable;		/* of a dead guest: events of those read whose bytes are missing */
	bool leaving;		/* flight: its end waits for braid_region_source_let_go() */
	u64 noticed;		/* flight: number of watched events seen */
	const char *noticed_event;	/* "SYSTEM:EVENT", sanitized; until the next poll */
	const struct braid_trigger_wish *trigger;	/* has frozen the rings:
							   braid_region_source_resume() */
	bool held;		/* resumed, and no trigger fires */
	bool no_buffer;		/* there were streams, but no selected buffer */
};

/**
 * braid_region_source_open - take a region up for recording
 * @out: set on success
 * @o: copied
 *
 * A file that is there without a driver is waited for: see ->phase.
 *
 * Return: 0, or -errno with braid_fail(): no such file, no permission, not a region,
 * recorded already (-EBUSY), another version (-EPROTO), broken (-EBADMSG).
 */
int braid_region_source_open(struct braid_region_source **out,
			     const struct braid_region_options *o);

/**
 * braid_region_source_poll - a bounded amount of work
 * @s: the source
 *
 * Must be called every 100 ms at least: it moves the agent's heartbeat.
 *
 * Return: enum braid_poll_result, or -errno with braid_fail() when the capture can't
 * be written. What the guest does wrong ends its stream, never the recording.
 */
int braid_region_source_poll(struct braid_region_source *s);

/**
 * braid_region_source_start - the recording starts now
 * @s: a source with o.window; until now it has not read the rings
 *
 * Notes each ring's position: earlier events are counted, not recorded. A guest that is silent now
 * keeps them, for `recover`. Events of a driver that is loaded later are all recorded.
 */
void braid_region_source_start(struct braid_region_source *s);

/**
 * braid_region_source_stop - the recording stops now
 * @s: a source with o.window, started; it is still to be polled, disarmed and finished
 *
 * Notes each ring's position: later events stay in the ring. No new stream begins.
 */
void braid_region_source_stop(struct braid_region_source *s);

/**
 * braid_region_source_disarm - begin to disable the host's events
 * @s: the source; poll until status says disarmed, or until the caller's timeout
 */
void braid_region_source_disarm(struct braid_region_source *s);

/**
 * braid_region_source_move - the guest was migrated to another VMM, with its own memory
 * @s: the source, of a VMM's process, with a stream
 * @pid: of the other VMM
 *
 * The stream ends. The next one, of the same incarnation, begins where each ring was read to.
 *
 * Return: 0, or -errno with braid_fail() when the capture can't be written.
 */
int braid_region_source_move(struct braid_region_source *s, pid_t pid);

/**
 * braid_region_source_finish - read the rest, and end the stream
 * @s: the source; not to be polled again
 *
 * Return: 0, or -errno with braid_fail() when the capture can't be written.
 */
int braid_region_source_finish(struct braid_region_source *s);

/**
 * braid_region_source_take - read all that the rings hold now, and write the kept chunks of the
 * stream
 * @s: a source with o.flight; its capture has none of the stream yet
 *
 * At once: the guest continues, and is not waited for, but for the next sign of life of one that is
 * only read. The events are consumed from the rings.
 *
 * Return: 0, also when the rings are empty; -errno with braid_fail(): out of memory.
 */
int braid_region_source_take(struct braid_region_source *s);

/**
 * braid_region_source_took - write the clock after it, and the stream's end
 * @s: the source; braid_region_source_asked() returned that its clock is known
 * @to: the capture, for STREAM_END: the stream itself continues
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_region_source_took(struct braid_region_source *s, struct braid_capture_writer *to);

/**
 * braid_region_source_resume - act upon status.trigger
 * @s: the source
 * @resume: its rings are to be written again; false: they stay frozen
 * @arm: and its triggers may fire again
 */
void braid_region_source_resume(struct braid_region_source *s, bool resume, bool arm);

/** braid_region_source_ask - request a clock sample of the guest, after the last event read */
void braid_region_source_ask(struct braid_region_source *s);

/** braid_region_source_asked - whether that is over, or was in vain */
bool braid_region_source_asked(const struct braid_region_source *s);

/** braid_region_source_ending - its stream ends, in turns: no other file can begin meanwhile */
bool braid_region_source_ending(const struct braid_region_source *s);

/**
 * braid_region_source_leave_file - end the stream in the present file; the recording goes on
 * @s: a source that records, not ending
 * @to: the file
 *
 * Writes the accounts of what was read, and the stream's end. Until
 * braid_region_source_enter_file() the rings are not read.
 *
 * Return: 0 or -errno with braid_fail(), of the capture.
 */
int braid_region_source_leave_file(struct braid_region_source *s, struct braid_capture_writer *to);

/** braid_region_source_enter_file - begin the stream again in the next file. Likewise */
int braid_region_source_enter_file(struct braid_region_source *s);

/** braid_region_source_let_go - what a guest that is leaving holds was taken, or never will be */
void braid_region_source_let_go(struct braid_region_source *s);

/**
 * braid_region_source_fds - file descriptors that may require a poll before it is due
 * @s: the source
 * @fds: room for BRAID_ENDPOINT_FDS; fd and events are filled in
 *
 * Return: their number.
 */
size_t braid_region_source_fds(const struct braid_region_source *s, struct pollfd *fds);

/** braid_region_source_rings - whether the guest rings when there are events to drain */
bool braid_region_source_rings(const struct braid_region_source *s);

/** braid_region_source_gather - as braid_endpoint_gather(), before a poll */
bool braid_region_source_gather(struct braid_region_source *s);

/** braid_region_source_rest_ns - as braid_endpoint_rest_ns() */
u64 braid_region_source_rest_ns(const struct braid_region_source *s);

/**
 * braid_region_source_note - report what happened to the guest, as the source itself does
 * @s: the source
 * @line: sanitized here; written to the capture after the guest's first stream, if any
 *
 * Return: 0, or -errno with braid_fail() when the capture can't be written.
 */
int braid_region_source_note(struct braid_region_source *s, const char *line);

/** braid_region_source_status - how it goes */
struct braid_region_status braid_region_source_status(const struct braid_region_source *s);

/**
 * braid_region_source_complete - time up to which the guest's events are all in the capture
 * @s: the source
 *
 * Except events that were begun by then and committed later.
 *
 * Return: host time; 0: not yet; BRAID_TAKEN_UNKNOWN: no events are expected.
 */
u64 braid_region_source_complete(const struct braid_region_source *s);

/**
 * braid_region_source_confirmed - whether the guest has enabled events that a pattern matches
 * @s: the source
 * @index: of options.patterns
 */
bool braid_region_source_confirmed(const struct braid_region_source *s, size_t index);

/**
 * braid_region_source_directory - copy the events of the guest
 * @s: the source; recording
 * @copy: filled on success; braid_directory_free()
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_region_source_directory(struct braid_region_source *s,
				  struct braid_directory_copy *copy);

/** braid_region_source_superblock - a validated copy; the guest is being recorded */
const struct braid_superblock *
braid_region_source_superblock(const struct braid_region_source *s);

/** braid_region_source_more - whether events came to the guest since the last call, or the first */
bool braid_region_source_more(struct braid_region_source *s);

/**
 * braid_region_source_enabled - the guest agent was asked for all events
 * @s: the source; recording, of options.asked_elsewhere
 * @all: and has enabled them
 *
 * Return: 0, or -errno with braid_fail() when the capture can't be written.
 */
int braid_region_source_enabled(struct braid_region_source *s, bool all);

/**
 * braid_region_source_fill - unread bytes as permille of what the fullest buffer holds
 * @s: the source
 */
u32 braid_region_source_fill(struct braid_region_source *s);

/**
 * braid_region_source_check_filters - whether the filters fit the guest's events
 * @s: the source
 *
 * Return: 0, also if its events are not known yet; or -errno with braid_fail().
 */
int braid_region_source_check_filters(const struct braid_region_source *s);

/**
 * braid_region_source_check - whether a pattern matches events of the guest that can be recorded
 * @s: the source
 * @index: of options.patterns
 *
 * Not those of another buffer than the one that is recorded, nor of CPUs that the guest has not.
 *
 * Return: 1 yes; 0 unknown (no driver yet); -ENOENT with braid_fail() and suggestions.
 */
int braid_region_source_check(struct braid_region_source *s, size_t index);

/**
 * braid_region_source_leave - begin to close, without waiting
 * @s: the source, or NULL; only to be closed now
 *
 * Of many that are closed each is left first: so they are waited for together.
 */
void braid_region_source_leave(struct braid_region_source *s);

/**
 * braid_region_source_close - free
 * @s: the source, or NULL
 *
 * Writes no chunks, since the capture may have failed. If the stream was not finished, the guest is
 * asked to turn the host's events off, which may take half a second from
 * braid_region_source_leave() on.
 */
void braid_region_source_close(struct braid_region_source *s);

#endif /* BRAID_LIVE_REGION_H */
