// SPDX-License-Identifier: GPL-2.0-or-later
/* Holds events against filters: fields of its layout, bytes as validated. */
#include <fnmatch.h>
#include <string.h>

#include "host_agent/util/number.h"
#include "host_agent/walk/filter.h"

#define MAX_STRING	4096u	/* of a string that is compared; no kernel's is longer */

/* The field of that name, if it can be compared with what the node has. */
static void find_place(struct braid_filter_place *place, const struct braid_layout *layout,
		       const char *name, bool text)
{
	const struct braid_field *f = braid_layout_find(layout, name);

	place->field = f;
	place->sort = BRAID_PLACE_NONE;
	if (!f && !text && !strcmp(name, "CPU"))
		place->sort = BRAID_PLACE_CPU;
	else if (!f && text && !strcmp(name, "COMM"))
		place->sort = BRAID_PLACE_COMM;
	else if (!f)
		return;
	else if (!text && braid_field_is_number(f))
		place->sort = BRAID_PLACE_NUMBER;
	else if (text && f->flags & BRAID_FIELD_STRING)
		place->sort = BRAID_PLACE_STRING;
	else if (text && braid_field_is_number(f) && f->size == 8)
		place->sort = BRAID_PLACE_FUNCTION;
}

u32 braid_filter_bind(const struct braid_filter *filter, const struct braid_layout *layout,
		      struct braid_filter_binding *binding)
{
	u32 k, found = 0;

	memset(binding, 0, sizeof(*binding));
	for (k = 0; k < filter->e.nr_nodes; k++) {
		const struct braid_expression_node *node = &filter->e.nodes[k];
		struct braid_filter_place *place = &binding->places[2 * k];

		if (node->kind < BRAID_EXPRESSION_NUMBER)
			continue;
		find_place(place, layout, node->field, node->kind == BRAID_EXPRESSION_TEXT);
		if (node->kind == BRAID_EXPRESSION_FIELD)
			find_place(place + 1, layout, node->text, false);
		found += place->sort != BRAID_PLACE_NONE &&
			 (node->kind != BRAID_EXPRESSION_FIELD ||
			  place[1].sort != BRAID_PLACE_NONE);
	}
	return found;
}

static __int128 number_at(const struct braid_filter_place *place, const struct braid_item *item)
{
	u64 value;

	if (place->sort == BRAID_PLACE_CPU)
		return item->ring->cpu;
	value = braid_number_load(item->payload + place->field->offset, place->field->size,
				  place->field->flags & BRAID_FIELD_SIGNED);
	return place->field->flags & BRAID_FIELD_SIGNED ? (__int128)(s64)value : value;
}

static bool filter_match_compare(enum braid_expression_op op, __int128 a, __int128 b)
{
	switch (op) {
	case BRAID_EXPRESSION_EQ:
		return a == b;
	case BRAID_EXPRESSION_NE:
		return a != b;
	case BRAID_EXPRESSION_LT:
		return a < b;
	case BRAID_EXPRESSION_GT:
		return a > b;
	case BRAID_EXPRESSION_LE:
		return a <= b;
	case BRAID_EXPRESSION_GE:
		return a >= b;
	default:
		return (u64)a & (u64)b;
	}
}

/* The string of a field, copied to @copy if necessary. */
static const char *string_at(const struct braid_filter_place *place, const struct braid_item *item,
			     char copy[MAX_STRING])
{
	u32 offset, length;

	if (place->sort == BRAID_PLACE_COMM)
		return braid_format_comm(item, braid_format_pid(item));
	if (place->sort == BRAID_PLACE_FUNCTION)
		return braid_format_symbol(place->field->layout, number_at(place, item)) ?: "";
	if (!braid_format_range(place->field, item->payload, item->payload_bytes, &offset, &length))
		return "";
	length = strnlen((const char *)item->payload + offset,
			 length < MAX_STRING - 1 ? length : MAX_STRING - 1);
	memcpy(copy, item->payload + offset, length);
	copy[length] = 0;
	return copy;
}

static bool match_text(const struct braid_expression_node *node,
		       const struct braid_filter_place *place, const struct braid_item *item)
{
	char copy[MAX_STRING];
	const char *text = string_at(place, item, copy);

	switch (node->op) {
	case BRAID_EXPRESSION_EQ:
		return !strcmp(text, node->text);
	case BRAID_EXPRESSION_NE:
		return strcmp(text, node->text);
	case BRAID_EXPRESSION_REGEX:
		return !regexec(&node->regex, text, 0, NULL, 0);
	case BRAID_EXPRESSION_NOT_REGEX:
		return regexec(&node->regex, text, 0, NULL, 0);
	default:
		return !fnmatch(node->text, text, 0);
	}
}

static bool match(const struct braid_filter *filter, const struct braid_filter_binding *binding,
		  const struct braid_item *item, u32 number)
{
	const struct braid_expression_node *node = &filter->e.nodes[number];
	const struct braid_filter_place *place = &binding->places[2 * number];

	switch (node->kind) {
	case BRAID_EXPRESSION_OR:
		return match(filter, binding, item, node->left) ||
		       match(filter, binding, item, node->right);
	case BRAID_EXPRESSION_AND:
		return match(filter, binding, item, node->left) &&
		       match(filter, binding, item, node->right);
	case BRAID_EXPRESSION_NOT:
		return !match(filter, binding, item, node->left);
	default:
		break;
	}
	if (place->sort == BRAID_PLACE_NONE)
		return false;
	if (node->kind == BRAID_EXPRESSION_TEXT)
		return match_text(node, place, item);
	if (node->kind == BRAID_EXPRESSION_NUMBER)
		return filter_match_compare(node->op, number_at(place, item), node->number);
	return place[1].sort != BRAID_PLACE_NONE &&
	       filter_match_compare(node->op, number_at(place, item), number_at(place + 1, item));
}

bool braid_filter_match(const struct braid_filter *filter,
			const struct braid_filter_binding *binding, const struct braid_item *item)
{
	return !filter->e.nr_nodes || match(filter, binding, item, filter->e.root);
}
