// SPDX-License-Identifier: GPL-2.0-or-later
/* Counts a ring's unread, lost and read events, and compares them with the guest's counts. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "host_agent/live/account.h"
#include "host_agent/util/error.h"

#define WALK_TRIES	4	/* an agent that drains at the same time moves the ring */

/* A copied sub-buffer. Not from the heap: a guard that jumps out of a walk would leak it. */
static _Thread_local u64 copy[BRAID_MAX_SUBBUF_BYTES / 8];

struct walk {
	struct braid_ring_account *a;
	const struct braid_ring_map *map;
	braid_account_event_fn fn;
	void *arg;
	u64 expected;		/* sequence number of the next event */
	u64 time;		/* of the last event */
	bool any;		/* there was one */
	bool hand;		/* the span is of the reader's sub-buffer */
	bool overtaken;		/* a sub-buffer was written over while it was copied */
	bool quick;		/* the guest is believed where that saves a copy */
};

__attribute__((__format__(printf, 2, 3)))
static void set_fault(struct walk *w, const char *format, ...)
{
	va_list args;

	if (*w->a->fault)
		return;		/* the first is the most useful */
	va_start(args, format);
	vsnprintf(w->a->fault, sizeof(w->a->fault), format, args);
	va_end(args);
}

/* Whether an event is older than the one before, and not the first after a jump of the counter. */
static bool goes_back(const struct walk *w, const struct braid_event_view *view, u64 events)
{
	u64 back = w->time - view->time;
	bool first = events + (view->type != BRAID_TYPE_DATA) == 1;

	return (s64)back > 0 && !(first && back >= BRAID_JUMP_STEPS);
}

/* Decodes the copy; returns DATA events found. */
static u64 count_events(struct walk *w, const struct braid_span *span, u32 bytes)
{
	struct braid_event_view view;
	struct braid_cursor c;
	int ret;

	braid_cursor_init(&c, copy, bytes, span->time_stamp, w->map->flags);
	/* In the middle of a sub-buffer the times are not known: no order to check. */
	while ((ret = braid_page_next(&c, &view)) > 0) {
		if (!span->from_bytes) {
			if (w->any && goes_back(w, &view, c.events))
				set_fault(w, "time goes back at position %llu, byte %u",
					  (unsigned long long)span->position, view.offset);
			w->time = view.time;
			w->any = true;
		}
		if (w->fn)
			w->fn(w->arg, &view);
	}
	if (ret)
		set_fault(w, "invalid event at position %llu, after %llu events",
			  (unsigned long long)span->position, (unsigned long long)c.events);
	return c.events;
}

/* Compares a final sub-buffer's counts by the guest with those found. */
static void account_final(struct walk *w, const struct braid_span *span, u64 found)
{
	u64 end = span->first_seq + span->entries + span->dropped;
	s64 ahead = (s64)(end - w->expected);
	bool closed = w->hand && !found && span->from_bytes == span->to_bytes && !ahead;

	if (closed)
		return;		/* the reader counted the events dropped after it */
	if (ahead < 0 || (u64)ahead != span->dropped) {
		set_fault(w, "position %llu: the events differ from the guest's count (%llu)",
			  (unsigned long long)span->position, (unsigned long long)span->entries);
		return;
	}
	w->a->lost += ahead;
	w->expected = end;
}

/* Whether its events are counted by the guest's word. */
static bool is_reported(const struct walk *w, const struct braid_span *span)
{
	return w->quick && span->final && !span->from_bytes;
}

static void account_span(struct walk *w, const struct braid_span *span)
{
	u32 bytes = span->to_bytes - span->from_bytes;
	bool untouched = !span->final && !span->to_bytes;
	s64 ahead = (s64)(span->first_seq - w->expected);
	u64 found;

	/* Just opened: its words may still be those of its former position. */
	if (untouched && ahead)
		return;
	if (ahead > 0) {
		w->a->lost += ahead;
		w->expected += ahead;
	} else if (ahead < 0 && !span->from_bytes && span->to_bytes) {
		set_fault(w, "sequence numbers go back at position %llu",
			  (unsigned long long)span->position);
	}
	found = is_reported(w, span) ? span->entries : count_events(w, span, bytes);
	w->a->left += found;
	w->a->left_bytes += bytes;
	w->a->left_subbufs += !!bytes;
	w->expected += found;
	if (span->final) {
		account_final(w, span, found);
		return;
	}
	w->a->lost += span->dropped;
	w->expected += span->dropped;
}

/* How far the ring was written, were all sub-buffers before this one full. */
static void note_end(struct walk *w, const struct braid_span *span)
{
	u64 before = (span->position - braid_load(&w->map->priv->first_position)) & BRAID_POS_MASK;

	w->a->bytes = before * (w->map->subbuf_bytes - BRAID_SUBBUF_HEADER_BYTES) + span->to_bytes;
	w->a->end_position = span->position;
	w->a->end_bytes = span->to_bytes;
}

static int walk_ring(struct walk *w, struct braid_peek *p)
{
	struct braid_span span;
	bool valid;
	int ret;

	w->hand = true;
	while ((ret = braid_peek_next(p, &span)) > 0) {
		u32 bytes = span.to_bytes - span.from_bytes;

		if (!is_reported(w, &span))
			memcpy(copy, span.data + span.from_bytes, bytes);
		/* Overwritten meanwhile: the next sub-buffer's number gives the loss. */
		valid = braid_peek_valid(p, &span);
		if (valid)
			account_span(w, &span);
		else
			w->overtaken = true;
		note_end(w, &span);
		w->hand = false;
		/* A successor of one that was not final was published after that one was read. */
		if (valid && !span.final)
			return 0;
	}
	return ret;
}

static int walk_once(struct walk *w, u64 incarnation)
{
	const struct braid_ring_private *priv = w->map->priv;
	u64 first_seq = braid_load(&priv->first_seq);
	u64 published = braid_load(&priv->written);	/* before the walk: it grows */
	u64 claimed = published ? published - first_seq : 0;	/* 0: no sub-buffer is finished */
	struct braid_peek p;
	int err;

	memset(w->a, 0, sizeof(*w->a));
	w->any = w->overtaken = false;
	err = braid_peek_begin(&p, w->map, incarnation);
	if (err)
		return err;
	w->a->broken = braid_load(&priv->broken);
	w->a->read = p.block.read;
	w->a->lost = p.block.lost;
	w->a->next_seq = w->expected = p.block.next_seq;
	if (p.block.read + p.block.lost != p.block.next_seq - first_seq)
		set_fault(w, "the last reader's own counts do not add up");
	err = walk_ring(w, &p);
	if (err)
		return err;
	w->a->written = w->expected - first_seq;
	w->a->end_seq = w->expected;
	if ((s64)(claimed - w->a->written) > 0 && w->overtaken)
		w->a->moving = true;
	else if ((s64)(claimed - w->a->written) > 0)
		set_fault(w, "its guest counted %llu events, %llu more than were found or lost",
			  (unsigned long long)claimed,
			  (unsigned long long)(claimed - w->a->written));
	if (w->a->written != w->a->read + w->a->lost + w->a->left)
		set_fault(w, "written is not read + lost + left");
	if (w->a->broken)
		set_fault(w, "its guest stopped the ring: %s",
			  w->a->broken == BRAID_RING_BAD_SLOT ? "invalid slot word" :
			  "its claims of a slot failed too often");
	return 0;
}

/*
 * Repeats the walk until the ring did not move meanwhile, or up to a limit. Return: as
 * braid_ring_account().
 */
static int account(struct walk *w, const struct braid_mapping *m, u64 incarnation)
{
	const struct braid_ring_map *map = w->map;
	struct braid_ring_account *a = w->a;
	int err = 0, tries;
	u32 index;
	u64 read;

	for (tries = 0; tries < WALK_TRIES; tries++) {
		index = braid_load_acquire(&map->priv->reader_index) & 1;
		read = braid_load(&map->meta->read);
		err = walk_once(w, incarnation);
		if (!braid_mapping_same(m, incarnation))
			return braid_fail(-ESTALE, "%s: the driver restarted", m->path);
		if ((braid_load(&map->priv->reader_index) & 1) == index &&
		    braid_load(&map->meta->read) == read) {
			if (err)
				return braid_fail(err, "the ring's slots or commit words are invalid");
			return 0;
		}
	}
	/* An agent is reading: inconsistent counts are not an error. */
	if (err)
		memset(a, 0, sizeof(*a));
	a->moving = true;
	*a->fault = 0;
	return 0;
}

int braid_ring_account(struct braid_ring_account *a, const struct braid_ring_map *map,
		       const struct braid_mapping *m, u64 incarnation,
		       braid_account_event_fn fn, void *arg)
{
	struct walk w = { .a = a, .map = map, .fn = fn, .arg = arg };

	return account(&w, m, incarnation);
}

int braid_ring_gauge(struct braid_ring_account *a, const struct braid_ring_map *map,
		     const struct braid_mapping *m, u64 incarnation)
{
	struct walk w = { .a = a, .map = map, .quick = true };
	int err = account(&w, m, incarnation);

	*a->fault = 0;
	return err;
}

struct braid_ring_off braid_ring_off(const struct braid_ring_map *map)
{
	const struct braid_ring_private *priv = map->priv;
	u32 seq = braid_load_acquire(&priv->off_seq);			/* (F1) */
	struct braid_ring_off off = {
		.known = seq && !(seq & 1), .now = braid_load(&priv->off_now),
		.times = braid_load(&priv->off_times), .steps = braid_load(&priv->off_steps),
	};

	braid_fence();							/* (F1) */
	off.known &= braid_load(&priv->off_seq) == seq;
	return off;
}

u64 braid_ring_off_ns(u64 steps, u64 hz)
{
	unsigned __int128 ns = (unsigned __int128)steps * 1000000000u / hz;

	return ns > UINT64_MAX ? UINT64_MAX : ns;
}
