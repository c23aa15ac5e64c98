// SPDX-License-Identifier: GPL-2.0-or-later
/* `list -e`: the events that guests' drivers know. */
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/cli/list.h"
#include "host_agent/control/control.h"
#include "host_agent/util/array.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"

/* An event, or a sub-event, of one guest. */
struct event {
	const struct braid_found *guest;
	u32 buffer, id, number;
	u32 order;		/* in the directory */
	u32 flags;
	char *line;		/* SYSTEM:EVENT, sanitized */
};

struct events {
	const char *glob;
	struct braid_pattern pattern;
	struct event *items;
	size_t nr, capacity;
};

static bool is_sub(const struct event *e)
{
	return e->flags & BRAID_EVENT_SUB;
}

/* SYSTEM[:EVENT] as record -e takes it, or an event's name alone. */
static bool is_meant(const struct events *events, const struct braid_schema_event *event)
{
	return !events->glob || braid_pattern_matches(&events->pattern, event->system, event->name) ||
	       (!*events->pattern.event && !fnmatch(events->pattern.system, event->name, 0));
}

static int add_event(struct events *events, const struct braid_found *f,
		     const struct braid_schema_event *event)
{
	struct event e = {
		.guest = f, .buffer = event->buffer, .id = event->id, .number = event->number,
		.order = events->nr, .flags = event->flags,
	};

	if (asprintf(&e.line, "%s:%s", event->system, event->name) < 0)
		return braid_out_of_memory();
	braid_text_clean(e.line);
	if (!braid_array_push(events->items, events->nr, events->capacity, e))
		return 0;
	free(e.line);
	return braid_out_of_memory();
}

static int list_events_add_guest(struct events *events, const struct braid_found *f)
{
	struct braid_directory_copy copy;
	struct braid_schema_event event;
	struct braid_mapping *m;
	size_t before = events->nr;
	u32 at = 0;
	int err = braid_mapping_open_again(&m, f->path, &f->sb);

	if (err)
		return err;
	err = braid_directory_load(&copy, m, &f->sb, 0);
	braid_mapping_close(m);
	if (err)
		return err;
	while (!err && braid_schema_next(copy.data, copy.bytes, &at, &event) > 0)
		if (!(event.flags & BRAID_EVENT_GONE) && is_meant(events, &event))
			err = add_event(events, f, &event);
	if (!err && events->nr == before && events->glob)	/* kept for guests without one */
		braid_directory_suggest(&copy, &events->pattern, f->name);
	braid_directory_free(&copy);
	return err;
}

static int by_line(const void *a, const void *b)
{
	const struct event *x = a, *y = b;
	int order = strcmp(x->line, y->line);

	return order ? order : x->order < y->order ? -1 : x->order > y->order;
}

static int list_events_by_guest(const void *a, const void *b)
{
	const struct event *x = a, *y = b;
	int order = strcmp(x->guest->path, y->guest->path);

	return order ? order : by_line(a, b);
}

/* Each once, for all guests that have it. */
static void put_lines(struct braid_text *t, const struct events *events)
{
	const char *last = "";
	size_t k;

	for (k = 0; k < events->nr; k++) {
		const struct event *e = &events->items[k];

		if (!strcmp(e->line, last))
			continue;
		last = e->line;
		braid_text_printf(t, "%s\n", e->line);
	}
}

static void list_events_put_json(struct braid_text *t, const struct events *events)
{
	size_t k;

	braid_text_putc(t, '[');
	for (k = 0; k < events->nr; k++) {
		const struct event *e = &events->items[k];
		size_t system = strcspn(e->line, ":");

		braid_text_puts(t, k ? ",\n {" : "{");
		braid_text_member(t, "guest", e->guest->name);
		braid_text_puts(t, ",\"system\":");
		braid_text_json(t, e->line, system);
		braid_text_member(t, "event", e->line + system + 1);
		if (e->buffer < e->guest->sb.nr_buffers)
			braid_text_member(t, "buffer", e->guest->sb.buffers[e->buffer].name);
		braid_text_printf(t, ",\"id\":%u", e->id);
		if (is_sub(e))
			braid_text_printf(t, ",\"subevent\":%u}", e->number);
		else
			braid_text_printf(t, ",\"on\":%s}", e->flags & (BRAID_EVENT_GUEST_ON |
					  BRAID_EVENT_HOST_ON) ? "true" : "false");
	}
	braid_text_puts(t, "]\n");
}

/* Hundreds of system calls: shown only if no other event matches. */
static void drop_subs(struct events *events)
{
	size_t k, kept = 0;

	for (k = 0; k < events->nr; k++)
		kept += !is_sub(&events->items[k]);
	if (!kept)
		return;
	for (k = kept = 0; k < events->nr; k++) {
		if (is_sub(&events->items[k]))
			free(events->items[k].line);
		else
			events->items[kept++] = events->items[k];
	}
	events->nr = kept;
}

/* Return: 0, or -errno with braid_fail(): no guest has a driver, or none has such an event. */
static int collect(struct events *events, const struct braid_found *found, size_t nr)
{
	const struct braid_found *unreadable = NULL;
	size_t k, nr_drivers = 0;
	int err = events->glob ? braid_pattern_parse(&events->pattern, events->glob) : 0;

	for (k = 0; k < nr && !err; k++) {
		if (found[k].state == BRAID_DRIVER_UNREADABLE && !unreadable)
			unreadable = &found[k];
		if (!found[k].sb.magic)
			continue;
		nr_drivers++;
		err = list_events_add_guest(events, &found[k]);
	}
	if (!err && !nr_drivers && unreadable)
		return braid_fail(-ENOENT, "%s", unreadable->why);
	if (!err && !nr_drivers)
		return braid_fail(-ENOENT, "no guest has a driver with events to list; 'tracebraid list' shows the regions");
	if (!err && !events->nr)
		return events->glob ? -ENOENT : braid_fail(-ENOENT, "no guest has an event");
	return err;
}

int braid_list_events(const struct braid_found *found, size_t nr,
		      const struct braid_list_events *how)
{
	struct events events = { .glob = how->glob };
	struct braid_text t = { 0 };
	int err = collect(&events, found, nr);
	size_t k;

	if (!err && !how->subevents)
		drop_subs(&events);
	if (!err && how->json) {
		qsort(events.items, events.nr, sizeof(*events.items), list_events_by_guest);
		list_events_put_json(&t, &events);
	} else if (!err) {
		qsort(events.items, events.nr, sizeof(*events.items), by_line);
		put_lines(&t, &events);
	}
	if (!err && t.failed)
		err = braid_out_of_memory();
	if (!err)
		fwrite(t.data, 1, t.bytes, stdout);
	braid_text_free(&t);
	for (k = 0; k < events.nr; k++)
		free(events.items[k].line);
	free(events.items);
	return err;
}
