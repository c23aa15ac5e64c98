// SPDX-License-Identifier: GPL-2.0-or-later
/* Converts counters to host times, epoch by epoch, for any model. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host_agent/clock_model/model.h"
#include "shared/platform.h"

#define MOST_NS		(1ULL << 60)	/* sums of a few such times do not overflow */

const char *braid_clock_kind_name(enum braid_clock_kind kind)
{
	static const char *const names[BRAID_CLOCK_KINDS] = {
		[BRAID_CLOCK_HOST] = "host",
		[BRAID_CLOCK_KVM] = "kvm",
		[BRAID_CLOCK_EXCHANGE] = "exchange",
		[BRAID_CLOCK_PAIRS] = "pairs",
		[BRAID_CLOCK_NOMINAL] = "nominal",
		[BRAID_CLOCK_WINDOWS] = "windows",
		[BRAID_CLOCK_READS] = "reads",
		[BRAID_CLOCK_TRACE_CMD] = "trace-cmd",
		[BRAID_CLOCK_PEER] = "peer",
	};

	return kind < BRAID_CLOCK_KINDS ? names[kind] : "unknown";
}

const char *braid_epoch_cause_name(enum braid_epoch_cause cause)
{
	static const char *const names[] = {
		[BRAID_EPOCH_FIRST] = "",
		[BRAID_EPOCH_STOOD_STILL] = "the counter stood still",
		[BRAID_EPOCH_JUMPED] = "the counter jumped ahead",
		[BRAID_EPOCH_WENT_BACK] = "the counter went back",
		[BRAID_EPOCH_RATE] = "the counter's rate changed or is uneven",
		[BRAID_EPOCH_OFFSET] = "KVM set another offset",
		[BRAID_EPOCH_PAUSED] = "the guest was paused",
		[BRAID_EPOCH_DISRUPTED] = "the hypervisor disrupted the counter",
		[BRAID_EPOCH_UNSEEN] = "the counter was not sampled",
	};

	return names[cause];
}

int braid_clock_make_tracks(struct braid_clock *clock, u32 nr)
{
	clock->tracks = calloc(nr, sizeof(*clock->tracks));
	if (!clock->tracks)
		return -ENOMEM;
	clock->nr_tracks = nr;
	return 0;
}

void braid_clock_free_tracks(struct braid_clock_track *tracks, u32 nr)
{
	size_t k;
	u32 t;

	for (t = 0; t < nr; t++) {
		if (tracks[t].shared)
			continue;
		for (k = 0; k < tracks[t].nr_epochs; k++) {
			free(tracks[t].epochs[k].lines);
			free(tracks[t].epochs[k].gains);
			free(tracks[t].epochs[k].breakpoints);
		}
		free(tracks[t].epochs);
	}
	free(tracks);
}

void braid_clock_free(struct braid_clock *clock)
{
	braid_clock_free_tracks(clock->tracks, clock->nr_tracks);
	memset(clock, 0, sizeof(*clock));
}

const struct braid_clock_track *braid_clock_track_of(const struct braid_clock *clock, u32 vcpu)
{
	if (!clock->nr_tracks)
		return NULL;
	return &clock->tracks[vcpu < clock->nr_tracks ? vcpu : 0];
}

/* Whether a counter can belong to an epoch, by counter values alone. */
static bool can_count(const struct braid_clock *clock, const struct braid_clock_track *track,
		      size_t k, u64 counter)
{
	const struct braid_clock_epoch *e = &track->epochs[k];
	const struct braid_clock_epoch *next = k + 1 < track->nr_epochs ? e + 1 : NULL;

	if (!k && clock->init_counter && clock->nr_tracks == 1 &&
	    (s64)(counter - clock->init_counter) < 0)
		return false;
	if (e->model->any_counter)
		return true;
	/* If the counter never went back, its value identifies the epoch. */
	if (next && next->cause != BRAID_EPOCH_WENT_BACK &&
	    (s64)(counter - next->first_counter) >= 0)
		return false;
	return !k || e->cause == BRAID_EPOCH_WENT_BACK ||
	       (s64)(counter - e[-1].last_counter) > 0;
}

/* Whether a time computed by an epoch's model is within the epoch. */
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

/* What an epoch's model says of an event that was there at a host time. */
static struct braid_clock_time event_to_host(const struct braid_clock *clock,
					     const struct braid_clock_epoch *e, bool last,
					     u64 counter, u64 taken_ns)
{
	struct braid_clock_time t = e->model->to_host(clock, e, counter);

	if (last && e->model->existed && t.bound_ns < MOST_NS && t.ns >= 0 &&
	    (u64)t.ns < MOST_NS && taken_ns < MOST_NS)
		e->model->existed(e, counter, taken_ns, &t);
	return t;
}

/* The bound of a time that covers another one, too. */
static u64 cover_both(s64 ns, u64 bound_ns, s64 other_ns, u64 other_bound_ns)
{
	s64 low = braid_clock_earliest(other_ns, other_bound_ns);
	s64 high = braid_clock_latest(other_ns, other_bound_ns);
	u64 most;

	if (bound_ns == BRAID_BOUND_UNKNOWN || low == INT64_MIN || high == INT64_MAX)
		return BRAID_BOUND_UNKNOWN;
	most = high > ns ? (u64)high - (u64)ns : 0;
	if (low < ns && (u64)ns - (u64)low > most)
		most = (u64)ns - (u64)low;
	if (most <= bound_ns)
		return bound_ns;
	return most <= INT64_MAX ? most : BRAID_BOUND_UNKNOWN;
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
	t = track->epochs[k].model->to_host(clock, &track->epochs[k], counter);
	t.bound_ns = BRAID_BOUND_UNKNOWN;
	t.epoch = k;
	t.sure = false;
	return t;
}

/* Among several epochs, or not from the first one, or of a vCPU without a track of its own. */
static noinline struct braid_clock_time convert_among(const struct braid_clock *clock,
						      const struct braid_clock_track *track, u32 vcpu,
						      u64 counter, u64 taken_ns, u32 from_epoch)
{
	struct braid_clock_time t, found = { 0 };
	u32 candidates = 0;
	size_t k;

	for (k = from_epoch; k < track->nr_epochs; k++) {
		if (k > from_epoch && track->epochs[k].from_ns > 0 &&
		    (u64)track->epochs[k].from_ns > taken_ns)
			break;
		if (track->nr_epochs > 1 && !can_count(clock, track, k, counter))
			continue;	/* first: it costs least */
		t = event_to_host(clock, &track->epochs[k], k + 1 == track->nr_epochs, counter,
				  taken_ns);
		if (track->nr_epochs > 1 && !can_be(track, k, &t, taken_ns))
			continue;
		if (candidates++) {
			found.bound_ns = cover_both(found.ns, found.bound_ns, t.ns, t.bound_ns);
			continue;
		}
		found = t;
		found.epoch = k;
	}
	if (!candidates)
		return by_default(clock, track, counter, taken_ns, from_epoch);
	found.sure = candidates == 1;
	if (clock->nr_tracks > 1 && vcpu >= clock->nr_tracks) {
		found.bound_ns = BRAID_BOUND_UNKNOWN;	/* it differs from the others in an unknown
							   way */
		found.sure = false;
	}
	return found;
}

struct braid_clock_time braid_clock_convert(const struct braid_clock *clock, u32 vcpu, u64 counter,
					    u64 taken_ns, u32 from_epoch)
{
	const struct braid_clock_track *track = braid_clock_track_of(clock, vcpu);
	struct braid_clock_time t;

	/* Built where the caller has it: a copy waits for the bytes just written. */
	if (!track)
		return (struct braid_clock_time){ .ns = counter, .sure = true };
	/* The usual case: only one candidate. */
	if (track->nr_epochs == 1 && !from_epoch &&
	    (clock->nr_tracks == 1 || vcpu < clock->nr_tracks)) {
		t = event_to_host(clock, track->epochs, true, counter, taken_ns);
		return (struct braid_clock_time){
			.ns = t.ns, .bound_ns = t.bound_ns, .sure = true,
		};
	}
	return convert_among(clock, track, vcpu, counter, taken_ns, from_epoch);
}

/* What an epoch's model says of a host time. */
static struct braid_clock_reading read_model(const struct braid_clock *clock,
					     const struct braid_clock_epoch *e, s64 ns)
{
	if (e->model->to_guest)
		return e->model->to_guest(clock, e, ns);
	return (struct braid_clock_reading){ .bound_ns = BRAID_BOUND_UNKNOWN };
}

struct braid_clock_reading braid_clock_reading_at(const struct braid_clock *clock, s64 ns)
{
	const struct braid_clock_track *track = clock->tracks;
	struct braid_clock_reading found = { .bound_ns = BRAID_BOUND_UNKNOWN }, r;
	bool any = false;
	size_t k;

	for (k = 0; k < track->nr_epochs; k++) {
		if (ns < track->epochs[k].from_ns)
			break;
		if (k + 1 < track->nr_epochs && ns > track->epochs[k + 1].begun_ns)
			continue;
		r = read_model(clock, &track->epochs[k], ns);
		if (any)
			found.bound_ns = cover_both(found.value, found.bound_ns, r.value, r.bound_ns);
		else
			found = r;
		any = true;
	}
	return found;
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

u64 braid_clock_worst_bound(const struct braid_clock *clock, u64 end_ns)
{
	u64 worst = 0, bound;
	size_t k;
	u32 t;

	for (t = 0; t < clock->nr_tracks; t++) {
		const struct braid_clock_track *track = &clock->tracks[t];

		for (k = 0; !track->shared && k < track->nr_epochs; k++) {
			bound = track->epochs[k].model->bound(clock, &track->epochs[k],
						k + 1 < track->nr_epochs ? 0 : end_ns);
			worst = bound > worst ? bound : worst;
		}
	}
	return worst;
}
