/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The chunk ACCOUNTS of a capture: what a guest counted at filters and probes. */
#ifndef BRAID_CAPTURE_ACCOUNT_H
#define BRAID_CAPTURE_ACCOUNT_H

#include "tracebraid/abi.h"
#include "tracebraid/mailbox.h"

enum braid_account_kind {
	BRAID_ACCOUNT_FILTER = 1,
	BRAID_ACCOUNT_PROBE = 2,
	BRAID_ACCOUNT_KINDS
};

#define BRAID_ACCOUNT_UNKNOWN	(1u << 0)	/* it is set; the guest has not said its account */

/* A later row of the same kind, system and event replaces it in the file. */
struct braid_account {
	u32 kind;			/* enum braid_account_kind */
	u32 flags;			/* BRAID_ACCOUNT_* */
	u32 nr_events;			/* FILTER: that it is of */
	u32 reserved0;
	char system[BRAID_PATTERN_BYTES];	/* FILTER: both "": of all events without a ... */
	char event[BRAID_PATTERN_BYTES];	/* ... filter of their own */
	union {
		struct braid_filter_account filter;
		struct braid_probe_hits hits;
	};
};

static_assert(sizeof(struct braid_account) == 184, "account");

#endif /* BRAID_CAPTURE_ACCOUNT_H */
