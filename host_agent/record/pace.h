/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How soon guests are read again while their events are followed live. */
#ifndef BRAID_RECORD_PACE_H
#define BRAID_RECORD_PACE_H

#include <stddef.h>

#include "tracebraid/types.h"

#define BRAID_PACE_MIN_NS	1000000ULL

/**
 * braid_pace_ns - for how long guests are not read
 * @quiet_ns: since one of them was found to have written
 * @nr: of guests
 * @rest_ns: the result while none writes
 *
 * An event is in a line when all guests were read after it, so all are read as soon as the one
 * that writes.
 *
 * Return: a share of @quiet_ns, so that the delay of an event is a share of the time since the one
 * before, and an event after a long time causes few turns; but no less than BRAID_PACE_MIN_NS, and
 * than what leaves most of a core free with so many guests.
 */
u64 braid_pace_ns(u64 quiet_ns, size_t nr, u64 rest_ns);

#endif /* BRAID_RECORD_PACE_H */
