// SPDX-License-Identifier: GPL-2.0-or-later
/* Makes questions for the service of what a peer has sent. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "host_agent/fleet/ask.h"
#include "host_agent/util/error.h"

#define MOST_SECONDS	600u
#define SECONDS		30u

void braid_fleet_ask_name(struct braid_fleet_ask *ask, const struct braid_fleet_message *m)
{
	const char *name = braid_fleet_message_text(m, "name");

	if (braid_fleet_name_is_valid(name))
		strcpy(ask->name, name);
}

int braid_fleet_ask_read(struct braid_fleet_ask *ask, enum braid_fleet_endpoint endpoint,
			 const struct braid_fleet_message *m)
{
	static const enum braid_fleet_kind kinds[BRAID_FLEET_ENDPOINTS] = {
		[BRAID_FLEET_OF_SQL] = BRAID_FLEET_SQL,
		[BRAID_FLEET_OF_ANALYZE] = BRAID_FLEET_ANALYZE,
		[BRAID_FLEET_OF_SNAPSHOT] = BRAID_FLEET_SNAPSHOT,
		[BRAID_FLEET_OF_WATCH] = BRAID_FLEET_WATCH,
		[BRAID_FLEET_OF_RECORD] = BRAID_FLEET_RECORD,
		[BRAID_FLEET_OF_FILES] = BRAID_FLEET_FILES,
		[BRAID_FLEET_OF_PULL] = BRAID_FLEET_READ,
	};

	if (m->bytes >= BRAID_FLEET_TEXT || memchr(m->body, 0, m->bytes))
		return braid_fail(-E2BIG, "the text is not valid, or longer than %u characters",
				  BRAID_FLEET_TEXT - 1);
	memcpy(ask->text, m->body, m->bytes);
	ask->text[m->bytes] = 0;
	ask->kind = kinds[endpoint];
	ask->seconds = ask->kind == BRAID_FLEET_WATCH ?
		braid_fleet_message_number(m, "for", BRAID_FLEET_WATCH_SECONDS, SECONDS) :
		braid_fleet_message_number(m, "seconds", MOST_SECONDS, SECONDS);
	ask->top = braid_fleet_message_number(m, "top", BRAID_FLEET_MOST_ROWS, 0);
	ask->folded = *braid_fleet_message_text(m, "folded");
	ask->from = braid_fleet_message_number(m, "from", INT64_MAX, 0);
	ask->record_s = braid_fleet_message_number(m, "for", MOST_SECONDS, 1);
	snprintf(ask->since, sizeof(ask->since), "%s", braid_fleet_message_text(m, "since"));
	braid_fleet_ask_name(ask, m);
	return 0;
}
