/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The service's side of the fleet: the process that speaks to the fleet's server, and a process for
 * each question that it passes on.
 *
 * Invariants:
 * - What comes from that process is not trusted: a question is started with limits of time and
 *   memory, and confined as the command of that name.
 * - A question sees the window's files as of its beginning, whatever is removed meanwhile.
 */
#ifndef BRAID_SERVE_FLEET_H
#define BRAID_SERVE_FLEET_H

#include "host_agent/fleet/ask.h"
#include "host_agent/fleet/feed.h"
#include "host_agent/library/program.h"
#include "host_agent/serve/analyst.h"

struct braid_serve_question {
	bool used;
	u32 number;
	struct braid_program program;	/* or, without one: */
	pid_t pid;			/* that reads snapshots, or stores captures */
	bool records;			/* the latter */
	u64 end_ns;
	u64 seconds;
};

struct braid_serve_fleet {
	const struct braid_conf *conf;
	const char *directory;		/* of the window */
	const char *program;		/* tracebraid */
	int (*confine)(void);		/* of the process that speaks to the server ... */
	int (*confine_reader)(void);	/* ... and of one that reads a snapshot's file */
	/* Take a snapshot; number 0: as an alarm does. @out: write its name there; -1: nowhere. */
	int (*snapshot)(void *arg, const struct braid_fleet_ask *ask, int out);
	/* Store what is recorded for some time, in its own process; its name is written to @out. */
	int (*record)(void *arg, const struct braid_fleet_ask *ask, int out);
	/* Wait for a condition, end that, or see what another host has seen. */
	int (*watch)(void *arg, const struct braid_fleet_ask *ask, int out);
	void *arg;
	pid_t pid;			/* 0: none */
	int fd;				/* to it; -1 */
	u64 said_ns;
	struct braid_serve_question questions[BRAID_FLEET_ASKS];
};

/** braid_serve_fleet_start - start the process. Return: 0, or -errno with braid_fail() */
int braid_serve_fleet_start(struct braid_serve_fleet *f);

/** braid_serve_fleet_stop - end it, and all questions */
void braid_serve_fleet_stop(struct braid_serve_fleet *f);

/** braid_serve_fleet_turn - take questions, and see which have ended. It does not wait */
void braid_serve_fleet_turn(struct braid_serve_fleet *f);

/** braid_serve_fleet_state - say regularly what this host does; @stream: NULL: it stores nothing */
void braid_serve_fleet_state(struct braid_serve_fleet *f, bool records, u32 guests,
			     const struct braid_feed_news *stream);

/** braid_serve_fleet_alarm - a condition began to hold; @name: of the snapshot in the store */
void braid_serve_fleet_alarm(struct braid_serve_fleet *f, const struct braid_analyst_message *m,
			     const char *name);

/** braid_serve_fleet_ended - a question is over; @failure: why it failed; NULL: it did not */
void braid_serve_fleet_ended(struct braid_serve_fleet *f, u32 number, const char *failure);

#endif /* BRAID_SERVE_FLEET_H */
