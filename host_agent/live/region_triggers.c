// SPDX-License-Identifier: GPL-2.0-or-later
/* Finds the events that triggers test, and follows what the guest says of them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/control/compile.h"
#include "host_agent/live/triggers.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "host_agent/util/text.h"

#define TRACEFS_BUFFER	"ftrace"	/* has what the guest's tracefs traces, not what we enable */

/* A sub-event also by the system that it has in tracefs: "syscalls", not "raw_syscalls". */
static bool has_name(const struct braid_schema_event *event, const struct braid_pattern *p)
{
	bool raw = event->flags & BRAID_EVENT_SUB && !strncmp(event->system, "raw_", 4);

	return !strcmp(event->name, p->event) &&
	       (!strcmp(event->system, p->system) ||
		(raw && !strcmp(event->system + 4, p->system)));
}

/* The directory has an event, or a sub-event, of that name. */
static bool find_named(const struct braid_directory_copy *copy, const struct braid_live_stream *s,
		       const struct braid_pattern *p, struct braid_schema_event *found)
{
	struct braid_schema_event event;
	u32 at = 0;

	while (braid_schema_next(copy->data, copy->bytes, &at, &event) > 0) {
		if (event.flags & BRAID_EVENT_GONE || event.buffer >= BRAID_MAX_BUFFERS ||
		    !strncmp(s->sb.buffers[event.buffer].name, TRACEFS_BUFFER, BRAID_NAME_BYTES) ||
		    !has_name(&event, p))
			continue;
		*found = event;
		return true;
	}
	return false;
}

/* The event whose records a sub-event's are. */
static bool find_whole(const struct braid_directory_copy *copy,
		       const struct braid_schema_event *sub, struct braid_schema_event *found)
{
	u32 at = 0;

	while (braid_schema_next(copy->data, copy->bytes, &at, found) > 0)
		if (!(found->flags & (BRAID_EVENT_GONE | BRAID_EVENT_SUB)) &&
		    found->buffer == sub->buffer && found->id == sub->id)
			return true;
	return false;
}

static bool is_recorded(const struct braid_live_stream *s, const struct braid_live_test *test)
{
	size_t k;

	for (k = 0; k < s->o.nr_patterns; k++)
		if (braid_pattern_matches(&s->o.patterns[k], test->event.system, test->event.event))
			return true;
	return false;
}

static bool same_event(const struct braid_live_test *a, const struct braid_live_test *b)
{
	return a->buffer == b->buffer && !strcmp(a->event.system, b->event.system) &&
	       !strcmp(a->event.event, b->event.event);
}

static int name_event(struct braid_live_test *test, const struct braid_schema_event *event)
{
	if (strlen(event->system) >= BRAID_PATTERN_BYTES ||
	    strlen(event->name) >= BRAID_PATTERN_BYTES)
		return braid_fail(-EINVAL, "the name of an event is too long");
	memset(&test->event, 0, sizeof(test->event));
	strcpy(test->event.system, event->system);
	strcpy(test->event.event, event->name);
	test->buffer = event->buffer;
	return 0;
}

/* A test of one event of a trigger. */
static int add_test(struct braid_live_triggers *t, const struct braid_live_stream *s,
		    const struct braid_directory_copy *copy, size_t k, u32 role)
{
	const struct braid_trigger_wish *wish = &s->o.triggers[k];
	const struct braid_pattern *p = role == BRAID_TRIGGER_END ? &wish->end : &wish->event;
	struct braid_live_test test = {
		.trigger = { .index = k, .role = role, .after = wish->after },
	};
	struct braid_schema_event event, whole;
	char *text;
	int err;

	test.trigger.more_than =
		(unsigned __int128)wish->more_than_ns * s->sb.counter_hz / 1000000000;
	if (!find_named(copy, s, p, &event))
		return braid_directory_suggest(copy, p, *s->name ? s->name : "the guest");
	whole = event;
	if (event.flags & BRAID_EVENT_SUB && !find_whole(copy, &event, &whole))
		return braid_fail(-ENOENT, "no event has the records of %.63s:%.63s", p->system, p->event);
	err = name_event(&test, &whole);
	if (!err)
		err = braid_trigger_condition(&text, &event, p->filter);
	if (err)
		return err;
	if (text)
		err = braid_filter_compile(&test.program, text, &event);
	free(text);
	if (!err && braid_array_push(t->items, t->nr, t->capacity, test))
		err = braid_out_of_memory();
	return err;
}

/* Those that are enabled for triggers alone come first. */
static void sort_alone(struct braid_live_triggers *t, const struct braid_live_stream *s)
{
	size_t k, i;

	for (k = t->nr_alone = 0; k < t->nr; k++) {
		struct braid_live_test one = t->items[k];
		bool named = is_recorded(s, &one);

		for (i = 0; i < t->nr_alone; i++)
			named |= same_event(&t->items[i], &one);
		if (named)
			continue;
		one.alone = true;
		t->items[k] = t->items[t->nr_alone];
		t->items[t->nr_alone++] = one;
	}
}

/* How many tests an event has. */
static size_t nr_tests(const struct braid_live_triggers *t, const struct braid_live_test *of)
{
	size_t k, nr = 0;

	for (k = 0; k < t->nr; k++)
		nr += same_event(&t->items[k], of);
	return nr;
}

/* An event that nobody asked for: of its records those alone that its one test is true of. */
static int add_filter(struct braid_live_filters *filters, const struct braid_live_test *test)
{
	struct braid_live_filter filter = {
		.program = test->program, .event = test->event, .buffer = test->buffer,
	};

	filter.event.filter = "a trigger";
	if (braid_array_push(filters->items, filters->nr, filters->capacity, filter))
		return braid_out_of_memory();
	filters->items[filters->nr - 1] = filters->items[filters->nr_own];
	filters->items[filters->nr_own++] = filter;
	return 0;
}

static bool knows_triggers(const struct braid_live_stream *s)
{
	return s->sb.version_minor >= BRAID_TRIGGER_MINOR &&
	       s->sb.sections[BRAID_SECTION_MAILBOX].bytes >= sizeof(struct braid_mailbox);
}

static int check_guest(const struct braid_live_stream *s)
{
	const char *name = *s->name ? s->name : "the guest";

	if (s->mapping->one_way)
		return braid_fail(-EOPNOTSUPP, "%s: its memory is only read, so the host cannot set triggers; use tracebraid-select in the guest",
				  name);
	if (!knows_triggers(s))
		return braid_fail(-EOPNOTSUPP, "%s: its driver has no triggers yet; update it", name);
	return 0;
}

int braid_live_triggers_find(struct braid_live_triggers *t, struct braid_live_filters *filters,
			     const struct braid_live_stream *s)
{
	struct braid_live_triggers found = { 0 };
	struct braid_directory_copy copy;
	size_t k;
	int err;

	if (!s->o.nr_triggers)
		return 0;
	err = check_guest(s);
	if (err)
		return err;
	err = braid_directory_load(&copy, s->mapping, &s->sb, 0);
	for (k = 0; k < s->o.nr_triggers && !err; k++) {
		bool pair = braid_trigger_is_pair(&s->o.triggers[k]);

		err = add_test(&found, s, &copy, k, pair ? BRAID_TRIGGER_BEGIN : BRAID_TRIGGER_AT);
		if (!err && pair)
			err = add_test(&found, s, &copy, k, BRAID_TRIGGER_END);
	}
	braid_directory_free(&copy);
	sort_alone(&found, s);
	for (k = 0; k < found.nr_alone && !err; k++)
		if (found.items[k].program.nr_insns && nr_tests(&found, &found.items[k]) == 1)
			err = add_filter(filters, &found.items[k]);
	if (err) {
		free(found.items);
		return err;
	}
	free(t->items);
	t->items = found.items;
	t->nr = found.nr;
	t->capacity = found.capacity;
	t->nr_alone = found.nr_alone;
	return 0;
}

void braid_live_triggers_free(struct braid_live_triggers *t)
{
	free(t->items);
	memset(t, 0, sizeof(*t));
}

void braid_live_triggers_begin(struct braid_live_triggers *t)
{
	memset(t->fired, 0, sizeof(t->fired));
	t->state = BRAID_TRIGGER_NONE;
	t->some_set = t->was_set = t->acted = t->resume = t->arm = t->held = false;
}

void braid_live_triggers_start(struct braid_live_triggers *t)
{
	if (t->held)
		t->resume = t->arm = true;
	t->held = false;
}

/* What fired -------------------------------------------------------------------------------- */

static const struct braid_mailbox *region_triggers_mailbox(const struct braid_live_stream *s)
{
	return braid_mapping_section(s->mapping, &s->sb, BRAID_SECTION_MAILBOX);
}

bool braid_live_triggers_stale(const struct braid_live_stream *s)
{
	return knows_triggers(s) &&
	       braid_load(&region_triggers_mailbox(s)->trigger_state) != BRAID_TRIGGER_NONE;
}

static int note_fired(struct braid_live_triggers *t, struct braid_live_stream *s, size_t k,
		      const struct braid_trigger_count *count)
{
	u64 fired = braid_load(&count->fired), steps = braid_load(&count->steps);
	u64 ns = s->sb.counter_hz ? (unsigned __int128)steps * 1000000000 / s->sb.counter_hz : 0;
	char duration[48] = "";

	if (fired == t->fired[k])
		return 0;
	t->fired[k] = fired;
	if (braid_trigger_is_pair(&s->o.triggers[k]))
		snprintf(duration, sizeof(duration), ", after %llu.%03llu ms",
			 (unsigned long long)(ns / 1000000),
			 (unsigned long long)(ns / 1000 % 1000));
	return braid_live_note(s, "trigger '%s' fired on vCPU %u, task %d, counter %llu%s",
			       s->o.triggers[k].text, braid_load(&count->vcpu),
			       braid_load(&count->pid),
			       (unsigned long long)braid_load(&count->counter), duration);
}

/* The guest has removed them by itself: it had not heard of us for too long. */
static int note_gone(struct braid_live_triggers *t, struct braid_live_stream *s)
{
	t->some_set = t->was_set = false;
	return braid_live_note(s, "the guest has removed all triggers, since this recorder was silent; they are set again");
}

int braid_live_triggers_poll(struct braid_live_triggers *t, struct braid_live_stream *s)
{
	const struct braid_mailbox *box = region_triggers_mailbox(s);
	u32 state, last;
	size_t k;
	int err = 0;

	if (!t->was_set)
		return 0;
	state = braid_load_acquire(&box->trigger_state);	/* (T1) */
	last = braid_load(&box->trigger_last);
	for (k = 0; k < s->o.nr_triggers && !err; k++)
		err = note_fired(t, s, k, &box->trigger_counts[k]);
	if (err)
		return err;
	if (state == BRAID_TRIGGER_NONE)
		return note_gone(t, s);
	if (state != t->state && state == BRAID_TRIGGER_FROZEN)
		t->acted = false;
	t->state = state;
	t->last = last;
	return 0;
}

const struct braid_trigger_wish *braid_live_triggers_waiting(const struct braid_live_triggers *t,
							     const struct braid_live_stream *s)
{
	return t->was_set && t->state == BRAID_TRIGGER_FROZEN && !t->acted &&
	       t->last < s->o.nr_triggers ? &s->o.triggers[t->last] : NULL;
}

int braid_live_triggers_account(struct braid_live_triggers *t, struct braid_live_stream *s)
{
	const struct braid_mailbox *box = region_triggers_mailbox(s);
	char rest[160];
	size_t k;
	int err = 0, used;

	for (k = 0; k < s->o.nr_triggers && t->nr && !err; k++) {
		const struct braid_trigger_count *count = &box->trigger_counts[k];
		u64 met = braid_load(&count->met), fired = braid_load(&count->fired);
		u64 unjudged = braid_load(&count->unjudged), full = braid_load(&count->full);
		u64 unpaired = braid_load(&count->unpaired);

		used = 0;
		rest[0] = 0;
		err = note_fired(t, s, k, count);
		if (err)
			return err;
		if (unjudged)
			used += snprintf(rest + used, sizeof(rest) - used, "; %llu could not be judged",
					 (unsigned long long)unjudged);
		if (full)
			used += snprintf(rest + used, sizeof(rest) - used, "; %llu began while the table was full",
					 (unsigned long long)full);
		if (unpaired)
			snprintf(rest + used, sizeof(rest) - used, "; %llu ended what had not begun",
				 (unsigned long long)unpaired);
		err = braid_live_note(s, "trigger '%s': met %llu time%s = %llu fired + %llu while one had fired%s",
				      s->o.triggers[k].text, (unsigned long long)met,
				      met == 1 ? "" : "s",
				      (unsigned long long)fired,
				      (unsigned long long)(met > fired ? met - fired : 0), rest);
	}
	return err;
}
