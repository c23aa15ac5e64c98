/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Operations per second: bounds the work that a peer can cause. */
#ifndef BRAID_UTIL_RATE_H
#define BRAID_UTIL_RATE_H

#include "tracebraid/types.h"

#define BRAID_RATE_NS	1000000000ULL

/* Zeroed: no operation yet. */
struct braid_rate {
	u64 from_ns;		/* start of the current second; 0: none yet */
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
