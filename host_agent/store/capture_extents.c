// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Extents as they differ from the one before: a byte that says what differs, then the differences,
 * seven bits to a byte. That takes a quarter of what the numbers themselves would.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/store/capture_extents.h"
#include "host_agent/util/varint.h"

#define FIRST_BYTES	256u	/* of a list's first block; each is twice as large as the last, up to */
#define MOST_BYTES	65536u
#define NUMBER_BYTES	10u	/* that 64 bits take at most */
#define PIECE_BYTES	(1 + 6 * NUMBER_BYTES)

#define HAS_POSITION	(1u << 0)
#define HAS_SEQ		(1u << 1)
#define HAS_FROM	(1u << 2)	/* else it is 0 */
#define HAS_TO		(1u << 3)
#define HAS_FILE	(1u << 4)
#define IS_FINAL	(1u << 5)

struct braid_extent_block {
	struct braid_extent_block *next;
	u32 used;
	u32 room;
	char data[];
};

static struct braid_extent_block *room_for(struct braid_extents *list)
{
	struct braid_extent_block *block = list->last;
	u32 room;

	if (block && block->room - block->used >= PIECE_BYTES)
		return block;
	room = !block ? FIRST_BYTES : block->room < MOST_BYTES ? 2 * block->room : MOST_BYTES;
	block = malloc(sizeof(*block) + room);
	if (!block)
		return NULL;
	block->next = NULL;
	block->used = 0;
	block->room = room;
	if (list->last)
		list->last->next = block;
	else
		list->first = block;
	list->last = block;
	return block;
}

int braid_extents_add(struct braid_extents *list, const struct braid_extent *extent)
{
	const struct braid_extent *before = &list->latest;
	struct braid_extent_block *block = room_for(list);
	char *head, *at;

	if (!block)
		return -ENOMEM;
	head = block->data + block->used;
	*head = (extent->position != before->position ? HAS_POSITION : 0) |
		(extent->first_seq != before->first_seq ? HAS_SEQ : 0) |
		(extent->from_bytes ? HAS_FROM : 0) |
		(extent->to_bytes != before->to_bytes ? HAS_TO : 0) |
		(extent->file != before->file ? HAS_FILE : 0) | (extent->final ? IS_FINAL : 0);
	at = braid_varint_put(head + 1,
			      braid_varint_fold((extent->offset >> 3) - (before->offset >> 3)));
	if (*head & HAS_POSITION)
		at = braid_varint_put(at, braid_varint_fold(extent->position - before->position));
	if (*head & HAS_SEQ)
		at = braid_varint_put(at, braid_varint_fold(extent->first_seq - before->first_seq));
	if (*head & HAS_FROM)
		at = braid_varint_put(at, extent->from_bytes);
	if (*head & HAS_TO)
		at = braid_varint_put(at, extent->to_bytes);
	if (*head & HAS_FILE)
		at = braid_varint_put(at, extent->file);
	block->used = at - block->data;
	list->latest = *extent;
	list->nr++;
	return 0;
}

bool braid_extents_next(const struct braid_extents *list, struct braid_extent_cursor *c)
{
	struct braid_extent *extent = &c->extent;
	const char *at;
	u64 n = 0;
	u8 head;

	if (c->nr == list->nr)
		return false;
	if (!c->nr || c->at == c->block->used) {
		c->block = c->nr++ ? c->block->next : list->first;
		c->at = 0;
	} else {
		c->nr++;
	}
	at = c->block->data + c->at;
	head = *at;
	at = braid_varint_take(at + 1, &n);
	extent->offset += braid_varint_unfold(n) << 3;
	if (head & HAS_POSITION) {
		at = braid_varint_take(at, &n);
		extent->position += braid_varint_unfold(n);
	}
	if (head & HAS_SEQ) {
		at = braid_varint_take(at, &n);
		extent->first_seq += braid_varint_unfold(n);
	}
	n = 0;
	if (head & HAS_FROM)
		at = braid_varint_take(at, &n);
	extent->from_bytes = n;
	if (head & HAS_TO) {
		at = braid_varint_take(at, &n);
		extent->to_bytes = n;
	}
	if (head & HAS_FILE) {
		at = braid_varint_take(at, &n);
		extent->file = n;
	}
	extent->final = head & IS_FINAL;
	c->at = at - c->block->data;
	return true;
}

void braid_extents_forget(struct braid_extents *list, const struct braid_extent_cursor *c)
{
	struct braid_extent_block *next;

	while (c->nr && list->first != c->block) {
		next = list->first->next;
		free(list->first);
		list->first = next;
	}
}

static bool in_order(const struct braid_extents *list,
		     int (*compare)(const void *a, const void *b, void *arg), void *arg)
{
	struct braid_extent_cursor c = { 0 };
	struct braid_extent before = { 0 };

	while (braid_extents_next(list, &c)) {
		if (c.nr > 1 && compare(&before, &c.extent, arg) > 0)
			return false;
		before = c.extent;
	}
	return true;
}

int braid_extents_sort(struct braid_extents *list,
		       int (*compare)(const void *a, const void *b, void *arg), void *arg)
{
	struct braid_extents sorted = { 0 };
	struct braid_extent_cursor c = { 0 };
	struct braid_extent *all;
	size_t k, nr = list->nr;
	int err = 0;

	if (in_order(list, compare, arg))
		return 0;
	all = reallocarray(NULL, nr, sizeof(*all));
	if (!all)
		return -ENOMEM;
	for (k = 0; k < nr && braid_extents_next(list, &c); k++)
		all[k] = c.extent;
	qsort_r(all, nr, sizeof(*all), compare, arg);
	for (k = 0; k < nr && !err; k++)
		err = braid_extents_add(&sorted, &all[k]);
	free(all);
	if (err) {
		braid_extents_free(&sorted);
		return err;
	}
	braid_extents_free(list);
	*list = sorted;
	return 0;
}

void braid_extents_free(struct braid_extents *list)
{
	struct braid_extent_block *block, *next;

	for (block = list->first; block; block = next) {
		next = block->next;
		free(block);
	}
	memset(list, 0, sizeof(*list));
}
