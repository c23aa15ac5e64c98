// SPDX-License-Identifier: GPL-2.0-or-later
/* Selects by stream, CPU, buffer, event, filter, task and time. */
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/trace/vcpu.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "host_agent/util/text.h"
#include "host_agent/walk/filter.h"
#include "host_agent/walk/moment.h"
#include "host_agent/walk/select.h"
#include "shared/platform.h"

/* The decision for an event type, made at its first occurrence. */
struct choice {
	enum { CHOICE_NEW = 0, CHOICE_LEFT_OUT, CHOICE_WANTED, CHOICE_FILTERED } state;
	struct braid_filter_binding **bindings;	/* by filter; NULL: it does not apply to the type */
};

struct braid_select {
	const struct braid_walk_options *options;
	const struct braid_source *source;
	struct braid_format *format;
	bool all_events;	/* no option selects among them */
	struct braid_filter **filters;
	size_t nr_filters;	/* parsed */
	bool some_must_match;	/* one that is not inverted */
	struct choice *choices;	/* by number */
	size_t nr_choices;
	bool started;		/* the first event was seen */
	s64 from_ns, to_ns;
};

bool braid_select_ring(void *options, const struct braid_ring *ring)
{
	const struct braid_walk_options *o = options;

	if (o->stream && !braid_stream_is(ring->stream, o->stream))
		return false;
	if (o->buffer && ring->cpu != BRAID_RING_NOTES &&
	    strcmp(o->buffer, braid_ring_buffer_name(ring)))
		return false;
	return !o->one_cpu || ring->cpu == BRAID_RING_NOTES || ring->cpu == o->cpu;
}

/* Time ------------------------------------------------------------------------------------ */

static int place_moment(const struct braid_select *s, const struct braid_walk_moment *m,
			bool last, s64 *ns)
{
	if (m->kind == BRAID_MOMENT_NONE)
		return 0;
	if (m->kind != BRAID_MOMENT_SINCE)
		return braid_moment_place(m, s->source, s->options->realtime, last, ns);
	*ns = m->ns;
	return 0;
}

enum braid_select_when braid_select_time(struct braid_select *s, const struct braid_item *item,
					 s64 ns)
{
	const struct braid_walk_options *o = s->options;

	if (!s->started && item->kind != BRAID_ITEM_NOTE) {
		s->started = true;
		if (o->from.kind == BRAID_MOMENT_SINCE &&
		    __builtin_add_overflow(ns, o->from.ns, &s->from_ns))
			s->from_ns = INT64_MAX;
		if (o->to.kind == BRAID_MOMENT_SINCE &&
		    __builtin_add_overflow(ns, o->to.ns, &s->to_ns))
			s->to_ns = INT64_MAX;
	}
	if (!s->started && o->from.kind == BRAID_MOMENT_SINCE)
		return BRAID_SELECT_BEFORE;
	if (ns < s->from_ns)
		return BRAID_SELECT_BEFORE;
	return ns > s->to_ns && (s->started || o->to.kind != BRAID_MOMENT_SINCE) ?
	       BRAID_SELECT_AFTER : BRAID_SELECT_WITHIN;
}

void braid_select_range(const struct braid_select *s, s64 *from_ns, s64 *to_ns)
{
	bool never = !s->started && s->options->from.kind == BRAID_MOMENT_SINCE;

	*from_ns = never ? INT64_MAX : s->from_ns;
	*to_ns = !s->started && s->options->to.kind == BRAID_MOMENT_SINCE ? INT64_MAX : s->to_ns;
}

bool braid_select_near(const struct braid_select_times *times, s64 ns)
{
	size_t k;

	braid_array_first(k, times->nr, times->all[k].to_ns >= ns);
	return k < times->nr && times->all[k].from_ns <= ns;
}

/* Kinds of events --------------------------------------------------------------------------- */

static bool matches_name(const char *glob, const struct braid_event_type_info *info)
{
	return !fnmatch(glob, info->name, 0) ||
	       (info->subevent && !fnmatch(glob, info->subevent, 0));
}

/* "SYSTEM:EVENT" or "SYSTEM/EVENT", or one glob that may mean either. */
static bool wants_name(const struct braid_walk_options *o,
		       const struct braid_event_type_info *info)
{
	size_t k;

	for (k = 0; k < o->nr_events; k++) {
		const char *glob = o->events[k], *colon = strpbrk(glob, ":/");
		char system[128];

		if (!colon) {
			if (matches_name(glob, info) || !fnmatch(glob, info->system, 0))
				return true;
			continue;
		}
		snprintf(system, sizeof(system), "%.*s", (int)(colon - glob), glob);
		if ((!system[0] || !fnmatch(system, info->system, 0)) &&
		    (!colon[1] || matches_name(colon + 1, info)))
			return true;
	}
	return !o->nr_events;
}

static bool applies_to(const struct braid_filter *filter, const struct braid_event_type_info *info)
{
	return braid_filter_names(filter, info->system, info->name) ||
	       (info->subevent && braid_filter_names(filter, info->system, info->subevent));
}

static int decide(struct braid_select *s, struct choice *choice,
		  const struct braid_event_type_info *info)
{
	static const struct braid_filter_binding nothing;
	size_t k;

	choice->state = wants_name(s->options, info) ? CHOICE_WANTED : CHOICE_LEFT_OUT;
	if (choice->state == CHOICE_LEFT_OUT || !s->nr_filters)
		return 0;
	choice->state = s->some_must_match ? CHOICE_LEFT_OUT : CHOICE_WANTED;
	choice->bindings = calloc(s->nr_filters, sizeof(*choice->bindings));
	for (k = 0; k < s->nr_filters && choice->bindings; k++) {
		if (info->raw || !applies_to(s->filters[k], info))
			continue;
		choice->state = CHOICE_FILTERED;
		choice->bindings[k] = malloc(sizeof(nothing));
		if (!choice->bindings[k])
			break;
		*choice->bindings[k] = nothing;
		if (info->layout)
			braid_filter_bind(s->filters[k], info->layout, choice->bindings[k]);
	}
	return k == s->nr_filters ? 0 : braid_out_of_memory();
}

static struct choice *choice_of(struct braid_select *s, const struct braid_event_type_info *info)
{
	if (braid_array_cover(s->choices, s->nr_choices, info->number)) {
		braid_out_of_memory();
		return NULL;
	}
	if (s->choices[info->number].state == CHOICE_NEW &&
	    decide(s, &s->choices[info->number], info))
		return NULL;
	return &s->choices[info->number];
}

/* Events ------------------------------------------------------------------------------------ */

static bool passes_filters(struct braid_select *s, const struct choice *choice,
			   const struct braid_item *item)
{
	bool pass = !s->some_must_match, validated = braid_format_fields(s->format, item);
	size_t k;

	for (k = 0; k < s->nr_filters; k++) {
		bool invert = s->options->filters[k].invert;

		/* An expression can't be evaluated if the payload lacks its fields. */
		if (!choice->bindings[k] || (pass && !invert) ||
		    (s->filters[k]->e.nr_nodes && !validated) ||
		    !braid_filter_match(s->filters[k], choice->bindings[k], item))
			continue;
		if (invert)
			return false;
		pass = true;
	}
	return pass;
}

static bool wants_task(const struct braid_walk_options *o, const struct braid_item *item)
{
	s32 pid = braid_format_pid(item);
	const char *comm;
	size_t k;

	if (pid == BRAID_PID_UNKNOWN)
		return false;
	for (k = 0; k < o->nr_pids; k++)
		if (o->pids[k] == pid)
			break;
	if (o->nr_pids && k == o->nr_pids)
		return false;
	comm = o->nr_comms ? braid_format_comm(item, pid) : NULL;
	for (k = 0; k < o->nr_comms; k++)
		if (!fnmatch(o->comms[k], comm, 0))
			return true;
	return !o->nr_comms;
}

/* Apart from braid_select_event(), which mostly needs none of its registers. */
static noinline int select_event(struct braid_select *s, const struct braid_item *item,
				 const struct braid_event_type_info *info)
{
	const struct choice *choice = choice_of(s, info);

	if (!choice)
		return -ENOMEM;
	if (choice->state == CHOICE_LEFT_OUT)
		return 0;
	if ((s->options->nr_pids || s->options->nr_comms) && !wants_task(s->options, item))
		return 0;
	return choice->state == CHOICE_WANTED || passes_filters(s, choice, item);
}

int braid_select_event(struct braid_select *s, const struct braid_item *item,
		       const struct braid_event_type_info *info)
{
	return s->all_events ? 1 : select_event(s, item, info);
}

int braid_select_leave_out(struct braid_select *s, const struct braid_stream *stream)
{
	u64 ids[BRAID_LEFT_OUT_IDS / 64] = { 0 }, wanted[BRAID_LEFT_OUT_IDS / 64] = { 0 };
	size_t k;

	if (s->all_events)
		return 0;
	/* An event and its sub-events share an id. */
	for (k = 0; k < stream->nr_formats; k++) {
		const struct braid_event_type_info *info;
		const struct choice *choice;
		u16 id = stream->formats[k].id;

		info = id < BRAID_LEFT_OUT_IDS ? braid_format_by_number(s->format, stream, k) : NULL;
		if (!info)
			continue;
		choice = choice_of(s, info);
		if (!choice)
			return -ENOMEM;
		(choice->state == CHOICE_LEFT_OUT ? ids : wanted)[id / 64] |= 1ULL << id % 64;
	}
	for (k = 0; k < BRAID_LEFT_OUT_IDS / 64; k++)
		ids[k] &= ~wanted[k];
	return braid_stream_leave_out(s->source->streams[stream->number], ids);
}

bool braid_select_is_left_out(const struct braid_select *s, const struct braid_event_type_info *info)
{
	return !s->all_events && !info->raw && info->number < s->nr_choices &&
	       s->choices[info->number].state == CHOICE_LEFT_OUT;
}

/* Names ----------------------------------------------------------------------------------- */

/* Reports a name that does not exist, and suggests the nearest one that does. */
static int fail_near(const char *what, const struct braid_text_near *near)
{
	if (near->nearest)
		return braid_fail(-ENOENT, "no %s '%s'; did you mean '%s'?", what, near->word,
				  near->nearest);
	return braid_fail(-ENOENT, "no %s '%s'; 'tracebraid stat' lists all", what, near->word);
}

static int check_buffer(const char *name, const struct braid_source *source)
{
	struct braid_text_near near = { .word = name };
	size_t k;
	u32 b;

	for (k = 0; k < source->nr_streams; k++) {
		for (b = 0; b < source->streams[k]->nr_buffers; b++) {
			if (!strcmp(source->streams[k]->buffers[b].name, name))
				return 0;
			braid_text_nearer(&near, source->streams[k]->buffers[b].name);
		}
	}
	return fail_near("buffer", &near);
}

static int check_stream(const char *name, const struct braid_source *source)
{
	struct braid_text_near near = { .word = name };
	char label[BRAID_STREAM_LABEL], best[BRAID_STREAM_LABEL];
	size_t k;

	for (k = 0; k < source->nr_streams; k++) {
		if (braid_stream_is(source->streams[k], name))
			return 0;
		braid_stream_label(source->streams[k], label);
		braid_text_nearer(&near, label);
		if (near.nearest == label)
			near.nearest = strcpy(best, label);
	}
	if (near.nearest || !source->nr_streams)
		return fail_near("stream", &near);
	return braid_fail(-ENOENT, "no stream '%s'; the first one is '%s', 'tracebraid stat' lists all",
			  name, source->streams[0]->name);
}

int braid_select_check(const struct braid_walk_options *o,
		       const struct braid_source *source)
{
	int err = 0;

	if (source->grows)	/* they may come */
		return 0;
	if (o->buffer)
		err = check_buffer(o->buffer, source);
	return err || !o->stream ? err : check_stream(o->stream, source);
}

/* Begin, end -------------------------------------------------------------------------------- */

/* Findings on a filter's nodes, from all types that it applies to. */
struct findings {
	bool named;				/* such a type exists */
	bool usable[BRAID_EXPRESSION_NODES];
	bool there[2 * BRAID_EXPRESSION_NODES];	/* fields of that name, fit or not */
	u32 left;				/* nodes without a usable field */
};

static bool is_field(const struct braid_layout *layout, const char *name)
{
	return name && braid_layout_find(layout, name);
}

static void note_fields(const struct braid_filter *filter, const struct braid_layout *layout,
			struct findings *f)
{
	struct braid_filter_binding binding;
	u32 k;

	f->named = true;
	if (!layout)
		return;
	braid_filter_bind(filter, layout, &binding);
	f->left = 0;
	for (k = 0; k < filter->e.nr_nodes; k++) {
		const struct braid_expression_node *node = &filter->e.nodes[k];
		const struct braid_filter_place *place = &binding.places[2 * k];
		bool pair = node->kind == BRAID_EXPRESSION_FIELD;

		if (node->kind < BRAID_EXPRESSION_NUMBER)
			continue;
		f->there[2 * k] |= place->sort || is_field(layout, node->field);
		f->there[2 * k + 1] |= !pair || place[1].sort || is_field(layout, node->text);
		f->usable[k] |= place->sort && (!pair || place[1].sort);
		f->left += !f->usable[k];
	}
}

static int select_complain(const struct braid_filter *filter, const struct findings *f)
{
	u32 k;

	if (!f->named)
		return braid_fail(-ENOENT, "filter '%s': no such event in the trace; a filter begins with 'EVENT:' or 'SYSTEM/EVENT:', each a regular expression such as 'sched_.*'",
				  filter->text);
	for (k = 0; k < filter->e.nr_nodes; k++) {
		const struct braid_expression_node *node = &filter->e.nodes[k];

		if (node->kind < BRAID_EXPRESSION_NUMBER || f->usable[k])
			continue;
		if (!f->there[2 * k] || !f->there[2 * k + 1])
			return braid_fail(-ENOENT, "filter '%s': no such event has a field '%s'; 'report --json' shows the fields",
					  filter->text, f->there[2 * k] ? node->text : node->field);
		return braid_fail(-EINVAL, "filter '%s': the field '%s' is %s", filter->text,
				  node->field, node->kind == BRAID_EXPRESSION_TEXT ?
				  "not a string" : "not a number");
	}
	return 0;
}

/* Checks that a filter's events and fields exist: else it is an error. */
static int check_filter(struct braid_select *s, const struct braid_filter *filter)
{
	const struct braid_event_type_info *info;
	struct findings f = { .left = filter->e.nr_nodes };
	size_t k, n;

	for (k = 0; k < s->source->nr_streams; k++) {
		const struct braid_stream *stream = s->source->streams[k];

		if (s->options->stream && !braid_stream_is(stream, s->options->stream))
			continue;
		for (n = 0; n < stream->nr_formats; n++) {
			const struct braid_event_format *format = &stream->formats[n];

			if (!braid_filter_names(filter, format->system, format->name))
				continue;
			info = braid_format_by_number(s->format, stream, n);
			if (!info)
				return braid_out_of_memory();
			note_fields(filter, info->layout, &f);
			if (!f.left)
				return 0;
		}
	}
	return select_complain(filter, &f);
}

static int begin_filters(struct braid_select *s)
{
	const struct braid_walk_options *o = s->options;
	size_t k;
	int err = 0;

	s->filters = calloc(o->nr_filters + 1, sizeof(*s->filters));
	if (!s->filters)
		return braid_out_of_memory();
	for (k = 0; k < o->nr_filters && !err; k++) {
		err = braid_filter_parse(&s->filters[k], o->filters[k].text);
		if (err)
			break;
		s->nr_filters++;
		s->some_must_match |= !o->filters[k].invert;
		err = check_filter(s, s->filters[k]);
	}
	return err;
}

int braid_select_begin(struct braid_select **out, const struct braid_source *source,
		       struct braid_format *format, const struct braid_walk_options *options)
{
	struct braid_select *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return braid_out_of_memory();
	s->options = options;
	s->source = source;
	s->format = format;
	s->all_events = !options->nr_events && !options->nr_filters && !options->nr_pids &&
			!options->nr_comms;
	s->from_ns = INT64_MIN;
	s->to_ns = INT64_MAX;
	err = place_moment(s, &options->from, false, &s->from_ns);
	if (!err)
		err = place_moment(s, &options->to, true, &s->to_ns);
	if (!err)
		err = begin_filters(s);
	if (err)
		braid_select_end(s);
	else
		*out = s;
	return err;
}

void braid_select_end(struct braid_select *s)
{
	size_t k, n;

	if (!s)
		return;
	for (k = 0; k < s->nr_choices; k++) {
		for (n = 0; s->choices[k].bindings && n < s->nr_filters; n++)
			free(s->choices[k].bindings[n]);
		free(s->choices[k].bindings);
	}
	for (k = 0; k < s->nr_filters; k++)
		braid_filter_free(s->filters[k]);
	free(s->filters);
	free(s->choices);
	free(s);
}
