// SPDX-License-Identifier: GPL-2.0 OR MIT
/* The writer's slow paths: open the next sub-buffer, publish, drop. */
#include "shared/ring.h"

#define CLAIM_TRIES	3	/* a correct reader can win against a claim once */

void braid_ring_map_init(struct braid_ring_map *map, void *base, u32 nr_slots,
			 u32 subbuf_bytes, u32 page_bytes, u32 flags)
{
	u8 *meta = (u8 *)base + braid_ring_private_bytes(nr_slots, page_bytes);

	map->meta = (struct braid_meta *)meta;
	map->subbufs = meta + page_bytes;
	map->nr_slots = nr_slots;
	map->subbuf_bytes = subbuf_bytes;
	map->page_bytes = page_bytes;
	map->flags = flags;
	braid_ring_map_private(map, base);
}

static void braid_writer_bind_page(struct braid_writer *w, u64 position, u32 id)
{
	struct braid_writer_page *page = &w->pages[position & w->mask];

	page->origin = braid_ring_subbuf(&w->map, id)->data - w->bias_bytes;
	page->state = &w->map.states[id];
}

static struct braid_subbuf *braid_writer_subbuf(const struct braid_writer *w,
						const struct braid_writer_page *page)
{
	return (void *)(page->origin + w->bias_bytes - BRAID_SUBBUF_HEADER_BYTES);
}

static void braid_writer_init_shared(const struct braid_ring_map *map,
				     const struct braid_ring_identity *who, u64 first, u64 seq)
{
	struct braid_ring_private *priv = map->priv;
	u32 n = map->nr_slots, k;

	memset(map->meta, 0, map->page_bytes);
	/* Initializes all but the owner's word: a ring that is being emptied keeps its reader. */
	memset(priv, 0, (size_t)((u8 *)&priv->reader_owner - (u8 *)priv));
	memset(&priv->reader_owner + 1, 0,
	       (size_t)((u8 *)map->meta - (u8 *)(&priv->reader_owner + 1)));
	braid_store(&priv->reader_owner, who->owner);
	map->meta->meta_page_size = map->page_bytes;
	map->meta->meta_struct_len = sizeof(*map->meta);
	map->meta->subbuf_size = map->subbuf_bytes;
	map->meta->nr_subbufs = n + 1;
	priv->incarnation = who->incarnation;
	priv->vcpu = who->vcpu;
	priv->buffer = who->buffer;
	priv->nr_slots = n;
	priv->flags = map->flags;
	priv->first_position = first;
	priv->first_seq = who->first_seq;
	priv->written = seq;
	if (who->past)
		priv->reader_block[0] = who->past->block;
	priv->slots_offset = BRAID_RING_SLOTS_OFFSET;
	priv->states_offset = braid_ring_states_offset(n);

	for (k = 0; k <= n; k++) {
		/* Start as after one full lap: all consumed, the reader holds sub-buffer 0. */
		u64 position = k ? first + k - 1 - n : first - 1;

		if (k)
			map->slots[position & (n - 1)] =
				braid_slot_word(position, BRAID_SLOT_EMPTY, k);
		map->states[k].commit = (position & BRAID_POS_MASK) << BRAID_COMMIT_POS_SHIFT |
					BRAID_COMMIT_FINAL;
		map->states[k].first_seq = seq;
		map->states[k].dropped_before = who->past ? who->past->dropped : 0;
	}
}

void braid_writer_init(struct braid_writer *w, const struct braid_ring_map *map,
		       const struct braid_ring_identity *who)
{
	u64 first = (who->past ? who->past->next_position : who->first_position) & BRAID_POS_MASK;
	u64 seq = who->past ? who->past->next_seq : who->first_seq;
	u32 id, k;

	braid_writer_init_shared(map, who, first, seq);
	memset(w, 0, braid_writer_bytes(map->nr_slots));
	w->map = *map;
	w->mask = map->nr_slots - 1;
	w->limit_words = (map->subbuf_bytes - BRAID_SUBBUF_HEADER_BYTES) / 4;
	w->pages_mask = w->mask << BRAID_WRITER_PAGE_SHIFT;
	w->bias_bytes = (BRAID_PLACE_SLOW - 1 - w->limit_words) * 4;
	w->delta_mask = map->flags & BRAID_BUFFER_ABSOLUTE ? 0 : ~0u;
	w->gap = w->delta_mask ? 1ULL << 32 : 1ULL << BRAID_DELTA_BITS;
	w->position = first;
	w->seq_base = seq;
	w->first_seq = who->first_seq;
	w->external = who->external;
	w->wake = who->wake;
	w->woken = who->past ? who->past->woken : 0;
	w->void_line = who->past ? who->past->void_line : 0;
	w->dropped = who->past ? who->past->dropped : 0;
	w->hint = who->counter;
	w->tail = braid_tail_word(first, BRAID_PLACE_FIRST, who->counter);

	/* Bind every slot, so that a forged slot word still resolves to a valid page. */
	for (k = 0; k < map->nr_slots; k++)
		braid_writer_bind_page(w, first + k, k + 1);
	id = 1;				/* set by braid_writer_init_shared() */
	map->states[id].commit = first << BRAID_COMMIT_POS_SHIFT;
	braid_store_release(&map->slots[first & w->mask],
			    braid_slot_word(first, BRAID_SLOT_OPEN, id));
}

void braid_writer_past(const struct braid_writer *w, struct braid_ring_past *past)
{
	const struct braid_writer_page *page = &w->pages[w->position & w->mask];
	u32 index = braid_load_acquire(&w->map.priv->reader_index) & 1;

	past->next_seq = w->seq_base + page->entries + page->dropped;
	past->dropped = w->dropped + page->dropped;
	past->woken = w->woken;
	past->void_line = w->void_line;
	/* Not + 1: a reader's block may refer to a sub-buffer at this position. */
	past->next_position = (w->position + 2) & BRAID_POS_MASK;
	past->block = w->map.priv->reader_block[index];
}

u64 braid_writer_written(const struct braid_writer *w)
{
	const struct braid_writer_page *page = &w->pages[braid_load(&w->position) & w->mask];

	return braid_load(&w->seq_base) + braid_load(&page->entries) +
	       braid_load(&page->dropped) - w->first_seq;
}

/* The whole position that a tail's 16 bits stand for: less than nr_slots ahead. */
static u64 braid_writer_tail_position(const struct braid_writer *w, u64 tail)
{
	u64 position = braid_load(&w->position);

	return (position + (u16)((tail >> BRAID_TAIL_POS_SHIFT) - position)) & BRAID_POS_MASK;
}

static noinline bool braid_writer_fail(struct braid_writer *w, enum braid_ring_fault why)
{
	braid_store(&w->broken, why);
	braid_store(&w->map.priv->broken, why);
	return false;
}

/*
 * Ensures that the slot of @position is claimed or open, by this or a nested context. The peer can
 * write the slot's word: only exact values pass, read once per turn.
 * Return: false when the ring is full, or the ring is broken.
 */
static bool braid_writer_claim(struct braid_writer *w, u64 position, u64 *claimed)
{
	u64 *slot = &w->map.slots[position & w->mask];
	u64 before = (position - w->map.nr_slots) & BRAID_POS_MASK;
	u64 word = braid_load_acquire(slot), seen;	/* (S1) */
	int tries;

	for (tries = 0; tries < CLAIM_TRIES; tries++) {
		u32 state = braid_slot_state(word);

		if (braid_slot_id(word) > w->map.nr_slots)
			return braid_writer_fail(w, BRAID_RING_BAD_SLOT);
		if (braid_slot_position(word) == position) {
			*claimed = word;
			return true;
		}
		if (braid_slot_position(word) != before || state == BRAID_SLOT_CLAIMED ||
		    state > BRAID_SLOT_OPEN)
			return braid_writer_fail(w, BRAID_RING_BAD_SLOT);
		if (state == BRAID_SLOT_OPEN && !(w->map.flags & BRAID_BUFFER_OVERWRITE))
			return false;
		*claimed = braid_slot_word(position, BRAID_SLOT_CLAIMED, braid_slot_id(word));
		seen = braid_shared_cmpxchg(slot, word, *claimed);	/* (S2) */
		if (seen == word)
			return true;
		word = seen;
	}
	return braid_writer_fail(w, BRAID_RING_RESTLESS);
}

/*
 * The sub-buffer at @position was opened, or the ring is full: wakes the host if it asked for it
 * and its threshold of unread sub-buffers is reached. Once per request, also with nested contexts.
 */
static void braid_writer_wake_host(struct braid_writer *w, u64 position)
{
	u64 woken = braid_load(&w->woken), mark;
	u32 permille, lag, seq;

	if (!w->wake)
		return;
	/*
	 * (W1) After the slot's compare-and-swap: the host sees the open slot, or we see its
	 * request.
	 */
	seq = braid_load_acquire(&w->wake->mailbox->wake_seq);
	if (seq == woken || !braid_load(&w->wake->mailbox->wake_doorbell))
		return;
	permille = braid_load(&w->wake->mailbox->wake_permille);
	lag = (u64)w->map.nr_slots * (permille < 1000 ? permille : 1000) / 1000;
	if (lag > w->mask)
		lag = w->mask;
	if (!lag)
		lag = 1;
	mark = (position - lag) & BRAID_POS_MASK;
	/* One load, compared for equality only: the peer may have written anything. */
	if (braid_load(&w->map.slots[mark & w->mask]) >> BRAID_SLOT_STATE_SHIFT !=
	    braid_slot_word(mark, BRAID_SLOT_OPEN, 0) >> BRAID_SLOT_STATE_SHIFT)
		return;
	if (braid_local_cas(&w->woken, woken, seq))
		w->wake->call(w->wake);
}

/**
 * braid_writer_advance - the tail's sub-buffer is full: go to the next
 * @w: the writer, nest raised
 * @tail: the tail word that did not fit
 *
 * Every step can be interrupted by a nested advance that does the same; each is idempotent or a
 * compare-and-swap. Nothing is published until the outermost context leaves.
 *
 * Return: true to retry with a new tail, false to drop.
 */
noinline bool braid_writer_advance(struct braid_writer *w, u64 tail)
{
	u64 position = braid_writer_tail_position(w, tail);
	u64 next = (position + 1) & BRAID_POS_MASK;
	u32 offset = braid_tail_offset(w, tail);
	u64 word = 0;
	u32 id;

	if (offset <= w->limit_words) {
		u64 closed = braid_tail_word(tail >> BRAID_TAIL_POS_SHIFT, BRAID_PLACE_CLOSED, tail);

		if (!braid_local_cas(&w->tail, tail, closed))
			return true;
		w->pages[position & w->mask].end_bytes = offset * 4;
		tail = closed;
	}
	/* Commit overrun: the lap would reach a sub-buffer not yet published. */
	if (braid_load(&w->broken) ||
	    braid_position_diff(next, braid_load(&w->position)) >= (s64)w->map.nr_slots)
		return false;
	if (!braid_writer_claim(w, next, &word)) {
		braid_writer_wake_host(w, next);
		return false;
	}
	if (braid_slot_state(word) == BRAID_SLOT_CLAIMED) {
		id = braid_index_nospec(braid_slot_id(word), w->map.nr_slots + 1);
		braid_writer_bind_page(w, next, id);
		braid_store(&w->map.states[id].commit, next << BRAID_COMMIT_POS_SHIFT);
		/* (S3) opens; fails harmlessly if a nested context did */
		braid_shared_cmpxchg(&w->map.slots[next & w->mask], word,
				     braid_slot_word(next, BRAID_SLOT_OPEN, id));
	}
	braid_local_cas(&w->tail, tail, braid_tail_word(next, BRAID_PLACE_FIRST, tail));
	braid_writer_wake_host(w, next);
	return true;
}

/**
 * braid_writer_drop - count an event that did not fit
 * @w: the writer, nest incremented; decremented here
 * @tail: where the loss is accounted
 */
noinline void braid_writer_drop(struct braid_writer *w, u64 tail)
{
	u64 *dropped = &braid_writer_page_of(w, tail)->dropped, seen;

	do
		seen = braid_load(dropped);
	while (!braid_local_cas(dropped, seen, seen + 1));
	braid_writer_publish(w);
}

/*
 * The sub-buffer after a full one begins: its numbers are valid before the full one is final, so
 * that a reader that moves on finds them even while nothing else of it is published.
 */
static void braid_writer_begin_next(struct braid_writer *w, u64 position, u64 first_seq,
				    u64 dropped_before)
{
	struct braid_subbuf_state *state = w->pages[position & w->mask].state;

	braid_store(&state->first_seq, first_seq);
	braid_store(&state->dropped_before, dropped_before);
	braid_store(&state->dropped, 0);
}

/* Publishes all up to @tail, sub-buffer by sub-buffer. */
static void braid_writer_publish_to(struct braid_writer *w, u64 tail)
{
	u64 position = w->position;
	u16 last = tail >> BRAID_TAIL_POS_SHIFT;
	u32 offset = braid_tail_offset(w, tail);

	for (;;) {
		struct braid_writer_page *page = &w->pages[position & w->mask];
		struct braid_subbuf_state *state = page->state;
		bool final = (u16)position != last;
		u32 bytes = final || offset > w->limit_words ? page->end_bytes : offset * 4;
		u64 commit = position << BRAID_COMMIT_POS_SHIFT | bytes;

		braid_store(&state->dropped, page->dropped);
		if (final) {
			braid_writer_begin_next(w, position + 1,
						w->seq_base + page->entries + page->dropped,
						w->dropped + page->dropped);
			braid_store(&state->entries, (u64)page->entries);
			braid_store(&braid_writer_subbuf(w, page)->commit, (u64)bytes);
			commit |= BRAID_COMMIT_FINAL;
		}
		braid_store_release(&state->commit, commit);	/* (C1) */
		braid_barrier();
		braid_store(&w->position, position);	/* the overrun guard follows */
		braid_barrier();
		if (!final)
			return;
		w->seq_base += page->entries + page->dropped;
		w->dropped += page->dropped;
		braid_store(&w->map.priv->written, w->seq_base);
		page->entries = 0;
		page->dropped = 0;
		braid_barrier();
		position = (position + 1) & BRAID_POS_MASK;
	}
}

/**
 * braid_writer_publish - leave a reservation's context
 * @w: the writer, nest incremented; decremented here
 *
 * A nested context sets BRAID_NEST_PENDING; the outermost publishes everything and repeats until it
 * stays clear. Holds on return of the outermost: nest is 0.
 */
noinline void braid_writer_publish(struct braid_writer *w)
{
	if ((braid_load(&w->nest) & ~BRAID_NEST_PENDING) != 1) {
		braid_local_or(&w->nest, BRAID_NEST_PENDING);
		braid_local_dec(&w->nest);
		return;
	}
	for (;;) {
		braid_local_and(&w->nest, ~BRAID_NEST_PENDING);
		braid_writer_publish_to(w, braid_load(&w->tail));
		if (braid_local_dec(&w->nest))
			return;
		braid_local_inc(&w->nest);
	}
}

/* Sequence number of the latch's line; 0: none. */
static u32 braid_writer_line_of(const struct braid_writer *w)
{
	return w->external ? braid_load(&w->external->seq) >> 1 : 0;
}

/* External time by the last line, unless the counter jumped after the line was set. */
static u64 braid_writer_external_ns(const struct braid_writer *w, u64 now)
{
	return braid_writer_line_of(w) == braid_load(&w->void_line)
		       ? 0
		       : braid_clock_latch_ns(w->external, now);
}

/**
 * braid_writer_plan_stamp - encode a stamp that time_delta alone can't express
 * @w: the writer
 * @tail: the tail word; its low half holds the last event's stamp
 * @hint: a counter not newer than the last event's
 * @now: the counter
 *
 * Return: the counter to use, the delta, and the bytes of TIME_EXTENT or TIME_STAMP.
 */
noinline struct braid_stamp_plan braid_writer_plan_stamp(const struct braid_writer *w, u64 tail,
							 u64 hint, u64 now)
{
	struct braid_stamp_plan plan = { .now = now };
	u64 since = now - hint, last = hint + (u32)((u32)tail - (u32)hint);
	u32 delta = (u32)now - (u32)tail;

	if ((s64)since < 0 || (since < 1ULL << 32 && delta > since)) {
		plan.jumped = last - now >= BRAID_JUMP_STEPS;
		if (!plan.jumped)
			plan.now = last;	/* went back by less than a jump */
		return plan;
	}
	if (since >= 1ULL << 32 && (braid_load(&w->nest) & ~BRAID_NEST_PENDING) > 1) {
		/*
		 * The interrupted context may have moved the tail but not the hint: the last
		 * counter is unknown.
		 */
		plan.jumped = true;
		return plan;
	}
	plan.delta = delta;
	plan.extra_bytes = BRAID_EXTENT_BYTES;
	if (w->delta_mask && since >= 1ULL << 32) {
		plan.extra_bytes = BRAID_STAMP_BYTES;	/* the delta's high part is not known */
		plan.external_ns = braid_writer_external_ns(w, now);
	}
	return plan;
}

/*
 * A sub-buffer's first event. The sub-buffer's own stamp is its counter; a TIME_STAMP before the
 * event, if both fit, dates the page independently. After a backward jump there is a TIME_STAMP
 * too, without an external time.
 */
static void braid_writer_plan_first(const struct braid_writer *w, u32 event_bytes,
				    struct braid_stamp_plan *plan)
{
	plan->delta = 0;
	plan->extra_bytes = 0;
	if (event_bytes + BRAID_STAMP_BYTES > w->limit_words * 4)
		return;
	plan->external_ns = plan->jumped ? 0 : braid_writer_external_ns(w, plan->now);
	if (plan->external_ns || plan->jumped)
		plan->extra_bytes = BRAID_STAMP_BYTES;
}

/**
 * braid_writer_put_stamp - write what braid_writer_plan_stamp() planned
 * @w: the writer
 * @at: where the reservation begins
 * @plan: the plan; its delta is used up
 *
 * Return: where the event itself begins.
 */
noinline u32 *braid_writer_put_stamp(const struct braid_writer *w, u32 *at,
				     struct braid_stamp_plan plan)
{
	if (plan.extra_bytes == BRAID_STAMP_BYTES)
		braid_page_put_stamp(at, plan.now, plan.external_ns);
	else
		braid_page_put_extent(at, w->delta_mask ? plan.delta : plan.now);
	return at + plan.extra_bytes / 4;
}

/* Reads a reservation's inputs in the required order. */
static void braid_writer_load_inputs(const struct braid_writer *w, u64 (*counter)(void), u64 *tail,
				     u64 *hint, u64 *now)
{
	*tail = braid_load(&w->tail);
	*hint = braid_load(&w->hint);
	braid_barrier();
	*now = counter();
}

/**
 * braid_writer_reserve - the slow path of braid_ring_reserve()
 * @w: the writer, nest incremented
 * @payload_bytes: as there
 * @counter: as there
 * @tail: what braid_ring_try_reserve() read first; all three are read again as needed
 * @hint: what it read then
 * @now: and then
 *
 * Return: as there.
 */
noinline struct braid_reserved braid_writer_reserve(struct braid_writer *w, u32 payload_bytes,
						    u64 (*counter)(void), u64 tail, u64 hint,
						    u64 now)
{
	u32 event_bytes = braid_event_bytes(payload_bytes);
	struct braid_reserved reserved = { };

	for (;; braid_writer_load_inputs(w, counter, &tail, &hint, &now)) {
		struct braid_stamp_plan plan = { .now = now, .delta = (u32)now - (u32)tail };
		u32 offset = braid_tail_offset(w, tail), words;
		struct braid_writer_page *page;
		u64 next;
		u32 *at;

		if (now - hint >= w->gap || plan.delta > BRAID_DELTA_MASK)
			plan = braid_writer_plan_stamp(w, tail, hint, now);
		if (!offset)
			braid_writer_plan_first(w, event_bytes, &plan);
		words = (event_bytes + plan.extra_bytes) / 4;
		/*
		 * A jump cannot be encoded in a sub-buffer that has events: the next one's stamp is
		 * absolute.
		 */
		if (offset + words > w->limit_words || (plan.jumped && offset)) {
			if (event_bytes / 4 <= w->limit_words && braid_writer_advance(w, tail))
				continue;
			braid_writer_drop(w, tail);
			return reserved;
		}
		next = braid_tail_word(tail >> BRAID_TAIL_POS_SHIFT,
				       offset + words + w->bias_bytes / 4, plan.now);
		if (!braid_local_cas(&w->tail, tail, next))
			continue;
		/* Do not overwrite a nested context's hint: its counter may have jumped back. */
		braid_local_cas(&w->hint, hint, plan.now);
		if (unlikely(plan.jumped))
			braid_store(&w->void_line, braid_writer_line_of(w));

		page = braid_writer_page_of(w, tail);
		at = (u32 *)braid_writer_subbuf(w, page)->data + offset;
		if (!offset)
			braid_store(&braid_writer_subbuf(w, page)->time_stamp, plan.now);
		if (plan.extra_bytes) {
			at = braid_writer_put_stamp(w, at, plan);
			plan.delta = 0;
		}
		if (!w->delta_mask)
			plan.delta = plan.now & BRAID_DELTA_MASK;
		braid_local_inc(&page->entries);
		if (payload_bytes & 3)		/* no stale byte in the padding */
			at[event_bytes / 4 - 1] = 0;
		reserved.token = next;
		reserved.payload = braid_page_put_event(at, event_bytes, plan.delta);
		return reserved;
	}
}
