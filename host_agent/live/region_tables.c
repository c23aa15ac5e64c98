// SPDX-License-Identifier: GPL-2.0-or-later
/* Sends new entries of a guest's event directory and tables: comms, symbols, stacks. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/clock_sync/host.h"
#include "host_agent/live/tables.h"
#include "host_agent/util/error.h"
#include "shared/stack.h"

#define COMMS_NS	100000000ULL	/* a pid's former comm can be lost within this time */
#define CHUNK_BYTES	(4u << 20)	/* at most this much of a table in one chunk */
#define BATCH_COMMS	1024u
#define BATCH_SYMBOLS	1024u
#define BATCH_STACKS	4096u		/* words */
#define STACKS_A_TURN	1024u		/* slots that are looked at */
#define STACKS_AHEAD	16u		/* slots that other contexts of the guest may be filling */
#define MAX_ENTRIES	(1u << 18)	/* checked in a table, whatever its guest claims */

/* Entries that fit in a table's section. */
static u32 most_entries(const struct braid_live_stream *s, u32 section, size_t head, size_t entry)
{
	u64 room = (s->sb.sections[section].bytes - head) / entry;

	return room < MAX_ENTRIES ? room : MAX_ENTRIES;
}

static const struct braid_stack_table *stacks_of(const struct braid_live_stream *s)
{
	return s->sb.sections[BRAID_SECTION_STACKS].bytes ?
	       braid_mapping_section(s->mapping, &s->sb, BRAID_SECTION_STACKS) : NULL;
}

static struct braid_stack_shape stacks_shape(const struct braid_live_stream *s)
{
	return braid_stack_load_shape(stacks_of(s), s->sb.sections[BRAID_SECTION_STACKS].bytes);
}

static u64 stacks_missed(const struct braid_live_stream *s)
{
	return stacks_of(s) ? braid_load(&stacks_of(s)->missed) : 0;
}

int braid_live_tables_note_missed(const struct braid_live_tables *t, struct braid_live_stream *s)
{
	u64 missed = stacks_missed(s) - t->stacks_missed;

	return !missed ? 0 :
	       braid_live_note(s, "%llu stacks are not recorded: the guest could not take them, or its table of stacks is full; load its driver with a larger stacks=",
			       (unsigned long long)missed);
}

void braid_live_tables_free(struct braid_live_tables *t)
{
	braid_directory_free(&t->directory);
	free(t->comm_seqs);
	t->comm_seqs = NULL;
	free(t->stacks_sent);
	t->stacks_sent = NULL;
}

int braid_live_tables_reset(struct braid_live_tables *t, struct braid_live_stream *s)
{
	const struct braid_comm_table *comms =
		braid_mapping_section(s->mapping, &s->sb, BRAID_SECTION_COMMS);
	u32 room = most_entries(s, BRAID_SECTION_COMMS, sizeof(*comms), sizeof(struct braid_comm));
	u32 nr = braid_load(&comms->nr_entries);
	u64 missed = t->incarnation == s->sb.incarnation ? t->stacks_missed : stacks_missed(s);

	braid_live_tables_free(t);
	memset(t, 0, sizeof(*t));
	t->incarnation = s->sb.incarnation;
	t->stacks_missed = missed;
	t->nr_comms = nr < room ? nr : room;
	t->comm_seqs = calloc(t->nr_comms + 1, sizeof(*t->comm_seqs));
	if (!t->comm_seqs)
		return s->fatal = braid_fail(-ENOMEM, "no memory for %u comms", t->nr_comms);
	t->stacks_room = stacks_shape(s).nr_slots;
	t->stacks_sent = calloc(t->stacks_room + 1, 1);
	if (!t->stacks_sent)
		return s->fatal = braid_out_of_memory();
	t->directory_generation = ~0ULL;
	t->comm_generation = ~0ULL;
	return 0;
}

/* Puts whole entries, in chunks of bounded size. */
static int put_entries(struct braid_live_stream *s, const struct braid_directory_copy *copy)
{
	u32 from = 0, at = 0, before;
	struct braid_schema_event event;
	int err = 0;

	while (!err && at < copy->bytes) {
		before = at;
		if (braid_schema_next(copy->data, copy->bytes, &at, &event) <= 0)
			break;
		if (at - from > CHUNK_BYTES && before > from) {
			err = braid_live_emit(s, BRAID_CHUNK_EVENTS, NULL, 0, copy->data + from,
					      before - from);
			from = before;
		}
	}
	/* An entry may be larger than a chunk: then it is forged. */
	if (!err && at > from && at - from <= BRAID_CHUNK_MAX_BYTES)
		err = braid_live_emit(s, BRAID_CHUNK_EVENTS, NULL, 0, copy->data + from, at - from);
	return err;
}

static int send_directory(struct braid_live_tables *t, struct braid_live_stream *s)
{
	const struct braid_directory *dir =
		braid_mapping_section(s->mapping, &s->sb, BRAID_SECTION_DIRECTORY);
	struct braid_directory_copy *copy = &t->directory;
	int err;

	if (t->directory_damaged || braid_load(&dir->generation) == t->directory_generation)
		return 0;
	braid_directory_free(copy);
	err = braid_directory_load(copy, s->mapping, &s->sb, t->directory_bytes);
	if (err == -ENOMEM)
		s->fatal = err;
	if (err)
		return err;
	if (!braid_mapping_same(s->mapping, s->sb.incarnation))
		return -ESTALE;
	t->more_events |= t->directory_read &&
			  (copy->bytes || copy->nr_reused != t->directory_reused);
	t->directory_read = true;
	t->directory_reused = copy->nr_reused;
	t->directory_generation = copy->generation;
	t->directory_bytes += copy->bytes;
	t->directory_damaged = copy->damaged;
	err = put_entries(s, copy);
	if (!err && copy->damaged)
		err = braid_live_note(s, "its event directory is damaged after byte %u; the rest is not read",
				      t->directory_bytes);
	braid_directory_free(copy);
	return err;
}

/* A stable copy of an entry: false when it is being written, unused or was sent. */
static bool load_comm(const struct braid_comm *shared, struct braid_comm *to, u32 sent)
{
	return braid_stable_copy(to, shared, sizeof(*to), sent);
}

static int put_comms(struct braid_live_stream *s, const struct braid_comm *comms, u32 nr)
{
	if (!braid_mapping_same(s->mapping, s->sb.incarnation))
		return -ESTALE;
	return nr ? braid_live_emit(s, BRAID_CHUNK_COMMS, NULL, 0, comms, nr * sizeof(*comms)) : 0;
}

static int send_comms(struct braid_live_tables *t, struct braid_live_stream *s, bool now)
{
	const struct braid_comm_table *shared =
		braid_mapping_section(s->mapping, &s->sb, BRAID_SECTION_COMMS);
	u64 generation = braid_load_acquire(&shared->generation), now_ns;
	struct braid_comm batch[BATCH_COMMS];
	u32 k, nr = 0;
	int err = 0;

	if (generation == t->comm_generation)
		return 0;
	now_ns = braid_host_clock_ns();
	if (!now && now_ns - t->comms_ns < (s->o.sink->prompt_ns ?: COMMS_NS))
		return 0;
	t->comm_generation = generation;
	t->comms_ns = now_ns;
	for (k = 0; k < t->nr_comms && !err; k++) {
		if (!load_comm(&shared->entries[k], &batch[nr], t->comm_seqs[k]))
			continue;
		t->comm_seqs[k] = batch[nr].seq;
		if (++nr < BATCH_COMMS)
			continue;
		err = put_comms(s, batch, nr);
		nr = 0;
	}
	return err ? err : put_comms(s, batch, nr);
}

static int send_symbols(struct braid_live_tables *t, struct braid_live_stream *s)
{
	const struct braid_symbol_table *shared =
		braid_mapping_section(s->mapping, &s->sb, BRAID_SECTION_SYMBOLS);
	u32 room = most_entries(s, BRAID_SECTION_SYMBOLS, sizeof(*shared),
				sizeof(struct braid_symbol));
	u32 used = braid_load_acquire(&shared->nr_used);	/* (Y1) */
	struct braid_symbol batch[BATCH_SYMBOLS];
	u32 nr;
	int err;

	if (used > room)
		used = room;
	while (t->nr_symbols < used) {
		nr = used - t->nr_symbols;
		if (nr > BATCH_SYMBOLS)
			nr = BATCH_SYMBOLS;
		memcpy(batch, shared->entries + t->nr_symbols, nr * sizeof(*batch));
		if (!braid_mapping_same(s->mapping, s->sb.incarnation))
			return -ESTALE;
		err = braid_live_emit(s, BRAID_CHUNK_SYMBOLS, NULL, 0, batch, nr * sizeof(*batch));
		if (err)
			return err;
		t->nr_symbols += nr;
	}
	return 0;
}

static int put_stacks(struct braid_live_stream *s, const u64 *batch, u32 words)
{
	if (!braid_mapping_same(s->mapping, s->sb.incarnation))
		return -ESTALE;
	return words ? braid_live_emit(s, BRAID_CHUNK_STACKS, NULL, 0, batch, words * sizeof(u64)) :
		       0;
}

/* Return: the words that it takes in a chunk. */
static u32 add_stack(u64 *to, const struct braid_stack_copy *stack)
{
	struct braid_chunk_stack head = { .id = stack->id, .nr = stack->nr };

	memcpy(to, &head, sizeof(head));
	memcpy(to + 1, stack->frames, stack->nr * sizeof(u64));
	return 1 + stack->nr;
}

/*
 * A guest that died between two of its steps has slots that are complete beyond nr_used. @all: else
 * so many slots that a hostile guest, whose table changes again and again, costs no more than one
 * with as many events.
 */
static int send_stacks(struct braid_live_tables *t, struct braid_live_stream *s, bool all)
{
	struct braid_stack_shape shape = stacks_shape(s);
	u32 k, words = 0, end = shape.nr_used + STACKS_AHEAD, looked = 0;
	u64 batch[BATCH_STACKS];
	struct braid_stack_copy stack;
	int err = 0;

	if (shape.nr_slots > t->stacks_room)
		return 0;		/* no guest changes that */
	if (shape.first != t->stacks_first) {
		memset(t->stacks_sent, 0, t->stacks_room);
		t->stacks_first = shape.first;
		t->nr_stacks = t->next_stack = 0;
	}
	k = t->nr_stacks;
	if (!all && t->next_stack > k)
		k = t->next_stack;
	t->next_stack = 0;
	for (; k < shape.nr_slots && k < end && !err; k++) {
		if (!all && looked++ == STACKS_A_TURN) {
			t->next_stack = k;
			break;
		}
		if (t->stacks_sent[k] || !braid_stack_load(&stack, stacks_of(s), &shape, k) ||
		    stack.id != shape.first + k)	/* the table was emptied just now */
			continue;
		if (k >= shape.nr_used)
			end = k + 1 + STACKS_AHEAD;
		if (words + 1 + stack.nr > BATCH_STACKS) {
			err = put_stacks(s, batch, words);
			words = 0;
		}
		words += add_stack(batch + words, &stack);
		t->stacks_sent[k] = 1;
	}
	while (t->nr_stacks < shape.nr_slots && t->stacks_sent[t->nr_stacks])
		t->nr_stacks++;
	return err ? err : put_stacks(s, batch, words);
}

int braid_live_tables_send(struct braid_live_tables *t, struct braid_live_stream *s, bool now)
{
	int err = send_directory(t, s);

	if (!err)
		err = send_comms(t, s, now);
	if (!err)
		err = send_symbols(t, s);
	if (!err)
		err = send_stacks(t, s, now);
	return err;
}
