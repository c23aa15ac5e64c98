// SPDX-License-Identifier: GPL-2.0-or-later
/* The simple model of a ring, based only on docs/ring.md and the format's definition. */
#include "shared/page.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/ring_model.h"

#define CLOSINGS	8	/* sub-buffers released in one call: the reader's CHASE_TRIES */

static struct model_page *begin_page(struct ring_model *m, u32 index)
{
	struct model_page *page = &m->pages[index];

	MUST(index < MODEL_PAGES);
	memset(page, 0, sizeof(*page));
	page->first = m->nr_events;
	return page;
}

static u64 page_end_seq(const struct model_page *page)
{
	return page->first_seq + page->entries + page->dropped;
}

void model_init(struct ring_model *m, u32 flags, bool stamped, u64 first_seq, u64 now)
{
	memset(m, 0, offsetof(struct ring_model, events));
	m->flags = flags;
	m->stamped = stamped;
	m->first_seq = m->reported.next_seq = first_seq;
	m->last_time = m->hint = now;
	begin_page(m, 0)->first_seq = first_seq;
}

void model_lay_out(struct ring_model *m, u32 nr_slots, u32 data_bytes, u64 now)
{
	u64 seq = page_end_seq(&m->pages[m->tail]);
	u32 spare = m->tail + 1;

	MUST(!m->depth);
	begin_page(m, spare)->first_seq = seq;
	begin_page(m, spare + 1)->first_seq = seq;
	m->nr_slots = nr_slots;
	m->data_bytes = data_bytes & ~3u;
	m->base = m->tail = m->published = spare + 1;
	m->hand = spare;
	m->reported.known = false;
	m->last_time = m->hint = now;
}

bool model_full(const struct ring_model *m)
{
	return m->nr_events + 8 > MODEL_EVENTS || m->tail + 8 > MODEL_PAGES;
}

/* Writing ------------------------------------------------------------------------------------ */

void model_enter(struct ring_model *m)
{
	m->depth++;
}

struct model_tail model_tail(const struct ring_model *m)
{
	const struct model_page *page = &m->pages[m->tail];

	return (struct model_tail){ m->tail, page->used_bytes, page->closed };
}

/* The size of an event's stamp. The time since the last event is known only from the hint. */
static u32 stamp_bytes(const struct ring_model *m, u64 time)
{
	u64 since = time - m->hint;

	if (m->flags & BRAID_BUFFER_ABSOLUTE)
		return since >> BRAID_DELTA_BITS ? BRAID_EXTENT_BYTES : 0;
	if (since >> 32)
		return BRAID_STAMP_BYTES;
	return (time - m->last_time) >> BRAID_DELTA_BITS ? BRAID_EXTENT_BYTES : 0;
}

/* Moves to the next page, unless that holds uncommitted or, without overwriting, unread events. */
static bool next_page(struct ring_model *m)
{
	u32 next = m->tail + 1;
	bool lap = next >= m->base + m->nr_slots;

	if (next - m->published >= m->nr_slots)
		return false;
	if (lap && !(m->flags & BRAID_BUFFER_OVERWRITE) && next - m->nr_slots > m->hand)
		return false;
	begin_page(m, next);
	m->tail = next;
	return true;
}

enum model_verdict model_try(struct ring_model *m, const struct model_tail *seen, bool first,
			     u32 bytes, u64 now, struct model_event *taken)
{
	struct model_page *page = &m->pages[m->tail];
	u32 event = braid_event_bytes(bytes), extra;
	bool went_back = (s64)(now - m->last_time) < 0;
	/* A large step, or unknown: the interrupted context may be further than the hint says. */
	bool jumped = went_back ? m->last_time - now >= BRAID_JUMP_STEPS :
				  (now - m->hint) >> 32 && m->depth > 1;
	u64 time = went_back && !jumped ? m->last_time : now;

	if (event > m->data_bytes) {
		m->pages[seen->page].dropped++;
		m->offered++;
		return MODEL_DROPPED;
	}
	if (seen->page != m->tail || seen->used_bytes != page->used_bytes ||
	    seen->closed != page->closed)
		return MODEL_AGAIN;	/* interrupted since */
	if (!page->used_bytes)
		extra = (m->stamped || jumped) && event + BRAID_STAMP_BYTES <= m->data_bytes ?
				BRAID_STAMP_BYTES : 0;
	else
		extra = went_back ? 0 : stamp_bytes(m, time);
	if (page->closed || (jumped && page->used_bytes) ||
	    page->used_bytes + event + extra > m->data_bytes) {
		page->closed = true;
		if (next_page(m))
			return MODEL_AGAIN;
		page->dropped++;
		m->offered++;
		return MODEL_DROPPED;
	}
	if (!first || went_back || !page->used_bytes || (time - m->hint) >> BRAID_DELTA_BITS)
		m->hint = time;
	if (jumped)		/* the external time's line is older */
		m->stamped = false;
	page->used_bytes += event + extra;
	page->entries++;
	m->offered++;
	m->last_time = time;
	*taken = (struct model_event){ m->nr_events, time, bytes, extra == BRAID_STAMP_BYTES,
				       m->stamped };
	m->events[m->nr_events++] = *taken;
	return MODEL_TAKEN;
}

void model_leave(struct ring_model *m)
{
	if (--m->depth)
		return;
	m->pages[m->published].visible = m->pages[m->published].entries;
	while (m->published != m->tail) {
		struct model_page *page = &m->pages[m->published++];

		page[1].first_seq = page_end_seq(page);
		page[1].visible = page[1].entries;
	}
}

/* Reading ------------------------------------------------------------------------------------ */

static bool is_final(const struct ring_model *m, u32 page)
{
	return page < m->published;
}

/* The oldest page after @page that the writer has not overwritten. */
static u32 oldest_after(const struct ring_model *m, u32 page)
{
	u32 lapped = m->tail + 1 > m->nr_slots ? m->tail + 1 - m->nr_slots : 0;

	return page + 1 > lapped ? page + 1 : lapped;
}

static void report_progress(struct ring_model *m)
{
	m->reported.read = m->read;
	m->reported.lost = m->lost;
	m->reported.next_seq = m->next_seq;
	m->reported.hand = m->hand;
	m->reported.taken = m->taken;
	m->reported.known = true;
}

static u32 reported_taken(const struct ring_model *m)
{
	return m->reported.known && m->reported.hand == m->hand ? m->reported.taken : 0;
}

void model_attach(struct ring_model *m)
{
	m->in_hand = true;
	m->opened = false;
	m->taken = reported_taken(m);
	m->read = m->reported.read;
	m->lost = m->reported.lost;
	m->next_seq = m->reported.next_seq;
}

/* All unread events before @seq are lost. */
static u64 lose_up_to(struct ring_model *m, u64 seq)
{
	s64 ahead = seq - m->next_seq;

	if (ahead <= 0)
		return 0;
	m->next_seq = seq;
	m->lost += ahead;
	return ahead;
}

static void close_page(struct ring_model *m)
{
	lose_up_to(m, page_end_seq(&m->pages[m->hand]));
	report_progress(m);
	m->in_hand = false;
	m->opened = false;
	m->taken = 0;
}

static bool look(struct ring_model *m, struct model_span *span)
{
	const struct model_page *page = &m->pages[m->hand];
	u64 lost = 0;

	if (m->taken == page->visible && !is_final(m, m->hand))
		return false;
	if (!m->opened)
		lost = lose_up_to(m, page->first_seq);
	m->opened = true;
	if (m->taken == page->visible)
		return false;
	*span = (struct model_span){
		.events = m->events + page->first,
		.from = m->taken,
		.nr = page->visible - m->taken,
		.seq = page->first_seq + m->taken,
		.final = is_final(m, m->hand),
		.lost_before = lost,
		.dropped = page->dropped,
	};
	return true;
}

int model_next(struct ring_model *m, struct model_span *span)
{
	u32 k;

	m->delivered = false;
	for (k = 0; k < CLOSINGS; k++) {
		if (!m->in_hand) {
			u32 want = oldest_after(m, m->hand);

			/* A page without events stays with the writer. */
			if (want > m->tail || (!m->pages[want].visible && !is_final(m, want)))
				return 0;
			m->hand = want;
			m->in_hand = true;
		}
		m->delivered = look(m, span);
		if (m->delivered || !is_final(m, m->hand))
			return m->delivered;
		close_page(m);
	}
	return 0;
}

void model_done(struct ring_model *m, const struct model_span *span)
{
	m->taken += span->nr;
	m->next_seq += span->nr;
	m->read += span->nr;
	if (span->final)
		close_page(m);
	else
		report_progress(m);
}

void model_look_begin(const struct ring_model *m, struct model_look *look)
{
	look->page = m->hand;
	look->from = reported_taken(m);
}

bool model_look_next(const struct ring_model *m, struct model_look *look, struct model_span *span)
{
	while (look->page <= m->tail) {
		const struct model_page *page = &m->pages[look->page];
		u32 from = look->from;

		*span = (struct model_span){
			.events = m->events + page->first,
			.from = from,
			.nr = page->visible - from,
			.seq = page->first_seq + from,
		};
		look->page = oldest_after(m, look->page);
		look->from = 0;
		if (span->nr)
			return true;
	}
	return false;
}

u64 model_left(const struct ring_model *m)
{
	return page_end_seq(&m->pages[m->tail]) - m->next_seq;
}
