// SPDX-License-Identifier: GPL-2.0-or-later
/* Finds the events that filters are for. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/control/compile.h"
#include "host_agent/live/filters.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"

#define MINOR_OF_TASKS	9	/* of a region: CHOOSE, cgroups */
#define TRACEFS_BUFFER	"ftrace"	/* has what the guest's tracefs traces, not what we enable */

bool braid_live_filters_wanted(const struct braid_live_stream *s)
{
	size_t k;

	for (k = 0; k < s->o.nr_patterns && !s->o.patterns[k].filter; k++)
		;
	return k < s->o.nr_patterns || (s->o.nr_patterns && !braid_who_any(&s->o.who));
}

static const struct braid_pattern *last_match(const struct braid_live_stream *s,
					      const struct braid_schema_event *event)
{
	size_t k;

	for (k = s->o.nr_patterns; k; k--)
		if (braid_pattern_matches(&s->o.patterns[k - 1], event->system, event->name))
			return &s->o.patterns[k - 1];
	return NULL;
}

/* Whether we enable it by its name. */
static bool is_ours(const struct braid_live_stream *s, const struct braid_schema_event *event)
{
	return !(event->flags & (BRAID_EVENT_GONE | BRAID_EVENT_SUB)) &&
	       event->buffer < BRAID_MAX_BUFFERS &&
	       strncmp(s->sb.buffers[event->buffer].name, TRACEFS_BUFFER, BRAID_NAME_BYTES) &&
	       strlen(event->system) < BRAID_PATTERN_BYTES &&
	       strlen(event->name) < BRAID_PATTERN_BYTES;
}

static int take_event(struct braid_live_filters *filters, const struct braid_live_stream *s,
		      const struct braid_schema_event *event)
{
	const struct braid_pattern *pattern = is_ours(s, event) ? last_match(s, event) : NULL;
	struct braid_live_filter filter = { .buffer = event->buffer };
	char *text;
	int err;

	if (!pattern || (!pattern->filter && braid_who_any(&s->o.who)))
		return 0;
	err = braid_who_expression(&text, &s->o.who, event->system, event->name, pattern->filter);
	if (err)
		return err;
	err = braid_filter_compile(&filter.program, text, event);
	free(text);
	if (err)
		return err;
	strcpy(filter.event.system, event->system);
	strcpy(filter.event.event, event->name);
	filter.event.filter = pattern->filter;
	if (braid_array_push(filters->items, filters->nr, filters->capacity, filter))
		return braid_out_of_memory();
	return 0;
}

/* Own ones first. */
static void sort_own(struct braid_live_filters *filters)
{
	size_t k;

	for (k = filters->nr_own = 0; k < filters->nr; k++) {
		struct braid_live_filter one = filters->items[k];

		if (!braid_live_filter_is_own(&one))
			continue;
		filters->items[k] = filters->items[filters->nr_own];
		filters->items[filters->nr_own++] = one;
	}
}

int braid_live_filters_note_unused(struct braid_live_stream *s)
{
	if (!s->mapping->one_way || !(braid_live_filters_wanted(s) || s->o.nr_triggers))
		return 0;
	return braid_live_note(s, "its memory is only read: filters and triggers do not apply to it; use tracebraid-select in the guest");
}

int braid_live_filters_find(struct braid_live_filters *filters, const struct braid_live_stream *s)
{
	const char *name = *s->name ? s->name : "the guest";
	struct braid_live_filters found = { 0 };
	struct braid_directory_copy copy;
	struct braid_schema_event event;
	u32 at = 0;
	int err;

	if (!braid_live_filters_wanted(s)) {
		braid_live_filters_free(filters);
		return 0;
	}
	if (s->mapping->one_way)
		return braid_fail(-EOPNOTSUPP, "%s: its memory is only read, so the host cannot set filters; use tracebraid-select in the guest",
				  name);
	if (s->sb.sections[BRAID_SECTION_MAILBOX].bytes < offsetof(struct braid_mailbox, trigger))
		return braid_fail(-EOPNOTSUPP, "%s: its driver has no filters yet; update it",
				  name);
	if ((s->o.who.children || s->o.who.cgroup) && s->sb.version_minor < MINOR_OF_TASKS)
		return braid_fail(-EOPNOTSUPP, "%s: its driver knows no children and no cgroups of tasks yet; update it",
				  name);
	err = braid_directory_load(&copy, s->mapping, &s->sb, 0);
	while (!err && braid_schema_next(copy.data, copy.bytes, &at, &event) > 0)
		err = take_event(&found, s, &event);
	braid_directory_free(&copy);
	braid_live_filters_free(err ? &found : filters);
	if (!err)
		*filters = found;
	sort_own(filters);
	return err;
}

void braid_live_filters_free(struct braid_live_filters *filters)
{
	free(filters->items);
	memset(filters, 0, sizeof(*filters));
}
