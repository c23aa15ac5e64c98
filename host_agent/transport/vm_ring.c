// SPDX-License-Identifier: GPL-2.0-or-later
/* Appends to the copy of a ring what its guest has written: looks, copies, looks again. */
#include <stdlib.h>
#include <string.h>

#include "host_agent/transport/vm_batch.h"
#include "host_agent/transport/vm_ring.h"
#include "host_agent/util/error.h"

#define RESERVED_BIT	(1ULL << 21)	/* of a commit word: 0 */

int braid_vm_ring_begin(struct braid_vm_ring *r, const struct braid_ring_map *map, const u8 *base)
{
	r->map = *map;
	r->private_at = (const u8 *)map->priv - base;
	r->subbufs_at = map->subbufs - base;
	r->staged = calloc(map->nr_slots, sizeof(*r->staged));
	return r->staged ? 0 : braid_out_of_memory();
}

void braid_vm_ring_end(struct braid_vm_ring *r)
{
	free(r->staged);
	r->staged = NULL;
}

static u32 vm_ring_slot(const struct braid_vm_ring *r, u64 position)
{
	return position & (r->map.nr_slots - 1);
}

static u64 vm_ring_after(u64 position, s64 steps)
{
	return (position + steps) & BRAID_POS_MASK;
}

/* Whether a slot's word is of its slot, with a valid id. */
static bool vm_ring_slot_is_valid(const struct braid_vm_ring *r, u64 word, u32 slot)
{
	return vm_ring_slot(r, braid_slot_position(word)) == slot &&
	       braid_slot_id(word) <= r->map.nr_slots && braid_slot_state(word) <= BRAID_SLOT_OPEN;
}

/* Bytes of the sub-buffer that is begun. */
static u32 vm_ring_copied(const struct braid_vm_ring *r)
{
	return r->unseen ? 0 : braid_commit_bytes(r->commit);
}

/* Data events in the first bytes of one of the copy's sub-buffers. */
static u64 vm_ring_count(const struct braid_vm_ring *r, u32 id, u32 bytes)
{
	const struct braid_subbuf *subbuf = braid_ring_subbuf(&r->map, id);
	struct braid_event_view view;
	struct braid_cursor c;

	braid_cursor_init(&c, subbuf->data, bytes, subbuf->time_stamp, r->map.flags);
	while (braid_page_next(&c, &view) > 0)
		;
	return c.events;
}

/* Where it is ---------------------------------------------------------------------------------- */

/*
 * A position that is lost: its slot is claimed for the next turn of the ring, as by a writer that
 * has lapped the reader.
 */
static void vm_ring_skip(struct braid_vm_ring *r)
{
	u64 *slot = &r->map.slots[vm_ring_slot(r, r->next)];

	*slot = braid_slot_word(vm_ring_after(r->next, r->map.nr_slots), BRAID_SLOT_CLAIMED,
				braid_slot_id(*slot));
	r->next = vm_ring_after(r->next, 1);
}

/* The sub-buffer in hand was overwritten: what was copied of it is all that there is. */
static void vm_ring_cut_short(struct braid_vm_ring *r)
{
	struct braid_vm_staged *staged = &r->staged[vm_ring_slot(r, r->next)];
	struct braid_subbuf_state *state = &r->map.states[r->id];
	u64 *commit = staged->commit ? &staged->commit : &state->commit;

	r->begun = false;
	if (braid_commit_position(*commit) != r->next) {
		vm_ring_skip(r);	/* nothing was */
		return;
	}
	state->entries = vm_ring_count(r, r->id, vm_ring_copied(r));
	*commit |= BRAID_COMMIT_FINAL;
	r->next = vm_ring_after(r->next, 1);
}

static void vm_ring_skip_to(struct braid_vm_ring *r, u64 position)
{
	u32 n = r->map.nr_slots;

	if (r->begun)
		vm_ring_cut_short(r);
	if (braid_position_diff(position, r->next) > (s64)n)
		r->next = vm_ring_after(position, -(s64)n);
	while (braid_position_diff(position, r->next) > 0)
		vm_ring_skip(r);
	r->oldest_staged = r->next;
}

/* Whether the former reader's counts are of this ring. */
static bool vm_ring_has_past(const struct braid_vm_ring *r, const struct braid_ring_private *head)
{
	return r->past.incarnation == head->incarnation &&
	       r->past.read + r->past.lost == r->past.next_seq - head->first_seq;
}

/* The copy is an empty ring before its first position. */
static void vm_ring_init(struct braid_vm_ring *r, const struct braid_ring_private *head,
			 u64 position)
{
	const struct braid_ring_identity who = {
		.incarnation = head->incarnation, .vcpu = head->vcpu, .buffer = head->buffer,
		.first_position = position, .first_seq = head->first_seq,
	};
	struct braid_writer *writer = malloc(braid_writer_bytes(r->map.nr_slots));

	if (!writer)
		return;
	braid_writer_init(writer, &r->map, &who);
	free(writer);
	if (vm_ring_has_past(r, head)) {
		r->map.priv->reader_block[0] = r->past;
		r->map.states[0].first_seq = r->past.next_seq;
	}
	r->next = r->oldest_staged = position;
	r->placed = true;
}

/* A sub-buffer whose beginning was read, though not from this copy: its reader has it in hand. */
static void vm_ring_resume(struct braid_vm_ring *r, const struct braid_ring_private *head,
			   u32 from_id)
{
	vm_ring_init(r, head, vm_ring_after(r->past.position, 1));
	if (!r->placed)
		return;
	r->commit = r->past.position << BRAID_COMMIT_POS_SHIFT | r->past.bytes;
	r->next = r->oldest_staged = r->past.position;
	r->id = 0;
	r->from_id = from_id;
	r->begun = r->unseen = true;
	r->map.states[0].commit = r->commit;
}

/* The copy's sub-buffer for a position; until it is complete, its slot is claimed. */
static u32 vm_ring_claim(struct braid_vm_ring *r, u64 position)
{
	u32 k = vm_ring_slot(r, position), id = braid_slot_id(r->map.slots[k]);

	if (r->begun && position == r->next)
		return r->id;
	r->map.slots[k] = braid_slot_word(position, BRAID_SLOT_CLAIMED, id);
	r->staged[k].id = id;
	return id;
}

/* The newest and the oldest open position; false: none. */
static bool vm_ring_find_open(const struct braid_vm_ring *r, const u64 *slots, u64 *oldest,
			      u64 *newest)
{
	u32 n = r->map.nr_slots, k;
	bool any = false;

	for (k = 0; k < n; k++) {
		u64 position = braid_slot_position(slots[k]);

		if (!vm_ring_slot_is_valid(r, slots[k], k) ||
		    braid_slot_state(slots[k]) != BRAID_SLOT_OPEN ||
		    (any && braid_position_diff(position, *newest) < 0))
			continue;
		*newest = position;
		any = true;
	}
	for (k = 0, *oldest = *newest; any && k < n - 1; k++) {
		u64 before = vm_ring_after(*oldest, -1);
		u64 word = slots[vm_ring_slot(r, before)];

		if (!vm_ring_slot_is_valid(r, word, vm_ring_slot(r, before)) ||
		    braid_slot_position(word) != before ||
		    braid_slot_state(word) != BRAID_SLOT_OPEN)
			break;
		*oldest = before;
	}
	return any;
}

/* At first: after what was read of the ring, if it is still there. */
static void vm_ring_place_first(struct braid_vm_ring *r, const struct braid_ring_private *head,
				const u64 *slots)
{
	bool resumes = vm_ring_has_past(r, head);
	u64 oldest = 0, newest = 0, word = slots[vm_ring_slot(r, r->past.position)];
	bool open = vm_ring_find_open(r, slots, &oldest, &newest);

	r->older = resumes && open && braid_position_diff(r->past.position, newest) > 0;
	if (r->older)
		return;
	if (resumes && open && braid_position_diff(r->past.position, oldest) >= 0)
		vm_ring_resume(r, head, braid_slot_id(word));
	else
		vm_ring_init(r, head, open ? oldest : head->first_position & BRAID_POS_MASK);
}

/* The newest position, which a reader in the guest has; false: another one is being opened. */
static bool vm_ring_find_taken(const struct braid_vm_ring *r, const u64 *slots, u64 *newest)
{
	u32 k;

	for (k = 0; k < r->map.nr_slots; k++) {
		u64 position = braid_slot_position(slots[k]);

		if (!vm_ring_slot_is_valid(r, slots[k], k) ||
		    braid_slot_state(slots[k]) != BRAID_SLOT_EMPTY)
			return false;
		if (!k || braid_position_diff(position, *newest) > 0)
			*newest = position;
	}
	return true;
}

/*
 * A reader in the guest has the next sub-buffer: its id is in no slot. If that one was tried, the
 * reader has gone on since, and has read what was not copied.
 */
static void vm_ring_take_from_reader(struct braid_vm_ring *r, const u64 *slots)
{
	u32 n = r->map.nr_slots, sum = n * (n + 1) / 2, k;

	for (k = 0; k < n; k++)
		sum -= braid_slot_id(slots[k]);
	if (r->begun || sum > n) {
		vm_ring_skip_to(r, vm_ring_after(r->next, r->begun ? 0 : 1));
	} else {
		r->id = vm_ring_claim(r, r->next);
		r->from_id = sum;
		r->commit = r->next << BRAID_COMMIT_POS_SHIFT;
		r->begun = r->unseen = true;
	}
	r->placed = true;
}

void braid_vm_ring_place(struct braid_vm_ring *r, const struct braid_ring_private *head,
			 const u64 *slots)
{
	u64 oldest = 0, newest = 0, least;
	bool open = vm_ring_find_open(r, slots, &oldest, &newest);

	if (!r->map.priv->incarnation) {
		vm_ring_place_first(r, head, slots);
		return;
	}
	if (!open && !vm_ring_find_taken(r, slots, &newest))
		return;
	if (r->oldest_staged != r->next || r->staged[vm_ring_slot(r, r->next)].commit) {
		/* Only after what precedes it is proven, by a guest that goes on. */
		u64 former = r->slot;

		r->slot = slots[vm_ring_slot(r, newest)];
		if (!former || braid_position_diff(newest, braid_slot_position(former)) <= 0)
			return;
		braid_vm_ring_prove(r);
	}
	if (!open && braid_position_diff(newest, r->next) > 0)
		vm_ring_skip_to(r, newest);
	if (slots[vm_ring_slot(r, r->next)] >> BRAID_SLOT_STATE_SHIFT ==
	    braid_slot_word(r->next, BRAID_SLOT_EMPTY, 0) >> BRAID_SLOT_STATE_SHIFT) {
		vm_ring_take_from_reader(r, slots);
		return;
	}
	if (!open)
		return;
	least = vm_ring_after(newest, -(s64)(r->map.nr_slots / 8 * 7));
	if (braid_position_diff(oldest, least) < 0)
		oldest = least;
	if (braid_position_diff(oldest, r->next) > 0)
		vm_ring_skip_to(r, oldest);
	r->slot = 0;
	r->placed = true;
}

/* The first look ------------------------------------------------------------------------------- */

static void vm_ring_add_slots(const struct braid_vm_ring *r, struct braid_vm_batch *batch, u64 *to)
{
	u32 first = vm_ring_slot(r, r->next), straight = r->map.nr_slots - first;
	u64 at = r->private_at + BRAID_RING_SLOTS_OFFSET;

	if (straight > r->window)
		straight = r->window;
	braid_vm_batch_add(batch, at + 8ULL * first, to, 8ULL * straight);
	if (straight < r->window)
		braid_vm_batch_add(batch, at, to + straight, 8ULL * (r->window - straight));
}

static void vm_ring_add_state(const struct braid_vm_ring *r, struct braid_vm_batch *batch, u32 id,
			      struct braid_subbuf_state *to)
{
	braid_vm_batch_add(batch, r->private_at + braid_ring_states_offset(r->map.nr_slots) +
			   (u64)id * sizeof(*to), to, sizeof(*to));
}

void braid_vm_ring_leave(struct braid_vm_ring *r)
{
	r->left = true;
	r->window = r->nr = 0;
}

void braid_vm_ring_look(struct braid_vm_ring *r, struct braid_vm_batch *batch, bool brief)
{
	u32 n = r->map.nr_slots;

	r->nr = 0;
	r->window = 0;
	if (!r->placed || r->left)
		return;
	r->window = brief ? 1 : n < BRAID_VM_RING_WINDOW ? n : BRAID_VM_RING_WINDOW;
	vm_ring_add_slots(r, batch, r->look.slots);
	if (r->begun)
		vm_ring_add_state(r, batch, r->from_id, &r->look.states[0]);
	if (r->coming && !brief)
		vm_ring_add_state(r, batch, r->coming_id, &r->coming_state);
	else
		r->coming = false;
}

/* Whether a commit word is another one, and a former one's or a later one of its sub-buffer. */
static bool vm_ring_is_later(u64 word, u64 former)
{
	return braid_commit_position(word) == braid_commit_position(former) &&
	       braid_commit_bytes(word) >= braid_commit_bytes(former) &&
	       (!(former & BRAID_COMMIT_FINAL) || word == former);
}

bool braid_vm_ring_lives(const struct braid_vm_ring *r)
{
	u64 word = r->look.slots[0];

	if (!r->window)
		return false;
	if (r->begun)
		return !r->unseen && r->look.states[0].commit != r->commit &&
		       vm_ring_is_later(r->look.states[0].commit, r->commit);
	return r->slot && word != r->slot && braid_slot_position(word) == r->next &&
	       braid_slot_state(word) == BRAID_SLOT_OPEN;
}

/* The writer was faster: where it is now is to be found. */
static void vm_ring_lapped(struct braid_vm_ring *r)
{
	r->placed = false;
	r->slot = 0;
}

/* Whether the slot has the next position's sub-buffer; if not, it may be found elsewhere. */
static bool vm_ring_has_next(struct braid_vm_ring *r)
{
	u64 word = r->look.slots[0];
	s64 ahead = braid_position_diff(braid_slot_position(word), r->next);

	if (r->begun)
		return true;
	if (!vm_ring_slot_is_valid(r, word, vm_ring_slot(r, r->next)) || ahead < 0)
		return false;
	if (ahead > 0 || braid_slot_state(word) == BRAID_SLOT_EMPTY)
		vm_ring_lapped(r);
	return r->placed && braid_slot_state(word) == BRAID_SLOT_OPEN;
}

bool braid_vm_ring_has_news(const struct braid_vm_ring *r)
{
	u64 word = r->look.slots[0];
	s64 ahead = braid_position_diff(braid_slot_position(word), r->next);

	if (!r->window)
		return !r->left;	/* where it is has to be found */
	if (r->begun)
		return r->look.states[0].commit != r->commit;
	return vm_ring_slot_is_valid(r, word, vm_ring_slot(r, r->next)) &&
	       (ahead > 0 || (!ahead && braid_slot_state(word) != BRAID_SLOT_CLAIMED));
}

/* Whether the first look has the state of a slot's sub-buffer, which was opened since the last. */
static bool vm_ring_has_come(const struct braid_vm_ring *r, u32 k)
{
	return r->coming && k == r->begun && braid_slot_id(r->look.slots[k]) == r->coming_id &&
	       braid_commit_position(r->coming_state.commit) == vm_ring_after(r->next, k);
}

void braid_vm_ring_choose(struct braid_vm_ring *r, struct braid_vm_batch *batch)
{
	u32 k;

	if (!r->window || !vm_ring_has_next(r))
		return;
	for (k = 0; k < r->window; k++) {
		u64 position = vm_ring_after(r->next, k), word = r->look.slots[k];

		if (r->begun && !k)
			continue;
		if (braid_slot_position(word) != position ||
		    braid_slot_state(word) != BRAID_SLOT_OPEN ||
		    braid_slot_id(word) > r->map.nr_slots ||
		    r->staged[vm_ring_slot(r, position)].commit)
			break;
		if (vm_ring_has_come(r, k))
			r->look.states[k] = r->coming_state;
		else
			vm_ring_add_state(r, batch, braid_slot_id(word), &r->look.states[k]);
	}
	r->nr = k;
}

/* The copy ------------------------------------------------------------------------------------- */

static bool vm_ring_commit_is_valid(const struct braid_vm_ring *r, u64 word, u64 position)
{
	u32 bytes = braid_commit_bytes(word);

	return braid_commit_position(word) == position && !(word & RESERVED_BIT) && !(bytes & 3) &&
	       bytes <= r->map.subbuf_bytes - BRAID_SUBBUF_HEADER_BYTES;
}

/* Adds what is new in a sub-buffer. Return: whether it is complete: then the next one follows. */
static bool vm_ring_copy_one(struct braid_vm_ring *r, u32 k, struct braid_vm_batch *batch)
{
	u64 position = vm_ring_after(r->next, k), commit = r->look.states[k].commit;
	bool begun = r->begun && !k;
	u32 from_id = begun ? r->from_id : braid_slot_id(r->look.slots[k]);
	u32 copied = begun ? vm_ring_copied(r) : 0;
	u32 from = copied ? BRAID_SUBBUF_HEADER_BYTES + copied : 0;
	u32 to = BRAID_SUBBUF_HEADER_BYTES + braid_commit_bytes(commit);
	u8 *subbuf = (u8 *)braid_ring_subbuf(&r->map, vm_ring_claim(r, position));

	if (braid_commit_bytes(commit) > copied)
		braid_vm_batch_add(batch, r->subbufs_at + (u64)from_id * r->map.subbuf_bytes + from,
				   subbuf + from, to - from);
	return commit & BRAID_COMMIT_FINAL;
}

void braid_vm_ring_copy(struct braid_vm_ring *r, struct braid_vm_batch *batch)
{
	u32 nr = r->nr, k;

	for (k = 0; k < nr; k++) {
		u64 commit = r->look.states[k].commit;
		bool begun = r->begun && !k;

		r->nr = k;
		if (!vm_ring_commit_is_valid(r, commit, vm_ring_after(r->next, k)) ||
		    (begun && !vm_ring_is_later(commit, r->commit))) {
			vm_ring_lapped(r);
			return;
		}
		if (begun && commit == r->commit)
			return;
		r->nr = k + 1;
		if (!vm_ring_copy_one(r, k, batch))
			return;
	}
}

/* The second look ------------------------------------------------------------------------------ */

void braid_vm_ring_again(struct braid_vm_ring *r, struct braid_vm_batch *batch)
{
	u32 k;

	if (!r->nr)
		return;
	vm_ring_add_slots(r, batch, r->second.slots);
	for (k = 0; k < r->nr; k++)
		vm_ring_add_state(r, batch, r->begun && !k ? r->from_id :
				  braid_slot_id(r->look.slots[k]), &r->second.states[k]);
}

/* Whether the numbers beside a commit word are those that belong to it. */
static bool vm_ring_same_numbers(const struct braid_subbuf_state *a,
				 const struct braid_subbuf_state *b)
{
	return a->first_seq == b->first_seq && a->dropped_before == b->dropped_before &&
	       (!(a->commit & BRAID_COMMIT_FINAL) ||
		(a->entries == b->entries && a->dropped == b->dropped));
}

static void vm_ring_stage_one(struct braid_vm_ring *r, u32 k)
{
	const struct braid_subbuf_state *from = &r->look.states[k];
	struct braid_vm_staged *staged = &r->staged[vm_ring_slot(r, r->next)];
	u32 id = r->begun ? r->id : staged->id;
	struct braid_subbuf_state *state = &r->map.states[id];

	state->first_seq = from->first_seq;
	state->dropped_before = from->dropped_before;
	state->entries = from->entries;
	state->dropped = from->dropped;
	*staged = (struct braid_vm_staged){ from->commit, id };
	if (from->commit & BRAID_COMMIT_FINAL) {
		r->begun = false;
		r->next = vm_ring_after(r->next, 1);
		return;
	}
	if (!r->begun)
		r->from_id = braid_slot_id(r->look.slots[k]);
	r->begun = true;
	r->id = id;
}

/* A writer opens a slot with the sub-buffer that was in it, unless a reader in the guest swaps. */
static void vm_ring_foresee(struct braid_vm_ring *r, u32 staged)
{
	r->coming = staged < r->window &&
		    braid_slot_id(r->second.slots[staged]) <= r->map.nr_slots;
	r->coming_id = r->coming ? braid_slot_id(r->second.slots[staged]) : 0;
}

void braid_vm_ring_stage(struct braid_vm_ring *r)
{
	u32 nr = r->nr, k;

	r->nr = 0;
	for (k = 0; k < nr; k++) {
		const struct braid_subbuf_state *then = &r->look.states[k];
		const struct braid_subbuf_state *now = &r->second.states[k];

		if (braid_slot_position(r->second.slots[k]) != r->next ||
		    !vm_ring_is_later(now->commit, then->commit)) {
			vm_ring_lapped(r);
			return;
		}
		if (!vm_ring_same_numbers(then, now))
			break;
		vm_ring_stage_one(r, k);
	}
	if (!nr)
		return;
	if (k) {
		r->commit = r->begun ? r->look.states[k - 1].commit : 0;
		r->unseen = false;
	}
	r->slot = !r->begun && k < r->window ? r->second.slots[k] : 0;
	vm_ring_foresee(r, k);
}

/* Proof ---------------------------------------------------------------------------------------- */

static void vm_ring_publish(struct braid_vm_ring *r, u64 position)
{
	struct braid_vm_staged *staged = &r->staged[vm_ring_slot(r, position)];
	u64 *slot = &r->map.slots[vm_ring_slot(r, position)];
	struct braid_subbuf_state *state = &r->map.states[staged->id];

	braid_store_release(&state->commit, staged->commit);
	r->map.priv->written = state->first_seq;
	if (*slot == braid_slot_word(position, BRAID_SLOT_CLAIMED, staged->id))
		*slot = braid_slot_word(position, BRAID_SLOT_OPEN, staged->id);
	staged->commit = 0;
}

bool braid_vm_ring_prove(struct braid_vm_ring *r)
{
	u64 position = r->oldest_staged;
	bool any = false;

	for (; braid_position_diff(position, r->next) <= 0; position = vm_ring_after(position, 1)) {
		if (!r->staged[vm_ring_slot(r, position)].commit)
			continue;
		vm_ring_publish(r, position);
		any = true;
	}
	r->oldest_staged = r->next;
	return any;
}

u64 braid_vm_ring_unproven(const struct braid_vm_ring *r)
{
	u64 position = r->oldest_staged, events = 0;

	for (; braid_position_diff(position, r->next) <= 0; position = vm_ring_after(position, 1)) {
		const struct braid_vm_staged *staged = &r->staged[vm_ring_slot(r, position)];
		const struct braid_subbuf_state *state = &r->map.states[staged->id];

		if (!staged->commit)
			continue;
		events += vm_ring_count(r, staged->id, braid_commit_bytes(staged->commit));
		if (braid_commit_position(state->commit) == position)
			events -= vm_ring_count(r, staged->id, braid_commit_bytes(state->commit));
	}
	return events;
}
