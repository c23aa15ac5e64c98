/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What one host publishes to all others: a condition began to hold. */
#ifndef BRAID_FLEET_ALARM_H
#define BRAID_FLEET_ALARM_H

#include "host_agent/fleet/ask.h"

#define BRAID_FLEET_TRIGGERS	4u

/* Alarms of watches, which are repeated: other hosts may connect again later than this one. */
struct braid_fleet_triggers {
	struct {
		struct braid_fleet_answer alarm;
		u32 left;
	} items[BRAID_FLEET_TRIGGERS];
	u32 last;
};

/** braid_fleet_trigger_keep - repeat one; it replaces the oldest one */
void braid_fleet_trigger_keep(struct braid_fleet_triggers *t,
			      const struct braid_fleet_answer *alarm);

/** braid_fleet_trigger_take - one of them, some times. Return: NULL: not this one */
const struct braid_fleet_answer *braid_fleet_trigger_take(struct braid_fleet_triggers *t, u32 k);

/** braid_fleet_alarm_put - add what an alarm says to a payload, and end its head */
void braid_fleet_alarm_put(struct braid_text *out, const struct braid_fleet_answer *answer);

/**
 * braid_fleet_alarm_take - what this host is to do because of an alarm
 * @m: the alarm, not trusted
 * @host: this host
 * @join: a glob of hosts that it follows; "": none
 * @ask: set to the request for the service
 *
 * Return: false: nothing.
 */
bool braid_fleet_alarm_take(const struct braid_fleet_message *m, const char *host, const char *join,
			    struct braid_fleet_ask *ask);

#endif /* BRAID_FLEET_ALARM_H */
