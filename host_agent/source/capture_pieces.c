// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Pieces as they differ from the one before: a byte that says what differs, then the differences,
 * seven bits to a byte. That takes a quarter of what the numbers themselves would.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/source/capture_pieces.h"

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

struct braid_piece_block {
	struct braid_piece_block *next;
	u32 used;
	u32 room;
	u8 data[];
};

static u8 *put_number(u8 *at, u64 n)
{
	for (; n >= 0x80; n >>= 7)
		*at++ = n | 0x80;
	*at++ = n;
	return at;
}

static const u8 *take_number(const u8 *at, u64 *n)
{
	u32 shift = 0;

	for (*n = 0; *at & 0x80; shift += 7)
		*n |= (u64)(*at++ & 0x7f) << shift;
	*n |= (u64)*at++ << shift;
	return at;
}

/* A difference either way: small ones give small numbers. */
static u64 fold(u64 difference)
{
	return difference << 1 ^ -(difference >> 63);
}

static u64 unfold(u64 n)
{
	return n >> 1 ^ -(n & 1);
}

static struct braid_piece_block *room_for(struct braid_pieces *list)
{
	struct braid_piece_block *block = list->last;
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

int braid_pieces_add(struct braid_pieces *list, const struct braid_piece *piece)
{
	const struct braid_piece *before = &list->latest;
	struct braid_piece_block *block = room_for(list);
	u8 *head, *at;

	if (!block)
		return -ENOMEM;
	head = block->data + block->used;
	*head = (piece->position != before->position ? HAS_POSITION : 0) |
		(piece->first_seq != before->first_seq ? HAS_SEQ : 0) |
		(piece->from_bytes ? HAS_FROM : 0) |
		(piece->to_bytes != before->to_bytes ? HAS_TO : 0) |
		(piece->file != before->file ? HAS_FILE : 0) | (piece->final ? IS_FINAL : 0);
	at = put_number(head + 1, fold((piece->offset >> 3) - (before->offset >> 3)));
	if (*head & HAS_POSITION)
		at = put_number(at, fold(piece->position - before->position));
	if (*head & HAS_SEQ)
		at = put_number(at, fold(piece->first_seq - before->first_seq));
	if (*head & HAS_FROM)
		at = put_number(at, piece->from_bytes);
	if (*head & HAS_TO)
		at = put_number(at, piece->to_bytes);
	if (*head & HAS_FILE)
		at = put_number(at, piece->file);
	block->used = at - block->data;
	list->latest = *piece;
	list->nr++;
	return 0;
}

bool braid_pieces_next(const struct braid_pieces *list, struct braid_piece_cursor *c)
{
	struct braid_piece *piece = &c->piece;
	const u8 *at;
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
	at = take_number(at + 1, &n);
	piece->offset += unfold(n) << 3;
	if (head & HAS_POSITION) {
		at = take_number(at, &n);
		piece->position += unfold(n);
	}
	if (head & HAS_SEQ) {
		at = take_number(at, &n);
		piece->first_seq += unfold(n);
	}
	n = 0;
	if (head & HAS_FROM)
		at = take_number(at, &n);
	piece->from_bytes = n;
	if (head & HAS_TO) {
		at = take_number(at, &n);
		piece->to_bytes = n;
	}
	if (head & HAS_FILE) {
		at = take_number(at, &n);
		piece->file = n;
	}
	piece->final = head & IS_FINAL;
	c->at = at - c->block->data;
	return true;
}

void braid_pieces_forget(struct braid_pieces *list, const struct braid_piece_cursor *c)
{
	struct braid_piece_block *next;

	while (c->nr && list->first != c->block) {
		next = list->first->next;
		free(list->first);
		list->first = next;
	}
}

static bool in_order(const struct braid_pieces *list,
		     int (*compare)(const void *a, const void *b, void *arg), void *arg)
{
	struct braid_piece_cursor c = { 0 };
	struct braid_piece before = { 0 };

	while (braid_pieces_next(list, &c)) {
		if (c.nr > 1 && compare(&before, &c.piece, arg) > 0)
			return false;
		before = c.piece;
	}
	return true;
}

int braid_pieces_sort(struct braid_pieces *list,
		      int (*compare)(const void *a, const void *b, void *arg), void *arg)
{
	struct braid_pieces sorted = { 0 };
	struct braid_piece_cursor c = { 0 };
	struct braid_piece *all;
	size_t k, nr = list->nr;
	int err = 0;

	if (in_order(list, compare, arg))
		return 0;
	all = reallocarray(NULL, nr, sizeof(*all));
	if (!all)
		return -ENOMEM;
	for (k = 0; k < nr && braid_pieces_next(list, &c); k++)
		all[k] = c.piece;
	qsort_r(all, nr, sizeof(*all), compare, arg);
	for (k = 0; k < nr && !err; k++)
		err = braid_pieces_add(&sorted, &all[k]);
	free(all);
	if (err) {
		braid_pieces_free(&sorted);
		return err;
	}
	braid_pieces_free(list);
	*list = sorted;
	return 0;
}

void braid_pieces_free(struct braid_pieces *list)
{
	struct braid_piece_block *block, *next;

	for (block = list->first; block; block = next) {
		next = block->next;
		free(block);
	}
	memset(list, 0, sizeof(*list));
}
