// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Copies a ring while others write and read it. docs/ring.md, "Copying", says why each event in the
 * copy is what the writer wrote. All of @from may be forged: each word is loaded once and checked.
 */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "host_agent/transport/region_copy.h"

#define RING_TRIES	16	/* a writer that laps the whole ring can spoil one */
#define HAND_TRIES	256	/* a reader's step can spoil one */
#define BAD_TRIES	16	/* of these: invalid ids, although no reader moved */

/* In the copy, the reader holds sub-buffer 0, and slot k holds k + 1. */
struct ring_copy {
	const struct braid_ring_map *to;
	const struct braid_ring_map *from;
	u64 hand;		/* position of the reader's sub-buffer */
	u64 newest;		/* position of the newest open sub-buffer with events */
	u32 nr_open;		/* number copied, consecutive, that ends there */
	bool any;		/* newest is valid: there is an open one, or there was */
};

/* What a reader changes whenever it is done with a span. */
struct reader_words {
	u64 index;
	struct braid_reader_block blocks[2];
};

struct reader {
	struct reader_words words;
	u64 position;		/* of its sub-buffer */
	u64 id;			/* likewise: the one in no slot */
};

static void load_words(void *to, const void *from, size_t bytes)
{
	const u64 *shared = from;
	u64 *copy = to;
	size_t k;

	for (k = 0; k < bytes / sizeof(u64); k++)
		copy[k] = braid_load(&shared[k]);
}

static bool same_words(const void *copy, const void *from, size_t bytes)
{
	const u64 *then = copy, *shared = from;
	size_t k;

	for (k = 0; k < bytes / sizeof(u64); k++)
		if (braid_load(&shared[k]) != then[k])
			return false;
	return true;
}

/* A ring that stands still ---------------------------------------------------------------- */

/*
 * Copies all, damage too. Return: whether no word of the private part changed until all was copied:
 * then the copy is a state that the ring had.
 */
static bool copy_still(const struct braid_ring_map *to, const struct braid_ring_map *from)
{
	size_t bytes = braid_ring_private_used(from->nr_slots), most = from->subbuf_bytes, used;
	u32 id;

	load_words(to->priv, from->priv, bytes);
	braid_fence();
	for (id = 0; id <= from->nr_slots; id++) {
		used = braid_commit_bytes(to->states[id].commit);
		if (!used)
			continue;	/* reading an unused page would allocate it */
		used += BRAID_SUBBUF_HEADER_BYTES;
		memcpy(braid_ring_subbuf(to, id), braid_ring_subbuf(from, id),
		       used < most ? used : most);
	}
	braid_fence();							/* (C2) */
	if (!same_words(to->priv, from->priv, bytes))
		return false;
	to->priv->reader_owner = BRAID_READER_NONE;
	return true;
}

/* Sub-buffers ----------------------------------------------------------------------------- */

/* Whether a commit word is that of a span still, or a later one of the same sub-buffer. */
static bool is_later(u64 word, const struct braid_span *span)
{
	return braid_commit_position(word) == span->position &&
	       braid_commit_bytes(word) >= span->to_bytes &&
	       (!span->final || (word & BRAID_COMMIT_FINAL &&
				 braid_commit_bytes(word) == span->to_bytes));
}

/* Copies what is committed of a sub-buffer, if it was the one at @position until all is copied. */
static bool copy_subbuf(const struct ring_copy *c, u32 id, u32 to_id, u64 position)
{
	struct braid_subbuf_state *state = &c->to->states[to_id];
	struct braid_subbuf *subbuf = braid_ring_subbuf(c->to, to_id);
	const struct braid_peek peek = { .map = *c->from };
	struct braid_span span;

	if (braid_peek_subbuf(&peek, id, position, 0, &span) < 0)	/* (C1) */
		return false;
	memcpy(subbuf->data, span.data, span.to_bytes);
	braid_fence();							/* (C2) */
	if (!is_later(braid_load(&c->from->states[id].commit), &span))
		return false;
	subbuf->time_stamp = span.time_stamp;
	subbuf->commit = span.to_bytes;
	state->commit = position << BRAID_COMMIT_POS_SHIFT |
			(span.final ? BRAID_COMMIT_FINAL : 0) | span.to_bytes;
	state->first_seq = span.first_seq;
	state->dropped = span.dropped;
	state->entries = span.final ? span.entries : 0;
	state->dropped_before = span.dropped_before;
	return true;
}

/* Finds the newest open sub-buffer's position: before a slot that is claimed there was one. */
static void find_newest(struct ring_copy *c)
{
	u32 n = c->from->nr_slots, k;

	c->any = false;
	for (k = 0; k < n; k++) {
		u64 word = braid_load_acquire(&c->from->slots[k]);	/* (S3) */
		u64 position = braid_slot_position(word);
		u32 state = braid_slot_state(word);

		if ((state != BRAID_SLOT_OPEN && state != BRAID_SLOT_CLAIMED) ||
		    (position & (n - 1)) != k)
			continue;
		position = (position - (state == BRAID_SLOT_CLAIMED)) & BRAID_POS_MASK;
		if (c->any && braid_position_diff(position, c->newest) < 0)
			continue;
		c->newest = position;
		c->any = true;
	}
}

/* Copies the sub-buffer at @position if it is open, and was until all is copied. */
static bool copy_slot(const struct ring_copy *c, u64 position)
{
	u32 k = position & (c->from->nr_slots - 1);
	u64 word = braid_load_acquire(&c->from->slots[k]);		/* (S3) */
	u32 id = braid_slot_id(word);

	return braid_slot_position(word) == position && braid_slot_state(word) == BRAID_SLOT_OPEN &&
	       id <= c->from->nr_slots && copy_subbuf(c, id, k + 1, position) &&
	       braid_slot_position(braid_load(&c->from->slots[k])) == position;
}

/*
 * Copies the open sub-buffers, from the newest one to the oldest one that still exists: writer and
 * reader use up the oldest ones first, so those before one that is gone are gone, too.
 */
static void copy_open(struct ring_copy *c)
{
	u32 n = c->from->nr_slots, k;

	c->nr_open = 0;
	find_newest(c);
	for (k = 0; k < n && c->any; k++) {
		u64 position = (c->newest - c->nr_open) & BRAID_POS_MASK;

		if (!copy_slot(c, position))
			return;
		/* Nothing is committed in it, so its numbers may be those of its former position. */
		if (!c->nr_open && c->to->states[(position & (n - 1)) + 1].commit ==
		    position << BRAID_COMMIT_POS_SHIFT)
			c->newest = (position - 1) & BRAID_POS_MASK;
		else
			c->nr_open++;
	}
}

/* The reader ------------------------------------------------------------------------------ */

static void load_words_of_reader(const struct ring_copy *c, struct reader_words *words)
{
	const struct braid_ring_private *priv = c->from->priv;

	braid_fence();
	words->index = braid_load_acquire(&priv->reader_index) & 1;	/* (O2) */
	load_words(words->blocks, priv->reader_block, sizeof(words->blocks));
	braid_fence();
}

/*
 * Finds the reader's state. Between two blocks a reader swaps at most once, so that the ids in the
 * slots, read between two equal blocks, are those before or after a swap.
 * Return: 0; -EAGAIN: it changed; -EBADMSG: it did not, and the ids are invalid.
 */
static int load_reader(const struct ring_copy *c, u64 incarnation, struct reader *reader)
{
	const struct braid_ring_map *from = c->from;
	struct reader_words after;
	struct braid_peek peek;
	int err;

	memset(reader, 0, sizeof(*reader));
	load_words_of_reader(c, &reader->words);
	err = braid_peek_begin(&peek, from, incarnation);
	if (!err) {
		reader->id = peek.hand_id;
		reader->position = peek.position;
		/* If it was given back and opened again meanwhile, it is in its position's slot. */
		if (braid_slot_id(braid_load_acquire(&from->slots[peek.position &
								  (from->nr_slots - 1)])) ==
		    reader->id)
			err = -EAGAIN;
	}
	load_words_of_reader(c, &after);
	return memcmp(&reader->words, &after, sizeof(after)) ? -EAGAIN : err;
}

/*
 * Copies the reader's sub-buffer, and its block. A guest that empties the ring in place writes zeros
 * first, then a ring at later positions: if reader and header are unchanged afterwards, it did not.
 */
static int copy_hand(struct ring_copy *c, u64 incarnation)
{
	const size_t header = offsetof(struct braid_ring_private, written);
	struct braid_ring_private *priv = c->to->priv;
	struct reader before, after;
	int tries, bad = 0, err;

	for (tries = 0; tries < HAND_TRIES && bad < BAD_TRIES; tries++) {
		err = load_reader(c, incarnation, &before);
		bad += err == -EBADMSG;
		if (err || !copy_subbuf(c, before.id, 0, before.position))
			continue;
		if (priv->incarnation != incarnation || !same_words(priv, c->from->priv, header))
			return -EAGAIN;
		if (load_reader(c, incarnation, &after) || memcmp(&before, &after, sizeof(before)))
			continue;
		c->hand = before.position;
		priv->reader_index = before.words.index;
		memcpy(priv->reader_block, before.words.blocks, sizeof(before.words.blocks));
		return 0;
	}
	return bad == BAD_TRIES ? -EBADMSG : -EAGAIN;
}

/* The copy -------------------------------------------------------------------------------- */

/* How far the newest open sub-buffer is ahead of the reader's; not more than 0: all are read. */
static s64 unread(const struct ring_copy *c)
{
	return c->any ? braid_position_diff(c->newest, c->hand) : 0;
}

/*
 * Whether all that was committed is found in the copy, or lost before something that is: the writer
 * did not lap the whole ring, and all that it has counted in former sub-buffers is accounted for.
 */
static bool ring_copy_is_complete(const struct ring_copy *c, u64 written)
{
	u32 id = unread(c) > 0 ? (c->newest & (c->to->nr_slots - 1)) + 1 : 0;
	const struct braid_subbuf_state *state = &c->to->states[id];
	u64 end = state->first_seq;

	if (unread(c) > 0 && !c->nr_open)
		return false;
	if (state->commit & BRAID_COMMIT_FINAL)
		end += state->entries + state->dropped;
	return (s64)(end - written) >= 0;
}

/*
 * The slots of a guest that stopped: those of sub-buffers that were overwritten are claimed for the
 * next turn.
 */
static void put_slots(const struct ring_copy *c)
{
	u64 top = c->nr_open && unread(c) > 0 ? c->newest : c->hand;
	u32 n = c->to->nr_slots, k;

	for (k = 0; k < n; k++) {
		u64 position = (top - k) & BRAID_POS_MASK;
		u32 slot = position & (n - 1), state = BRAID_SLOT_EMPTY;

		if (braid_position_diff(position, c->hand) > 0) {
			state = k < c->nr_open ? BRAID_SLOT_OPEN : BRAID_SLOT_CLAIMED;
			position += state == BRAID_SLOT_OPEN ? 0 : n;
		}
		c->to->slots[slot] = braid_slot_word(position, state, slot + 1);
	}
}

/* Copies a ring that changes. Return: as braid_ring_copy(). */
static int copy_moving(struct ring_copy *c, u64 incarnation)
{
	struct braid_ring_private *priv = c->to->priv;
	u64 written = braid_load_acquire(&c->from->priv->written);
	int err;

	load_words(priv, c->from->priv, offsetof(struct braid_ring_private, reader_index));
	copy_open(c);
	err = copy_hand(c, incarnation);
	if (err)
		return err;
	if (!ring_copy_is_complete(c, written))
		return -EAGAIN;
	put_slots(c);
	priv->written = written;
	return 0;
}

int braid_ring_copy(const struct braid_ring_map *to, const struct braid_ring_map *from,
		    u64 incarnation)
{
	struct ring_copy c = { .to = to, .from = from };
	struct braid_peek peek;
	int tries, err = -EAGAIN;

	if (copy_still(to, from))
		return to->priv->incarnation == incarnation ?
		       braid_peek_begin(&peek, to, incarnation) : -EBADMSG;
	memset(to->priv, 0, braid_ring_private_used(to->nr_slots));
	for (tries = 0; tries < RING_TRIES && err == -EAGAIN; tries++)
		err = copy_moving(&c, incarnation);
	return err;
}
