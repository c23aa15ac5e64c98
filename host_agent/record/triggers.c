// SPDX-License-Identifier: GPL-2.0-or-later
/* Triggers that have fired in guests, and what follows; a flight recorder's are snapshot.c's. */
#include "host_agent/clock_sync/host.h"
#include "host_agent/record/private.h"

/* A recording in files goes on: rings are written again once all that they have is in the file. */
static void triggers_drain(struct braid_record_guest *guest)
{
	u64 now_ns = braid_host_clock_ns();

	if (!guest->frozen_ns) {
		guest->frozen_ns = now_ns;
		guest->due_ns = 0;
	}
	if (braid_region_source_complete(guest->source) < guest->frozen_ns)
		return;
	braid_region_source_resume(guest->source, true, false);
	guest->frozen_ns = 0;
	guest->resumed_ns = now_ns;
}

/* They may fire again. */
static void triggers_arm(const struct braid_recording *r, struct braid_record_guest *guest)
{
	if (braid_host_clock_ns() - guest->resumed_ns >= r->o.flight.hold_off * 1e9)
		braid_region_source_resume(guest->source, true, true);
}

bool braid_record_poll_triggers(struct braid_recording *r)
{
	struct braid_region_status status;
	size_t k;

	for (k = 0; k < r->nr_guests && r->o.nr_triggers; k++) {
		struct braid_record_guest *guest = &r->guests[k];

		status = braid_region_source_status(guest->source);
		if (r->rotation.out && status.held)
			triggers_arm(r, guest);
		if (!status.trigger)
			continue;
		if (status.trigger->action == BRAID_TRIGGER_SNAPSHOT) {
			if (r->rotation.out)
				triggers_drain(guest);
			continue;
		}
		braid_region_source_resume(guest->source, false, false);
		if (status.trigger->action == BRAID_TRIGGER_STOP)
			return true;
		braid_region_source_note(guest->source, "its rings are not written until the recording ends");
	}
	return false;
}
