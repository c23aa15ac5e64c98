/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Triggers as the user writes them, and what of them is sent to a guest. */
#ifndef BRAID_CONTROL_TRIGGER_H
#define BRAID_CONTROL_TRIGGER_H

#include "host_agent/control/control.h"

enum braid_trigger_action {
	BRAID_TRIGGER_TRACEOFF,		/* the rings stay as they are until the recording ends */
	BRAID_TRIGGER_SNAPSHOT,		/* ... until a snapshot has them */
	BRAID_TRIGGER_STOP,		/* the recording ends */
	BRAID_TRIGGER_ACTIONS,
};

/* EVENT[..EVENT > TIME][ if FILTER]: ACTION[ after NUMBER] */
struct braid_trigger_wish {
	const char *text;		/* all of it; must outlive this */
	struct braid_pattern event;	/* no globs; .filter: a condition of the filter, or NULL */
	struct braid_pattern end;	/* of a duration that event begins; no name: none */
	u64 more_than_ns;		/* of that */
	enum braid_trigger_action action;
	u64 after;			/* events that are still recorded */
};

/**
 * braid_trigger_parse - read a trigger
 * @out: filled on success; freed by braid_trigger_wish_free()
 * @text: what was typed
 *
 * Return: 0, -EINVAL or -ENOMEM with braid_fail().
 */
int braid_trigger_parse(struct braid_trigger_wish *out, const char *text);

void braid_trigger_wish_free(struct braid_trigger_wish *wish);

/** braid_trigger_is_pair - whether it is about a duration */
static inline bool braid_trigger_is_pair(const struct braid_trigger_wish *wish)
{
	return *wish->end.event;
}

/**
 * braid_trigger_condition - the expression of a test of an event, or of a sub-event
 * @out: set on success, to be freed; NULL: true of all its records
 * @event: as the directory has it; its format has the fields
 * @filter: or NULL
 *
 * Return: 0, -EINVAL or -ENOMEM with braid_fail().
 */
int braid_trigger_condition(char **out, const struct braid_schema_event *event, const char *filter);

#endif /* BRAID_CONTROL_TRIGGER_H */
