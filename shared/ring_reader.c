// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The reader: swaps sub-buffers with the writer, or peeks without changing anything. The writer may
 * be hostile: each shared word is loaded once, checked, and the copy used.
 */
#include "shared/ring.h"

#define PEEK_JUMPS	8	/* gaps that a peek skips: one is a lap, more are an active
				   writer */
#define PEEK_TRIES	8	/* retries for a commit word that the writer changes */
#define CHASE_TRIES	8	/* sub-buffers released in one call, however fast the writer laps */

/* The id that is in no slot, or -EBADMSG. */
static int braid_reader_find_spare(const struct braid_ring_map *map)
{
	u32 n = map->nr_slots, k, sum = n * (n + 1) / 2;

	for (k = 0; k < n; k++) {
		u32 id = braid_slot_id(braid_load_acquire(&map->slots[k]));

		if (id > n)
			return -EBADMSG;
		sum -= id;
	}
	return sum <= n ? (int)sum : -EBADMSG;
}

/* The last reader's block, if it belongs to this incarnation. */
static void braid_reader_load_block(const struct braid_ring_map *map, u64 incarnation,
				    struct braid_reader_block *block)
{
	u32 index = braid_load_acquire(&map->priv->reader_index) & 1;

	*block = map->priv->reader_block[index];
	if (block->incarnation != incarnation) {
		memset(block, 0, sizeof(*block));
		block->incarnation = incarnation;
		block->next_seq = braid_load(&map->priv->first_seq);
	}
}

/* Decodes a commit word of @position into *bytes; false when it is not a valid one. */
static bool braid_reader_check_commit(const struct braid_ring_map *map, u64 commit, u64 position,
				      u32 *bytes)
{
	*bytes = braid_commit_bytes(commit);
	return braid_commit_position(commit) == position &&
	       *bytes <= map->subbuf_bytes - BRAID_SUBBUF_HEADER_BYTES && !(*bytes & 3) &&
	       !(commit & 1ULL << 21);
}

bool braid_reader_own(const struct braid_ring_map *map, u64 me, u64 dead)
{
	u64 *owner = &map->priv->reader_owner;
	u64 was = braid_load_acquire(owner);		/* (O1) */

	if (was == me)
		return true;
	if (was != BRAID_READER_NONE && was != dead)
		return false;
	return braid_shared_cmpxchg(owner, was, me) == was;	/* (O1) */
}

void braid_reader_disown(const struct braid_ring_map *map, u64 me)
{
	braid_shared_cmpxchg(&map->priv->reader_owner, me, BRAID_READER_NONE);	/* (O1) */
}

static int braid_reader_set_fault(struct braid_reader *r, enum braid_reader_fault fault)
{
	r->fault = fault;
	return -EBADMSG;
}

int braid_reader_attach(struct braid_reader *r, const struct braid_ring_map *map,
			u64 incarnation)
{
	struct braid_reader_block block;
	int id = braid_reader_find_spare(map);

	if (id < 0)
		return id;
	braid_reader_load_block(map, incarnation, &block);
	memset(r, 0, sizeof(*r));
	r->map = *map;
	r->incarnation = incarnation;
	r->id = id;
	r->in_hand = true;
	r->position = braid_commit_position(braid_load_acquire(&map->states[id].commit));
	r->next_seq = block.next_seq;
	r->read = block.read;
	r->lost = block.lost;
	if (block.position == r->position && block.bytes <= map->subbuf_bytes)
		r->taken_bytes = block.bytes;
	return 0;
}

static void braid_reader_persist(struct braid_reader *r)
{
	struct braid_ring_private *priv = r->map.priv;
	u32 index = ~braid_load(&priv->reader_index) & 1;
	struct braid_reader_block *block = &priv->reader_block[index];
	u64 read = r->read - r->read_before, lost = r->lost - r->lost_before;
	struct braid_meta *meta = r->map.meta;
	u64 written = braid_load(&priv->written) - braid_load(&priv->first_seq) - r->read_before -
		      r->lost_before;

	braid_fence();	/* (O2) after the former change of the index */
	block->incarnation = r->incarnation;
	block->position = r->position;
	block->bytes = r->taken_bytes;
	block->next_seq = r->next_seq;
	block->read = r->read;
	block->lost = r->lost;
	braid_store_release(&priv->reader_index, index);	/* (O2) */

	meta->reader.id = r->id;
	meta->reader.read = r->taken_bytes;
	meta->read = read;
	meta->overrun = lost;
	meta->entries = (s64)(written - read - lost) > 0 ? written : read + lost;
}

/* Accounts for a sub-buffer's first sequence number. Returns the loss before it. */
static u64 braid_reader_open_page(struct braid_reader *r)
{
	s64 ahead;

	r->first_seq = braid_load(&r->map.states[r->id].first_seq);
	r->opened = true;
	ahead = (s64)(r->first_seq - r->next_seq);
	if (ahead <= 0)
		return 0;	/* 0, or a predecessor consumed the sub-buffer's beginning */
	r->next_seq = r->first_seq;
	r->lost += ahead;
	return ahead;
}

/* A final sub-buffer is consumed: count the events dropped after it, release it. */
static void braid_reader_close_page(struct braid_reader *r, u64 entries, u64 dropped)
{
	s64 ahead = (s64)(r->first_seq + entries + dropped - r->next_seq);

	if (ahead > 0) {
		r->next_seq += ahead;
		r->lost += ahead;
	}
	r->in_hand = false;
	r->opened = false;
	braid_reader_persist(r);
	r->position = (r->position + 1) & BRAID_POS_MASK;
	r->taken_bytes = 0;
}

/* Finds new bytes in the reader's sub-buffer: 1 span, 0 none, -EAGAIN released. */
static int braid_reader_check_in_hand(struct braid_reader *r, struct braid_span *span)
{
	struct braid_subbuf_state *state = &r->map.states[r->id];
	const struct braid_subbuf *subbuf = braid_ring_subbuf(&r->map, r->id);
	u64 commit = braid_load_acquire(&state->commit);	/* (C1) */
	bool final = commit & BRAID_COMMIT_FINAL;
	u64 lost = 0, entries = 0, dropped = 0;
	u32 bytes;

	if (!braid_reader_check_commit(&r->map, commit, r->position, &bytes) ||
	    bytes < r->taken_bytes)
		return braid_reader_set_fault(r, BRAID_READER_BAD_COMMIT);
	if (bytes == r->taken_bytes && !final)
		return 0;
	if (!r->opened)
		lost = braid_reader_open_page(r);
	if (final) {
		entries = braid_load(&state->entries);
		dropped = braid_load(&state->dropped);
		if (entries > bytes / 8)
			return braid_reader_set_fault(r, BRAID_READER_BAD_COUNT);
	}
	if (bytes == r->taken_bytes) {
		braid_reader_close_page(r, entries, dropped);
		return -EAGAIN;
	}
	*span = (struct braid_span){
		.position = r->position,
		.id = r->id,
		.from_bytes = r->taken_bytes,
		.to_bytes = bytes,
		.final = final,
		.time_stamp = braid_load(&subbuf->time_stamp),
		.first_seq = r->first_seq,
		.lost_before = lost,
		.entries = entries,
		.dropped = dropped,
		.data = subbuf->data,
	};
	return 1;
}

/* Whether an open sub-buffer is still empty. */
static bool braid_reader_is_empty(const struct braid_reader *r, u32 id)
{
	u64 commit = braid_load_acquire(&r->map.states[id].commit);	/* (C1) */

	return commit == r->position << BRAID_COMMIT_POS_SHIFT;
}

/*
 * Takes the sub-buffer at the wanted position: 1 taken, 0 not there yet. One without events stays
 * with the writer: a user that maps the ring sees the reader id change only when there are events.
 */
static int braid_reader_take_subbuf(struct braid_reader *r)
{
	u32 n = r->map.nr_slots, tries;

	/* After a lap the oldest slot is up to a full turn away. */
	for (tries = 0; tries < n + CHASE_TRIES; tries++) {
		u64 *slot = &r->map.slots[r->position & (n - 1)];
		u64 word = braid_load_acquire(slot);	/* (S3) */
		s64 ahead = braid_position_diff(braid_slot_position(word), r->position);
		u32 id = braid_slot_id(word);

		if (id > n || braid_slot_state(word) > BRAID_SLOT_OPEN ||
		    (braid_slot_position(word) - r->position) & (n - 1))
			return braid_reader_set_fault(r, BRAID_READER_BAD_SLOT);
		if (ahead < 0)
			return 0;
		if (ahead > 0) {	/* lapped: the oldest that may still exist */
			r->position = (braid_slot_position(word) - n + 1) & BRAID_POS_MASK;
			continue;
		}
		if (braid_slot_state(word) == BRAID_SLOT_CLAIMED ||
		    (braid_slot_state(word) == BRAID_SLOT_OPEN && braid_reader_is_empty(r, id)))
			return 0;
		if (braid_slot_state(word) == BRAID_SLOT_EMPTY)
			return braid_reader_set_fault(r, BRAID_READER_BAD_SLOT);
		/* (S2) our reads of the spare are over before the writer can claim it */
		if (braid_shared_cmpxchg(slot, word,
					 braid_slot_word(r->position, BRAID_SLOT_EMPTY, r->id)) !=
		    word)
			continue;
		r->id = id;
		r->in_hand = true;
		braid_store(&r->map.meta->reader.id, id);
		return 1;
	}
	return 0;
}

int braid_reader_next(struct braid_reader *r, struct braid_span *span)
{
	int ret, tries;

	if (r->fault)
		return -EBADMSG;
	for (tries = 0; tries < CHASE_TRIES; tries++) {
		if (!r->in_hand) {
			ret = braid_reader_take_subbuf(r);
			if (ret <= 0)
				return ret;
		}
		ret = braid_reader_check_in_hand(r, span);
		if (ret != -EAGAIN)
			return ret;
	}
	return 0;
}

u64 braid_reader_span_events(const struct braid_reader *r, const struct braid_span *span)
{
	u64 taken = r->next_seq - r->first_seq;

	return span->entries > taken ? span->entries - taken : 0;
}

void braid_reader_done(struct braid_reader *r, const struct braid_span *span, u64 events)
{
	if (span->lost_before)
		r->map.meta->reader.lost_events = span->lost_before;
	r->taken_bytes = span->to_bytes;
	r->next_seq += events;
	r->read += events;
	if (span->final)
		braid_reader_close_page(r, span->entries, span->dropped);
	else
		braid_reader_persist(r);
}

/* Peeking without changing anything ------------------------------------------------------------ */

int braid_peek_begin(struct braid_peek *p, const struct braid_ring_map *map, u64 incarnation)
{
	int id = braid_reader_find_spare(map);

	if (id < 0)
		return id;
	memset(p, 0, sizeof(*p));
	p->map = *map;
	p->hand_id = id;
	p->position = braid_commit_position(braid_load_acquire(&map->states[id].commit));
	p->left = map->nr_slots;
	p->jumps = PEEK_JUMPS;
	braid_reader_load_block(map, incarnation, &p->block);
	return 0;
}

int braid_peek_subbuf(const struct braid_peek *p, u32 id, u64 position, u32 from,
		      struct braid_span *span)
{
	const struct braid_subbuf *subbuf = braid_ring_subbuf(&p->map, id);
	struct braid_subbuf_state *state = &p->map.states[id];
	u64 commit = braid_load_acquire(&state->commit), dropped;
	int tries = PEEK_TRIES;
	u32 bytes;

	/* A consistent pair of bytes and drops: the writer adds to both. */
	for (;;) {
		u64 before = commit;

		dropped = braid_load_acquire(&state->dropped);
		commit = braid_load_acquire(&state->commit);
		if (commit == before || !--tries)
			break;
	}
	if (!braid_reader_check_commit(&p->map, commit, position, &bytes))
		return -EBADMSG;
	*span = (struct braid_span){
		.position = position,
		.id = id,
		.from_bytes = from < bytes ? from : bytes,
		.to_bytes = bytes,
		.final = commit & BRAID_COMMIT_FINAL,
		.time_stamp = braid_load(&subbuf->time_stamp),
		.first_seq = braid_load(&state->first_seq),
		.entries = braid_load(&state->entries),
		.dropped = dropped,
		.dropped_before = braid_load(&state->dropped_before),
		.data = subbuf->data,
	};
	return 1;
}

/* Distance from p->position to the nearest slot that is open, or -1. */
static s64 braid_peek_next_open(const struct braid_peek *p)
{
	s64 best = -1;
	u32 k;

	for (k = 0; k < p->map.nr_slots; k++) {
		u64 word = braid_load_acquire(&p->map.slots[k]);
		s64 ahead = braid_position_diff(braid_slot_position(word), p->position);

		if (braid_slot_state(word) == BRAID_SLOT_OPEN && ahead >= 0 &&
		    (best < 0 || ahead < best))
			best = ahead;
	}
	return best;
}

int braid_peek_next(struct braid_peek *p, struct braid_span *span)
{
	u64 word;
	s64 ahead;

	if (!p->hand_done) {
		u64 position = p->position;
		bool known = p->block.position == position && p->block.bytes <= p->map.subbuf_bytes;

		p->hand_done = true;
		p->word = 0;
		p->position = (position + 1) & BRAID_POS_MASK;
		return braid_peek_subbuf(p, p->hand_id, position, known ? p->block.bytes : 0, span);
	}
	while (p->left) {
		word = braid_load_acquire(&p->map.slots[p->position & (p->map.nr_slots - 1)]);
		if (braid_slot_position(word) != p->position ||
		    braid_slot_state(word) != BRAID_SLOT_OPEN) {
			ahead = p->jumps ? braid_peek_next_open(p) : 0;
			if (ahead <= 0)
				return 0;
			p->jumps--;
			p->position = (p->position + ahead) & BRAID_POS_MASK;
			continue;
		}
		if (braid_slot_id(word) > p->map.nr_slots)
			return -EBADMSG;
		p->left--;
		p->word = word;
		p->position = (p->position + 1) & BRAID_POS_MASK;
		return braid_peek_subbuf(p, braid_slot_id(word), braid_slot_position(word), 0,
					 span);
	}
	return 0;
}

bool braid_peek_valid(const struct braid_peek *p, const struct braid_span *span)
{
	braid_fence();
	if (braid_commit_position(braid_load(&p->map.states[span->id].commit)) != span->position)
		return false;
	return !p->word ||
	       braid_load(&p->map.slots[span->position & (p->map.nr_slots - 1)]) == p->word;
}
