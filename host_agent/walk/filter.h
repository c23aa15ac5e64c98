/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Filters on events' fields: "EVENTS: EXPRESSION", as libtraceevent and trace-cmd have them. */
#ifndef BRAID_WALK_FILTER_H
#define BRAID_WALK_FILTER_H

#include <regex.h>

#include "host_agent/fields/expression.h"
#include "host_agent/format/format.h"

#define BRAID_FILTER_EVENTS	32u

struct braid_filter {
	char *text;		/* as it was given, for complaints; sanitized */
	struct braid_filter_event {
		bool has_system;
		regex_t system;
		regex_t name;
		bool has_name;
	} events[BRAID_FILTER_EVENTS];
	u32 nr_events;
	struct braid_expression e;	/* no nodes: all events of those names */
};

/*
 * The places of a filter's fields in one event type. A node whose field is missing, or of another
 * type, is false.
 */
struct braid_filter_binding {
	struct braid_filter_place {
		const struct braid_field *field;
		enum { BRAID_PLACE_NONE, BRAID_PLACE_NUMBER, BRAID_PLACE_STRING,
		       BRAID_PLACE_FUNCTION, BRAID_PLACE_CPU, BRAID_PLACE_COMM } sort;
	} places[2 * BRAID_EXPRESSION_NODES];	/* of each node, and of its other field */
};

/**
 * braid_filter_parse - understand a filter
 * @out: set on success
 * @text: "EVENTS: EXPRESSION", or EVENTS alone
 *
 * Return: 0, -EINVAL or -ENOMEM with braid_fail().
 */
int braid_filter_parse(struct braid_filter **out, const char *text);

/**
 * braid_filter_parse_condition - understand a filter without names of events
 * @out: set on success; the caller knows which events it applies to
 * @text: "EXPRESSION"
 *
 * Return: 0, -EINVAL or -ENOMEM with braid_fail().
 */
int braid_filter_parse_condition(struct braid_filter **out, const char *text);

/** braid_filter_free - free; NULL is fine */
void braid_filter_free(struct braid_filter *filter);

/** braid_filter_names - whether a filter applies to an event or sub-event of this name */
bool braid_filter_names(const struct braid_filter *filter, const char *system, const char *name);

/**
 * braid_filter_bind - find a filter's fields in one event type
 * @filter: the filter
 * @event: the parsed event type
 * @binding: filled
 *
 * Return: the number of nodes that can be evaluated.
 */
u32 braid_filter_bind(const struct braid_filter *filter, const struct braid_layout *layout,
		      struct braid_filter_binding *binding);

/**
 * braid_filter_match - whether an event passes a filter
 * @filter: one that applies to its type
 * @binding: of its type
 * @item: the event, whose payload braid_format_fields() passed
 */
bool braid_filter_match(const struct braid_filter *filter,
			const struct braid_filter_binding *binding, const struct braid_item *item);

#endif /* BRAID_WALK_FILTER_H */
