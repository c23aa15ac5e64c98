/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The triggers of a stream: their tests, compiled for events of the directory; what they did. */
#ifndef BRAID_LIVE_TRIGGERS_H
#define BRAID_LIVE_TRIGGERS_H

#include "host_agent/control/trigger.h"
#include "host_agent/live/filters.h"
#include "host_agent/live/stream.h"

/* A test of one event. */
struct braid_live_test {
	struct braid_filter_program program;
	struct braid_trigger trigger;
	struct braid_pattern event;	/* its name */
	u16 buffer;
	bool alone;			/* no -e enables it, and no test before this one */
};

struct braid_live_triggers {
	struct braid_live_test *items;
	size_t nr, capacity;
	size_t nr_alone;		/* these are the first items */
	u64 fired[BRAID_TRIGGERS];	/* as last seen */
	u32 state;			/* enum braid_trigger_state, likewise */
	bool some_set, was_set;		/* a test is set; and all were sent */
	bool acted;			/* FROZEN: what follows was asked for */
	bool resume, arm;		/* to be sent */
	bool held;			/* they are not armed until the recording starts */
	u32 last;			/* that fired; not checked */
};

/**
 * braid_live_triggers_find - compile the tests of all triggers
 * @t: its tests are replaced on success
 * @filters: gets a filter for each event that is recorded for a trigger alone
 * @s: with a mapping and a superblock
 *
 * Return: 0, or -errno with braid_fail(), as braid_live_filters_find(). -ENOENT: there is no such
 * event.
 */
int braid_live_triggers_find(struct braid_live_triggers *t, struct braid_live_filters *filters,
			     const struct braid_live_stream *s);

void braid_live_triggers_free(struct braid_live_triggers *t);

/* Another stream. */
void braid_live_triggers_begin(struct braid_live_triggers *t);

/* The recording starts: those that were held are to be armed. */
void braid_live_triggers_start(struct braid_live_triggers *t);

/* Looks at what fired, and notes it. Under the guard. Returns 0 or the capture's error. */
int braid_live_triggers_poll(struct braid_live_triggers *t, struct braid_live_stream *s);

/* Likewise, when all are removed: notes the account of each. */
int braid_live_triggers_account(struct braid_live_triggers *t, struct braid_live_stream *s);

/* Whether a former agent's triggers are set. Likewise. */
bool braid_live_triggers_stale(const struct braid_live_stream *s);

/* Which trigger has frozen the rings, and waits for its action; NULL: none. */
const struct braid_trigger_wish *braid_live_triggers_waiting(const struct braid_live_triggers *t,
							     const struct braid_live_stream *s);

#endif /* BRAID_LIVE_TRIGGERS_H */
