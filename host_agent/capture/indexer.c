// SPDX-License-Identifier: GPL-2.0-or-later
/* A list of places for each ring, and one for all other chunks. A full list is written, and emptied. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/capture/extent.h"
#include "host_agent/capture/host_event.h"
#include "host_agent/capture/indexer.h"
#include "host_agent/util/array.h"
#include "host_agent/util/varint.h"
#include "shared/ring.h"

#define NR_BUCKETS	256u
#define MOST_LISTS	65536u	/* more rings at a time are not indexed */
#define FIRST_BYTES	128u

struct list {
	struct list *next;		/* of the bucket */
	struct list *due_next;
	bool due;
	bool ended;			/* of a stream that has ended: freed when written */
	u32 stream;
	struct braid_chunk_index head;
	u32 flags;			/* BRAID_INDEX_* of the places here */
	bool any;			/* the ring had pages, and these were the last one's: */
	struct braid_extent latest;
	u64 stamp;
	u64 numbers;			/* of a host's ring: sequence numbers taken so far */
	struct braid_extent before;	/* what the next place differs from */
	struct room {
		char *data;
		u32 used, allocated;
	} places, types;
	struct braid_types_ids ids;
};

struct braid_indexer {
	struct list *buckets[NR_BUCKETS];
	u32 nr_lists;
	struct list *due;
	struct list *taken;
	struct braid_index_block *blocks;
	size_t nr, capacity;
	bool failed;
	struct braid_types_page page;	/* the one that is added */
};

/* What the index says of a chunk. */
struct entry {
	u32 stream;
	u16 buffer;
	u16 cpu;
	u64 ns;
	bool latest;			/* ns is of the latest page, not of the first */
	bool host;
	u64 stamp;
	u64 numbers;
	u64 types;
	struct braid_extent extent;
};

struct braid_indexer *braid_indexer_new(void)
{
	return calloc(1, sizeof(struct braid_indexer));
}

static struct list **indexer_place_of(struct braid_indexer *ix, u32 stream, u16 buffer, u16 cpu)
{
	u32 key = stream * 0x9e3779b1u ^ buffer * 0x85ebca6bu ^ cpu * 0xc2b2ae35u;
	struct list **place = &ix->buckets[(key >> 16 ^ key) % NR_BUCKETS];

	while (*place && ((*place)->stream != stream || (*place)->head.buffer != buffer ||
			  (*place)->head.cpu != cpu))
		place = &(*place)->next;
	return place;
}

static struct list *list_of(struct braid_indexer *ix, const struct entry *e)
{
	struct list **place = indexer_place_of(ix, e->stream, e->buffer, e->cpu);

	if (*place || ix->nr_lists == MOST_LISTS)
		return *place;
	*place = calloc(1, sizeof(**place));
	if (!*place)
		return NULL;
	ix->nr_lists++;
	(*place)->stream = e->stream;
	(*place)->head.buffer = e->buffer;
	(*place)->head.cpu = e->cpu;
	return *place;
}

static void free_rooms(struct list *list)
{
	free(list->places.data);
	free(list->types.data);
}

static void free_list(struct braid_indexer *ix, struct list *list)
{
	struct list **place = indexer_place_of(ix, list->stream, list->head.buffer, list->head.cpu);

	*place = list->next;
	ix->nr_lists--;
	free_rooms(list);
	free(list);
}

static void make_due(struct braid_indexer *ix, struct list *list)
{
	if (list->due || !list->head.nr)
		return;
	list->due = true;
	list->due_next = ix->due;
	ix->due = list;
}

/* The order of the file is not that of the ring, or of its time. */
static u32 flags_of(const struct list *list, const struct entry *e)
{
	const struct braid_extent *before = &list->latest;
	s64 ahead = braid_position_diff(e->extent.position, before->position);
	u32 flags = e->host ? BRAID_INDEX_HOST : 0;

	if (!list->any)
		return flags;
	if (e->latest && (ahead < 0 || (!ahead && e->extent.from_bytes < before->to_bytes)))
		flags |= BRAID_INDEX_UNORDERED;
	return (s64)(e->stamp - list->stamp) < 0 ? flags | BRAID_INDEX_BACK : flags;
}

/* Where @bytes can be appended; NULL: out of memory. */
static char *end_of(struct room *room, u32 bytes)
{
	u32 allocated = room->allocated ? 2 * room->allocated : FIRST_BYTES;
	char *grown;

	if (room->allocated - room->used < bytes) {
		grown = realloc(room->data, allocated);
		if (!grown)
			return NULL;
		room->data = grown;
		room->allocated = allocated;
	}
	return room->data + room->used;
}

static int indexer_add(struct list *list, const struct entry *e)
{
	char *place = end_of(&list->places, BRAID_PLACE_BYTES);
	char *number = list->stream ? end_of(&list->types, BRAID_VARINT_BYTES) : NULL;

	if (!place || (list->stream && !number))
		return -ENOMEM;
	list->numbers += e->numbers;
	if (!list->head.nr++ || (e->latest && e->ns > list->head.ns))
		list->head.ns = e->ns;
	list->flags |= flags_of(list, e);
	list->places.used = braid_extent_put(place, &list->before, &e->extent) - list->places.data;
	if (number)
		list->types.used = braid_varint_put(number, e->types) - list->types.data;
	list->before = list->latest = e->extent;
	list->stamp = e->stamp;
	list->any = true;
	return 0;
}

static void take_page(struct braid_indexer *ix, struct entry *e, const struct braid_chunk *chunk,
		      const u8 *head, const u8 *data, u32 bytes)
{
	struct braid_chunk_page page;

	memcpy(&page, head, sizeof(page));
	e->stream = chunk->stream;
	e->buffer = page.buffer;
	e->cpu = page.vcpu;
	e->ns = page.host_ns;
	e->latest = true;
	e->stamp = page.time_stamp;
	e->extent.final = page.flags & BRAID_PAGE_FINAL;
	e->extent.position = page.position;
	e->extent.first_seq = page.first_seq;
	e->extent.from_bytes = page.from_bytes;
	e->extent.to_bytes = page.to_bytes;
	if (data)
		braid_types_guest(&ix->page, &page, data, bytes);
	else
		ix->page.odd = true;
}

static void take_host_page(struct braid_indexer *ix, struct entry *e,
			   const struct braid_chunk *chunk, const u8 *head, const u8 *data,
			   u32 bytes)
{
	struct braid_chunk_host_page page;

	memcpy(&page, head, sizeof(page));
	memcpy(&e->ns, head + sizeof(page), sizeof(e->ns));
	e->stream = chunk->stream;
	e->cpu = page.cpu;
	e->stamp = e->ns;
	e->host = true;
	e->extent.first_seq = page.lost_before;
	e->extent.to_bytes = page.bytes;
	if (data && page.bytes >= BRAID_SUBBUF_HEADER_BYTES && page.bytes <= bytes)
		e->numbers = braid_host_numbers(data, page.bytes, page.lost_before, &ix->page);
	else
		ix->page.odd = true;
}

/*
 * The lists of a stream's rings become due. A later page of a guest's ring begins a new list. A
 * host's list continues, because it counts the ring's sequence numbers.
 */
static void end_stream(struct braid_indexer *ix, u32 stream)
{
	struct list *list, *next;
	u32 k;

	for (k = 0; k < NR_BUCKETS; k++)
		for (list = ix->buckets[k]; list; list = next) {
			next = list->next;
			if (list->stream != stream)
				continue;
			list->ended = !list->numbers;
			make_due(ix, list);
			if (!list->due && list->ended)
				free_list(ix, list);
		}
}

void braid_indexer_add(struct braid_indexer *ix, u64 offset, const struct braid_chunk *chunk,
		       const u8 head[BRAID_INDEXER_HEAD], const u8 *page, u32 bytes)
{
	struct entry e = { .extent.offset = offset };
	struct list *list;

	static_assert(sizeof(struct braid_chunk_page) <= BRAID_INDEXER_HEAD, "head");
	if (!ix || ix->failed)
		return;
	if (chunk->stream && chunk->type == BRAID_CHUNK_PAGE)
		take_page(ix, &e, chunk, head, page, bytes);
	else if (chunk->stream && chunk->type == BRAID_CHUNK_HOST_PAGE)
		take_host_page(ix, &e, chunk, head, page, bytes);
	if (chunk->stream && chunk->type == BRAID_CHUNK_STREAM_END)
		end_stream(ix, chunk->stream);
	list = list_of(ix, &e);
	if (list && e.host)
		e.extent.position = list->numbers;
	if (list && list->stream)
		e.types = braid_types_put(&ix->page, &list->ids);
	ix->failed = !list || indexer_add(list, &e);
	if (!ix->failed && (list->places.used >= BRAID_INDEX_BYTES ||
			    list->head.nr >= BRAID_INDEX_PLACES))
		make_due(ix, list);
}

bool braid_indexer_take(struct braid_indexer *ix, bool all, struct braid_indexer_due *due)
{
	struct list *list;
	u32 k;

	if (!ix || ix->failed)
		return false;
	for (k = 0; k < NR_BUCKETS && all && !ix->due; k++)
		for (list = ix->buckets[k]; list; list = list->next)
			make_due(ix, list);
	list = ix->taken = ix->due;
	if (!list)
		return false;
	ix->due = list->due_next;
	*due = (struct braid_indexer_due){
		.stream = list->stream, .head = list->head, .places = list->places.data,
		.bytes = list->places.used, .ids = &list->ids, .types = list->types.data,
		.types_bytes = list->types.used,
	};
	return true;
}

void braid_indexer_wrote(struct braid_indexer *ix, u64 offset)
{
	struct list *list = ix->taken;
	struct braid_index_block block = {
		.offset = offset, .ns = list->head.ns, .stream = list->stream,
		.buffer = list->head.buffer, .cpu = list->head.cpu, .nr = list->head.nr,
		.flags = list->flags,
	};

	ix->failed = braid_array_push(ix->blocks, ix->nr, ix->capacity, block);
	list->due = false;
	list->head.nr = 0;
	list->flags = 0;
	list->places.used = list->types.used = list->ids.nr = 0;
	memset(&list->before, 0, sizeof(list->before));
	if (list->ended)
		free_list(ix, list);
}

const struct braid_index_block *braid_indexer_blocks(const struct braid_indexer *ix, u32 *bytes)
{
	if (!ix || ix->failed || ix->nr > BRAID_CHUNK_MAX_BYTES / sizeof(*ix->blocks))
		return NULL;
	*bytes = ix->nr * sizeof(*ix->blocks);
	return ix->blocks;
}

void braid_indexer_free(struct braid_indexer *ix)
{
	struct list *list, *next;
	u32 k;

	if (!ix)
		return;
	for (k = 0; k < NR_BUCKETS; k++)
		for (list = ix->buckets[k]; list; list = next) {
			next = list->next;
			free_rooms(list);
			free(list);
		}
	free(ix->blocks);
	free(ix);
}
