// SPDX-License-Identifier: GPL-2.0-or-later
/* Which event type a record is of: by its buffer, its id, and its sub-event's number. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/format/private.h"
#include "host_agent/format/program.h"
#include "host_agent/util/array.h"
#include "shared/platform.h"

#define LEAF_IDS	256u
#define NR_LEAVES	(65536u / LEAF_IDS)

/*
 * The event types of one buffer's ids, by id in two steps: nearly all ids are small. Built on
 * demand.
 */
struct id_space {
	struct braid_stream_type **leaves[NR_LEAVES];
};

struct braid_stream_types {
	const struct braid_stream *stream;
	u32 *next_number;
	struct id_space *spaces[BRAID_MAX_BUFFERS];
	struct braid_stream_type *raw[BRAID_MAX_BUFFERS];
};

struct braid_stream_types *braid_stream_types_new(const struct braid_stream *stream, u32 *next_number)
{
	struct braid_stream_types *types = calloc(1, sizeof(*types));

	if (!types)
		return NULL;
	types->stream = stream;
	types->next_number = next_number;
	return types;
}

static void empty_type(struct braid_stream_type *type)
{
	size_t k;

	for (k = 0; k < type->nr_subs; k++)
		empty_type(&type->subs[k]);
	braid_program_free(type->steps);
	braid_layout_free(type->layout);
	free(type->subs);
}

static void free_leaf(struct braid_stream_type **leaf)
{
	u32 id;

	for (id = 0; leaf && id < LEAF_IDS; id++) {
		if (leaf[id])
			empty_type(leaf[id]);
		free(leaf[id]);
	}
	free(leaf);
}

void braid_stream_types_free(struct braid_stream_types *types)
{
	u32 b, k;

	if (!types)
		return;
	for (b = 0; b < BRAID_MAX_BUFFERS; b++) {
		for (k = 0; types->spaces[b] && k < NR_LEAVES; k++)
			free_leaf(types->spaces[b]->leaves[k]);
		free(types->spaces[b]);
		free(types->raw[b]);
	}
	free(types);
}

/* Where the type of an id is, or is to be put. NULL: out of memory. */
static struct braid_stream_type **slot_of(struct id_space *space, u16 id)
{
	struct braid_stream_type ***leaf = &space->leaves[id / LEAF_IDS];

	if (!*leaf)
		*leaf = calloc(LEAF_IDS, sizeof(**leaf));
	return *leaf ? &(*leaf)[id % LEAF_IDS] : NULL;
}

/* Numbers a new event type. */
static void number_type(struct braid_stream_types *types, struct braid_stream_type *type)
{
	type->stream = types->stream;
	type->info.number = (*types->next_number)++;
}

static void set_type(struct braid_stream_types *types, struct braid_stream_type *type,
		     const struct braid_event_format *format)
{
	if (!type->stream)
		number_type(types, type);
	type->info.format = format;
	type->info.system = format->system;
	type->info.name = format->name;
	type->info.id = format->id;
	type->info.known = true;
}

/* Sub-events ------------------------------------------------------------------------------ */

static int by_number(const void *a, const void *b)
{
	const struct braid_event_format *x = *(const struct braid_event_format *const *)a;
	const struct braid_event_format *y = *(const struct braid_event_format *const *)b;

	return braid_compare(x->id, y->id) ?:
	       braid_compare(x->number, y->number) ?:
	       braid_compare(x, y);	/* in order of definition */
}

/*
 * Whether a sub-event belongs to the current event of its id, with its number at the same place as
 * its last sibling's.
 */
static bool belongs(const struct braid_stream_type *type, const struct braid_event_format *sub,
		    const struct braid_event_format *last)
{
	return type && type->info.format < sub && sub->number_bytes &&
	       sub->number_offset == last->number_offset &&
	       sub->number_bytes == last->number_bytes;
}

/* One event's sub-events, @nr of the sorted list; the last definition of a number applies. */
static void add_subs(struct braid_stream_types *types, struct braid_stream_type *type,
		     const struct braid_event_format **list, size_t nr)
{
	const struct braid_event_format *last = *list;
	size_t k;

	if (!type)
		return;		/* defined without its event */
	for (k = 0; k < nr; k++)
		last = list[k] > last ? list[k] : last;
	type->subs = calloc(nr, sizeof(*type->subs));
	for (k = 0; k < nr && type->subs; k++) {
		struct braid_stream_type *sub = &type->subs[type->nr_subs];

		if (!belongs(type, list[k], last))
			continue;
		if (type->nr_subs && sub[-1].info.format->number == list[k]->number)
			sub--;
		else
			type->nr_subs++;
		set_type(types, sub, list[k]);
		sub->info.name = type->info.name;
		sub->info.subevent = list[k]->name;
	}
}

static void add_all_subs(struct braid_stream_types *types, u32 buffer, size_t nr)
{
	const struct braid_event_format **list = calloc(nr, sizeof(*list));
	struct braid_stream_type **slot;
	const struct braid_stream *s = types->stream;
	size_t k, same;

	if (!list)
		return;		/* printed as the events themselves */
	for (k = nr = 0; k < s->nr_formats; k++)
		if (s->formats[k].sub && s->formats[k].buffer == buffer)
			list[nr++] = &s->formats[k];
	qsort(list, nr, sizeof(*list), by_number);
	for (k = 0; k < nr; k += same) {
		for (same = 1; k + same < nr && list[k + same]->id == list[k]->id; same++)
			;
		slot = slot_of(types->spaces[buffer], list[k]->id);
		add_subs(types, slot ? *slot : NULL, &list[k], same);
	}
	free(list);
}

static struct braid_stream_type *sub_of(struct braid_stream_type *type, u32 number)
{
	size_t k;

	braid_array_first(k, type->nr_subs, type->subs[k].info.format->number >= number);
	return k < type->nr_subs && type->subs[k].info.format->number == number ?
	       &type->subs[k] : NULL;
}

/* The type that a record's number picks, or the event's own. */
static struct braid_stream_type *pick_sub(struct braid_stream_type *type,
					  const struct braid_item *item)
{
	const struct braid_event_format *first;
	struct braid_stream_type *sub;
	u64 number = 0;

	if (!type->nr_subs)
		return type;
	first = type->subs[0].info.format;
	if (first->number_bytes > sizeof(number) ||
	    (u32)first->number_offset + first->number_bytes > item->payload_bytes)
		return type;
	memcpy(&number, item->payload + first->number_offset, first->number_bytes);
	sub = number <= 0xffffffff ? sub_of(type, number) : NULL;
	return sub ? sub : type;
}

/* Kinds ----------------------------------------------------------------------------------- */

/* Builds the table of one buffer's ids: the last definition of an id applies. */
static struct id_space *make_id_space(struct braid_stream_types *types, u32 buffer)
{
	const struct braid_stream *s = types->stream;
	struct id_space *space = calloc(1, sizeof(*space));
	struct braid_stream_type **slot;
	size_t k, subs = 0;

	types->spaces[buffer] = space;
	for (k = 0; space && k < s->nr_formats; k++) {
		const struct braid_event_format *format = &s->formats[k];

		if (format->buffer != buffer)
			continue;
		subs += format->sub;
		slot = format->sub ? NULL : slot_of(space, format->id);
		if (slot && !*slot)
			*slot = calloc(1, sizeof(**slot));
		if (slot && *slot)	/* else printed as unknown */
			set_type(types, *slot, format);
	}
	if (space && subs)
		add_all_subs(types, buffer, subs);
	return space;
}

/* Where the type of a buffer's id is, or is to be put. NULL: out of memory. */
static struct braid_stream_type **find_slot(struct braid_stream_types *types, u32 buffer, u16 id)
{
	struct id_space *space = types->spaces[buffer];

	if (!space)
		space = make_id_space(types, buffer);
	return space ? slot_of(space, id) : NULL;
}

/* The buffer whose formats define a buffer's ids. */
static u32 events_of(const struct braid_stream *s, u32 buffer)
{
	return buffer < s->nr_buffers ? s->buffers[buffer].events_of : 0;
}

/* An undefined id gets an event type, so that its name is built once. */
static struct braid_stream_type *unknown_type(struct braid_stream_types *types,
					      struct braid_stream_type **slot, u16 id)
{
	struct braid_stream_type *type = calloc(1, sizeof(*type));

	if (!type)
		return NULL;
	number_type(types, type);
	snprintf(type->unknown_name, sizeof(type->unknown_name), "event-%u", id);
	type->info.system = "unknown";
	type->info.name = type->unknown_name;
	type->info.id = id;
	type->info.why = "its format is unknown";
	*slot = type;
	return type;
}

static struct braid_stream_type *raw_type(struct braid_stream_types *types, u32 buffer)
{
	struct braid_stream_type *type = types->raw[buffer];

	if (type)
		return type;
	type = types->raw[buffer] = calloc(1, sizeof(*type));
	if (!type)
		return NULL;
	number_type(types, type);
	type->info.system = types->stream->buffers[buffer].name;
	type->info.name = "raw";
	type->info.raw = true;
	type->info.known = true;
	type->info.why = "only its writer knows its bytes";
	return type;
}

/* A type that is raw, unknown or has sub-events, or whose buffer's ids were not needed before. */
static noinline struct braid_stream_type *find_type(struct braid_stream_types *types,
						    const struct braid_item *item)
{
	struct braid_stream_type **slot;
	u16 id = 0;

	if (item->raw)
		return raw_type(types, item->ring->buffer);
	if (item->payload_bytes >= sizeof(id))
		memcpy(&id, item->payload, sizeof(id));
	slot = find_slot(types, events_of(item->stream, item->ring->buffer), id);
	if (!slot)
		return NULL;
	return *slot ? pick_sub(*slot, item) : unknown_type(types, slot, id);
}

struct braid_stream_type *braid_stream_types_of(struct braid_stream_types *types,
						const struct braid_item *item)
{
	const struct id_space *space = types->spaces[events_of(item->stream, item->ring->buffer)];
	struct braid_stream_type *type, **leaf;
	u16 id;

	if (space && !item->raw && item->payload_bytes >= sizeof(id)) {
		memcpy(&id, item->payload, sizeof(id));
		leaf = space->leaves[id / LEAF_IDS];
		type = leaf ? leaf[id % LEAF_IDS] : NULL;
		if (type && !type->nr_subs)
			return type;
	}
	return find_type(types, item);
}

struct braid_stream_type *braid_stream_types_by_format(struct braid_stream_types *types,
						       const struct braid_event_format *format)
{
	struct braid_stream_type **slot, *sub = NULL;

	if (format->buffer >= BRAID_MAX_BUFFERS)
		return NULL;
	slot = find_slot(types, format->buffer, format->id);
	if (!slot)
		return NULL;
	if (!*slot)
		return unknown_type(types, slot, format->id);
	if (format->sub)
		sub = sub_of(*slot, format->number);
	return sub ? sub : *slot;
}
