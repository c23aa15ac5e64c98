// SPDX-License-Identifier: GPL-2.0-or-later
/* Builds the clock of every stream of a capture from all clock data in the capture. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/trace/capture_private.h"
#include "host_agent/trace/vcpu.h"
#include "host_agent/util/array.h"
#include "host_agent/util/error.h"
#include "host_agent/util/text.h"

/*
 * Wall times place a stream, but without a bound: the guest's may be wrong, and those in
 * sub-buffers are extrapolated from a pair up to a second old.
 */
#define PAIR_ERROR_NS	100000
#define PAIR_FUTURE_NS	10000000	/* an event this much younger than its page: no such wall time */

static int take_samples(struct braid_round_trip **items, size_t *nr, size_t *capacity,
			const struct braid_chunk_view *v, u32 at, u32 vcpu)
{
	struct braid_round_trip c = { .vcpu = vcpu };
	int err = 0;

	while (!err && *nr < BRAID_MAX_TABLE && braid_view_take(v, &at, &c.s, sizeof(c.s)))
		err = braid_array_push(*items, *nr, *capacity, c);
	return err;
}

static int take_offsets(struct braid_capture_stream *s, const struct braid_chunk_view *v)
{
	struct braid_clock_offset one;
	int err = 0;
	u32 at = 0;

	while (!err && s->nr_offsets < BRAID_MAX_TABLE &&
	       braid_view_take(v, &at, &one, sizeof(one)))
		err = braid_array_push(s->offsets, s->nr_offsets, s->offsets_capacity, one);
	return err;
}

/* Of minor 2: what they say holds from the beginning. */
static int take_untimed(struct braid_capture_stream *s, const struct braid_chunk_view *v)
{
	struct braid_stream *to = &s->stream;
	struct braid_vcpu_thread thread = { 0 };
	struct braid_vcpu_untimed one;
	int err = 0;
	u32 at = 0;

	to->nr_threads = 0;
	while (!err && to->nr_threads < BRAID_MAX_TABLE &&
	       braid_view_take(v, &at, &one, sizeof(one))) {
		thread.vcpu = one.vcpu;
		thread.tid = one.tid;
		err = braid_array_push(to->threads, to->nr_threads, s->threads_capacity, thread);
	}
	return err;
}

/* A VM has as many vCPUs as its threads show, within what a file may have. */
static void count_vcpus(struct braid_capture_stream *s, u32 vcpu)
{
	u32 more = vcpu + 1 - s->stream.nr_cpus;

	if (s->stream.kind != BRAID_STREAM_VM || vcpu < s->stream.nr_cpus ||
	    vcpu >= BRAID_MAX_CPUS || more > BRAID_MAX_FILE_CPUS - s->source->nr_cpus)
		return;
	s->stream.nr_cpus += more;
	s->source->nr_cpus += more;
}

static int take_threads(struct braid_capture_stream *s, const struct braid_chunk_view *v)
{
	struct braid_stream *to = &s->stream;
	struct braid_vcpu_thread row;
	int err = 0;
	u32 at = 0;

	while (!err && braid_view_take(v, &at, &row, sizeof(row))) {
		count_vcpus(s, row.vcpu);
		if (row.vcpu == BRAID_VCPU_NONE && to->nr_others < BRAID_MAX_TABLE)
			err = braid_array_push(to->others, to->nr_others, s->others_capacity, row);
		else if (row.vcpu != BRAID_VCPU_NONE && to->nr_threads < BRAID_MAX_CPUS)
			err = braid_array_push(to->threads, to->nr_threads, s->threads_capacity, row);
	}
	return err;
}

static bool is_break(const struct braid_clock_mark *mark)
{
	return mark->kind == BRAID_MARK_DISRUPTED || mark->kind == BRAID_MARK_UNSEEN;
}

/* Breaks are kept apart: a pause is two marks in a row. */
static int take_marks(struct braid_capture_stream *s, const struct braid_chunk_view *v)
{
	struct braid_clock_mark mark;
	int err = 0;
	u32 at = 0;

	while (!err && braid_view_take(v, &at, &mark, sizeof(mark))) {
		if (is_break(&mark) && s->nr_breaks < BRAID_MAX_MARKS)
			err = braid_array_push(s->breaks, s->nr_breaks, s->breaks_capacity, mark);
		else if (!is_break(&mark) && s->nr_marks < BRAID_MAX_MARKS)
			err = braid_array_push(s->marks, s->nr_marks, s->marks_capacity, mark);
	}
	return err;
}

/* The last one counts. */
static void take_vmclock(struct braid_stream *s, const struct braid_chunk_view *v)
{
	struct braid_clock_vm one;
	u32 at = 0;

	while (braid_view_take(v, &at, &one, sizeof(one))) {
		if (!s->has_vmclock || one.host_ns >= s->vmclock.host_ns)
			s->vmclock = one;
		s->has_vmclock = true;
	}
}

int braid_capture_take_clock(struct braid_capture_stream *s, const struct braid_chunk_view *v)
{
	struct braid_chunk_clock_vcpu head;
	u32 at = 0;

	switch (v->type) {
	case BRAID_CHUNK_CLOCK_VCPU:
		if (!braid_view_take(v, &at, &head, sizeof(head)) || head.vcpu >= s->stream.nr_cpus)
			return 0;
		s->read |= head.flags & BRAID_CLOCK_READ;
		return take_samples(&s->round_trips, &s->nr_round_trips, &s->round_trips_capacity,
				    v, at, head.vcpu + 1);
	case BRAID_CHUNK_CLOCK:
		return take_samples(&s->round_trips, &s->nr_round_trips, &s->round_trips_capacity,
				    v, 0, 0);
	case BRAID_CHUNK_CLOCK_OFFSET:
		return take_offsets(s, v);
	case BRAID_CHUNK_CLOCK_MARK:
		return take_marks(s, v);
	case BRAID_CHUNK_CLOCK_VM:
		take_vmclock(&s->stream, v);
		return 0;
	case BRAID_CHUNK_CLOCK_PAIR:
		return braid_capture_take_pairs(s, v);
	case BRAID_CHUNK_VCPUS:
		return take_untimed(s, v);
	case BRAID_CHUNK_VCPU_THREADS:
		return take_threads(s, v);
	}
	return 0;
}

int braid_capture_take_host_clock(struct braid_capture_source *cs, const struct braid_chunk_view *v)
{
	struct braid_capture_host *host = braid_capture_host_now(cs);
	struct braid_host_clocks *clocks = braid_capture_clocks(cs, host->host.number);
	struct braid_chunk_host_clock head;
	struct braid_host_round_trips *to;
	char *name = NULL;
	u32 at = 0;

	if (!braid_view_take(v, &at, &head, sizeof(head)) || !head.kind ||
	    head.kind >= BRAID_HOST_CLOCK_KINDS)
		return 0;
	if (head.kind == BRAID_HOST_CLOCK_COUNTER)
		name = clocks->counter_name;
	else if (head.kind == BRAID_HOST_CLOCK_TRACE)
		name = clocks->trace_name;
	if (name) {
		memcpy(name, head.name, sizeof(head.name));
		name[sizeof(head.name) - 1] = 0;
		braid_text_clean(name);
	}
	to = &host->round_trips[head.kind];
	return take_samples(&to->items, &to->nr, &to->capacity, v, at, 0);
}

static int by_h1(const void *a, const void *b)
{
	const struct braid_clock_sample *x = &((const struct braid_round_trip *)a)->s;
	const struct braid_clock_sample *y = &((const struct braid_round_trip *)b)->s;

	return braid_compare(x->h1_ns, y->h1_ns) ?: braid_compare(x->h2_ns, y->h2_ns);
}

static int by_mark_time(const void *a, const void *b)
{
	const struct braid_clock_mark *x = a, *y = b;

	return braid_compare(x->from_ns, y->from_ns) ?: braid_compare(x->kind, y->kind);
}

static int by_counter(const void *a, const void *b)
{
	const struct braid_clock_offset *x = a, *y = b;

	return braid_compare(x->vcpu, y->vcpu) ?: braid_compare(x->from_counter, y->from_counter);
}

/* The host ------------------------------------------------------------------------------------ */

static int fit_host_clock(struct braid_capture_host *host, enum braid_host_clock_kind kind,
			  const char *name, u64 hz, struct braid_clock *clock)
{
	struct braid_host_round_trips *c = &host->round_trips[kind];
	struct braid_clock_inputs in = {
		.counter_hz = hz,
		.counter_type = BRAID_COUNTER_TSC,
		.nr_vcpus = 1,
		.round_trips = c->items,
		.nr_round_trips = c->nr,
	};
	int err;

	if (!c->nr)
		return 0;
	qsort(c->items, c->nr, sizeof(*c->items), by_h1);
	err = braid_clock_name_slewed(name) ? braid_clock_slewed(clock, &in) :
					   braid_clock_fit(clock, &in);
	return err == -ENODATA ? 0 : err;
}

/* The head's own pair is used for captures without others. */
static int add_head_pair(struct braid_capture_host *host)
{
	struct braid_host_round_trips *c = &host->round_trips[BRAID_HOST_CLOCK_REALTIME];
	const struct braid_chunk_file *head = &host->head;
	struct braid_round_trip pair = {
		.s = { head->start_host_ns, head->start_realtime_ns, head->start_host_ns },
	};

	if (c->nr || !head->start_realtime_ns)
		return 0;
	return braid_array_push(c->items, c->nr, c->capacity, pair);
}

static int fit_clocks(struct braid_capture_host *host, struct braid_host_clocks *clocks)
{
	bool cycles = !strcmp(clocks->trace_name, "x86-tsc");
	int err = add_head_pair(host);

	if (!err)
		err = fit_host_clock(host, BRAID_HOST_CLOCK_COUNTER, clocks->counter_name, 0,
				     &clocks->counter);
	if (!err)
		err = fit_host_clock(host, BRAID_HOST_CLOCK_REALTIME, "realtime", 1000000000,
				     &clocks->realtime);
	if (!err)
		err = fit_host_clock(host, BRAID_HOST_CLOCK_TRACE, clocks->trace_name,
				     cycles ? 0 : 1000000000, &clocks->trace);
	return err;
}

int braid_capture_fit_host(struct braid_capture_source *cs)
{
	int err = 0;
	u32 k;

	for (k = 0; k < cs->source.nr_hosts && !err; k++)
		err = fit_clocks(braid_capture_host(cs, k), braid_capture_clocks(cs, k));
	return err;
}

/* Guests without a live clock ------------------------------------------------------------------- */

/* Walks all rings. *room_ns: the least distance between events and their pages. 0 or -errno. */
static int capture_clock_walk(struct braid_capture_stream *s, s64 *room_ns)
{
	size_t k;
	int ret = 0;

	*room_ns = INT64_MAX;
	for (k = 0; k < s->stream.nr_rings && ret >= 0; k++) {
		struct braid_ring *ring = s->stream.rings[k];

		while (ring->cpu != BRAID_RING_NOTES && (ret = braid_ring_next(ring)) > 0) {
			struct braid_clock_time t =
				braid_clock_convert(&s->stream.clock, ring->cpu, ring->item.counter,
						    BRAID_TAKEN_UNKNOWN, 0);
			s64 room = (s64)(ring->taken_ns - t.ns);

			if (ring->item.kind == BRAID_ITEM_EVENT && room < *room_ns)
				*room_ns = room;
		}
		ring->ops->rewind(ring);
	}
	return ret;
}

/*
 * The pairs as samples of the host's clock, except wall times before it started: of a guest that
 * had not set its own yet. Return: their number, or -ENOMEM.
 */
static ssize_t pairs_to_round_trips(struct braid_capture_stream *s, struct braid_round_trip **out)
{
	const struct braid_clock *real = &braid_capture_stream_clocks(s)->realtime;
	struct braid_round_trip *c = calloc(s->nr_pairs, sizeof(*c));
	size_t k, nr = 0;

	if (!c)
		return -ENOMEM;
	for (k = 0; k < s->nr_pairs; k++) {
		struct braid_clock_time t = braid_clock_convert(real, 0, s->pairs[k].realtime_ns,
								BRAID_TAKEN_UNKNOWN, 0);

		if (t.ns < PAIR_ERROR_NS)
			continue;
		c[nr].s.counter = s->pairs[k].counter;
		c[nr].s.h1_ns = t.ns - PAIR_ERROR_NS;
		c[nr++].s.h2_ns = (u64)t.ns + PAIR_ERROR_NS;
	}
	qsort(c, nr, sizeof(*c), by_h1);
	*out = c;
	return nr;
}

/* Without evidence there is no bound. */
static void forget_bounds(struct braid_clock *clock)
{
	size_t k;
	u32 t;

	for (t = 0; t < clock->nr_tracks; t++)
		for (k = 0; k < clock->tracks[t].nr_epochs; k++)
			clock->tracks[t].epochs[k].nr_lines = 0;
}

/* Return: 0, -ENODATA with clock->reason, or -errno. */
static int place_by_pairs(struct braid_capture_stream *s)
{
	struct braid_clock *clock = &s->stream.clock;
	struct braid_clock_inputs in = s->stream.clock_inputs;
	struct braid_round_trip *round_trips = NULL;
	char why[sizeof(clock->reason)];
	s64 room_ns;
	ssize_t nr;
	int err;

	snprintf(why, sizeof(why), "%s", clock->reason);
	nr = s->nr_pairs && braid_capture_stream_clocks(s)->realtime.nr_tracks ?
	     pairs_to_round_trips(s, &round_trips) : 0;
	if (nr < 0)
		return nr;
	in.round_trips = round_trips;
	in.nr_round_trips = nr;
	in.host = NULL;	/* a model of the host's counter has bounds, which have no evidence here */
	err = braid_clock_fit(clock, &in);
	free(round_trips);
	if (!err) {
		forget_bounds(clock);
		err = capture_clock_walk(s, &room_ns);
		if (!err && room_ns < -PAIR_FUTURE_NS) {
			err = -ENODATA;
			snprintf(why, sizeof(why), "the guest's wall time is ahead of the host's");
		}
		clock->kind = BRAID_CLOCK_PAIRS;
		if (err)
			braid_clock_free(clock);
	} else if (err == -ENODATA) {
		if (s->nr_round_trips)
			snprintf(why, sizeof(why),
				 "its round-trip samples give no fix, and the region has no wall time");
		else
			snprintf(why, sizeof(why),
				 "no round-trip samples, and the region has no wall time");
	}
	snprintf(clock->reason, sizeof(clock->reason), "%s", why);
	return err;
}

/* Without anything: the latest line on which no event is younger than its page. */
static int place_nominal(struct braid_capture_stream *s)
{
	struct braid_clock *clock = &s->stream.clock;
	u64 anchor = s->superblock.init_counter;
	char why[sizeof(clock->reason)];
	s64 room_ns;
	int err;

	memcpy(why, clock->reason, sizeof(why));
	err = braid_clock_nominal(clock, s->stream.counter_hz, anchor, 0);
	if (!err)
		err = capture_clock_walk(s, &room_ns);
	if (err)
		return err;
	braid_clock_free(clock);
	if (room_ns == INT64_MAX)
		room_ns = s->stream.found_ns;
	err = braid_clock_nominal(clock, s->stream.counter_hz, anchor, room_ns);
	memcpy(clock->reason, why, sizeof(why));
	return err;
}

static int capture_clock_place(struct braid_capture_stream *s, enum braid_clock_kind wanted)
{
	struct braid_source *source = &s->source->source;
	void (*fault)(void *, const struct braid_stream *, const char *) = source->fault;
	u64 faults = source->faults;
	int err = 0;

	source->fault = NULL;	/* the later walk reports them */
	if (wanted == BRAID_CLOCK_KINDS || wanted == BRAID_CLOCK_PAIRS)
		err = braid_capture_find_pairs(s);
	if (!err)
		err = wanted == BRAID_CLOCK_KINDS || wanted == BRAID_CLOCK_PAIRS ?
		      place_by_pairs(s) : -ENODATA;
	if (err == -ENODATA)
		err = place_nominal(s);
	source->fault = fault;
	source->faults = faults;
	return err;
}

/* A growing capture can't be walked: assume that its first page was as old as it appears. */
static int place_taken(struct braid_capture_stream *s)
{
	struct braid_clock *clock = &s->stream.clock;
	char why[sizeof(clock->reason)];
	int err = 0;

	memcpy(why, clock->reason, sizeof(why));
	if (s->taken_ns)
		err = braid_clock_nominal(clock, s->stream.counter_hz, s->taken_counter, s->taken_ns);
	memcpy(clock->reason, why, sizeof(why));
	return err;
}

/* -------------------------------------------------------------------------------------------- */

/* A host's times are the file's, or the fitted trace clock's. */
static void fit_host_stream(struct braid_capture_stream *s)
{
	const struct braid_clock *trace = &braid_capture_stream_clocks(s)->trace;

	if (*s->stream.trace_clock)
		return;		/* a trace.dat's, placed already */
	s->stream.bound_ns = braid_clock_worst_bound(trace, s->stream.end_ns);
}

static bool has_unstable_tsc(const struct braid_capture_stream *s)
{
	size_t k;

	for (k = 0; k < s->nr_pairs; k++)
		if (s->pairs[k].flags & BRAID_WALL_TSC_UNSTABLE)
			return true;
	return false;
}

void braid_capture_sort_rows(struct braid_capture_stream *s)
{
	braid_vcpu_sort_cgroups(&s->stream);
}

int braid_capture_fit_clock(struct braid_capture_stream *s)
{
	struct braid_capture_source *cs = s->source;
	enum braid_clock_kind wanted = cs->force_clock ? cs->clock : BRAID_CLOCK_KINDS;
	const struct braid_clock *counter = &braid_capture_stream_clocks(s)->counter;
	struct braid_clock_inputs *in = &s->stream.clock_inputs;
	int err;

	braid_capture_sort_rows(s);
	if (s->stream.kind == BRAID_STREAM_HOST) {
		fit_host_stream(s);
		return 0;
	}
	braid_vcpu_sort(s->stream.threads, &s->stream.nr_threads, s->stream.nr_cpus);
	/* It has no events that a clock could place; or trace-cmd placed them. */
	if (s->stream.kind == BRAID_STREAM_VM || cs->files[s->file].is_dat)
		return 0;
	s->nr_breaks = braid_breaks_merge(s->breaks, s->nr_breaks);
	s->nr_round_trips = braid_breaks_part(s->round_trips, s->nr_round_trips, s->breaks,
					      s->nr_breaks);
	if (s->nr_marks)
		qsort(s->marks, s->nr_marks, sizeof(*s->marks), by_mark_time);
	if (s->nr_offsets)
		qsort(s->offsets, s->nr_offsets, sizeof(*s->offsets), by_counter);
	s->stream.tsc_unstable = has_unstable_tsc(s);
	*in = (struct braid_clock_inputs){
		.counter_hz = s->stream.counter_hz,
		.counter_type = s->stream.counter_type,
		.nr_vcpus = s->stream.nr_cpus,
		.init_counter = s->superblock.init_counter,
		.reads = s->read,
		.round_trips = s->round_trips,
		.nr_round_trips = s->nr_round_trips,
		.marks = s->marks,
		.nr_marks = s->nr_marks,
		.breaks = s->breaks,
		.nr_breaks = s->nr_breaks,
		.offsets = s->offsets,
		.nr_offsets = s->nr_offsets,
		.host = counter->nr_tracks ? counter : NULL,
	};
	err = braid_clock_choose(&s->stream.clock, in, wanted);
	if (err == -ENODATA)
		err = cs->source.grows ? place_taken(s) : capture_clock_place(s, wanted);
	s->stream.bound_ns = braid_clock_worst_bound(&s->stream.clock, s->stream.end_ns);
	return err;
}

/* From its samples alone. Return: 0 or -ENOMEM. */
static int fit_again(struct braid_capture_stream *s, enum braid_clock_kind kind)
{
	struct braid_clock_inputs *in = &s->stream.clock_inputs;
	struct braid_clock clock;
	int err;

	s->nr_round_trips = braid_breaks_part(s->round_trips, s->nr_round_trips, s->breaks,
					      s->nr_breaks);
	in->round_trips = s->round_trips;
	in->nr_round_trips = s->nr_round_trips;
	err = braid_clock_fit(&clock, in);
	if (err)
		return err;
	clock.kind = kind;
	snprintf(clock.reason, sizeof(clock.reason), "requested");
	braid_clock_free(&s->stream.clock);
	s->stream.clock = clock;
	s->stream.bound_ns = braid_clock_worst_bound(&s->stream.clock, s->own_end_ns);
	braid_capture_add_tie(s);
	return 0;
}

int braid_stream_refine(struct braid_stream *stream, const struct braid_round_trip *samples,
			size_t nr)
{
	struct braid_capture_stream *s = (struct braid_capture_stream *)stream;
	size_t k, bytes = s->nr_round_trips * sizeof(*s->round_trips);
	struct braid_round_trip sample;
	int err = 0;

	if (!s->exchanged) {
		s->exchanged = malloc(bytes + 1);
		if (!s->exchanged)
			return braid_out_of_memory();
		if (bytes)
			memcpy(s->exchanged, s->round_trips, bytes);
		s->nr_exchanged = s->nr_round_trips;
	}
	for (k = 0; k < nr && !err; k++) {
		sample = samples[k];
		if (braid_capture_own_sample(stream, &sample.s))
			err = braid_array_push(s->round_trips, s->nr_round_trips,
					       s->round_trips_capacity, sample);
	}
	return err || fit_again(s, BRAID_CLOCK_WINDOWS) ? braid_out_of_memory() : 0;
}

int braid_stream_unrefine(struct braid_stream *stream)
{
	struct braid_capture_stream *s = (struct braid_capture_stream *)stream;

	if (!s->exchanged)
		return 0;
	if (s->nr_exchanged)
		memcpy(s->round_trips, s->exchanged, s->nr_exchanged * sizeof(*s->round_trips));
	s->nr_round_trips = s->nr_exchanged;
	return fit_again(s, braid_clock_sampled(&s->stream.clock_inputs)) ?
	       braid_out_of_memory() : 0;
}

void braid_capture_free_clock(struct braid_capture_stream *s)
{
	braid_clock_free(&s->stream.clock);
	free(s->stream.cgroups);
	free(s->stream.throttled);
	free(s->stream.threads);
	free(s->stream.others);
	free(s->round_trips);
	free(s->exchanged);
	free(s->offsets);
	free(s->marks);
	free(s->breaks);
	free(s->pairs);
}
