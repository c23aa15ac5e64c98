/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Writes to the capture which cgroups with a CPU quota the threads of a guest's vCPUs are in, and
 * when these were throttled.
 *
 * - A thread's cgroups are looked at every two seconds: a row says since when it has them, which is
 *   since the look before; a quota that is gone counts until the look that shows it.
 * - cpu.stat is read ten times a second, of cgroups with a quota only. It counts a throttled time
 *   when that is over, so the interval of a row begins before the reading before.
 * - Without a hierarchy of cgroups that has the cpu controller, nothing is written: unknown.
 */
#ifndef BRAID_LIVE_QUOTA_H
#define BRAID_LIVE_QUOTA_H

#include "host_agent/live/stream.h"

struct braid_live_quota;

/**
 * braid_live_quota_poll - write what is new
 * @q: NULL at first; set
 * @s: the stream
 * @tids: of the vCPUs; 0: not known
 * @nr: their number
 * @at_once: also if it is not time yet
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_live_quota_poll(struct braid_live_quota **q, struct braid_live_stream *s,
			  const pid_t *tids, size_t nr, bool at_once);

/** braid_live_quota_due - whether a poll would do something */
bool braid_live_quota_due(const struct braid_live_quota *q, u64 now_ns);

/** braid_live_quota_free - close and free; NULL is fine */
void braid_live_quota_free(struct braid_live_quota *q);

#endif /* BRAID_LIVE_QUOTA_H */
