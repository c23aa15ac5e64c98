// SPDX-License-Identifier: GPL-2.0-or-later
/* Keeps a host's answers to requests that wait long. */
#include <stdio.h>
#include <string.h>

#include "host_agent/fleet/kept.h"

static struct braid_fleet_kept_answer *kept_of(struct braid_fleet_kept *k, const char *id)
{
	u32 n;

	for (n = 0; *id && n < BRAID_FLEET_KEPT; n++)
		if (!strcmp(k->items[n].id, id))
			return &k->items[n];
	return NULL;
}

void braid_fleet_kept_begin(struct braid_fleet_kept *k, const char *id)
{
	struct braid_fleet_kept_answer *one = &k->items[k->next++ % BRAID_FLEET_KEPT];

	one->lines.bytes = 0;
	one->ended = false;
	snprintf(one->id, sizeof(one->id), "%s", id);
}

void braid_fleet_kept_add(struct braid_fleet_kept *k, const char *id, const char *lines,
			  size_t bytes)
{
	struct braid_fleet_kept_answer *one = kept_of(k, id);

	if (one)
		braid_text_put(&one->lines, lines, bytes);
}

void braid_fleet_kept_end(struct braid_fleet_kept *k, const char *id, const char *error)
{
	struct braid_fleet_kept_answer *one = kept_of(k, id);

	if (!one)
		return;
	one->ended = true;
	snprintf(one->error, sizeof(one->error), "%s", error);
}

const struct braid_fleet_kept_answer *braid_fleet_kept_find(struct braid_fleet_kept *k,
							    const char *id)
{
	return kept_of(k, id);
}

void braid_fleet_kept_free(struct braid_fleet_kept *k)
{
	u32 n;

	for (n = 0; n < BRAID_FLEET_KEPT; n++)
		braid_text_free(&k->items[n].lines);
}
