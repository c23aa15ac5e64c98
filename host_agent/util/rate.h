/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How often something is done in a second: work that a peer asks for is bounded by it. */
#ifndef BRAID_UTIL_RATE_H
#define BRAID_UTIL_RATE_H

#include "tracebraid/types.h"

#define BRAID_RATE_NS	1000000000ULL

/* Zeroed: nothing was done yet. */
struct braid_rate {
	u64 from_ns;		/* when the current second began; 0: none has */
	u32 nr;			/* done since; the caller counts */
};

/* Whether it may be done now, @most times a second. */
static inline bool braid_rate_allows(struct braid_rate *r, u64 now_ns, u32 most)
{
	if (!r->from_ns || now_ns - r->from_ns >= BRAID_RATE_NS) {
		r->from_ns = now_ns;
		r->nr = 0;
	}
	return r->nr < most;
}

#endif /* BRAID_UTIL_RATE_H */
