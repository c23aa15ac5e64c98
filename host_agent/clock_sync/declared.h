/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The time that daemons and devices of this host declare, with its error: a second source for
 * clocks of several hosts, beside what recorders prove to each other.
 *
 * Invariants:
 * - No value is assumed to be true: a source is recorded under its name, and a reader compares it.
 * - A helper process asks them. It reads no guest's data, and a daemon that does not answer delays
 *   only that process.
 */
#ifndef BRAID_CLOCK_SYNC_DECLARED_H
#define BRAID_CLOCK_SYNC_DECLARED_H

#include <sys/types.h>

#include "host_agent/capture/capture.h"

struct braid_declared {
	int fd;				/* -1: not started */
	pid_t pid;
};

/**
 * braid_declared_start - start the helper
 * @d: filled; braid_declared_stop() it
 *
 * Call before braid_confine(): it executes programs. Return: 0, or -errno with braid_fail().
 */
int braid_declared_start(struct braid_declared *d);

/**
 * braid_declared_turn - put what was declared since the last turn, as DECLARED
 * @d: started; or zeroed with an fd of -1
 * @capture: the output
 * @last: ask once more, and wait for that a little
 *
 * Return: 0, or -errno with braid_fail() (the capture's).
 */
int braid_declared_turn(struct braid_declared *d, struct braid_capture_writer *capture, bool last);

/** braid_declared_stop - end the helper; no effect when none was started */
void braid_declared_stop(struct braid_declared *d);

#endif /* BRAID_CLOCK_SYNC_DECLARED_H */
