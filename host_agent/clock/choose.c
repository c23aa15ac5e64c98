// SPDX-License-Identifier: GPL-2.0-or-later
/* Chooses the best clock that can be had, and says why. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "host_agent/clock/private.h"

/* The offset is exact, or it is not this guest's: what crossed the region tells. */
static int choose_offset(struct braid_clock *clock, const struct braid_clock_inputs *in,
			 char *why, size_t room)
{
	struct braid_clock_check check;
	int err = braid_clock_by_offset(clock, in);

	if (err) {
		snprintf(why, room, "%s", clock->reason);
		return err;
	}
	braid_clock_check(clock, in, &check);
	if (check.violations) {
		snprintf(why, room, "KVM's offset contradicts %llu of %llu crossings",
			 (unsigned long long)check.violations, (unsigned long long)check.crossings);
		braid_clock_free(clock);
		return -ENODATA;
	}
	clock->nr_samples = check.crossings;
	snprintf(clock->reason, sizeof(clock->reason),
		 "KVM tells the offset%s; %llu crossings agree", clock->nr_tracks > 1 ?
		 " of each vCPU" : "", (unsigned long long)check.crossings);
	return 0;
}

int braid_clock_choose(struct braid_clock *clock, const struct braid_clock_inputs *in,
		       enum braid_clock_kind wanted)
{
	char why[sizeof(clock->reason)] = "asked for";
	int err = -ENODATA;

	if (wanted == BRAID_CLOCK_KINDS || wanted == BRAID_CLOCK_KVM)
		err = choose_offset(clock, in, why, sizeof(why));
	if (err != -ENODATA || wanted == BRAID_CLOCK_KVM) {
		if (err == -ENODATA)
			snprintf(clock->reason, sizeof(clock->reason), "%s", why);
		return err;
	}
	if (wanted == BRAID_CLOCK_KINDS || wanted == BRAID_CLOCK_EXCHANGE) {
		err = braid_clock_fit(clock, in);
		if (!err)
			snprintf(clock->reason, sizeof(clock->reason), "%s", why);
		if (err != -ENODATA)
			return err;
		snprintf(why, sizeof(why), "nothing crossed the region");
	}
	snprintf(clock->reason, sizeof(clock->reason), "%s", why);
	return -ENODATA;
}

/* The end of an epoch: where the next begins, or the stream's end. */
static u64 worst_of_fit(const struct braid_clock *clock, const struct braid_clock_track *track,
			size_t k, u64 end_ns)
{
	const struct braid_clock_epoch *e = &track->epochs[k];
	u64 worst = braid_fit_bound(clock, e, e->first_counter);
	u64 bound = braid_fit_bound(clock, e, e->last_counter);

	worst = bound > worst ? bound : worst;
	if (!end_ns || k + 1 < track->nr_epochs || end_ns >> 62)
		return worst;
	bound = braid_fit_bound(clock, e, braid_clock_to_counter(&e->map, end_ns));
	return bound > worst ? bound : worst;
}

u64 braid_clock_worst_bound(const struct braid_clock *clock, u64 end_ns)
{
	u64 worst = 0, bound;
	size_t k;
	u32 t;

	for (t = 0; t < clock->nr_tracks; t++) {
		for (k = 0; k < clock->tracks[t].nr_epochs; k++) {
			const struct braid_clock_epoch *e = &clock->tracks[t].epochs[k];

			if (e->knots)
				bound = braid_knots_bound(e, k + 1 < clock->tracks[t].nr_epochs ?
							     0 : end_ns);
			else if (e->gains)
				bound = braid_emulated_bound(e);
			else if (e->host)
				bound = braid_offset_bound(e, end_ns);
			else
				bound = worst_of_fit(clock, &clock->tracks[t], k, end_ns);
			worst = bound > worst ? bound : worst;
		}
	}
	return worst;
}
