/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A host's answers to requests that wait long. A client whose connection was lost requests them
 * again, because the server stores no messages.
 */
#ifndef BRAID_FLEET_KEPT_H
#define BRAID_FLEET_KEPT_H

#include "host_agent/fleet/ask.h"
#include "host_agent/fleet/link.h"

#define BRAID_FLEET_KEPT	16u	/* the newest */

struct braid_fleet_kept {
	struct braid_fleet_kept_answer {
		char id[BRAID_FLEET_NAME];	/* of the request; "": none */
		struct braid_text lines;
		bool ended;
		char error[BRAID_FLEET_LINE];	/* ended: why it failed; "": it did not */
	} items[BRAID_FLEET_KEPT];
	u32 next;
};

/** braid_fleet_kept_begin - keep the answers to a new request */
void braid_fleet_kept_begin(struct braid_fleet_kept *k, const char *id);

/** braid_fleet_kept_add - keep lines that were sent */
void braid_fleet_kept_add(struct braid_fleet_kept *k, const char *id, const char *lines,
			  size_t bytes);

/** braid_fleet_kept_end - the request has ended */
void braid_fleet_kept_end(struct braid_fleet_kept *k, const char *id, const char *error);

/** braid_fleet_kept_find - the answers to a request; NULL: none, or replaced by newer ones */
const struct braid_fleet_kept_answer *braid_fleet_kept_find(struct braid_fleet_kept *k,
							    const char *id);

void braid_fleet_kept_free(struct braid_fleet_kept *k);

#endif /* BRAID_FLEET_KEPT_H */
