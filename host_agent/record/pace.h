/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How soon guests are read again while their events are followed live. */
#ifndef BRAID_RECORD_PACE_H
#define BRAID_RECORD_PACE_H

#include <stddef.h>

#include "tracebraid/types.h"

#define BRAID_PACE_MIN_NS	1000000ULL

/**
 * braid_pace_ns - the time until guests are read again
 * @quiet_ns: time since one of them was last found to have written
 * @nr: number of guests
 * @rest_ns: maximum, for guests that do not write
 *
 * An event's line is printed after all guests were read, so all are read as often as the one that
 * writes.
 *
 * Return: a share of @quiet_ns, so that an event waits for a share of the time since the last one,
 * and an event after a long time causes few turns. At least BRAID_PACE_MIN_NS, and at least the
 * time that leaves most of a core free with @nr guests.
 */
u64 braid_pace_ns(u64 quiet_ns, size_t nr, u64 rest_ns);

#endif /* BRAID_RECORD_PACE_H */
