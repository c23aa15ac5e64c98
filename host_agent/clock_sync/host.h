/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The one clock that all host times are of: the host trace clock "mono_raw". */
#ifndef BRAID_CLOCK_SYNC_HOST_H
#define BRAID_CLOCK_SYNC_HOST_H

#include "host_agent/util/monotonic.h"

/**
 * braid_host_clock_ns - now, in ns of the host trace clock
 *
 * CLOCK_MONOTONIC_RAW: no step, no slewing, the same in the kernel's trace and here.
 */
static inline u64 braid_host_clock_ns(void)
{
	return braid_clock_read_ns(CLOCK_MONOTONIC_RAW);
}

/**
 * braid_host_clock_pair - the host clock and CLOCK_REALTIME, of one moment
 * @host_ns: set
 * @realtime_ns: set; the two are less than a microsecond apart on a calm machine
 */
void braid_host_clock_pair(u64 *host_ns, u64 *realtime_ns);

/** braid_sleep_ns - sleep for about @ns nanoseconds, less after a signal */
void braid_sleep_ns(u64 ns);

#endif /* BRAID_CLOCK_SYNC_HOST_H */
