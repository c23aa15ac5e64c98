// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Guests that moved between hosts: which they are, and when they were where.
 *
 * A guest's incarnation and boot are the same on each host. So are those of a VM that was started
 * from a snapshot of one that goes on, or twice from one snapshot: these are several guests, whose
 * positions and numbers stand for different events. Samples distinguish them: a guest's
 * counter is seen on one host at a time, and continues on the next one.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/trace/capture_stays.h"
#include "host_agent/util/array.h"
#include "host_agent/util/text.h"

static int by_first(const void *a, const void *b, void *arg)
{
	const struct braid_capture_visit *x = a, *y = b;
	u64 origin = *(const u64 *)arg;

	return braid_compare((s64)(x->first_counter - origin), (s64)(y->first_counter - origin)) ?:
	       braid_compare((s64)(x->last_counter - origin), (s64)(y->last_counter - origin));
}

/* Of each host something must be known. */
static bool all_seen(const struct braid_capture_stream *s)
{
	const struct braid_stream *part;
	size_t n, k;

	for (n = 0; (part = braid_stream_part(&s->stream, n)); n++) {
		for (k = 0; k < s->nr_visits; k++)
			if (&s->visits[k].part->stream == part && s->visits[k].nr)
				break;
		if (k == s->nr_visits || part->host->unordered)
			return false;
	}
	return !s->more_visits;
}

static struct braid_capture_range range_of(const struct braid_capture_visit *visit, u64 ns)
{
	return braid_capture_tied_range(&visit->part->stream.host->tie, (s64)ns, 0);
}

/* A stay follows another one: the times and the counter agree. */
static bool follows(const struct braid_capture_visit *before,
		    const struct braid_capture_visit *visit)
{
	return (s64)(visit->first_counter - before->last_counter) >= 0 &&
	       range_of(before, before->last_h1_ns).from_ns <=
	       range_of(visit, visit->first_h2_ns).to_ns;
}

/* Return: 0; 1: it is several guests; -ENOMEM. */
static int add_stay(struct braid_capture_stream *s, const struct braid_capture_visit *visit)
{
	struct braid_stay stay = {
		.of = &visit->part->stream, .from_counter = visit->first_counter,
		.to_counter = visit->last_counter, .from_ns = INT64_MIN, .begun_ns = INT64_MIN,
	};

	return braid_array_push(s->stream.stays, s->nr_stays, s->stays_capacity, stay);
}

/* Samples may lie, or have wide bounds: stays are in order nevertheless. */
static void place_stay(struct braid_stay *stay, s64 from_ns, s64 begun_ns)
{
	s64 before_ns = stay[-1].begun_ns;

	stay->from_ns = from_ns > before_ns ? from_ns : before_ns;
	stay->begun_ns = begun_ns > stay->from_ns ? begun_ns : stay->from_ns;
}

/* Visits of one host that follow one another are one stay. Likewise. */
static int find_stays(struct braid_capture_stream *s)
{
	struct braid_capture_visit *last = NULL;
	u64 origin = s->nr_visits ? s->visits[0].first_counter : 0;
	int err = 0;
	size_t k;

	if (!all_seen(s))
		return 1;
	qsort_r(s->visits, s->nr_visits, sizeof(*s->visits), by_first, &origin);
	for (k = 0; k < s->nr_visits && !err; k++) {
		struct braid_capture_visit *visit = &s->visits[k];
		struct braid_stay *stay;

		if (!visit->nr)
			continue;
		if (last && last->part == visit->part) {
			if ((s64)(visit->last_counter - last->last_counter) > 0)
				last = visit;
			s->stream.stays[s->nr_stays - 1].to_counter = last->last_counter;
			continue;
		}
		if (last && !follows(last, visit))
			return 1;
		err = add_stay(s, visit);
		stay = &s->stream.stays[s->nr_stays - 1];
		if (!err && last)
			place_stay(stay, range_of(last, last->last_h1_ns).ns,
				   range_of(visit, visit->first_h2_ns).ns);
		last = visit;
	}
	return err;
}

static int add_twin(struct braid_capture_source *cs, const struct braid_stream *s)
{
	struct braid_capture_twin twin = { .incarnation = s->incarnation };

	memcpy(twin.boot_id, s->boot_id, sizeof(twin.boot_id));
	return braid_array_push(cs->twins->items, cs->twins->nr, cs->twins->capacity, twin);
}

#define MOST_HOSTS	40	/* bytes of their names in a stream's */

/* "web@alpha", "web@alpha+beta"; if that is long, "web@alpha+2": and two others. */
static void name_stays(struct braid_capture_stream *s)
{
	const struct braid_stream *first = s->stream.stays[0].of, *part;
	char hosts[sizeof(s->stream.name)];
	size_t used, k, n, others = 0;

	used = snprintf(hosts, sizeof(hosts), "%s", first->host->name);
	for (k = 1; k < s->nr_stays; k++) {
		part = s->stream.stays[k].of;
		for (n = 0; n < k && s->stream.stays[n].of != part; n++)
			;
		if (n < k)
			continue;
		if (others || used + strlen(part->host->name) + 1 > MOST_HOSTS)
			others++;
		else
			used += snprintf(hosts + used, sizeof(hosts) - used, "+%s",
					 part->host->name);
	}
	if (others)
		snprintf(hosts + used, sizeof(hosts) - used, "+%zu", others);
	memcpy(s->stream.name, first->name, sizeof(s->stream.name));
	braid_capture_name_at(&s->stream, strlen(first->name) - strlen(first->host->name) - 1,
			      hosts);
}

int braid_capture_find_stays(struct braid_capture_source *cs)
{
	size_t k;
	int ret, err = 0;

	for (k = 0; k < cs->source.nr_streams && err >= 0; k++) {
		struct braid_capture_stream *s = (void *)cs->source.streams[k];

		if (!s->stream.nr_parts)
			continue;
		ret = find_stays(s);
		if (!ret)
			name_stays(s);
		if (ret > 0)
			ret = add_twin(cs, &s->stream) ?: 1;
		err = ret ?: err;
	}
	return err;
}

/* When all is placed -------------------------------------------------------------------------- */

static u64 most(u64 a, u64 b)
{
	return a > b ? a : b;	/* BRAID_BOUND_UNKNOWN is the largest */
}

static int note_stay(struct braid_capture_stream *s, size_t k)
{
	const struct braid_stay *stay = &s->stream.stays[k];
	struct braid_text t = { 0 };
	int err;

	braid_text_printf(&t, "the guest moved from host %s to host %s: a new epoch",
			  stay[-1].of->host->name, stay->of->host->name);
	if (stay->begun_ns > stay->from_ns) {
		braid_text_puts(&t, ", in the ");
		braid_capture_put_duration(&t, (u64)stay->begun_ns - (u64)stay->from_ns);
		braid_text_puts(&t, " before this");
	}
	err = t.failed ? -ENOMEM : stay->begun_ns < 0 ? 0 :
	      braid_capture_add_note(s, stay->begun_ns, t.data, t.bytes);
	braid_text_free(&t);
	return err;
}

int braid_capture_settle_stays(struct braid_capture_stream *s)
{
	const struct braid_stream *first = s->stream.stays[0].of, *last, *part;
	struct braid_stream *to = &s->stream;
	int err = 0;
	size_t k;

	to->nr_stays = s->nr_stays;
	last = to->stays[to->nr_stays - 1].of;
	to->end_reason = last->end_reason;
	to->end_ns = last->end_ns;
	to->found_ns = first->found_ns;
	to->has_vmclock = last->has_vmclock;
	to->vmclock = last->vmclock;
	for (k = 0; k < to->nr_stays; k++)
		to->stays[k].bound_ns = to->stays[k].of->bound_ns;
	if (!braid_stream_host_number(to))
		to->own_bound_ns = to->bound_ns;
	for (k = 0; k < to->nr_parts && !err; k++) {
		part = to->parts[k];
		to->tsc_unstable |= part->tsc_unstable;
		to->own_bound_ns = most(to->own_bound_ns, braid_stream_bound_of_host(part));
		to->bound_ns = most(to->bound_ns, part->bound_ns);
		err = braid_capture_move_notes(s, (struct braid_capture_stream *)part);
	}
	for (k = 1; k < to->nr_stays && !err; k++)
		err = note_stay(s, k);
	for (k = 0; k < to->nr_rings; k++) {
		if (to->rings[k]->cpu == BRAID_RING_NOTES)
			continue;
		to->rings[k]->at = first;
		to->rings[k]->tie = &first->host->tie;
	}
	braid_capture_sort_notes(s);
	return err;
}

/* A walk ------------------------------------------------------------------------------------- */

u64 braid_capture_taken_by(const struct braid_capture_ring *ring, const struct braid_stream *part,
			   u64 taken_ns)
{
	const struct braid_capture_file *file = &ring->source->files[ring->at.extent.file];

	return !part || file->host == part->host->number ? taken_ns : BRAID_TAKEN_UNKNOWN;
}

/* Whether it may be of the stay after that, whose host has read it; then what its time is there. */
static bool find_either(struct braid_capture_ring *base, u64 counter, u64 taken_ns)
{
	struct braid_ring *ring = &base->ring;
	const struct braid_stay *stay = &ring->stream->stays[base->stay];
	const struct braid_stream *next;
	struct braid_capture_range range;
	struct braid_clock_time t;

	if (base->stay + 1 == ring->stream->nr_stays || (s64)(counter - stay->to_counter) <= 0 ||
	    braid_capture_taken_by(base, stay->of, taken_ns) != BRAID_TAKEN_UNKNOWN)
		return false;
	next = stay[1].of;
	t = braid_clock_convert(&next->clock, ring->cpu, counter,
				braid_capture_taken_by(base, next, taken_ns), 0);
	range = braid_capture_tied_range(&next->host->tie, t.ns, t.bound_ns);
	ring->either_from_ns = range.from_ns;
	ring->either_to_ns = range.to_ns;
	return true;
}

bool braid_capture_move(struct braid_capture_ring *base, u64 counter)
{
	const struct braid_stream *s = base->ring.stream;
	size_t before = base->stay;

	while (base->stay + 1 < s->nr_stays &&
	       (s64)(counter - s->stays[base->stay + 1].from_counter) >= 0)
		base->stay++;
	base->ring.at = s->stays[base->stay].of;
	base->ring.tie = &base->ring.at->host->tie;
	if (base->stay == before)
		return false;
	base->epoch = 0;
	return true;
}

struct braid_clock_time braid_capture_convert_moved(struct braid_capture_ring *base, u64 counter,
						    u64 taken_ns, bool adrift)
{
	const struct braid_stream *part = base->ring.at;
	struct braid_clock_time t;

	t = braid_clock_convert(&part->clock, base->ring.cpu, counter,
				braid_capture_taken_by(base, part, taken_ns),
				base->epoch + adrift);
	base->ring.either = find_either(base, counter, taken_ns);
	t.sure &= !base->ring.either;
	return t;
}

u64 braid_capture_last_end(struct braid_capture_ring *base)
{
	const struct braid_stream *s = base->ring.stream;

	if (s->nr_stays) {
		s = s->stays[s->nr_stays - 1].of;
		base->ring.at = s;
		base->ring.tie = &s->host->tie;
	}
	return ((const struct braid_capture_stream *)s)->own_end_ns;
}
