/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The agent's side of the mailbox: turns a guest's events on and off, watches whether the guest
 * lives, asks it to wake us.
 *
 * - Nothing waits for the guest. One command is in flight at a time; an answer that does not come
 *   in time is reported once, and the command, unless it is the last, is sent again: the guest may wake up.
 * - Events count as enabled only when the guest has confirmed them. The first command of a stream
 *   disables what a dead agent left on; the last one disables all. After its answer the guest's
 *   tables have what the records before it refer to.
 * - Filters and triggers are set before their events are enabled, also those of a module that the
 *   guest loads meanwhile: an ENABLE is about the events that were listed when these were found.
 *   The accounts of both are read after that ends. A stream whose filters or triggers do not fit
 *   its guest's events enables none.
 * - It does not know clocks, tables or rings: the lifecycle says when the clock is ready and that
 *   new events came, and acts on what is returned here.
 * - Functions that take the stream run under braid_guard_run(), except _open(), _begin() and those
 *   that say so.
 */
#ifndef BRAID_LIVE_CONTROL_H
#define BRAID_LIVE_CONTROL_H

#include "host_agent/live/filters.h"
#include "host_agent/live/stream.h"
#include "host_agent/live/triggers.h"

struct braid_live_control {
	struct braid_control control;	/* the command in flight ... */
	bool busy;			/* ... if any */
	bool resuming;			/* it is RESUME, which is not of the list */
	bool disarming;
	bool nothing_on;		/* when we began to: nothing is to be disabled */
	u32 next_command;		/* of the list in region_control.c */
	u32 nr_probes;			/* of the patterns */
	u32 nr_choices;			/* commands that choose tasks */
	bool samples;			/* how it is to sample is asked for */
	u32 nr_stacks;			/* patterns whose events have stacks */
	bool probes_made;		/* their events are in the directory, unless refused */
	bool stale_events;		/* a former agent left events on */
	bool reported_timeout;
	bool confirmed;			/* of this stream: all of our events */
	bool unconfirmed;		/* of this stream: it was reported not to, ... */
	bool was_unconfirmed;		/* ... or of one before */
	bool refused;			/* of any stream: some of what was asked */
	u64 answered_ns;		/* when the guest last answered a command; 0: never */
	u32 nr_unfiltered;		/* events that have no filter, and no note yet, for ... */
	char unfiltered[BRAID_REASON_BYTES];	/* ... this reason */
	struct braid_live_filters filters;
	struct braid_live_triggers triggers;
	u16 reshapes[BRAID_MAX_BUFFERS];	/* buffers that get another shape first */
	u32 nr_reshapes;
	struct braid_filter_account own;	/* the sum of those that were read */
	u32 *matched;			/* events of each pattern that the guest has enabled */
	u64 seen;			/* generation of the directory; later events stay off */
	bool more_events;		/* came later: the list begins again; set by the lifecycle,
					   too */
	bool asked_again;
	u64 heartbeat;			/* the guest's, as last seen */
	u64 heartbeat_ns;		/* when it moved */
	bool wake_asked;		/* the guest must ring, since we were idle; cleared by the
					   lifecycle when it did */
};

/* 0, or -ENOMEM with braid_fail(). */
int braid_live_control_open(struct braid_live_control *c, const struct braid_live_stream *s);

void braid_live_control_free(struct braid_live_control *c);

/* A new stream: restarts the list of commands. Needs no guard. Returns 0 or the capture's error. */
int braid_live_control_begin(struct braid_live_control *c, struct braid_live_stream *s);

/*
 * Continues the commands. @ready: events may begin. @endpoint is rung for a new one. Returns
 * 0 or -ESTALE, or the capture's error.
 */
int braid_live_control_poll(struct braid_live_control *c, struct braid_live_stream *s,
			    struct braid_endpoint *endpoint, bool ready);

/*
 * Skips the rest of the list except its last command: all off, or nothing if nothing is on. The
 * guest confirms it when its tables have what its records refer to. Needs no guard.
 */
void braid_live_control_disarm(struct braid_live_control *c, const struct braid_live_stream *s);

/* The recording stops: reports what a guest has not answered yet. Returns the capture's error. */
int braid_live_control_give_up(struct braid_live_control *c, struct braid_live_stream *s);

/*
 * The recording starts or stops: reports a guest that has not confirmed all of its events, after it
 * has checked once more for its answer. Under the guard. Returns the capture's error.
 */
int braid_live_control_check_confirmed(struct braid_live_control *c, struct braid_live_stream *s,
				       struct braid_endpoint *endpoint);

/*
 * The events of a guest that is only read were enabled by its guest agent; or, not @all, were not.
 * Needs no guard: its memory is a copy. Returns the capture's error.
 */
int braid_live_control_enabled(struct braid_live_control *c, struct braid_live_stream *s, bool all);

/* Whether the list is at its end. Needs no guard. */
bool braid_live_control_idle(const struct braid_live_control *c,
			     const struct braid_live_stream *s);

/* The source is closed: begins to disable the events. Needs no guard. */
void braid_live_control_leave(struct braid_live_control *c, const struct braid_live_stream *s);

/* Continues that. Under the guard. Returns -EAGAIN while it is not over. */
int braid_live_control_left(struct braid_live_control *c);

/*
 * Finds the buffers that are to have another shape: those that shrink make room for those that
 * grow. Needs no guard. Returns the capture's error.
 */
int braid_live_reshapes_find(struct braid_live_control *c, struct braid_live_stream *s);

/* The guest's answer for one of them. Returns the capture's error. */
int braid_live_reshape_answered(struct braid_live_control *c, struct braid_live_stream *s,
				const struct braid_control_answer *answer);

/* Notes a filter that is refused; NULL: none was asked for. Returns the capture's error. */
int braid_live_filter_answered(struct braid_live_control *c, struct braid_live_stream *s,
			       struct braid_live_filter *filter,
			       const struct braid_control_answer *answer);

/* The guest has confirmed: puts that filters are set, with unknown accounts. Likewise. */
int braid_live_accounts_begin(const struct braid_live_control *c, struct braid_live_stream *s);

/* Notes and puts the account of a filter; NULL: of all filters. Likewise. */
int braid_live_account_answered(struct braid_live_control *c, struct braid_live_stream *s,
				const struct braid_live_filter *filter,
				const struct braid_control_answer *answer);

/* Puts the account of a probe; notes missed hits, or that it was never placed. Likewise. */
int braid_live_hits_answered(struct braid_live_control *c, struct braid_live_stream *s,
			     const struct braid_control_answer *answer);

/* Watches the guest's heartbeat. Returns 1 when it moves again, 0, or the capture's error. */
int braid_live_heartbeat(struct braid_live_control *c, struct braid_live_stream *s);

/*
 * @idle: asks the guest to wake us by @doorbell; else, and if there is none, not to. Returns
 * whether this is a new request: then rings are to be checked once more for events in between.
 */
bool braid_live_wake(struct braid_live_control *c, struct braid_live_stream *s, u32 doorbell,
		     bool idle);

/* Cancels the wake request, since we exit. */
void braid_live_wake_not(struct braid_live_control *c, struct braid_live_stream *s);

#endif /* BRAID_LIVE_CONTROL_H */
