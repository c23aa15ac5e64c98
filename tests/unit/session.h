/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One fake guest's region, being recorded. */
#ifndef BRAID_TESTS_SESSION_H
#define BRAID_TESTS_SESSION_H

#include "host_agent/capture/flusher.h"
#include "host_agent/live/region.h"
#include "tests/unit/fake_guest.h"

struct session {
	struct fake_guest *guest;
	struct braid_exchange *exchange;	/* a test that needs one starts it before and stops
						   it afterwards */
	const struct braid_pattern *pattern;	/* of events to enable; NULL: none */
	bool window;		/* recorded from braid_region_source_start() to ..._stop() ... */
	bool backlog;		/* ... with the backlog */
	struct braid_flusher *flusher;	/* writes the capture; NULL: the session does */
	struct braid_live_sink sink;
	struct braid_region_source *source;
	struct braid_region_status status;
	void (*heard)(struct session *s);	/* called after each note; may be NULL */
	u32 notes;
	char last_note[256];
};

/* Starts recording the region of s->guest; @buffer: only that one, NULL: all. */
void session_begin(struct session *s, const char *region, const char *capture,
		   const char *buffer);

/* One turn, and the status after it. As braid_region_source_poll(). */
int session_turn(struct session *s);

/* Polls until @done() is true; fails the test at a limit. */
void session_until(struct session *s, bool (*done)(struct session *s));

/* Polls until nothing is left to do, unfinished sub-buffers aside. */
void session_settle(struct session *s);

/* Ends the recording; the guest stays. */
void session_end(struct session *s);

#endif /* BRAID_TESTS_SESSION_H */
