// SPDX-License-Identifier: GPL-2.0-or-later
/* The cursor over a guest's ring: extents to sub-buffers, sub-buffers to events. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/trace/capture_stays.h"
#include "host_agent/trace/stacks.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "shared/page.h"
#include "shared/ring.h"

struct guest_ring {
	struct braid_capture_ring base;
	u32 flags;			/* BRAID_BUFFER_*, as the stream's first words were */

	/* All below is where the cursor is: 0 at the start. */
	struct braid_chunk_page page;	/* of the current extent */
	u32 page_flags;			/* BRAID_BUFFER_* that hold for it */
	struct braid_cursor cursor;
	bool loaded;
	bool opened;			/* position and what follows it hold */
	bool placed;			/* first_seq is that of its first event here */
	bool lost_track;		/* the rest of this sub-buffer can't be placed */
	u64 position;
	u64 first_seq;
	u32 begun_bytes;		/* of the sub-buffer: where the first extent here begins */
	u32 covered_bytes;		/* of it, decoded */
	u64 dropped;			/* after the sub-buffer, by its writer's count */
	u64 unreported;			/* lost, not reported with an event yet */
	u64 unreported_damaged;
	bool any;			/* item is of this ring: the next is no earlier than: */
	s64 last_ns;
	size_t part;			/* of base.parts: the first that ends after the event */
	bool skipped;			/* what came before this sub-buffer */
	bool adrift;			/* the counter jumped back: a later epoch holds, not known which */
	bool leaves_out;		/* some of the page, after its first event */
	bool passed;			/* the last event was, and its time was not converted */
	u64 stack[BRAID_STACK_RECORD / sizeof(u64)];	/* a record with its frames */
};

static struct guest_ring *guest_ring(struct braid_ring *ring)
{
	return (struct guest_ring *)ring;
}

__attribute__((__format__(printf, 2, 3)))
static void faulty(struct guest_ring *g, const char *format, ...)
{
	struct braid_ring *ring = &g->base.ring;
	char line[256];
	va_list args;

	ring->walk.faults++;
	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	braid_source_faulty(&g->base.source->source, ring->stream,
			    "buffer %u, vCPU %u, position %llu: %s", ring->buffer, ring->cpu,
			    (unsigned long long)g->position, line);
}

/* Accounts for a jump of the sequence, of which the writer or the agent reported @reported. */
static void lose(struct guest_ring *g, u64 lost, u64 reported)
{
	struct braid_ring_walk *walk = &g->base.ring.walk;
	u64 damaged = lost > reported ? lost - reported : 0;

	walk->lost += lost;
	walk->damaged += damaged;
	g->unreported += lost;
	g->unreported_damaged += damaged;
	walk->next_seq += lost;
}

/* The first sub-buffer that is here from its start, perhaps after one that was not. */
static void start_walk(struct guest_ring *g, u64 reported)
{
	struct braid_ring_walk *walk = &g->base.ring.walk;

	walk->started = true;
	walk->first_seq = g->first_seq - reported - walk->skipped;
	walk->next_seq = walk->first_seq;
	lose(g, reported + walk->skipped, reported);
}

/* An extent of another sub-buffer: what happened in between? */
static void open_subbuf(struct guest_ring *g)
{
	struct braid_ring_walk *walk = &g->base.ring.walk;
	s64 ahead = (s64)(g->page.first_seq - walk->next_seq);
	u64 reported = g->dropped + g->page.lost_before;

	g->opened = true;
	g->placed = false;
	g->lost_track = false;
	g->position = g->page.position;
	g->first_seq = g->page.first_seq;
	g->begun_bytes = g->page.from_bytes;
	g->covered_bytes = 0;
	g->dropped = 0;
	walk->pages++;
	if (g->skipped) {
		g->skipped = false;
		walk->started = true;
		walk->next_seq = g->first_seq;
		return;
	}
	if (!walk->started) {
		/* An earlier recording consumed this sub-buffer's beginning. */
		if (!g->page.from_bytes || g->page.flags & BRAID_PAGE_PLACED)
			start_walk(g, reported);
		return;
	}
	if (ahead < 0) {
		faulty(g, "its sequence number is %llu events before the expected one",
		       -(unsigned long long)ahead);
		walk->next_seq = g->first_seq;
		return;
	}
	if (!ahead)
		return;
	if ((u64)ahead > reported) {
		/* Losses of a part precede or follow the events that others read after it. */
		u64 elsewhere = braid_capture_elsewhere(&g->base, walk->next_seq, g->first_seq);

		if (elsewhere > ahead - reported)
			elsewhere = ahead - reported;
		walk->elsewhere += elsewhere;
		walk->next_seq += elsewhere;
		ahead -= elsewhere;
	}
	lose(g, ahead, reported);
	if ((u64)ahead > reported)
		faulty(g, "recorded before it, but not in the capture: %llu event%s",
		       (unsigned long long)(ahead - reported), ahead - reported == 1 ? "" : "s");
}

/* What follows has no known size: it is in no count. */
static void invalid_event(struct guest_ring *g, const struct braid_cursor *c)
{
	faulty(g, "invalid event after %llu events; the rest is skipped",
	       (unsigned long long)c->events);
}

/* Counts the events of an extent that can't be dated. */
static void skip_extent(struct guest_ring *g, const u8 *data, u32 bytes)
{
	struct braid_cursor c;

	braid_cursor_init(&c, data, bytes, 0, g->page_flags);
	if (braid_page_count(&c) < 0)
		invalid_event(g, &c);
	g->base.ring.walk.skipped += c.events;
}

/* Whether the chunk is unchanged since it was indexed. */
static bool same_extent(const struct braid_chunk_page *page, const struct braid_extent *extent)
{
	return page->position == extent->position &&
	       page->first_seq == extent->first_seq && page->from_bytes == extent->from_bytes &&
	       page->to_bytes == extent->to_bytes;
}

/* Begins the extent that was read. */
static void begin_extent(struct guest_ring *g, bool placed)
{
	const u8 *data = g->base.chunk + BRAID_PAGE_DATA_AT;
	u32 skip, bytes;

	if (g->page.from_bytes > g->covered_bytes && !g->lost_track) {
		g->lost_track = true;
		if (g->base.ring.walk.started)
			faulty(g, "its bytes %u to %u are missing; the rest of it is skipped",
			       g->covered_bytes, g->page.from_bytes);
	}
	if (g->lost_track) {
		skip_extent(g, data, g->page.to_bytes - g->page.from_bytes);
		g->covered_bytes = g->page.to_bytes;
		return;
	}
	skip = g->covered_bytes - g->page.from_bytes;
	bytes = g->page.to_bytes - g->covered_bytes;
	if (!g->covered_bytes || placed) {
		braid_cursor_init(&g->cursor, data, bytes, g->page.time_stamp, g->page_flags);
	} else {
		/* Times continue to accumulate from the end of the previous extent. */
		g->cursor.data = data + skip;
		g->cursor.bytes = bytes;
		g->cursor.offset = 0;
	}
	g->loaded = true;
}

/*
 * Bytes before those that the cursor has had, or a shorter copy of them: its first events, its place
 * or undamaged bytes may be in it alone.
 */
static void check_late_extent(struct guest_ring *g, const struct braid_chunk_page *page)
{
	u32 to = page->to_bytes;

	if (page->from_bytes < g->begun_bytes)
		to = to < g->begun_bytes ? to : g->begun_bytes;
	else if (page->from_bytes > g->page.from_bytes || to > g->covered_bytes ||
		 (page->from_bytes == g->page.from_bytes && to >= g->page.to_bytes))
		return;
	if (page->from_bytes < to)
		faulty(g, "its bytes %u to %u come after later ones; they are skipped",
		       page->from_bytes, to);
}

/*
 * Whether an extent adds to what the cursor has had; it is the current one then. However a capture is
 * opened, each extent comes through here. Lists are in order if the capture was read in whole or
 * by its index, while a growing one is as its file says. After this, covered_bytes <= to_bytes.
 * *placed: time and number are of its from_bytes.
 */
static bool accept_extent(struct guest_ring *g, const struct braid_chunk_page *page, bool *placed)
{
	struct braid_ring_walk *walk = &g->base.ring.walk;
	bool fresh = !g->opened || page->position != g->position;

	if (g->opened && braid_position_diff(page->position, g->position) < 0) {
		faulty(g, "a page of position %llu comes after it; that one is skipped",
		       (unsigned long long)page->position);
		return false;
	}
	if (!fresh)
		check_late_extent(g, page);
	g->page = *page;
	*placed = page->flags & BRAID_PAGE_PLACED && (fresh || page->from_bytes > g->covered_bytes);
	if (fresh || *placed)
		open_subbuf(g);
	else if (!(page->flags & BRAID_PAGE_PLACED) && !g->placed && page->first_seq != g->first_seq)
		faulty(g, "its extents give different sequence numbers");
	if (page->flags & BRAID_PAGE_FINAL && page->dropped > g->dropped)
		g->dropped = page->dropped;
	if (page->from_bytes == page->to_bytes)
		faulty(g, "a page of it has no bytes");	/* no recorder writes one */
	if (!fresh && page->to_bytes <= g->covered_bytes) {
		walk->duplicates += page->from_bytes < page->to_bytes;
		return false;
	}
	if (*placed) {
		g->placed = true;
		g->covered_bytes = page->from_bytes;
	}
	return true;
}

/* Whether nothing but its number of events need be known of a page, or a rest of one. */
static bool may_pass_page(const struct guest_ring *g)
{
	const struct braid_ring *ring = &g->base.ring;

	return ring->left_out && g->opened && ring->walk.started && !g->lost_track && !g->dropped &&
	       !g->unreported && !g->unreported_damaged && !g->adrift && !g->skipped &&
	       braid_capture_is_plain(ring->stream);
}

/* Loads the next extent. Return: 1, 0 at the end, -errno. */
static int load_extent(struct guest_ring *g)
{
	struct braid_capture_ring *base = &g->base;
	const struct braid_extent *extent = &g->base.at.extent;
	struct braid_chunk_page page;
	bool placed;
	int err;

	if (may_pass_page(g))
		braid_capture_pass_guest(base, g->position, g->covered_bytes, &g->part);
	err = braid_extents_next(&base->extents, &g->base.at);
	if (err <= 0)
		return err;
	if (g->skipped && extent->from_bytes)
		return 1;	/* no event of it could be placed */
	err = braid_capture_fetch(base, extent,
				  sizeof(page) + extent->to_bytes - extent->from_bytes);
	if (err == -EBADMSG) {
		faulty(g, "%s", braid_failure());
		return 1;
	}
	if (err)
		return err;
	memcpy(&page, base->chunk + BRAID_PAGE_AT, sizeof(page));
	if (!same_extent(&page, extent)) {
		faulty(g, "the capture changed while it was read");
		return 1;
	}
	base->ring.taken_ns = page.host_ns;
	g->page_flags = braid_capture_page_flags(base->source, extent, &page, g->flags);
	if (accept_extent(g, &page, &placed))
		begin_extent(g, placed);
	if (!braid_capture_has_types(base, base->chunk))
		faulty(g, "its events are of other types than the index says");
	return 1;
}

static struct braid_clock_time capture_guest_convert(struct guest_ring *g, u64 counter)
{
	const struct braid_stream *s = g->base.ring.stream;

	if (!s->nr_stays)
		return braid_clock_convert(&s->clock, g->base.ring.cpu, counter, g->page.host_ns,
					   g->base.epoch + g->adrift);
	if (braid_capture_move(&g->base, counter)) {	/* the last time was of another clock */
		g->adrift = false;
		g->last_ns = INT64_MIN;
	}
	return braid_capture_convert_moved(&g->base, counter, g->page.host_ns, g->adrift);
}

static void fill_item(struct guest_ring *g, enum braid_item_kind kind, u64 counter)
{
	struct braid_ring *ring = &g->base.ring;
	struct braid_item *item = &ring->item;
	struct braid_clock_time t = capture_guest_convert(g, counter);
	u64 taken_ns = braid_capture_taken_by(&g->base, ring->at, g->page.host_ns);
	s64 shown = t.ns;

	if (t.sure) {
		g->base.epoch = t.epoch;	/* what follows in the ring is of no earlier one */
		g->adrift = false;
	}
	item->kind = kind;
	item->bound_ns = t.bound_ns;
	item->sure = t.sure;
	if (kind == BRAID_ITEM_EVENT && taken_ns != BRAID_TAKEN_UNKNOWN && shown > (s64)taken_ns) {
		/* It was there then. If not even the bound allows that, something is wrong. */
		if (braid_clock_earliest(t.ns, t.bound_ns) > (s64)taken_ns)
			faulty(g, "an event is %llu ns later than the page that holds it",
			       (unsigned long long)t.ns - taken_ns);
		shown = taken_ns;
	}
	if (g->any && shown < g->last_ns)
		shown = g->last_ns;	/* nor before its predecessor: two epochs overlap, or
						   the guest's time went back */
	if (shown > t.ns && item->bound_ns != BRAID_BOUND_UNKNOWN)
		item->bound_ns += (u64)shown - (u64)t.ns;
	g->any = true;
	g->last_ns = item->host_ns = shown;
	item->counter = counter;
	item->lost_before = g->unreported;
	item->damaged_before = g->unreported_damaged;
	g->unreported = 0;
	g->unreported_damaged = 0;
}

/* Times increase in a ring, except where the guest's counter jumped back and began a sub-buffer. */
static void check_order(struct guest_ring *g, u64 counter)
{
	u64 back = g->base.ring.item.counter - counter;

	if (!g->any || (s64)back <= 0)
		return;
	if (g->cursor.events == 1 && back >= BRAID_JUMP_STEPS) {
		g->adrift = true;
		return;
	}
	g->base.ring.walk.back++;
	faulty(g, "the guest's time goes back by %llu counter steps", (unsigned long long)back);
}

/*
 * The next event is no earlier than one that was passed over. Times of one page ascend, so that
 * only the last of them is converted.
 */
static void convert_passed(struct guest_ring *g)
{
	if (!g->passed)
		return;
	g->passed = false;
	fill_item(g, BRAID_ITEM_EVENT, g->base.ring.item.counter);
}

/* Counts an event of a type that is left out. Return: false: the event must be delivered. */
static bool pass_over(struct guest_ring *g, u64 counter)
{
	struct braid_ring *ring = &g->base.ring;
	u64 seq = g->first_seq + g->cursor.events - 1;

	if ((s64)(counter - ring->item.counter) < 0 || seq != ring->walk.next_seq ||
	    g->unreported || g->unreported_damaged || g->adrift)
		return false;
	g->passed = true;
	ring->item.counter = counter;
	ring->walk.events++;
	ring->walk.next_seq++;
	braid_capture_find_part(&g->base, &g->part, seq);
	return true;
}

/* Whether a record refers to the stream's stacks. */
static bool has_stack(const struct guest_ring *g, const struct braid_event_view *view)
{
	const struct braid_ring *ring = &g->base.ring;
	const struct braid_stream *s = ring->stream;
	u16 id;

	if (!s->stack_id || g->page_flags & BRAID_BUFFER_RAW || view->payload_bytes < sizeof(id))
		return false;
	memcpy(&id, view->payload, sizeof(id));
	return id == s->stack_id && ring->buffer < s->nr_buffers &&
	       s->buffers[ring->buffer].events_of == s->stack_buffer;
}

static void put_payload(struct guest_ring *g, const struct braid_event_view *view)
{
	struct braid_item *item = &g->base.ring.item;
	u32 bytes = has_stack(g, view) ?
		    braid_stacks_fill(g->base.ring.stream->stacks, (u8 *)g->stack, view->payload,
				      view->payload_bytes) : 0;

	item->payload = bytes ? (const u8 *)g->stack : view->payload;
	item->payload_bytes = bytes ? bytes : view->payload_bytes;
}

static void capture_guest_deliver(struct guest_ring *g, const struct braid_event_view *view)
{
	struct braid_ring *ring = &g->base.ring;
	struct braid_item *item = &ring->item;

	convert_passed(g);
	check_order(g, view->time);
	g->leaves_out = ring->left_out && !(g->page_flags & BRAID_BUFFER_RAW) &&
			braid_capture_is_plain(ring->stream);
	item->seq = g->first_seq + g->cursor.events - 1;
	if (item->seq != ring->walk.next_seq)
		faulty(g, "event %llu where %llu was expected", (unsigned long long)item->seq,
		       (unsigned long long)ring->walk.next_seq);
	fill_item(g, BRAID_ITEM_EVENT, view->time);
	item->raw = g->page_flags & BRAID_BUFFER_RAW;
	put_payload(g, view);
	ring->walk.events++;
	ring->walk.next_seq = item->seq + 1;
	braid_capture_find_part(&g->base, &g->part, item->seq);
}

/* Events lost after the ring's last page and before the stop: known only from its account. */
static u64 lost_at_end(const struct braid_ring *ring)
{
	s64 gap = (s64)(ring->report.end_seq - ring->walk.next_seq);
	s64 more = (s64)(ring->report.lost - (ring->walk.lost - ring->walk.damaged));

	if (!ring->report.nr_parts || !ring->walk.started || gap <= 0 || more <= 0)
		return 0;
	return gap < more ? gap : more;
}

/* A ring that lost all its events has no page to report that. */
static int lost_alone(struct guest_ring *g)
{
	struct braid_ring *ring = &g->base.ring;
	struct braid_item *item = &ring->item;
	u64 lost = ring->report.lost;

	ring->walk.started = true;
	ring->walk.lost = lost;
	ring->walk.first_seq = ring->report.first.first_seq;
	ring->walk.next_seq = ring->walk.first_seq + lost;
	item->kind = BRAID_ITEM_LOST;
	item->host_ns = braid_capture_last_end(&g->base);
	item->bound_ns = BRAID_BOUND_UNKNOWN;
	item->seq = ring->walk.next_seq;
	item->lost_before = lost;
	item->payload_bytes = 0;
	return 1;
}

/* After the last extent: events dropped or skipped there are reported separately. */
static int end_of_ring(struct guest_ring *g)
{
	const struct braid_source *source = &g->base.source->source;
	struct braid_ring *ring = &g->base.ring;
	u64 dropped = g->dropped ? g->dropped : lost_at_end(ring);

	if (!ring->walk.started && source->grows && source->until_ns != INT64_MAX)
		return 0;	/* what comes may have a place */
	if (!ring->walk.started && !ring->walk.pages && ring->report.lost)
		return lost_alone(g);
	g->dropped = 0;
	if (!ring->walk.started && ring->walk.skipped) {
		g->first_seq += g->cursor.events;
		start_walk(g, dropped);
	} else if (g->lost_track || dropped) {
		/* The size of an unreadable end is unknown. */
		lose(g, dropped, dropped);
	}
	if (!g->unreported)
		return 0;
	fill_item(g, BRAID_ITEM_LOST, g->any ? ring->item.counter : g->page.time_stamp);
	ring->item.seq = ring->walk.next_seq;
	ring->item.payload = NULL;
	ring->item.payload_bytes = 0;
	return 1;
}

static int guest_next(struct braid_ring *ring)
{
	struct guest_ring *g = guest_ring(ring);
	struct braid_event_view view;
	int ret;

	for (;;) {
		if (!g->loaded) {
			ret = load_extent(g);
			if (ret < 0)
				return ret;
			if (!ret)
				return end_of_ring(g);
			continue;
		}
		ret = braid_page_next(&g->cursor, &view);
		if (ret > 0 && view.type == BRAID_TYPE_DATA) {
			if (g->leaves_out &&
			    braid_ring_leaves_out(ring, view.payload, view.payload_bytes) &&
			    pass_over(g, view.time))
				continue;
			capture_guest_deliver(g, &view);
			return 1;
		}
		if (ret > 0)		/* a stamp: the cursor has used its time */
			continue;
		if (ret < 0) {
			invalid_event(g, &g->cursor);
			g->lost_track = true;
		}
		convert_passed(g);
		g->leaves_out = false;
		g->loaded = false;
		g->covered_bytes = g->page.to_bytes;
	}
}

static bool page_is_before(const struct braid_capture_ring *ring, const void *head, s64 ns)
{
	struct braid_chunk_page page;

	memcpy(&page, head, sizeof(page));
	return (s64)page.host_ns < ns ||
	       braid_clock_convert(&ring->ring.stream->clock, ring->ring.cpu, page.time_stamp,
				   page.host_ns, 0).ns < ns;
}

/* No event is later than its page was taken. With several epochs, former events decide on later ones. */
static bool guest_skip(struct braid_ring *ring, s64 ns)
{
	struct guest_ring *g = guest_ring(ring);
	struct braid_extent_cursor at = g->base.at;
	bool moved;

	if (g->adrift || !braid_capture_is_plain(ring->stream))
		return false;
	ns = braid_capture_own_ns(&g->base, ns);
	moved = braid_capture_skip(&g->base, ns, false);
	if (moved && !braid_extents_has_beginning(&g->base.extents, g->base.at)) {
		g->base.at = at;
		moved = false;
	}
	moved |= braid_capture_skip_pages(&g->base, ns, sizeof(struct braid_chunk_page),
					  page_is_before);
	if (!moved)
		return false;
	g->loaded = g->opened = g->placed = g->lost_track = false;
	g->leaves_out = g->passed = false;
	g->dropped = 0;
	g->unreported = 0;
	g->unreported_damaged = 0;
	g->skipped = true;
	return true;
}

static void guest_rewind(struct braid_ring *ring)
{
	struct guest_ring *g = guest_ring(ring);

	braid_capture_rewind(&g->base, &g->page,
			     sizeof(*g) - offsetof(struct guest_ring, page));
}

struct braid_capture_ring *braid_capture_guest_ring(struct braid_capture_stream *s, u32 buffer,
						    u32 cpu)
{
	static const struct braid_ring_ops ops = {
		.next = guest_next,
		.skip = guest_skip,
		.rewind = guest_rewind,
	};
	struct guest_ring *g = braid_capture_add_ring(s, sizeof(*g), cpu, &ops);

	if (!g)
		return NULL;
	g->flags = s->superblock.buffers[buffer].flags;
	g->base.ring.buffer = buffer;
	return &g->base;
}
