// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "tests/unit/check.h"
#include "tests/unit/need.h"
#include "tests/unit/ring_copies.h"

#define WORDS		6u

struct ring_copies rc;

u64 ring_copies_counter(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

static u64 mix(u64 value, u32 k)
{
	return (value + k + 1) * 0x9e3779b97f4a7c15ULL;
}

/* Rings ---------------------------------------------------------------------------------- */

void ring_copies_begin(const struct shape *shape)
{
	struct braid_ring_identity who = {
		.incarnation = INCARNATION, .first_position = FIRST_POSITION,
		.first_seq = FIRST_SEQ, .counter = ring_copies_counter(),
	};
	u8 *memory;

	memset(&rc, 0, sizeof(rc));
	rc.ring_bytes = braid_ring_bytes(shape->nr_slots, shape->subbuf_bytes, BRAID_PAGE_BYTES);
	memory = mmap(NULL, 2 * rc.ring_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS |
		      MAP_POPULATE, -1, 0);
	NEED(memory != MAP_FAILED);
	braid_ring_map_init(&rc.ring, memory, shape->nr_slots, shape->subbuf_bytes,
			    BRAID_PAGE_BYTES, shape->flags);
	braid_ring_map_init(&rc.copy, memory + rc.ring_bytes, shape->nr_slots, shape->subbuf_bytes,
			    BRAID_PAGE_BYTES, shape->flags);
	rc.w = malloc(braid_writer_bytes(shape->nr_slots));
	NEED(rc.w);
	braid_writer_init(rc.w, &rc.ring, &who);
	rc.committed_seq = rc.consumed_seq = FIRST_SEQ;
}

void ring_copies_end(void)
{
	munmap(rc.ring.priv, 2 * rc.ring_bytes);
	free(rc.w);
}

u64 ring_copies_reserve_one(void)
{
	u64 seq = FIRST_SEQ + rc.offered++, token, *at;
	u32 nr = 2 + seq % (WORDS - 1), k;

	at = braid_ring_reserve(rc.w, nr * 8, ring_copies_counter, &token);
	if (!at)
		return 0;
	for (k = 0; k < nr; k++) {
		u64 word = k ? mix(seq, k) : seq;

		memcpy(&at[k], &word, sizeof(word));
	}
	return token;
}

void ring_copies_put(u64 events)
{
	while (events--) {
		u64 token = ring_copies_reserve_one();

		if (!token)
			continue;
		braid_ring_commit(rc.w, token);
		braid_store_release(&rc.committed_seq, FIRST_SEQ + rc.offered);
	}
}

u64 ring_copies_count_span(const struct braid_ring_map *map, const struct braid_span *span)
{
	u64 before;
	struct braid_cursor c;

	braid_cursor_init(&c, span->data, span->from_bytes, span->time_stamp, map->flags);
	before = braid_page_count(&c);
	braid_cursor_init(&c, span->data, span->to_bytes, span->time_stamp, map->flags);
	return braid_page_count(&c) - before;
}

bool ring_copies_read_one(struct braid_reader *r)
{
	struct braid_span span;
	u64 events;

	if (braid_reader_next(r, &span) <= 0)
		return false;
	events = ring_copies_count_span(&rc.ring, &span);
	braid_reader_done(r, &span, events);
	braid_store_release(&rc.consumed_seq, r->next_seq);	/* a copy from here on has none of
								   these */
	return true;
}

/* Copies ---------------------------------------------------------------------------------- */

static void check_event(const struct braid_event_view *view, u64 seq)
{
	u64 words[WORDS + 1] = { 0 };
	u32 nr = 2 + seq % (WORDS - 1), k;

	CHECK_EQ(view->payload_bytes, nr * 8);
	memcpy(words, view->payload, view->payload_bytes < sizeof(words) ? view->payload_bytes :
								      sizeof(words));
	CHECK_EQ(words[0], seq);
	for (k = 1; k < nr; k++)
		CHECK_EQ(words[k], mix(seq, k));
}

/* Reads a span's events; *next: the number that the next event must not be below. */
static u64 check_span(const struct braid_span *span, u64 *next)
{
	u64 seq = span->first_seq, events = 0;
	struct braid_event_view view;
	struct braid_cursor c;
	int ret;

	braid_cursor_init(&c, span->data, span->to_bytes, span->time_stamp, rc.copy.flags);
	while ((ret = braid_page_next(&c, &view)) > 0) {
		if (view.type != BRAID_TYPE_DATA)
			continue;
		if (view.offset >= span->from_bytes) {
			CHECK((s64)(seq - *next) >= 0);
			check_event(&view, seq);
			rc.wanted_found |= seq == rc.wanted_seq;
			*next = seq + 1;
			events++;
		}
		seq++;
	}
	CHECK_EQ(ret, 0);
	return events;
}

/* Reads the copy to its end. @from, @upto: unread events between them are there, or lost. */
static void check_copy(u64 from, u64 upto)
{
	struct braid_reader r;
	struct braid_span span;
	u64 began, lost, events = 0, next;
	int got;

	NEED(!braid_reader_attach(&r, &rc.copy, INCARNATION));
	began = next = r.next_seq;
	lost = r.lost;
	CHECK((s64)(began - from) >= 0);
	CHECK_EQ(r.read + r.lost, began - FIRST_SEQ);
	while ((got = braid_reader_next(&r, &span)) > 0) {
		u64 found = check_span(&span, &next);

		braid_reader_done(&r, &span, found);
		events += found;
	}
	CHECK_EQ(got, 0);
	CHECK_EQ(events + r.lost - lost, r.next_seq - began);
	CHECK((s64)(r.next_seq - upto) >= 0);
	CHECK(!rc.wanted || rc.wanted_found);
	rc.nr_events += events;
	rc.nr_lost += r.lost - lost;
}

void ring_copies_copy_by(int (*copy_ring)(const struct braid_ring_map *to,
					  const struct braid_ring_map *from, u64 incarnation))
{
	u64 from = braid_load_acquire(&rc.consumed_seq),
	    upto = braid_load_acquire(&rc.committed_seq);
	int ret;

	memset(rc.copy.priv, 0xee, rc.ring_bytes);	/* a former copy's bytes are not taken for
							   this one's */
	memset(rc.copy.priv, 0, (u8 *)rc.copy.meta - (u8 *)rc.copy.priv);
	ret = copy_ring(&rc.copy, &rc.ring, INCARNATION);
	rc.nr_busy += ret == -EAGAIN;
	rc.nr_invalid += ret == -EBADMSG;
	CHECK(!ret || ret == -EAGAIN || ret == -EBADMSG);
	if (!ret)
		check_copy(from, upto);
}
