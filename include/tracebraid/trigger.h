/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Triggers: at a record that meets a condition, the guest stops writing its rings. */
#ifndef TRACEBRAID_TRIGGER_H
#define TRACEBRAID_TRIGGER_H

#include "tracebraid/types.h"

/*
 * The command TRIGGER adds a test to events: the filter program in the mailbox, and a struct
 * braid_trigger. A program of no instructions is true of all records. A record that the event's
 * filter lets pass, and for which the test is true, fires its trigger, in whatever context it is,
 * and whether its ring has room for it or not: the guest writes the event tracebraid:trigger, and
 * from then on, or after so many more records, no ring is written ("frozen"). While one trigger has
 * fired, none fires. RESUME ends that.
 *
 *   NONE --TRIGGER--> ARMED --fires--> [COUNTING -->] FROZEN --RESUME--> ARMED or HELD
 *
 * A DISABLE of all events, and an agent's silence, removes all tests: NONE. Nothing is frozen then.
 */
enum braid_trigger_state {
	BRAID_TRIGGER_NONE = 0,
	BRAID_TRIGGER_ARMED = 1,
	BRAID_TRIGGER_COUNTING = 2,	/* fired; records are still written */
	BRAID_TRIGGER_FROZEN = 3,
	BRAID_TRIGGER_HELD = 4,		/* resumed, and none fires */
};

enum braid_trigger_role {
	BRAID_TRIGGER_AT = 0,		/* a record that passes fires */
	BRAID_TRIGGER_BEGIN = 1,	/* ... begins a duration of its task */
	BRAID_TRIGGER_END = 2,		/* ... ends it, and fires if that was long enough */
	BRAID_TRIGGER_ROLES = 3,
};

#define BRAID_TRIGGER_MINOR	8u	/* of the region */
#define BRAID_TRIGGERS		8u
#define BRAID_TRIGGER_ARM	1u	/* arg0 of RESUME: they may fire again */

struct braid_trigger {
	u32 index;			/* of the trigger; a later test may change what follows */
	u32 role;			/* enum braid_trigger_role */
	u64 after;			/* records that are written after it fired */
	u64 more_than;			/* END: steps of the counter */
	u64 reserved[5];
};

/* What a trigger has counted, as of the guest's last poll. */
struct braid_trigger_count {
	u64 met;			/* records for which all was true */
	u64 fired;			/* of them, those that did not find another one fired */
	u64 unjudged;			/* records for which no verdict was possible: not met */
	u64 full;			/* durations that began when the table had no room */
	u64 unpaired;			/* records that end no duration */
	u64 counter;			/* of the guest, when it fired last */
	u32 vcpu;			/* where, ... */
	s32 pid;			/* ... and in which task */
	u64 steps;			/* END: the duration */
};

static_assert(sizeof(struct braid_trigger) == 64, "trigger");
static_assert(sizeof(struct braid_trigger_count) == 64, "trigger count");

#endif /* TRACEBRAID_TRIGGER_H */
