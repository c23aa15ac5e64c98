/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Moments of the timeline as people write them. */
#ifndef BRAID_WALK_MOMENT_H
#define BRAID_WALK_MOMENT_H

#include <stdbool.h>

#include "host_agent/walk/options.h"

/**
 * braid_moment_parse - parse a moment
 * @m: set on success
 * @text: seconds as a report shows them, +SECONDS from the first event, -SECONDS from the
 *	recording's end, or wall time: 2026-01-31T12:00:00.5, with a space instead of the T, or
 *	12:00:00.5 of the recording's day; in this time zone, or in UTC if a Z follows
 *
 * Return: 0, or -EINVAL with braid_fail().
 */
int braid_moment_parse(struct braid_walk_moment *m, const char *text);

/**
 * braid_moment_place - the time that a moment means, unless it depends on the first event
 * @m: parsed; not BRAID_MOMENT_NONE or BRAID_MOMENT_SINCE
 * @source: the trace
 * @realtime: @ns is wall time; else of the host's clock
 * @last: if that clock shows the wall time twice, the last such time; else the first
 * @ns: set on success; INT64_MIN and INT64_MAX where it is out of range
 *
 * Return: 0, or -ENODATA with braid_fail(): the trace lacks the end or the wall time that it needs.
 */
int braid_moment_place(const struct braid_walk_moment *m, const struct braid_source *source,
		       bool realtime, bool last, s64 *ns);

/**
 * braid_moment_reached - the first host time from @low on, or else @high, at which wall time is @ns
 * @source: with a wall clock
 */
s64 braid_moment_reached(const struct braid_source *source, s64 ns, s64 low, s64 high);

/**
 * braid_moment_cover - convert a range of wall time to the range of host time that holds all of it
 * @source: with a wall clock, which shows some times twice if it was set back
 * @from_ns: converted, unless INT64_MIN
 * @to_ns: converted, unless INT64_MAX
 */
void braid_moment_cover(const struct braid_source *source, s64 *from_ns, s64 *to_ns);

#endif /* BRAID_WALK_MOMENT_H */
