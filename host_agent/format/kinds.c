// SPDX-License-Identifier: GPL-2.0-or-later
/* Which kind of event a record is: by its buffer, its id, and its sub-event's number. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/format/private.h"
#include "host_agent/format/steps.h"

#define LEAF_IDS	256u
#define NR_LEAVES	(65536u / LEAF_IDS)

/* The kinds whose ids one buffer names, by id in two steps: nearly all ids are small. Made when needed. */
struct id_space {
	struct braid_kind **leaves[NR_LEAVES];
};

struct braid_kinds {
	const struct braid_stream *stream;
	u32 *next_number;
	struct id_space *spaces[BRAID_MAX_BUFFERS];
	struct braid_kind *raw[BRAID_MAX_BUFFERS];
};

struct braid_kinds *braid_kinds_new(const struct braid_stream *stream, u32 *next_number)
{
	struct braid_kinds *kinds = calloc(1, sizeof(*kinds));

	if (!kinds)
		return NULL;
	kinds->stream = stream;
	kinds->next_number = next_number;
	return kinds;
}

static void empty_kind(struct braid_kind *kind)
{
	size_t k;

	for (k = 0; k < kind->nr_subs; k++)
		empty_kind(&kind->subs[k]);
	tep_free(kind->tep);
	free(kind->checks);
	braid_steps_free(kind->steps);
	free(kind->subs);
}

static void free_leaf(struct braid_kind **leaf)
{
	u32 id;

	for (id = 0; leaf && id < LEAF_IDS; id++) {
		if (leaf[id])
			empty_kind(leaf[id]);
		free(leaf[id]);
	}
	free(leaf);
}

void braid_kinds_free(struct braid_kinds *kinds)
{
	u32 b, k;

	if (!kinds)
		return;
	for (b = 0; b < BRAID_MAX_BUFFERS; b++) {
		for (k = 0; kinds->spaces[b] && k < NR_LEAVES; k++)
			free_leaf(kinds->spaces[b]->leaves[k]);
		free(kinds->spaces[b]);
		free(kinds->raw[b]);
	}
	free(kinds);
}

/* Where the kind of an id is, or is to be put. NULL: out of memory. */
static struct braid_kind **slot_of(struct id_space *space, u16 id)
{
	struct braid_kind ***leaf = &space->leaves[id / LEAF_IDS];

	if (!*leaf)
		*leaf = calloc(LEAF_IDS, sizeof(**leaf));
	return *leaf ? &(*leaf)[id % LEAF_IDS] : NULL;
}

/* Gives a kind that was just made its number. */
static void number_kind(struct braid_kinds *kinds, struct braid_kind *kind)
{
	kind->stream = kinds->stream;
	kind->info.number = (*kinds->next_number)++;
}

static void set_kind(struct braid_kinds *kinds, struct braid_kind *kind,
		     const struct braid_event_format *format)
{
	if (!kind->stream)
		number_kind(kinds, kind);
	kind->info.format = format;
	kind->info.system = format->system;
	kind->info.name = format->name;
	kind->info.id = format->id;
	kind->info.known = true;
}

/* Sub-events ------------------------------------------------------------------------------ */

static int by_number(const void *a, const void *b)
{
	const struct braid_event_format *x = *(const struct braid_event_format *const *)a;
	const struct braid_event_format *y = *(const struct braid_event_format *const *)b;

	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	if (x->number != y->number)
		return x->number < y->number ? -1 : 1;
	return x < y ? -1 : x > y;	/* in the order told */
}

/* Whether a sub-event belongs to what its id means now, and lies where its last sibling does. */
static bool belongs(const struct braid_kind *kind, const struct braid_event_format *sub,
		    const struct braid_event_format *last)
{
	return kind && kind->info.format < sub && sub->number_bytes &&
	       sub->number_offset == last->number_offset &&
	       sub->number_bytes == last->number_bytes;
}

/* One event's sub-events, of [from, to) of the sorted list; what was told last of a number holds. */
static void add_subs(struct braid_kinds *kinds, struct braid_kind *kind,
		     const struct braid_event_format **from, const struct braid_event_format **to)
{
	const struct braid_event_format *last = *from, **at;

	if (!kind)
		return;		/* told without its event */
	for (at = from; at < to; at++)
		last = *at > last ? *at : last;
	kind->subs = calloc(to - from, sizeof(*kind->subs));
	for (at = from; at < to && kind->subs; at++) {
		struct braid_kind *sub = &kind->subs[kind->nr_subs];

		if (!belongs(kind, *at, last))
			continue;
		if (kind->nr_subs && sub[-1].info.format->number == (*at)->number)
			sub--;
		else
			kind->nr_subs++;
		set_kind(kinds, sub, *at);
		sub->info.name = kind->info.name;
		sub->info.subevent = (*at)->name;
	}
}

static void add_all_subs(struct braid_kinds *kinds, u32 buffer, size_t nr)
{
	const struct braid_event_format **list = calloc(nr, sizeof(*list)), **from, **to;
	struct braid_kind **slot;
	const struct braid_stream *s = kinds->stream;
	size_t k;

	if (!list)
		return;		/* printed as the events themselves */
	for (k = nr = 0; k < s->nr_formats; k++)
		if (s->formats[k].sub && s->formats[k].buffer == buffer)
			list[nr++] = &s->formats[k];
	qsort(list, nr, sizeof(*list), by_number);
	for (from = list; from < list + nr; from = to) {
		for (to = from; to < list + nr && (*to)->id == (*from)->id; to++)
			;
		slot = slot_of(kinds->spaces[buffer], (*from)->id);
		add_subs(kinds, slot ? *slot : NULL, from, to);
	}
	free(list);
}

static struct braid_kind *sub_of(struct braid_kind *kind, u32 number)
{
	size_t low = 0, high = kind->nr_subs;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (kind->subs[middle].info.format->number < number)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == kind->nr_subs || kind->subs[low].info.format->number != number)
		return NULL;
	return &kind->subs[low];
}

/* The kind that a record's number picks, or the event's own. */
static struct braid_kind *pick_sub(struct braid_kind *kind, const struct braid_item *item)
{
	const struct braid_event_format *first;
	struct braid_kind *sub;
	u64 number = 0;

	if (!kind->nr_subs)
		return kind;
	first = kind->subs[0].info.format;
	if (first->number_bytes > sizeof(number) ||
	    (u32)first->number_offset + first->number_bytes > item->payload_bytes)
		return kind;
	memcpy(&number, item->payload + first->number_offset, first->number_bytes);
	sub = number <= 0xffffffff ? sub_of(kind, number) : NULL;
	return sub ? sub : kind;
}

/* Kinds ----------------------------------------------------------------------------------- */

/* Makes the table of one buffer's ids: what was told last of an id holds. */
static struct id_space *make_id_space(struct braid_kinds *kinds, u32 buffer)
{
	const struct braid_stream *s = kinds->stream;
	struct id_space *space = calloc(1, sizeof(*space));
	struct braid_kind **slot;
	size_t k, subs = 0;

	kinds->spaces[buffer] = space;
	for (k = 0; space && k < s->nr_formats; k++) {
		const struct braid_event_format *format = &s->formats[k];

		if (format->buffer != buffer)
			continue;
		subs += format->sub;
		slot = format->sub ? NULL : slot_of(space, format->id);
		if (slot && !*slot)
			*slot = calloc(1, sizeof(**slot));
		if (slot && *slot)	/* else printed as unknown */
			set_kind(kinds, *slot, format);
	}
	if (space && subs)
		add_all_subs(kinds, buffer, subs);
	return space;
}

/* Where the kind of a buffer's id is, or is to be put. NULL: out of memory. */
static struct braid_kind **find_slot(struct braid_kinds *kinds, u32 buffer, u16 id)
{
	struct id_space *space = kinds->spaces[buffer];

	if (!space)
		space = make_id_space(kinds, buffer);
	return space ? slot_of(space, id) : NULL;
}

/* The buffer whose formats name a buffer's ids. */
static u32 events_of(const struct braid_stream *s, u32 buffer)
{
	return buffer < s->nr_buffers ? s->buffers[buffer].events_of : 0;
}

/* An id that nobody told of gets a kind of its own, so that its name is made once. */
static struct braid_kind *unknown_kind(struct braid_kinds *kinds, struct braid_kind **slot, u16 id)
{
	struct braid_kind *kind = calloc(1, sizeof(*kind));

	if (!kind)
		return NULL;
	number_kind(kinds, kind);
	snprintf(kind->unknown_name, sizeof(kind->unknown_name), "event-%u", id);
	kind->info.system = "unknown";
	kind->info.name = kind->unknown_name;
	kind->info.id = id;
	kind->info.why = "its format is unknown";
	*slot = kind;
	return kind;
}

static struct braid_kind *raw_kind(struct braid_kinds *kinds, u32 buffer)
{
	struct braid_kind *kind = kinds->raw[buffer];

	if (kind)
		return kind;
	kind = kinds->raw[buffer] = calloc(1, sizeof(*kind));
	if (!kind)
		return NULL;
	number_kind(kinds, kind);
	kind->info.system = kinds->stream->buffers[buffer].name;
	kind->info.name = "raw";
	kind->info.raw = true;
	kind->info.known = true;
	kind->info.why = "only its writer knows its bytes";
	return kind;
}

struct braid_kind *braid_kinds_of(struct braid_kinds *kinds, const struct braid_item *item)
{
	struct braid_kind **slot;
	u16 id = 0;

	if (item->raw)
		return raw_kind(kinds, item->ring->buffer);
	if (item->payload_bytes >= sizeof(id))
		memcpy(&id, item->payload, sizeof(id));
	slot = find_slot(kinds, events_of(item->stream, item->ring->buffer), id);
	if (!slot)
		return NULL;
	return *slot ? pick_sub(*slot, item) : unknown_kind(kinds, slot, id);
}

struct braid_kind *braid_kinds_by_format(struct braid_kinds *kinds,
					 const struct braid_event_format *format)
{
	struct braid_kind **slot, *sub = NULL;

	if (format->buffer >= BRAID_MAX_BUFFERS)
		return NULL;
	slot = find_slot(kinds, format->buffer, format->id);
	if (!slot)
		return NULL;
	if (!*slot)
		return unknown_kind(kinds, slot, format->id);
	if (format->sub)
		sub = sub_of(*slot, format->number);
	return sub ? sub : *slot;
}
