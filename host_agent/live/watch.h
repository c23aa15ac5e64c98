/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A flight recorder's search for the events that trigger a snapshot.
 *
 * - It reads committed events in place: no ring's reader role is taken, nothing is consumed or
 *   written.
 * - A copied span is searched only if the ring did not overwrite it meanwhile; that some could not
 *   be searched is reported once.
 * - Events from before braid_live_watch_reset() are not searched.
 * - A turn searches a bounded number of rings and bytes. The index of watched events has each event
 *   once, so that a record costs the same however long the guest's directory is.
 * - Functions that take the stream run under braid_guard_run().
 */
#ifndef BRAID_LIVE_WATCH_H
#define BRAID_LIVE_WATCH_H

#include "host_agent/live/stream.h"
#include "host_agent/transport/directory.h"
#include "host_agent/util/text.h"

#define BRAID_DIRECTORIES_A_SECOND	16u	/* loads of the whole event directory; the latest
						   state is always taken */

/* A watched event, as identified in records. */
struct braid_live_wanted {
	u16 id;
	u16 buffer;		/* the buffer that defines the ids */
	bool sub;
	u32 number;		/* of a sub-event, which is ... */
	u16 number_offset;	/* ... here in the record, ... */
	u16 number_bytes;	/* ... so long */
	u32 name;		/* where "SYSTEM:EVENT" begins in the names */
};

/* The position up to which one ring was checked. */
struct braid_live_seen {
	bool known;
	u32 layout;		/* of the buffer then */
	u32 id;
	u64 position;
	u32 bytes;
	bool final;
};

/* Flight: searches the committed events without consuming them. */
struct braid_live_watch {
	struct braid_live_wanted *wanted;
	size_t nr_wanted;
	size_t wanted_capacity;
	struct braid_text names;	/* of them, each ended by a NUL */
	u64 generation;		/* of the directory that they are from; ~0: none */
	struct braid_rate loads;	/* of the directory */
	u32 next_buffer;		/* where the next turn continues */
	u32 next_vcpu;
	u32 nr_quiet;			/* consecutive rings without new events */
	struct braid_live_seen *seen;	/* of each buffer's each vCPU */
	bool reported_missed;
	u64 noticed;
	char event[2 * BRAID_PATTERN_BYTES + 2];
};

/* Checks the events committed since. Returns enum braid_poll_result or the capture's error. */
int braid_live_watch_poll(struct braid_live_watch *w, struct braid_live_stream *s);

/* Begins to watch from here on. Returns 0 or -ENOMEM with braid_fail(). */
int braid_live_watch_reset(struct braid_live_watch *w, struct braid_live_stream *s);

void braid_live_watch_free(struct braid_live_watch *w);

#endif /* BRAID_LIVE_WATCH_H */
