// SPDX-License-Identifier: GPL-2.0-or-later
/* Chooses the best available clock, and gives the reason. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "host_agent/clock_model/model.h"

/* The offset is exact, or not this guest's: the region's samples decide. */
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
		snprintf(why, room, "KVM's offset contradicts %llu of %llu round-trip samples",
			 (unsigned long long)check.violations,
			 (unsigned long long)check.round_trips);
		braid_clock_free(clock);
		return -ENODATA;
	}
	clock->nr_samples = check.round_trips;
	snprintf(clock->reason, sizeof(clock->reason),
		 "offset from KVM%s, confirmed by %llu round-trip samples", clock->nr_tracks > 1 ?
		 " for each vCPU" : "", (unsigned long long)check.round_trips);
	return 0;
}

int braid_clock_choose(struct braid_clock *clock, const struct braid_clock_inputs *in,
		       enum braid_clock_kind wanted)
{
	char why[sizeof(clock->reason)] = "requested";
	int err = -ENODATA;

	if (wanted == BRAID_CLOCK_KINDS || wanted == BRAID_CLOCK_KVM)
		err = choose_offset(clock, in, why, sizeof(why));
	if (err != -ENODATA || wanted == BRAID_CLOCK_KVM) {
		if (err == -ENODATA)
			snprintf(clock->reason, sizeof(clock->reason), "%s", why);
		return err;
	}
	/* Windows refine the exchange later, when events can be read. */
	if (wanted == BRAID_CLOCK_KINDS || wanted == BRAID_CLOCK_EXCHANGE ||
	    wanted == BRAID_CLOCK_WINDOWS) {
		err = braid_clock_fit(clock, in);
		if (!err)
			snprintf(clock->reason, sizeof(clock->reason), "%s", why);
		if (err != -ENODATA)
			return err;
		snprintf(why, sizeof(why), in->nr_round_trips ? "round-trip samples give no fix" :
			 "no round-trip samples");
	}
	snprintf(clock->reason, sizeof(clock->reason), "%s", why);
	return -ENODATA;
}
