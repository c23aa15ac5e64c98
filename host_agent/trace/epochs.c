// SPDX-License-Identifier: GPL-2.0-or-later
/* The epochs of a stream's clock. */
#include "host_agent/trace/epochs.h"

/* Those of one host's clock for a vCPU that are within a stay; @stay: NULL: all. */
static bool next_there(const struct braid_stream *of, u32 vcpu, const struct braid_stay *stay,
		       const struct braid_stay *next, struct braid_epoch *epoch)
{
	const struct braid_clock_track *track = braid_clock_track_of(&of->clock, vcpu);
	const struct braid_clock_epoch *e = epoch->of ? epoch->e + 1 : track ? track->epochs : NULL;
	s64 begun_ns;

	for (; track && e < track->epochs + track->nr_epochs; e++) {
		begun_ns = braid_stream_on_timeline(of, e->begun_ns);
		if (next && begun_ns > next->from_ns)
			return false;
		/* The one that it is in when the stay begins. */
		if (!epoch->of && stay && e + 1 < track->epochs + track->nr_epochs &&
		    braid_stream_on_timeline(of, e[1].begun_ns) <= stay->begun_ns)
			continue;
		epoch->moved = !epoch->of && stay && stay->begun_ns != INT64_MIN ? stay : NULL;
		epoch->of = of;
		epoch->e = e;
		epoch->from_ns = epoch->moved ? stay->from_ns :
				 braid_stream_on_timeline(of, e->from_ns);
		epoch->begun_ns = epoch->moved ? stay->begun_ns : begun_ns;
		return true;
	}
	return false;
}

static u32 tracks_of(const struct braid_stream *stream)
{
	const struct braid_stream *part;
	u32 most = 0;
	size_t k;

	for (k = 0; (part = braid_stream_part(stream, k)); k++)
		most = part->clock.nr_tracks > most ? part->clock.nr_tracks : most;
	return most;
}

/* The next one of a vCPU. */
static bool next_of(const struct braid_stream *stream, u32 vcpu, struct braid_epoch *epoch)
{
	size_t k = epoch->stay;

	if (!stream->nr_stays)
		return next_there(stream, vcpu, NULL, NULL, epoch);
	for (; k < stream->nr_stays; k++) {
		epoch->stay = k;
		if (next_there(stream->stays[k].of, vcpu, &stream->stays[k],
			       k + 1 < stream->nr_stays ? &stream->stays[k + 1] : NULL, epoch))
			return true;
		epoch->of = NULL;
	}
	return false;
}

bool braid_epoch_next(const struct braid_stream *stream, struct braid_epoch *epoch)
{
	u32 nr = tracks_of(stream), vcpu = epoch->vcpu == UINT32_MAX ? 0 : epoch->vcpu;
	bool any = epoch->of;

	for (; vcpu < nr; vcpu++, any = false) {
		if (next_of(stream, vcpu, epoch)) {
			epoch->number = any ? epoch->number + 1 : 0;
			epoch->vcpu = nr > 1 ? vcpu : UINT32_MAX;
			return true;
		}
		*epoch = (struct braid_epoch){ 0 };
	}
	return false;
}

bool braid_epoch_at(const struct braid_stream *stream, size_t number, struct braid_epoch *epoch)
{
	const struct braid_clock *clock = &stream->clock;
	u32 vcpu = 0;

	/* Callers ask for one after the other: most vCPUs are passed as a whole. */
	for (; !stream->nr_stays && vcpu < clock->nr_tracks &&
	       number >= clock->tracks[vcpu].nr_epochs; vcpu++)
		number -= clock->tracks[vcpu].nr_epochs;
	*epoch = (struct braid_epoch){ .vcpu = vcpu };
	while (braid_epoch_next(stream, epoch))
		if (!number--)
			return true;
	return false;
}

u32 braid_epochs_most(const struct braid_stream *stream)
{
	struct braid_epoch epoch = { 0 };
	u32 most = 0;

	while (braid_epoch_next(stream, &epoch))
		if (epoch.number + 1 > most)
			most = epoch.number + 1;
	return most;
}

const char *braid_epoch_cause(const struct braid_epoch *epoch)
{
	return epoch->moved ? BRAID_EPOCH_MOVED : braid_epoch_cause_name(epoch->e->cause);
}
