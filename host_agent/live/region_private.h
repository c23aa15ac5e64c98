/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A recorded guest: its lifecycle, and the parts that do the work.
 *
 * - Only region.c (the lifecycle), region_status.c, region_end.c and region_flight.c know this
 *   struct. A part knows itself and the stream; what one part finds out for another is handed over
 *   here.
 * - The mapping may be NULL in any phase but RECORDING.
 * - Each stream that is begun is ended by STREAM_END, after a RING_END for each ring that was read,
 *   unless the capture fails.
 * - An incarnation whose stream was ended is not begun again, except when the guest gave its memory
 *   back and provides it again.
 * - What a guest does wrong ends its stream, or delays it; never the recording.
 */
#ifndef BRAID_LIVE_REGION_PRIVATE_H
#define BRAID_LIVE_REGION_PRIVATE_H

#include "host_agent/live/clock.h"
#include "host_agent/live/control.h"
#include "host_agent/live/rings.h"
#include "host_agent/live/stream.h"
#include "host_agent/live/tables.h"
#include "host_agent/live/threads.h"
#include "host_agent/live/watch.h"

/* A stream's end: its rest is taken in turns of ours, then its rings are accounted for. */
struct braid_live_end {
	bool ending;
	enum braid_region_phase phase;	/* what follows it ... */
	enum braid_end_reason reason;	/* ... and why */
	bool moves;			/* the guest goes on in another VMM, with its region */
	s64 bytes;			/* to be taken at most */
	u32 tries;			/* checks of buffers that were changing */
	u64 began_ns;
	u64 begin_cost_ns;		/* CPU time of the stream's begin */
};

struct braid_region_source {
	struct braid_live_stream stream;
	struct braid_live_tables tables;
	struct braid_live_clock clock;
	struct braid_live_threads threads;
	struct braid_live_control control;
	struct braid_live_rings rings;
	struct braid_live_watch watch;
	struct braid_live_end end;

	struct braid_endpoint *endpoint;
	enum braid_region_phase phase;
	u64 ended_incarnation;		/* whose stream was ended; not to be restarted */
	u64 old_incarnation;		/* that was there before: its rings are marked when found */
	u64 retry_due_ns;		/* WAITING, GONE: when to check again */
	bool refused;			/* what was there instead, and noted */
	bool over;			/* the VMM has ended */
	u64 changing_ns;		/* since when its buffers change, as far as we saw; or 0 */
	u32 nr_streams;
	u64 begun_ns;			/* the first one; or 0 */
	int qemu_pidfd;			/* or -1 */
	u64 file_due_ns;		/* when to check that the file still exists */
	u64 left_ns;			/* when a failed recording asked for the end; or 0 */
	bool took;			/* flight: a snapshot has the stream, except its end */
	bool let_go;
};

/* region_end.c --------------------------------------------------------------------- */

/*
 * The stream ends. While the recording continues, the rest, up to a whole region, is read in turns,
 * so that no other guest waits.
 */
void braid_live_end_begin(struct braid_region_source *s, enum braid_region_phase phase,
			  enum braid_end_reason reason);

/*
 * One of these turns. Returns enum braid_poll_result, IDLE when all is drained; -ESTALE, -EFAULT or
 * the capture's error.
 */
int braid_live_end_turn(struct braid_region_source *s);

/* The last one; reads the whole rest if there were no turns. Returns 0 or the capture's error. */
int braid_live_end(struct braid_region_source *s);

/* Ends the stream when the region's memory is no longer its own. Returns 0 or the capture's error.
 */
int braid_live_cut(struct braid_region_source *s, enum braid_region_phase phase,
		   enum braid_end_reason reason);

/* Has all that the guest has committed by now in the copy, if its memory is one. May sleep. */
void braid_live_settle(struct braid_region_source *s);

/* What this thread has spent of its CPU. */
u64 braid_live_cpu_ns(void);

/* region_flight.c ------------------------------------------------------------------ */

/* Under the guard: a flight recorder's stream begins. Returns 0 or the capture's error. */
int braid_live_flight_begin(struct braid_region_source *s);

#endif /* BRAID_LIVE_REGION_PRIVATE_H */
