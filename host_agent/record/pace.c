// SPDX-License-Identifier: GPL-2.0-or-later
/* How soon guests are read again: soon while events flow, seldom while none does. */
#include "host_agent/record/pace.h"

#define QUIET_SHARE	4
#define SHARE_NS	20000ULL	/* a turn takes about a microsecond of each guest */

u64 braid_pace_ns(u64 quiet_ns, size_t nr, u64 rest_ns)
{
	u64 ns = quiet_ns / QUIET_SHARE;

	ns = ns > nr * SHARE_NS ? ns : nr * SHARE_NS;
	ns = ns > BRAID_PACE_MIN_NS ? ns : BRAID_PACE_MIN_NS;
	return ns < rest_ns ? ns : rest_ns;
}
