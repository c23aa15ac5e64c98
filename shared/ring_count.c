// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Counts a ring at one moment, while it is written and read, without consuming anything. */
#include "shared/ring.h"

#define COUNT_TRIES	16	/* an active reader or a lapping writer can spoil a try */

/* Events in a span's sub-buffer, or -EBADMSG. */
static s64 braid_count_events_in(const struct braid_ring_map *map, const struct braid_span *span,
				 void *scratch)
{
	struct braid_cursor c;

	if (span->final)
		return span->entries <= span->to_bytes / 8 ? (s64)span->entries : -EBADMSG;
	memcpy(scratch, span->data, span->to_bytes);
	braid_cursor_init(&c, scratch, span->to_bytes, span->time_stamp, map->flags);
	return braid_page_count(&c);
}

/* Counts the events before sequence number @to as lost. */
static void braid_count_lose_up_to(struct braid_ring_tally *t, u64 *expected, u64 to)
{
	if ((s64)(to - *expected) <= 0)
		return;
	t->lost += to - *expected;
	*expected = to;
}

static void braid_count_add_span(struct braid_ring_tally *t, const struct braid_span *span,
				 u64 events, u64 *expected)
{
	u64 end = span->first_seq + events;

	braid_count_lose_up_to(t, expected, span->first_seq);
	t->left_bytes += span->to_bytes - span->from_bytes;
	if ((s64)(end - *expected) > 0) {	/* else a reader consumed them all */
		if (!t->left)
			t->oldest = span->time_stamp;
		t->left += end - *expected;
		*expected = end;
	}
	braid_count_lose_up_to(t, expected, end + span->dropped);
	t->dropped = span->dropped_before + span->dropped;
}

/*
 * Whether the counted events were neither consumed nor overwritten: all were present at one moment.
 */
static bool braid_count_still_there(const struct braid_peek *p, u64 incarnation,
				    const struct braid_span *first, u64 word)
{
	struct braid_peek now;

	if (word &&
	    braid_load_acquire(&p->map.slots[first->position & (p->map.nr_slots - 1)]) != word)
		return false;
	return !braid_peek_begin(&now, &p->map, incarnation) && now.hand_id == p->hand_id &&
	       !memcmp(&now.block, &p->block, sizeof(now.block));
}

/* One walk. Return: 0; 1: done, but the ring moved meanwhile; -EBADMSG. */
static int braid_count_once(const struct braid_ring_map *map, u64 incarnation, void *scratch,
			    struct braid_ring_tally *t)
{
	struct braid_span span, first = { };
	bool moved = false;
	struct braid_peek p;
	u64 expected, word = 0;
	s64 events;
	int ret = braid_peek_begin(&p, map, incarnation);

	if (ret)
		return ret;
	*t = (struct braid_ring_tally){ .read = p.block.read, .lost = p.block.lost };
	expected = p.block.next_seq;
	while ((ret = braid_peek_next(&p, &span)) > 0) {
		if (p.word && !word) {
			first = span;
			word = p.word;
		}
		events = braid_count_events_in(map, &span, scratch);
		if (!braid_peek_valid(&p, &span)) {
			moved = true;	/* the next one's number gives the loss */
			continue;
		}
		if (events < 0)
			return events;
		braid_count_add_span(t, &span, events, &expected);
		/* A successor of one that was not final was published after that one was read. */
		if (!span.final)
			break;
	}
	if (ret < 0)
		return ret;
	t->written = t->read + t->lost + t->left;
	return moved || !braid_count_still_there(&p, incarnation, &first, word);
}

int braid_ring_count(const struct braid_ring_map *map, u64 incarnation, void *scratch,
		     struct braid_ring_tally *t)
{
	int ret, tries = COUNT_TRIES;

	do
		ret = braid_count_once(map, incarnation, scratch, t);
	while (ret && --tries);
	return ret < 0 ? ret : 0;
}
