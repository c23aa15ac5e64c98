/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The clock data of a recorded guest: round-trip samples, wall-clock pairs, vmclock, KVM's offsets,
 * pauses.
 *
 * - Each sample goes to the capture as it is; models are fitted when the capture is read.
 * - The exchange and KVM are opened for a stream that is LIVE, and released before the mapping is
 *   closed: the exchange's thread reads its cells.
 * - Each change of an offset has a chunk, or BRAID_OFFSET_LOST says that one was missed, and KVM is
 *   not asked again.
 * - braid_live_clock_take_poll() and _pair() alone access guest memory, and run under
 *   braid_guard_run().
 */
#ifndef BRAID_LIVE_CLOCK_H
#define BRAID_LIVE_CLOCK_H

#include "host_agent/live/stream.h"

/* What vmclock reports of the guest. */
struct braid_live_vmclock {
	bool marked;			/* a poll sample had a marker: */
	u64 marker;
	struct braid_round_trip poll;	/* the last one that had */
	u32 seq;
	bool taken;
	struct braid_clock_vm last;	/* as put */
	u64 due_ns;
};

/* State of the guest's clock data. Zeroed: no stream. */
struct braid_live_clock {
	struct {			/* the stream before, if it had a poll sample: */
		u64 incarnation;	/* 0: none */
		u64 h1_ns;		/* of the last one */
	} former;
	struct braid_exchange_peer *peer;
	u64 begin_ns;
	struct braid_round_trip poll;	/* the guest's last poll sample */
	bool polled;
	struct braid_round_trip narrow;	/* one way: the narrowest since put_ns; no vCPU: none */
	u32 poll_seq;
	struct braid_live_vmclock vmclock;
	u32 wall_seq;
	u32 wall_flags;
	u64 put_ns;			/* h2 of the last poll sample written */
	u64 pair_due_ns;
	struct braid_kvm_vm *vm;	/* NULL: no data from KVM */
	bool reported_kvm;
	struct braid_clock_offset *offsets;	/* as put, by vCPU */
	u64 *offset_seen;		/* the host's counter before they were last read */
	u32 nr_offsets;
	u64 offset_due_ns;
	size_t changes_taken;		/* of the watch */
	u64 written_ns;			/* KVM has written no offset of it since */
	u32 stood;			/* consecutive checks that found no vCPU in KVM */
	u64 stood_ns;
	bool paused;
	bool asked_last;		/* the burst after the last event */
};

/* A new stream: determines its sources of clock data. Returns 0 or the capture's error. */
int braid_live_clock_begin(struct braid_live_clock *clock, struct braid_live_stream *s);

/* Under the guard: exchanges a poll sample with the guest. Returns 0 or the capture's error. */
int braid_live_clock_take_poll(struct braid_live_clock *clock, struct braid_live_stream *s);

/*
 * Under the guard: takes the guest's wall time, and what vmclock says. @now: also when they were
 * taken a moment ago.
 */
int braid_live_clock_pair(struct braid_live_clock *clock, struct braid_live_stream *s, bool now);

/*
 * Outside of it: writes new samples, and KVM's data. @disarmed: no more events are expected.
 * Returns 0 or the capture's error.
 */
int braid_live_clock_poll(struct braid_live_clock *clock, struct braid_live_stream *s,
			  bool disarmed);

/*
 * Whether the guest was certainly not reset between ->written_ns and the call: a reset has KVM write
 * its vCPUs' offsets. May sleep for half a second.
 */
bool braid_live_clock_unreset(struct braid_live_clock *clock, struct braid_live_stream *s);

/* Whether there is a first sample, or none is expected soon: events may begin. */
bool braid_live_clock_ready(const struct braid_live_clock *clock,
			    const struct braid_live_stream *s);

/* Requests a sample soon, unless the guest is silent. */
void braid_live_clock_soon(struct braid_live_clock *clock, struct braid_live_stream *s);

/* Whether the burst of braid_live_clock_soon() is over, or none is expected. */
bool braid_live_clock_asked(const struct braid_live_clock *clock,
			    const struct braid_live_stream *s);

/* Likewise the burst after the last event. */
bool braid_live_clock_idle(const struct braid_live_clock *clock,
			   const struct braid_live_stream *s);

/* The last of all that; the stream is still there. Returns 0 or the capture's error. */
int braid_live_clock_finish(struct braid_live_clock *clock, struct braid_live_stream *s);

/* Releases exchange and KVM. */
void braid_live_clock_end(struct braid_live_clock *clock, struct braid_live_stream *s);

#endif /* BRAID_LIVE_CLOCK_H */
