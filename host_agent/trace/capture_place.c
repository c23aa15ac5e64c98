// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Streams of other hosts than the first one keep their own times until all is known of them. Then
 * they are put on the timeline: tables at once, items by their rings' tie.
 */
#include "host_agent/trace/capture_private.h"

#define MARGIN_NS	1000	/* the inverse of a tie is exact to a few ns */

static u64 placed(const struct braid_clock *tie, u64 ns)
{
	/* 0: not known */
	return ns && ns <= INT64_MAX ? (u64)braid_capture_tied(tie, (s64)ns).ns : ns;
}

struct braid_capture_range braid_capture_tied_range(const struct braid_clock *tie, s64 ns,
						    u64 bound_ns)
{
	struct braid_clock_time t = braid_capture_tied(tie, ns), low = t, high = t;

	if (bound_ns == BRAID_BOUND_UNKNOWN || t.bound_ns == BRAID_BOUND_UNKNOWN)
		return (struct braid_capture_range){ t.ns, INT64_MIN, INT64_MAX, t.sure };
	if (bound_ns) {
		low = braid_capture_tied(tie, braid_clock_earliest(ns, bound_ns));
		high = braid_capture_tied(tie, braid_clock_latest(ns, bound_ns));
	}
	return (struct braid_capture_range){
		.ns = t.ns, .from_ns = braid_clock_earliest(low.ns, low.bound_ns),
		.to_ns = braid_clock_latest(high.ns, high.bound_ns), .sure = t.sure,
	};
}

/* Times may be as far apart as a clock that is wrong puts them. */
static u64 bound_of(const struct braid_capture_range *t)
{
	u64 early = t->ns > t->from_ns ? (u64)t->ns - (u64)t->from_ns : 0;
	u64 late = t->to_ns > t->ns ? (u64)t->to_ns - (u64)t->ns : 0;
	u64 bound_ns = early > late ? early : late;

	return t->from_ns == INT64_MIN || t->to_ns == INT64_MAX || bound_ns > INT64_MAX ?
	       BRAID_BOUND_UNKNOWN : bound_ns;
}

void braid_ring_tie(struct braid_ring *ring)
{
	struct braid_item *item = &ring->item;
	struct braid_capture_range t = braid_capture_tied_range(ring->tie, item->host_ns,
								item->bound_ns);

	item->own_ns = item->host_ns;
	item->own_bound_ns = item->bound_ns;
	item->own_sure = item->sure;
	if (ring->either) {	/* it is not known whether it was before or after a migration */
		t.from_ns = ring->either_from_ns < t.from_ns ? ring->either_from_ns : t.from_ns;
		t.to_ns = ring->either_to_ns > t.to_ns ? ring->either_to_ns : t.to_ns;
	}
	if (t.ns < ring->tied_ns)
		t.ns = ring->tied_ns;	/* between two epochs: its order is known */
	ring->tied_ns = t.ns;
	item->host_ns = t.ns;
	item->bound_ns = bound_of(&t);
	item->sure &= t.sure;
}

s64 braid_capture_own_ns(const struct braid_capture_ring *ring, s64 ns)
{
	struct braid_clock_reading r;

	if (!ring->ring.tie)
		return ns;
	r = braid_clock_reading_at(ring->ring.tie, ns);
	return r.bound_ns == BRAID_BOUND_UNKNOWN ? INT64_MIN : (s64)r.value - MARGIN_NS;
}

s64 braid_stream_on_timeline(const struct braid_stream *stream, s64 own_ns)
{
	if (!braid_stream_host_number(stream) || own_ns == INT64_MIN || own_ns == INT64_MAX)
		return own_ns;
	return braid_capture_tied(&stream->host->tie, own_ns).ns;
}

/* The inverse is exact to a few ns: moves a value until the way back is at @ns or beyond. */
static void widen(const struct braid_clock *tie, u64 *value, s64 ns, s64 step)
{
	for (; (braid_capture_tied(tie, (s64)*value).ns - ns) * step < 0 && step < MARGIN_NS &&
	       step > -MARGIN_NS; step *= 2)
		*value += (u64)step;
}

bool braid_capture_own_sample(const struct braid_stream *stream, struct braid_clock_sample *sample)
{
	const struct braid_clock *tie = &stream->host->tie;
	struct braid_clock_reading from, to;

	if (!braid_stream_host_number(stream))
		return true;
	from = braid_clock_reading_at(tie, (s64)sample->h1_ns);
	to = braid_clock_reading_at(tie, (s64)sample->h2_ns);
	if (from.bound_ns == BRAID_BOUND_UNKNOWN || to.bound_ns == BRAID_BOUND_UNKNOWN)
		return false;
	widen(tie, &from.value, (s64)sample->h1_ns, -1);
	widen(tie, &to.value, (s64)sample->h2_ns, 1);
	sample->h1_ns = from.value;
	sample->h2_ns = to.value;
	return true;
}

static void place_tables(struct braid_capture_stream *s, const struct braid_clock *tie)
{
	struct braid_stream *to = &s->stream;
	struct braid_clock_time t;
	size_t k;

	to->found_ns = placed(tie, to->found_ns);
	to->end_ns = placed(tie, to->end_ns);
	to->vmclock.host_ns = placed(tie, to->vmclock.host_ns);
	to->steal_first.host_ns = placed(tie, to->steal_first.host_ns);
	to->steal_last.host_ns = placed(tie, to->steal_last.host_ns);
	for (k = 0; k < to->nr_threads; k++)
		to->threads[k].from_ns = placed(tie, to->threads[k].from_ns);
	for (k = 0; k < to->nr_others; k++)
		to->others[k].from_ns = placed(tie, to->others[k].from_ns);
	for (k = 0; k < to->nr_cgroups; k++)
		to->cgroups[k].from_ns = placed(tie, to->cgroups[k].from_ns);
	for (k = 0; k < to->nr_throttled; k++) {
		to->throttled[k].from_ns = placed(tie, to->throttled[k].from_ns);
		to->throttled[k].to_ns = placed(tie, to->throttled[k].to_ns);
	}
	for (k = 0; k < s->nr_notes; k++) {
		t = braid_capture_tied(tie, (s64)s->notes[k].host_ns);
		s->notes[k].host_ns = (u64)t.ns;
		s->notes[k].bound_ns = t.bound_ns;
	}
}

static void place_windows(struct braid_capture_source *cs)
{
	size_t k;

	for (k = 0; k < cs->source.nr_windows; k++) {
		const struct braid_host *host = cs->source.hosts[cs->files[cs->edges[k].file].host];
		struct braid_window *w = &cs->source.windows[k];

		if (!host->number)
			continue;
		w->start_ns = (s64)placed(&host->tie, (u64)w->start_ns);
		if (w->stop_ns != INT64_MAX)
			w->stop_ns = (s64)placed(&host->tie, (u64)w->stop_ns);
		w->last_ns = (s64)placed(&host->tie, (u64)w->last_ns);
	}
}

void braid_capture_add_tie(struct braid_capture_stream *s)
{
	const struct braid_host *host = s->stream.host;

	if (!host || !host->number)
		return;
	s->stream.own_bound_ns = s->stream.bound_ns;
	if (host->bound_ns == BRAID_BOUND_UNKNOWN)
		s->stream.bound_ns = BRAID_BOUND_UNKNOWN;
	else if (s->stream.bound_ns != BRAID_BOUND_UNKNOWN)
		s->stream.bound_ns += host->bound_ns;
}

static void place_stream(struct braid_capture_stream *s)
{
	const struct braid_host *host = s->stream.host;
	size_t n;

	if (!host || !host->number)
		return;
	place_tables(s, &host->tie);
	braid_capture_add_tie(s);
	for (n = 0; n < s->stream.nr_rings; n++)
		if (s->stream.rings[n]->cpu != BRAID_RING_NOTES)
			s->stream.rings[n]->tie = &host->tie;
}

void braid_capture_place_hosts(struct braid_capture_source *cs)
{
	const struct braid_stream *part;
	size_t k, n;

	if (cs->source.nr_hosts < 2)
		return;
	place_windows(cs);
	for (k = 0; k < cs->source.nr_streams; k++)
		for (n = 0; (part = braid_stream_part(cs->source.streams[k], n)); n++)
			place_stream((struct braid_capture_stream *)part);
}
