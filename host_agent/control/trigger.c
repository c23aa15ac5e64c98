// SPDX-License-Identifier: GPL-2.0-or-later
/* Reads triggers. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/control/compile.h"
#include "host_agent/control/trigger.h"
#include "host_agent/fields/layout.h"
#include "host_agent/util/cleanup.h"
#include "host_agent/util/error.h"
#include "host_agent/util/text.h"

static const char syntax[] = "expected EVENT[ if FILTER]: ACTION, as in 'sched:sched_switch if next_prio < 5: snapshot', or EVENT..EVENT > TIME: ACTION";

/* Removes spaces at both ends, in place. */
static char *strip(char *text)
{
	size_t bytes;

	text += strspn(text, " ");
	bytes = strlen(text);
	while (bytes && text[bytes - 1] == ' ')
		text[--bytes] = 0;
	return text;
}

/* One event by its name. @system: of the event before it, which it may leave out; or NULL. */
static int take_event(struct braid_pattern *p, const char *text, const char *system)
{
	char name[2 * BRAID_PATTERN_BYTES];
	int err;

	if (strpbrk(text, "*?[") || !*text)
		return braid_fail(-EINVAL, "'%s': expected one event, SYSTEM:EVENT", text);
	snprintf(name, sizeof(name), "%s%s%s", system && !strpbrk(text, ":/") ? system : "",
		 system && !strpbrk(text, ":/") ? ":" : "", text);
	err = braid_pattern_parse(p, name);
	if (!err && !*p->event)
		return braid_fail(-EINVAL, "'%s': expected one event, SYSTEM:EVENT", text);
	return err;
}

/* "50ms". */
static int take_time(u64 *ns, const char *text)
{
	static const struct { const char *name; double ns; } units[] = {
		{ "ns", 1 }, { "us", 1e3 }, { "ms", 1e6 }, { "s", 1e9 },
	};
	char *end;
	double value = strtod(text, &end);
	size_t k;

	for (k = 0; k < sizeof(units) / sizeof(*units); k++) {
		if (strcmp(end, units[k].name) || end == text)
			continue;
		value *= units[k].ns;
		if (!(value >= 0 && value <= 1e15))
			break;
		*ns = value;
		return 0;
	}
	return braid_fail(-EINVAL, "'%s': expected a duration, as in 50ms, 20us or 1.5s", text);
}

static int take_action(struct braid_trigger_wish *out, char *text)
{
	static const char *const names[BRAID_TRIGGER_ACTIONS] = { "traceoff", "snapshot", "stop" };
	char *after = strstr(text, " after "), *end;

	if (after) {
		*after = 0;
		after = strip(after + 7);
		out->after = strtoull(after, &end, 10);
		if (!isdigit((unsigned char)*after) || *end || !out->after)
			return braid_fail(-EINVAL, "'%s': expected the number of events to record after the trigger", after);
	}
	text = strip(text);
	while (out->action < BRAID_TRIGGER_ACTIONS && strcmp(text, names[out->action]))
		out->action++;
	return out->action < BRAID_TRIGGER_ACTIONS ? 0 :
	       braid_fail(-EINVAL, "'%s': expected traceoff, snapshot or stop, and perhaps 'after NUMBER'", text);
}

/* EVENT..EVENT > TIME */
static int take_pair(struct braid_trigger_wish *out, char *first, char *second)
{
	char *more = strchr(second, '>');
	int err;

	if (!more)
		return braid_fail(-EINVAL, "'%s': expected '> TIME' after the second event", second);
	*more = 0;
	err = take_event(&out->event, strip(first), NULL);
	if (!err)
		err = take_event(&out->end, strip(second), out->event.system);
	return err ? err : take_time(&out->more_than_ns, strip(more + 1));
}

static int take_events(struct braid_trigger_wish *out, char *text)
{
	char *filter = strstr(text, " if "), *second;
	int err;

	if (filter) {
		*filter = 0;
		filter = strip(filter + 4);
		err = braid_filter_syntax(filter);
		if (err)
			return err;
	}
	second = strstr(text, "..");
	if (second)
		*second = 0;
	err = second ? take_pair(out, text, second + 2) :
		       take_event(&out->event, strip(text), NULL);
	if (err || !filter)
		return err;
	out->event.filter = strdup(filter);
	return out->event.filter ? 0 : braid_out_of_memory();
}

int braid_trigger_parse(struct braid_trigger_wish *out, const char *text)
{
	struct braid_trigger_wish wish = { .text = text };
	braid_auto_free char *copy = strdup(text);
	char *action;
	int err;

	if (!copy)
		return braid_out_of_memory();
	action = strrchr(copy, ':');
	if (!action || !strchr(copy, ':') || strchr(copy, ':') == action)
		return braid_fail(-EINVAL, "%s", syntax);
	*action = 0;
	err = take_action(&wish, action + 1);
	if (!err)
		err = take_events(&wish, copy);
	if (err)
		braid_trigger_wish_free(&wish);
	else
		*out = wish;
	return err;
}

void braid_trigger_wish_free(struct braid_trigger_wish *wish)
{
	free((char *)wish->event.filter);
	wish->event.filter = NULL;
}

/* The field of the number that makes a record one of a sub-event. */
static const struct braid_field *number_field(const struct braid_layout *layout, u32 flags)
{
	u32 offset = flags >> BRAID_SUB_OFFSET_SHIFT, bytes, k;

	bytes = flags >> BRAID_SUB_BYTES_SHIFT & BRAID_SUB_BYTES_MASK;
	for (k = 0; k < layout->nr; k++) {
		const struct braid_field *field = &layout->at[k];

		if (field->offset == offset && field->size <= bytes && braid_field_is_number(field))
			return field;
	}
	return NULL;
}

int braid_trigger_condition(char **out, const struct braid_schema_event *event, const char *filter)
{
	const char *format = strstr(event->format, "format:"), *rest, *why;
	const struct braid_field *field;
	struct braid_layout *layout = NULL;
	struct braid_text t = { 0 };
	int err = 0;

	*out = NULL;
	if (event->flags & BRAID_EVENT_SUB) {
		why = braid_layout_parse(&layout, format ? format : "", event->system, &rest);
		field = why ? NULL : number_field(layout, event->flags);
		if (field)
			braid_text_printf(&t, filter ? "%s == %u && (%s)" : "%s == %u", field->name,
					  event->number, filter);
		else
			err = braid_fail(-EINVAL, "%.63s:%.63s: the guest cannot distinguish its records from those of other events",
					 event->system, event->name);
		braid_layout_free(layout);
	} else if (filter) {
		braid_text_printf(&t, "%s", filter);
	}
	if (err || (!filter && !(event->flags & BRAID_EVENT_SUB)))
		return err;
	braid_text_putc(&t, 0);
	if (t.failed) {
		free(t.data);
		return braid_out_of_memory();
	}
	*out = t.data;
	return 0;
}
