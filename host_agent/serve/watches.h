/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the fleet has this host wait for: a condition here, or another host that has seen its own;
 * then a snapshot is taken.
 *
 * Invariants:
 * - A watch ends with its first snapshot, with its time, when it is cancelled, or with the process
 *   that speaks to the fleet's server: it never fires twice.
 * - Their number is limited. What they cost beyond that is one rule each.
 */
#ifndef BRAID_SERVE_WATCHES_H
#define BRAID_SERVE_WATCHES_H

#include "host_agent/serve/fleet.h"
#include "host_agent/serve/recorder.h"
#include "host_agent/serve/shots.h"

#define BRAID_WATCHES_ARMED	"watching"	/* the line that confirms one */
#define BRAID_WATCHES_FIRED	"because "	/* and the reason, likewise */

struct braid_watch {
	u32 number;		/* of the fleet's question; 0: none */
	char name[BRAID_FLEET_NAME];	/* of the snapshot, on all hosts */
	struct braid_rule rule;	/* ->text "": another host's is waited for */
	int out;		/* its lines are written there */
	u64 seconds, end_ns;
	bool armed;		/* and this was said */
	bool fired;		/* a snapshot is due: */
	struct braid_analyst_message why;
};

struct braid_watches {
	struct braid_shots *shots;
	struct braid_serve_fleet *fleet;
	const struct braid_recorded *recorded;	/* now */
	int fd;			/* to the analyst; -1: it does not run */
	struct braid_watch items[BRAID_ANALYST_MOST_WATCHES];
};

/**
 * braid_watches_ask - begin one, end one, or another host has fired
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_watches_ask(struct braid_watches *w, const struct braid_fleet_ask *ask, int out);

/** braid_watches_tell - send all to a new analyst; @fd -1: the analyst has ended */
void braid_watches_tell(struct braid_watches *w, int fd);

/** braid_watches_confirm - the analyst watches */
void braid_watches_confirm(struct braid_watches *w, u32 number);

/** braid_watches_fire - publish an alarm: the analyst has seen the condition of ->watch */
void braid_watches_fire(struct braid_watches *w, const struct braid_analyst_message *m);

/** braid_watches_turn - take snapshots that are due, end what is over; @recorder: its process */
void braid_watches_turn(struct braid_watches *w, pid_t recorder);

/** braid_watches_clear - end all without an answer: the process that would send it has ended */
void braid_watches_clear(struct braid_watches *w);

#endif /* BRAID_SERVE_WATCHES_H */
