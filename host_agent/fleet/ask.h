/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Between the process that speaks to the fleet and the service that started it, over a
 * SOCK_SEQPACKET pair. The one asks, with the descriptor that results are written to; the other
 * starts a confined process for each question, and says how it ended.
 */
#ifndef BRAID_FLEET_ASK_H
#define BRAID_FLEET_ASK_H

#include "host_agent/fleet/message.h"
#include "host_agent/fleet/service.h"

#define BRAID_FLEET_TEXT	(16u << 10)
#define BRAID_FLEET_LINE	512u
#define BRAID_FLEET_ASKS	8u	/* at a time; further ones are refused */

#define BRAID_FLEET_WATCH_SECONDS	86400u	/* that a host waits for a condition */
#define BRAID_FLEET_NO_FILE	"no such file, or it cannot be read"

enum braid_fleet_kind {
	BRAID_FLEET_SQL,	/* ->text: the statement */
	BRAID_FLEET_ANALYZE,	/* ->text: the analysis */
	BRAID_FLEET_SNAPSHOT,	/* ->text: why */
	BRAID_FLEET_WATCH,	/* ->text: GUESTS CONDITION, or "": for ->seconds wait for it */
	BRAID_FLEET_TRIGGER,	/* ->text: why: another host has seen what ->name waits for */
	BRAID_FLEET_RECORD,	/* store what is recorded in ->record_s seconds */
	BRAID_FLEET_FILES,	/* of all snapshots */
	BRAID_FLEET_READ,	/* ->text: SNAPSHOT/FILE */
	BRAID_FLEET_CANCEL,
	BRAID_FLEET_SAY,	/* ->text: a line for the journal */
};

struct braid_fleet_ask {
	enum braid_fleet_kind kind;
	u32 number;		/* of the question */
	u64 seconds;		/* of its process, at most */
	u64 top;		/* rows of an analysis; 0: its usual number */
	bool folded;		/* ANALYZE: stacks with their weights, not rows */
	u64 from;		/* READ: the first byte */
	u64 record_s;
	char name[BRAID_FLEET_NAME];	/* of the snapshot, in the store; "": one is made */
	char since[32];		/* "-SECONDS", from now; "": all of the window */
	char text[BRAID_FLEET_TEXT];
};

struct braid_fleet_answer {
	enum { BRAID_FLEET_STATE, BRAID_FLEET_ENDED, BRAID_FLEET_ALARM } kind;
	/* STATE */
	bool records;
	u32 guests;
	bool streams;		/* it puts captures into the store, */
	u64 stored, waiting, lost;	/* in bytes */
	/* ENDED */
	u32 number;
	bool failed;
	char line[BRAID_FLEET_LINE];	/* why it failed; of an ALARM, what was measured */
	char guest[BRAID_FLEET_NAME];	/* ALARM */
	char name[BRAID_FLEET_NAME];	/* likewise: of the snapshot in the store */
	bool watch;		/* likewise: hosts that wait for this name are meant */
};

#define BRAID_FLEET_MOST_ROWS	(1ULL << 32)

/**
 * braid_fleet_ask_read - make a question of a request
 * @ask: zeroed; set
 * @endpoint: that it came to
 * @m: the request, not trusted
 *
 * Return: 0, or -E2BIG with braid_fail().
 */
int braid_fleet_ask_read(struct braid_fleet_ask *ask, enum braid_fleet_endpoint endpoint,
			 const struct braid_fleet_message *m);

/** braid_fleet_ask_name - take the name of a snapshot in the store, if it is valid */
void braid_fleet_ask_name(struct braid_fleet_ask *ask, const struct braid_fleet_message *m);

#endif /* BRAID_FLEET_ASK_H */
