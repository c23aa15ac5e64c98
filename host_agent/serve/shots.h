/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * When the service takes a snapshot: a condition holds, here or on a host that it joins, or the
 * fleet asks.
 */
#ifndef BRAID_SERVE_SHOTS_H
#define BRAID_SERVE_SHOTS_H

#include "host_agent/fleet/ask.h"
#include "host_agent/serve/snapshots.h"

struct braid_shots {
	const struct braid_conf *conf;
	const char *window;		/* the directory of the recording's files */
	const char *program;		/* tracebraid */
	const struct braid_serve_stream *stream;
	pid_t pid;			/* the process that takes one; 0: none */
	u64 began_ns;			/* when the last one began */
	u32 asked;			/* the fleet's question that it answers; 0: none */
	u64 taken;
	u64 suppressed;			/* alarms since then without one */
};

/** braid_shots_name - of a snapshot in the fleet's store, on all hosts; @asked, if that is valid */
void braid_shots_name(const char *asked, char name[BRAID_FLEET_NAME]);

/** braid_shots_alarm - take one, unless the last one is too recent; @recorder: its process */
void braid_shots_alarm(struct braid_shots *s, const struct braid_analyst_message *m,
		       const char *name, pid_t recorder);

/**
 * braid_shots_ask - the fleet asks; number 0: as an alarm
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_shots_ask(struct braid_shots *s, const struct braid_fleet_ask *ask, int out,
		    pid_t recorder);

/** braid_shots_can - whether one is kept or stored. Return: 0, or -ENOENT with braid_fail() */
int braid_shots_can(const struct braid_shots *s);

/**
 * braid_shots_watch - take one for a question of the fleet
 * @m: why
 * @number: of the question
 *
 * Return: 0; -EBUSY: one is being taken; or -errno, with braid_fail().
 */
int braid_shots_watch(struct braid_shots *s, const struct braid_analyst_message *m,
		      const char *name, u32 number, int out, pid_t recorder);

/** braid_shots_record - store what is recorded for some time; in a process of its own */
int braid_shots_record(const struct braid_shots *s, const struct braid_fleet_ask *ask, int out,
		       pid_t recorder);

/** braid_shots_reap - whether the process has ended, and @failed: without a snapshot */
bool braid_shots_reap(struct braid_shots *s, bool *failed);

#endif /* BRAID_SERVE_SHOTS_H */
