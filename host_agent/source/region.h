/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A guest being recorded: its region is drained into a capture. */
#ifndef BRAID_SOURCE_REGION_H
#define BRAID_SOURCE_REGION_H

#include "host_agent/capture/capture.h"
#include "host_agent/clock/exchange.h"
#include "host_agent/clock/kvm.h"
#include "host_agent/control/control.h"
#include "host_agent/source/live.h"
#include "host_agent/transport/port.h"

struct braid_port;
struct braid_region_source;

/* What braid_region_source_open() is to do. Pointers must outlive the source. */
struct braid_region_options {
	const char *path;		/* its port's address */
	struct braid_port *port;	/* it is open already, and taken over; NULL: path is opened */
	const char *name;		/* of the streams; NULL: what the guest calls itself */
	struct braid_live_sink *sink;
	struct braid_exchange *exchange;	/* may be NULL: no clock samples */
	const struct braid_kvm_watch *kvm_watch;	/* may be NULL: offsets are read now and then */
	const struct braid_pattern *patterns;	/* events to enable */
	size_t nr_patterns;
	const char *buffer;		/* the only one to record; NULL: all */
	bool clock_only;		/* no buffer at all: what rings hold stays there */
	bool window;			/* what rings held before braid_region_source_start() is not
					   recorded, nor what comes after braid_region_source_stop() */
	bool backlog;			/* but what they held before is */
	u64 dead_ns;			/* not 0: the guest runs no more, and its memory is a
					   private copy, taken at that time of the capture's clock */
	bool flight;			/* a flight recorder: what rings hold stays there till
					   braid_region_source_take() */
	const struct braid_pattern *on;	/* flight: events to look out for */
	size_t nr_on;
	/* told what befalls the guest: one line, tamed; also goes to the capture as NOTE */
	void (*say)(void *arg, const char *name, const char *line);
	void *say_arg;
};

enum braid_region_phase {
	BRAID_PHASE_WAITING,	/* for its file, or for its driver */
	BRAID_PHASE_RECORDING,
	BRAID_PHASE_DOWN,	/* unloaded and drained; may come back */
	BRAID_PHASE_GONE,	/* the file or its QEMU went away; may come back */
};

/* Totals over all streams of the source, so far. */
struct braid_region_status {
	enum braid_region_phase phase;
	bool armed;		/* the guest has answered to all enables, or will not */
	bool disarmed;		/* likewise to the disable */
	bool silent;		/* its heartbeat stands still */
	bool unconfirmed;	/* it did not confirm all of its events when it was to, or till the stop */
	char name[64];
	u32 stream;		/* the last one's number; 0: none yet */
	u32 nr_streams;
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
	} sums;			/* of all rings that were accounted for: known behind the end */
	u64 unreadable;		/* of a dead guest: events of those read whose bytes are missing */
	bool leaving;		/* flight: its end waits for braid_region_source_let_go() */
	u64 noticed;		/* flight: how often an event was seen that is looked out for */
	const char *noticed_event;	/* "SYSTEM:EVENT" of the last one, tame; good until the next poll */
	bool no_buffer;		/* there were streams, and never a buffer that is wanted */
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
 * braid_region_source_poll - a bounded piece of work
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
 * @s: a source with o.window; until now it takes nothing from rings
 *
 * Notes each ring's position: what lies before it is counted, and not recorded. A guest that is
 * silent now keeps it, for `recover`. What a driver writes that comes later is recorded whole.
 */
void braid_region_source_start(struct braid_region_source *s);

/**
 * braid_region_source_stop - the recording stops now
 * @s: a source with o.window, started; it is still to be polled, disarmed and finished
 *
 * Notes each ring's position: what lies behind it stays there. No stream begins any more.
 */
void braid_region_source_stop(struct braid_region_source *s);

/**
 * braid_region_source_disarm - begin to turn the host's events off
 * @s: the source; poll until status says disarmed, or as long as you care
 */
void braid_region_source_disarm(struct braid_region_source *s);

/**
 * braid_region_source_finish - take the rest, and end the stream
 * @s: the source; not to be polled again
 *
 * Return: 0, or -errno with braid_fail() when the capture can't be written.
 */
int braid_region_source_finish(struct braid_region_source *s);

/**
 * braid_region_source_take - all that the rings hold now, and what was kept of the stream
 * @s: a source with o.flight; its capture has none of the stream yet
 *
 * At once, without waiting for the guest, which goes on. What is taken is gone from the rings.
 *
 * Return: 0, also when there is nothing to take; -errno with braid_fail(): memory.
 */
int braid_region_source_take(struct braid_region_source *s);

/**
 * braid_region_source_took - the clock behind it, and the stream's end
 * @s: the source; braid_region_source_asked() said that its clock can be told
 * @to: the capture, for STREAM_END: the stream itself goes on
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_region_source_took(struct braid_region_source *s, struct braid_capture_writer *to);

/** braid_region_source_ask - have the guest's clock asked: the last event taken lies behind us */
void braid_region_source_ask(struct braid_region_source *s);

/** braid_region_source_asked - whether that is over, or was in vain */
bool braid_region_source_asked(const struct braid_region_source *s);

/** braid_region_source_let_go - what a guest that is leaving holds was taken, or never will be */
void braid_region_source_let_go(struct braid_region_source *s);

/**
 * braid_region_source_fds - what may call for a poll before it is due
 * @s: the source
 * @fds: room for BRAID_PORT_FDS; fd and events are filled in
 *
 * Return: how many there are.
 */
size_t braid_region_source_fds(const struct braid_region_source *s, struct pollfd *fds);

/** braid_region_source_rings - whether the guest is going to ring when there is something to drain */
bool braid_region_source_rings(const struct braid_region_source *s);

/**
 * braid_region_source_note - tell what befell the guest, as the source itself does
 * @s: the source
 * @line: tamed here; goes to the capture behind the guest's first stream, if there was one
 *
 * Return: 0, or -errno with braid_fail() when the capture can't be written.
 */
int braid_region_source_note(struct braid_region_source *s, const char *line);

/** braid_region_source_status - how it goes */
void braid_region_source_status(const struct braid_region_source *s,
				struct braid_region_status *status);

/**
 * braid_region_source_complete - up to when all that the guest wrote is in the capture
 * @s: the source
 *
 * But for events that were begun by then and committed later.
 *
 * Return: host time; 0: not yet; BRAID_TAKEN_UNKNOWN: nothing is to come of it now.
 */
u64 braid_region_source_complete(const struct braid_region_source *s);

/**
 * braid_region_source_confirmed - whether the guest has enabled events that a pattern matches
 * @s: the source
 * @index: of options.patterns
 */
bool braid_region_source_confirmed(const struct braid_region_source *s, size_t index);

/**
 * braid_region_source_fill - unread bytes as permille of what the fullest buffer holds
 * @s: the source
 */
u32 braid_region_source_fill(struct braid_region_source *s);

/**
 * braid_region_source_check - whether patterns match events of the guest
 * @s: the source
 * @index: of options.patterns
 *
 * Return: 1 yes; 0 not known (no driver yet); -ENOENT with braid_fail() that suggests.
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
 * Puts nothing, since the capture may be broken. If the stream was not finished, the
 * guest is asked to turn the host's events off, which may take half a second from
 * braid_region_source_leave() on.
 */
void braid_region_source_close(struct braid_region_source *s);

#endif /* BRAID_SOURCE_REGION_H */
