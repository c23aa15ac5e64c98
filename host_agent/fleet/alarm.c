// SPDX-License-Identifier: GPL-2.0-or-later
/* What one host publishes to all others. */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "host_agent/fleet/alarm.h"

#define REPEATS	10u

void braid_fleet_trigger_keep(struct braid_fleet_triggers *t,
			      const struct braid_fleet_answer *alarm)
{
	u32 k = t->last++ % BRAID_FLEET_TRIGGERS;

	t->items[k].alarm = *alarm;
	t->items[k].left = REPEATS;
}

const struct braid_fleet_answer *braid_fleet_trigger_take(struct braid_fleet_triggers *t, u32 k)
{
	if (!t->items[k].left)
		return NULL;
	t->items[k].left--;
	return &t->items[k].alarm;
}

void braid_fleet_alarm_put(struct braid_text *out, const struct braid_fleet_answer *answer)
{
	braid_fleet_message_put(out, "guest", answer->guest);
	braid_fleet_message_put(out, "why", answer->line);
	braid_fleet_message_put(out, "name", answer->name);
	braid_fleet_message_put(out, "watch", answer->watch ? "1" : "");
	braid_fleet_message_end(out);
}

bool braid_fleet_alarm_take(const struct braid_fleet_message *m, const char *host, const char *join,
			    struct braid_fleet_ask *ask)
{
	const char *from = braid_fleet_message_text(m, "host");
	bool watch = *braid_fleet_message_text(m, "watch");

	if (!braid_fleet_name_is_valid(from) || !strcmp(from, host))
		return false;
	if (!watch && (!*join || fnmatch(join, from, 0)))
		return false;
	*ask = (struct braid_fleet_ask){
		.kind = watch ? BRAID_FLEET_TRIGGER : BRAID_FLEET_SNAPSHOT,
	};
	braid_fleet_ask_name(ask, m);
	snprintf(ask->text, sizeof(ask->text), "%s: %s", from, braid_fleet_message_text(m, "why"));
	return !watch || *ask->name;
}
