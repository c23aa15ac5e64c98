// SPDX-License-Identifier: GPL-2.0-or-later
/* Builds clocks from what is known, and converts counters by them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/clock/private.h"
#include "host_agent/util/array.h"

#define RATE_BASE_NS	1000000		/* two samples this far apart tell a frequency */
#define MOST_HZ		1e12L		/* no counter is so fast */
#define MOST_LAWS	256	/* times the crossings: a check looks at so many laws in all */

const char *braid_clock_kind_name(enum braid_clock_kind kind)
{
	static const char *const names[BRAID_CLOCK_KINDS] = {
		[BRAID_CLOCK_HOST] = "host",
		[BRAID_CLOCK_KVM] = "kvm",
		[BRAID_CLOCK_EXCHANGE] = "exchange",
		[BRAID_CLOCK_PAIRS] = "pairs",
		[BRAID_CLOCK_NOMINAL] = "nominal",
	};

	return kind < BRAID_CLOCK_KINDS ? names[kind] : "unknown";
}

/* Building --------------------------------------------------------------------------------- */

static void free_tracks(struct braid_clock_track *tracks, u32 nr)
{
	size_t k;
	u32 t;

	for (t = 0; t < nr; t++) {
		if (tracks[t].shared)
			continue;
		for (k = 0; k < tracks[t].nr_epochs; k++) {
			free(tracks[t].epochs[k].lines);
			free(tracks[t].epochs[k].gains);
			free(tracks[t].epochs[k].knots);
		}
		free(tracks[t].epochs);
	}
	free(tracks);
}

void braid_clock_free(struct braid_clock *clock)
{
	free_tracks(clock->tracks, clock->nr_tracks);
	memset(clock, 0, sizeof(*clock));
}

static int make_tracks(struct braid_clock *clock, u32 nr)
{
	clock->tracks = calloc(nr, sizeof(*clock->tracks));
	if (!clock->tracks)
		return -ENOMEM;
	clock->nr_tracks = nr;
	return 0;
}

/* The frequency that the samples themselves show; 0 when they are too close together. */
static u64 rate_of(const struct braid_clock_inputs *in)
{
	const struct braid_clock_sample *a, *b;
	long double hz;
	u64 ns;

	if (in->nr_crossings < 2)
		return 0;
	a = &in->crossings[0].s;
	b = &in->crossings[in->nr_crossings - 1].s;
	ns = b->h1_ns - a->h1_ns;
	if ((s64)ns < RATE_BASE_NS || (s64)(b->counter - a->counter) <= 0)
		return 0;
	hz = (b->counter - a->counter) * 1e9L / ns;
	return hz < MOST_HZ ? (u64)hz : 0;
}

/*
 * The reference of a fit. A counter that states the host's frequency runs at it, if any
 * frequency is the likeliest: the host's is known better than a guest can measure it.
 */
static void set_nominal(struct braid_clock *clock, u64 counter_hz, u64 counter,
			const struct braid_clock *host)
{
	clock->nominal.mult = braid_clock_nominal_mult(counter_hz);
	if (host && braid_same_rate(clock->nominal.mult, host->tracks->epochs->map.mult))
		clock->nominal.mult = host->tracks->epochs->map.mult;
	if (!clock->nominal.mult)	/* impossible: any line is as good, and has no bound */
		clock->nominal.mult = 1ULL << BRAID_CLOCK_SHIFT;
	clock->nominal.ref_counter = counter;
}

/* Steps that no pause explains: of all vCPUs together, or of each. */
static size_t count_steps(const struct braid_clock *clock)
{
	size_t steps = 0, k;
	u32 t;

	for (t = 0; t < clock->nr_tracks; t++)
		for (k = 1; !clock->tracks[t].shared && k < clock->tracks[t].nr_epochs; k++)
			steps += clock->tracks[t].epochs[k].cause != BRAID_EPOCH_PAUSED &&
				 (clock->tracks[t].epochs[k].nr_lines ||
				  clock->tracks[t].epochs[k].gains);
	return steps;
}

static int by_vcpu(const void *a, const void *b)
{
	const struct braid_crossing *x = a, *y = b;

	if (x->vcpu != y->vcpu)
		return x->vcpu < y->vcpu ? -1 : 1;
	return x->s.h1_ns < y->s.h1_ns ? -1 : x->s.h1_ns > y->s.h1_ns;
}

/*
 * A vCPU that no crossing is of: it may not even exist, or be as any other. Its epochs are
 * those of all together, and have no bound. @like: another such one, fitted before, whose
 * epochs it shares; or NULL.
 * Return: 0 or -ENOMEM.
 */
static int fit_unseen(struct braid_clock *clock, struct braid_clock_track *track,
		      const struct braid_clock_track *like, const struct braid_clock_inputs *in)
{
	u32 samples = clock->nr_samples, refused = clock->nr_refused;
	size_t k;
	int err;

	if (like) {
		*track = *like;
		track->shared = true;
		return 0;
	}
	err = braid_fit_track(clock, track, in, in->crossings, in->nr_crossings);
	clock->nr_samples = samples;
	clock->nr_refused = refused;
	for (k = 0; k < track->nr_epochs; k++)
		track->epochs[k].nr_lines = 0;
	return err;
}

/* A track for each vCPU. Return: 0, -ENODATA when crossings are of one alone, or -ENOMEM. */
static int fit_each(struct braid_clock *clock, const struct braid_clock_inputs *in)
{
	struct braid_crossing *sorted = malloc(in->nr_crossings * sizeof(*sorted));
	const struct braid_clock_track *unseen = NULL;
	int err = sorted ? make_tracks(clock, in->nr_vcpus) : -ENOMEM;
	size_t at = 0, end;
	u32 t, seen = 0;

	if (!err) {
		memcpy(sorted, in->crossings, in->nr_crossings * sizeof(*sorted));
		qsort(sorted, in->nr_crossings, sizeof(*sorted), by_vcpu);
		while (at < in->nr_crossings && !sorted[at].vcpu)
			at++;
	}
	for (t = 0; t < in->nr_vcpus && !err; t++, at = end) {
		struct braid_clock_track *track = &clock->tracks[t];

		for (end = at; end < in->nr_crossings && sorted[end].vcpu == t + 1;)
			end++;
		if (end > at) {
			seen++;
			err = braid_fit_track(clock, track, in, &sorted[at], end - at);
		} else {
			err = fit_unseen(clock, track, unseen, in);
			unseen = unseen ? unseen : track;
		}
		if (!err && !track->nr_epochs)
			err = -ENODATA;
	}
	free(sorted);
	return err || seen > 1 ? err : -ENODATA;
}

/* Another law's tracks in place of the clock's, if they do with fewer steps than so many. */
static int prefer(struct braid_clock *clock, struct braid_clock *other, size_t steps, int err)
{
	if (!err && count_steps(other) < steps) {
		free_tracks(clock->tracks, clock->nr_tracks);
		clock->tracks = other->tracks;
		clock->nr_tracks = other->nr_tracks;
		clock->nr_samples = other->nr_samples;
		clock->nr_refused = other->nr_refused;
		return 0;
	}
	free_tracks(other->tracks, other->nr_tracks);
	return err == -ENOMEM ? err : 0;
}

/* The vCPUs contradict each other: perhaps each is a line of its own. */
static int try_each(struct braid_clock *clock, const struct braid_clock_inputs *in)
{
	struct braid_clock each = { .nominal = clock->nominal, .wavers = clock->wavers };

	return prefer(clock, &each, count_steps(clock), fit_each(&each, in));
}

/* The counter steps again and again: perhaps it is not the host's, but a line of its own. */
static int try_line(struct braid_clock *clock, const struct braid_clock_inputs *in)
{
	struct braid_clock line = { .nominal = clock->nominal, .wavers = clock->wavers };
	int err = make_tracks(&line, 1);

	if (!err)
		err = braid_fit_track(&line, line.tracks, in, in->crossings, in->nr_crossings);
	return prefer(clock, &line, count_steps(clock) / 2, err);
}

/* Return: -ENODATA when the counter is not the host's own. */
static int fit_emulated(struct braid_clock *clock, const struct braid_clock_inputs *in)
{
	int err = braid_emulated_track(clock, clock->tracks, in, in->crossings, in->nr_crossings);

	if (!err)
		return count_steps(clock) > 1 ? try_line(clock, in) : 0;
	free_tracks(clock->tracks, 1);
	clock->nr_samples = clock->nr_refused = 0;
	clock->nr_tracks = 0;
	return make_tracks(clock, 1) ? -ENOMEM : err;
}

int braid_clock_fit(struct braid_clock *clock, const struct braid_clock_inputs *in)
{
	int err;

	memset(clock, 0, sizeof(*clock));
	clock->kind = BRAID_CLOCK_EXCHANGE;
	clock->wavers = in->counter_type == BRAID_COUNTER_TSC_EMULATED;
	clock->init_counter = in->init_counter;
	set_nominal(clock, in->counter_hz ? in->counter_hz : rate_of(in),
		    in->nr_crossings ? in->crossings[0].s.counter : 0, in->host);
	err = make_tracks(clock, 1);
	if (!err)
		err = clock->wavers && in->host ? fit_emulated(clock, in) : -ENODATA;
	if (err == -ENODATA)
		err = braid_fit_track(clock, clock->tracks, in, in->crossings, in->nr_crossings);
	if (!err && !clock->tracks->nr_epochs)
		err = -ENODATA;
	if (!err && in->nr_vcpus > 1 && count_steps(clock))
		err = try_each(clock, in);
	if (err)
		braid_clock_free(clock);
	return err;
}

int braid_clock_nominal(struct braid_clock *clock, u64 counter_hz, u64 counter, s64 ns)
{
	struct braid_clock_epoch epoch = { .from_ns = INT64_MIN, .begun_ns = INT64_MIN };

	memset(clock, 0, sizeof(*clock));
	clock->kind = BRAID_CLOCK_NOMINAL;
	set_nominal(clock, counter_hz, counter, NULL);
	if (make_tracks(clock, 1))
		return -ENOMEM;
	epoch.map = clock->nominal;
	epoch.map.ref_ns = ns;
	if (!braid_array_push(clock->tracks->epochs, clock->tracks->nr_epochs,
			      clock->tracks->capacity, epoch))
		return 0;
	braid_clock_free(clock);
	return -ENOMEM;
}

/* Converting -------------------------------------------------------------------------------- */

const struct braid_clock_track *braid_clock_track_of(const struct braid_clock *clock, u32 vcpu)
{
	if (!clock->nr_tracks)
		return NULL;
	return &clock->tracks[vcpu < clock->nr_tracks ? vcpu : 0];
}

struct braid_clock_time braid_clock_law(const struct braid_clock *clock,
					const struct braid_clock_epoch *e, u64 counter)
{
	if (e->gains)
		return braid_emulated_convert(e, counter);
	if (e->host)
		return braid_offset_convert(e, counter);
	if (e->knots)
		return braid_knots_convert(e, counter);
	return braid_fit_convert(clock, e, counter);
}

/* Whether a counter can be of an epoch, as far as counters alone tell. */
static bool can_count(const struct braid_clock *clock, const struct braid_clock_track *track,
		      size_t k, u64 counter)
{
	const struct braid_clock_epoch *e = &track->epochs[k];
	const struct braid_clock_epoch *next = k + 1 < track->nr_epochs ? e + 1 : NULL;

	if (!k && clock->init_counter && clock->nr_tracks == 1 &&
	    (s64)(counter - clock->init_counter) < 0)
		return false;
	if (e->host && !e->gains)
		return true;
	/* A counter that never went back tells by itself. */
	if (next && next->cause != BRAID_EPOCH_WENT_BACK &&
	    (s64)(counter - next->first_counter) >= 0)
		return false;
	return !k || e->cause == BRAID_EPOCH_WENT_BACK ||
	       (s64)(counter - e[-1].last_counter) > 0;
}

/* Whether a time that an epoch's law gives can be of the epoch. */
static bool can_be(const struct braid_clock_track *track, size_t k,
		   const struct braid_clock_time *t, u64 taken_ns)
{
	const struct braid_clock_epoch *e = &track->epochs[k];
	const struct braid_clock_epoch *next = k + 1 < track->nr_epochs ? e + 1 : NULL;
	s64 earliest = braid_clock_earliest(t->ns, t->bound_ns);

	if (braid_clock_latest(t->ns, t->bound_ns) < e->from_ns ||
	    (next && earliest > next->begun_ns))
		return false;
	return taken_ns == BRAID_TAKEN_UNKNOWN || earliest <= 0 || (u64)earliest <= taken_ns;
}

/* Widens @t so that @other is within, too. */
static void cover_both(struct braid_clock_time *t, const struct braid_clock_time *other)
{
	s64 low = braid_clock_earliest(other->ns, other->bound_ns);
	s64 high = braid_clock_latest(other->ns, other->bound_ns);
	u64 most;

	if (t->bound_ns == BRAID_BOUND_UNKNOWN || low == INT64_MIN || high == INT64_MAX) {
		t->bound_ns = BRAID_BOUND_UNKNOWN;
		return;
	}
	most = high > t->ns ? (u64)high - (u64)t->ns : 0;
	if (low < t->ns && (u64)t->ns - (u64)low > most)
		most = (u64)t->ns - (u64)low;
	if (most > t->bound_ns)
		t->bound_ns = most <= INT64_MAX ? most : BRAID_BOUND_UNKNOWN;
}

/* No epoch explains the counter: the last one that had begun when the event was there. */
static struct braid_clock_time by_default(const struct braid_clock *clock,
					  const struct braid_clock_track *track, u64 counter,
					  u64 taken_ns, u32 from_epoch)
{
	struct braid_clock_time t;
	size_t k = track->nr_epochs - 1;

	while (k > from_epoch && (s64)track->epochs[k].from_ns > 0 &&
	       (u64)track->epochs[k].from_ns > taken_ns)
		k--;
	t = braid_clock_law(clock, &track->epochs[k], counter);
	t.bound_ns = BRAID_BOUND_UNKNOWN;
	t.epoch = k;
	t.sure = false;
	return t;
}

struct braid_clock_time braid_clock_convert(const struct braid_clock *clock, u32 vcpu, u64 counter,
					    u64 taken_ns, u32 from_epoch)
{
	const struct braid_clock_track *track = braid_clock_track_of(clock, vcpu);
	struct braid_clock_time t, found = { 0 };
	u32 candidates = 0;
	size_t k;

	/* Built where the caller has it: a copy waits for the bytes just written. */
	if (!track)
		return (struct braid_clock_time){ .ns = counter, .sure = true };
	/* As nearly always: nothing is to be chosen. */
	if (track->nr_epochs == 1 && !from_epoch &&
	    (clock->nr_tracks == 1 || vcpu < clock->nr_tracks)) {
		t = braid_clock_law(clock, track->epochs, counter);
		return (struct braid_clock_time){
			.ns = t.ns, .bound_ns = t.bound_ns, .sure = true,
		};
	}
	for (k = from_epoch; k < track->nr_epochs; k++) {
		if (k > from_epoch && track->epochs[k].from_ns > 0 &&
		    (u64)track->epochs[k].from_ns > taken_ns)
			break;
		if (track->nr_epochs > 1 && !can_count(clock, track, k, counter))
			continue;	/* first: it costs least */
		t = braid_clock_law(clock, &track->epochs[k], counter);
		if (track->nr_epochs > 1 && !can_be(track, k, &t, taken_ns))
			continue;
		if (candidates++) {
			cover_both(&found, &t);
			continue;
		}
		found = t;
		found.epoch = k;
	}
	if (!candidates)
		return by_default(clock, track, counter, taken_ns, from_epoch);
	found.sure = candidates == 1;
	if (clock->nr_tracks > 1 && vcpu >= clock->nr_tracks) {
		found.bound_ns = BRAID_BOUND_UNKNOWN;	/* it differs from the others, who knows how */
		found.sure = false;
	}
	return found;
}

/* What an epoch's law says of a host time. */
static struct braid_clock_reading read_law(const struct braid_clock *clock,
					   const struct braid_clock_epoch *e, s64 ns)
{
	struct braid_clock_reading r = { .bound_ns = BRAID_BOUND_UNKNOWN };

	if (e->knots)
		return braid_knots_reading(e, ns);
	if (!e->host) {
		r.value = braid_clock_to_counter(&e->map, ns);
		r.bound_ns = braid_fit_bound(clock, e, r.value);
	}
	return r;
}

struct braid_clock_reading braid_clock_reading_at(const struct braid_clock *clock, s64 ns)
{
	const struct braid_clock_track *track = clock->tracks;
	struct braid_clock_reading found = { .bound_ns = BRAID_BOUND_UNKNOWN }, r;
	bool any = false;
	size_t k;

	for (k = 0; k < track->nr_epochs; k++) {
		struct braid_clock_time one, other;

		if (ns < track->epochs[k].from_ns)
			break;
		if (k + 1 < track->nr_epochs && ns > track->epochs[k + 1].begun_ns)
			continue;
		r = read_law(clock, &track->epochs[k], ns);
		if (!any) {
			found = r;
		} else {
			one = (struct braid_clock_time){ found.value, found.bound_ns, 0, true };
			other = (struct braid_clock_time){ r.value, r.bound_ns, 0, true };
			cover_both(&one, &other);
			found.bound_ns = one.bound_ns;
		}
		any = true;
	}
	return found;
}

/* Whether a clock's time of a crossing, bound included, lies within; of any vCPU if none is told. */
static bool explained(const struct braid_clock *clock, const struct braid_crossing *c)
{
	u32 vcpu = c->vcpu ? c->vcpu - 1 : 0, end = c->vcpu ? c->vcpu : clock->nr_tracks;
	struct braid_clock_time t;

	for (; vcpu < end; vcpu++) {
		if (!c->vcpu && clock->tracks[vcpu].shared)
			continue;
		t = braid_clock_convert(clock, vcpu, c->s.counter, c->s.h2_ns, 0);
		if (braid_clock_latest(t.ns, t.bound_ns) >= (s64)c->s.h1_ns &&
		    braid_clock_earliest(t.ns, t.bound_ns) <= (s64)c->s.h2_ns)
			return true;
	}
	return false;
}

/* Laws that a crossing may have to be held against, at most. */
static size_t count_laws(const struct braid_clock *clock)
{
	size_t laws = 0;
	u32 t;

	for (t = 0; t < clock->nr_tracks; t++)
		if (!clock->tracks[t].shared)
			laws += clock->tracks[t].nr_epochs;
	return laws;
}

void braid_clock_check(const struct braid_clock *clock, const struct braid_clock_inputs *in,
		       struct braid_clock_check *check)
{
	size_t k, step = 1 + count_laws(clock) / (MOST_LAWS + 1);

	memset(check, 0, sizeof(*check));
	check->shortest_ns = ~0ULL;
	for (k = 0; k < in->nr_crossings; k += step) {
		const struct braid_crossing *c = &in->crossings[k];

		if (c->s.h2_ns < c->s.h1_ns)
			continue;
		check->crossings++;
		check->violations += !explained(clock, c);
		if (c->s.h2_ns - c->s.h1_ns < check->shortest_ns)
			check->shortest_ns = c->s.h2_ns - c->s.h1_ns;
	}
}

bool braid_clock_trusts_counter(const struct braid_clock *clock)
{
	const struct braid_clock_track *track;
	size_t k;

	for (track = clock->tracks; track < clock->tracks + clock->nr_tracks; track++)
		for (k = 0; k < track->nr_epochs; k++)
			if (track->epochs[k].nr_lines)
				return true;
	return false;
}

u32 braid_clock_epochs(const struct braid_clock *clock)
{
	u32 most = 0, t;

	for (t = 0; t < clock->nr_tracks; t++)
		if (clock->tracks[t].nr_epochs > most)
			most = clock->tracks[t].nr_epochs;
	return most;
}

double braid_clock_drift(const struct braid_clock *clock)
{
	const struct braid_clock_track *track = clock->tracks;

	return clock->nr_tracks ? track->epochs[track->nr_epochs - 1].drift_ppm : 0;
}
