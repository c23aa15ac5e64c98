/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the host's kvm events say about the clocks of guests.
 *
 * A vCPU executes only in its *windows*: from a kvm_entry of its thread to the next kvm_exit. An
 * event of it, with its bound, is an interval of host time.
 * - If no window intersects the interval, the event is not within its bound: the clock is wrong.
 * - If exactly one does, the event was in it: the window's ends are a round-trip sample, which is
 *   as true as the bound, and may be tighter.
 * Only windows that are certain count: the host's events are complete there.
 */
#ifndef BRAID_ANALYZE_WINDOWS_H
#define BRAID_ANALYZE_WINDOWS_H

#include "host_agent/analyze/analysis.h"

/* Of a guest. */
struct braid_windows_found {
	bool entries_missing;	/* of its vCPUs, so no window is certain; all else is 0 */
	u64 judged;		/* events whose windows are known */
	u64 outside;		/* of these: without a window */
	u64 worst_ns;		/* how far they are from one at least, beyond their bounds ... */
	s64 worst_at_ns;	/* ... and such an event's time */
	struct braid_round_trip *samples;	/* that are tighter than the clock's bound */
	size_t nr_samples, capacity;
};

struct braid_windows_vcpu;

/* The state of braid_analysis_windows. */
struct braid_windows {
	const struct braid_states *s;
	struct braid_windows_found *found;	/* by stream's number; valid after end() */
	struct braid_windows_vcpu *vcpus;
	bool failed;				/* out of memory */
};

/* It has no output of its own, and no name for users. */
extern const struct braid_analysis braid_analysis_windows;

#endif /* BRAID_ANALYZE_WINDOWS_H */
