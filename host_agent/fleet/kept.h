/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a host has answered to requests that wait long: who has asked asks again after his
 * connection was lost, since the server keeps nothing.
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

/** braid_fleet_kept_begin - a request is taken */
void braid_fleet_kept_begin(struct braid_fleet_kept *k, const char *id);

/** braid_fleet_kept_add - lines were sent */
void braid_fleet_kept_add(struct braid_fleet_kept *k, const char *id, const char *lines,
			  size_t bytes);

/** braid_fleet_kept_end - it is over */
void braid_fleet_kept_end(struct braid_fleet_kept *k, const char *id, const char *error);

/** braid_fleet_kept_find - what was answered; NULL: not known, or no longer */
const struct braid_fleet_kept_answer *braid_fleet_kept_find(struct braid_fleet_kept *k,
							    const char *id);

void braid_fleet_kept_free(struct braid_fleet_kept *k);

#endif /* BRAID_FLEET_KEPT_H */
