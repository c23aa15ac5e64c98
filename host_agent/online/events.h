/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Counts the events that an engine watches, in each guest. */
#ifndef BRAID_ONLINE_EVENTS_H
#define BRAID_ONLINE_EVENTS_H

#include "host_agent/online/tables.h"
#include "host_agent/walk/filter.h"

/* The events that are watched; nr 0: none. */
struct braid_online_events {
	struct braid_online_watched {
		bool used;
		char system[64], name[64];	/* globs; "": any */
		struct braid_filter *filter;	/* NULL: all */
	} items[BRAID_ONLINE_EVENTS];
	size_t nr;		/* that are used */
	u32 generation;		/* changes with them */
	u64 look;		/* changes with braid_online_look_again() */
};

/* Which of them match an event type, by the types' numbers. */
struct braid_online_matches {
	struct braid_online_match {
		bool decided;
		size_t nr;
		u32 *items;		/* numbers of what is watched */
	} *types;
	size_t nr;
	/* By these numbers: a filter's fields in the last type that it was needed for. */
	struct braid_online_bound {
		u32 type;
		struct braid_filter_binding binding;
	} *bound[BRAID_ONLINE_EVENTS];
	u32 events, formats;	/* the generations of which these matches are */
};

/**
 * braid_online_events_add - watch one more
 * @e: the events
 * @pattern: as of braid_online_watch(), likewise the others
 *
 * Return: 0, or -errno with braid_fail().
 */
int braid_online_events_add(struct braid_online_events *e, const char *pattern, const char *filter,
			    u32 *number);

/** braid_online_events_remove - stop watching one; guests' counts of it are cleared */
void braid_online_events_remove(struct braid_online_events *e, struct braid_online_table *t,
				u32 number);

/**
 * braid_online_events_take - count an event of a guest, if it is watched
 * @e: the events; some are
 * @m: of the formats that @info is of; zeroed before the first
 * @formats: the formats' generation
 * @g: the guest
 * @item: the event
 * @info: its type
 *
 * Return: 0, or -ENOMEM with braid_fail().
 */
int braid_online_events_take(const struct braid_online_events *e, struct braid_online_matches *m,
			     u32 formats, struct braid_online_guest *g,
			     const struct braid_item *item,
			     const struct braid_event_type_info *info);

void braid_online_matches_free(struct braid_online_matches *m);

void braid_online_events_free(struct braid_online_events *e);

#endif /* BRAID_ONLINE_EVENTS_H */
