// SPDX-License-Identifier: GPL-2.0-or-later
/* Counts the events that an engine watches. */
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/online/events.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "host_agent/util/text.h"

/* Parsing ----------------------------------------------------------------------------------- */

static int events_take_name(char to[64], const char *from, size_t bytes, const char *pattern)
{
	if (bytes >= 64)
		return braid_fail(-EINVAL, "'%.99s': names of events have at most 63 characters", pattern);
	snprintf(to, 64, "%.*s", (int)bytes, from);
	return 0;
}

static int events_parse(struct braid_online_watched *w, const char *pattern, const char *filter)
{
	size_t n = strcspn(pattern, ":/");
	int err;

	*w = (struct braid_online_watched){ .used = true };
	if (!n || !pattern[n] || !pattern[n + 1] || strpbrk(pattern, " ,=<>&|~"))
		return braid_fail(-EINVAL, "'%s': expected one event, SYSTEM:EVENT", pattern);
	err = events_take_name(w->system, pattern, n, pattern);
	if (!err)
		err = events_take_name(w->name, pattern + n + 1, strlen(pattern + n + 1), pattern);
	return err || !filter || !*filter ? err : braid_filter_parse_condition(&w->filter, filter);
}

int braid_online_watch_check(const char *pattern, const char *filter)
{
	struct braid_online_watched w;
	int err = events_parse(&w, pattern, filter);

	braid_filter_free(w.filter);
	return err;
}

int braid_online_events_add(struct braid_online_events *e, const char *pattern, const char *filter,
			    u32 *number)
{
	struct braid_online_watched w;
	size_t k;
	int err;

	for (k = 0; k < BRAID_ONLINE_EVENTS && e->items[k].used; k++)
		;
	if (k == BRAID_ONLINE_EVENTS)
		return braid_fail(-ENOSPC, "more than %u events are watched", BRAID_ONLINE_EVENTS);
	err = events_parse(&w, pattern, filter);
	if (err)
		return err;
	e->items[k] = w;
	e->nr++;
	e->generation++;
	*number = k;
	return 0;
}

void braid_online_events_remove(struct braid_online_events *e, struct braid_online_table *t,
				u32 number)
{
	size_t k;

	for (k = 0; k < t->nr; k++)
		if (number < t->items[k]->nr_seen)
			t->items[k]->seen[number] = (struct braid_online_seen){ 0 };
	braid_filter_free(e->items[number].filter);
	e->items[number] = (struct braid_online_watched){ 0 };
	e->nr--;
	e->generation++;
}

/* Types of events ---------------------------------------------------------------------------- */

/* A sub-event also by the system that it has in tracefs: "syscalls", not "raw_syscalls". */
static bool events_match(const struct braid_online_watched *w,
			 const struct braid_event_type_info *info)
{
	const char *system = info->system;
	bool raw = info->subevent && !strncmp(system, "raw_", 4);

	if (!w->used || info->raw ||
	    (fnmatch(w->system, system, 0) && (!raw || fnmatch(w->system, system + 4, 0))))
		return false;
	return !fnmatch(w->name, info->name, 0) ||
	       (info->subevent && !fnmatch(w->name, info->subevent, 0));
}

static int events_decide(const struct braid_online_events *e, struct braid_online_match *match,
			 const struct braid_event_type_info *info)
{
	size_t capacity = 0;
	u32 k;

	for (k = 0; k < BRAID_ONLINE_EVENTS; k++)
		if (events_match(&e->items[k], info) &&
		    braid_array_push(match->items, match->nr, capacity, k))
			return braid_out_of_memory();
	match->decided = true;
	return 0;
}

void braid_online_matches_free(struct braid_online_matches *m)
{
	size_t k;

	for (k = 0; k < m->nr; k++)
		free(m->types[k].items);
	for (k = 0; k < BRAID_ONLINE_EVENTS; k++)
		free(m->bound[k]);
	free(m->types);
	*m = (struct braid_online_matches){ 0 };
}

/* Return: NULL with braid_fail(). */
static const struct braid_online_match *events_match_of(const struct braid_online_events *e,
							struct braid_online_matches *m,
							u32 formats,
							const struct braid_event_type_info *info)
{
	if (m->events != e->generation || m->formats != formats) {
		braid_online_matches_free(m);
		m->events = e->generation;
		m->formats = formats;
	}
	if (braid_array_cover(m->types, m->nr, info->number)) {
		braid_out_of_memory();
		return NULL;
	}
	if (!m->types[info->number].decided && events_decide(e, &m->types[info->number], info))
		return NULL;
	return &m->types[info->number];
}

/* Events ------------------------------------------------------------------------------------- */

/* A hostile guest's types may all match: only one of them is kept. */
static struct braid_online_bound *events_bind(struct braid_online_matches *m, u32 number,
					      const struct braid_filter *filter,
					      const struct braid_event_type_info *info)
{
	struct braid_online_bound *bound = m->bound[number];

	if (bound && bound->type == info->number)
		return bound;
	if (!bound)
		bound = m->bound[number] = malloc(sizeof(*bound));
	if (!bound)
		return NULL;
	bound->type = info->number;
	braid_filter_bind(filter, info->layout, &bound->binding);
	return bound;
}

/* Return: 1 or 0; or -ENOMEM with braid_fail(). */
static int events_pass(const struct braid_online_events *e, struct braid_online_matches *m,
		       u32 number, const struct braid_item *item,
		       const struct braid_event_type_info *info)
{
	const struct braid_filter *filter = e->items[number].filter;
	const struct braid_online_bound *bound;

	if (!filter)
		return 1;
	if (!braid_format_fields_of(info, item))
		return 0;	/* the payload lacks its fields */
	bound = events_bind(m, number, filter, info);
	return bound ? braid_filter_match(filter, &bound->binding, item) : braid_out_of_memory();
}

static int events_count(const struct braid_online_events *e, u32 number,
			struct braid_online_guest *g, const struct braid_item *item,
			const struct braid_event_type_info *info)
{
	struct braid_online_seen *seen;

	if (braid_array_cover(g->seen, g->nr_seen, number))
		return braid_out_of_memory();
	seen = &g->seen[number];
	if (!seen->count++ || seen->look != e->look) {
		seen->look = e->look;
		seen->host_ns = item->host_ns;
		seen->cpu = item->ring->cpu;
		seen->pid = braid_format_pid(item);
		snprintf(seen->comm, sizeof(seen->comm), "%s", braid_format_comm(item, seen->pid));
		snprintf(seen->event, sizeof(seen->event), "%s:%s", info->system,
			 braid_format_label(info));
	}
	return 0;
}

int braid_online_events_take(const struct braid_online_events *e, struct braid_online_matches *m,
			     u32 formats, struct braid_online_guest *g,
			     const struct braid_item *item,
			     const struct braid_event_type_info *info)
{
	const struct braid_online_match *match = events_match_of(e, m, formats, info);
	int err = match ? 0 : -ENOMEM;
	size_t k;

	for (k = 0; match && k < match->nr && err >= 0; k++) {
		err = events_pass(e, m, match->items[k], item, info);
		if (err > 0)
			err = events_count(e, match->items[k], g, item, info);
	}
	return err;
}

void braid_online_events_free(struct braid_online_events *e)
{
	size_t k;

	for (k = 0; k < BRAID_ONLINE_EVENTS; k++)
		braid_filter_free(e->items[k].filter);
}
